// Package tcp relays bytes between two connections, each direction by itself.
//
// Its job: the relay of TCP services and of tunnels (Upgrade), and choosing and connecting for a TCP connection (serve.go).
// Not its job: what the bytes mean.
//
// Goroutines: one a direction; the caller's is one of them. Bare sockets are spliced: the bytes never enter this process.
// Bounds: Limits.Idle without any byte moving, Limits.HalfClose after one side ended.
package tcp

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"spillway/proxy/sock"
)

// Limits bounds a relay.
type Limits struct {
	Idle      time.Duration // no byte moved in either direction
	HalfClose time.Duration // after one direction ended
}

// Relay moves bytes between a and b until both directions ended, one of them broke, or a limit was passed. earlyA were read from a
// already and go to b first, earlyB the other way. It returns the bytes that went from a to b and from b to a. Both ends are left for
// the caller to close; a reset of one is passed to the other.
func Relay(a, b *net.TCPConn, earlyA, earlyB []byte, l Limits) (fromA, fromB int64) {
	r := &relay{a: a, b: b}
	stop := r.watchIdle(l.Idle)
	defer stop()
	for _, c := range []*net.TCPConn{a, b} {
		_ = c.SetDeadline(time.Time{})
	}
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		fromB = r.direction(a, b, earlyB, l.HalfClose)
	}()
	fromA = r.direction(b, a, earlyA, l.HalfClose)
	wg.Wait()
	if t := r.half.Load(); t != nil {
		t.Stop()
	}
	return fromA, fromB
}

type relay struct {
	a, b *net.TCPConn
	half atomic.Pointer[time.Timer]
}

func (r *relay) moved() uint64 { return sock.Moved(r.a) + sock.Moved(r.b) }

// idleParts is in how many parts an idle time is measured: a relay ends at most a part too late.
const idleParts = 4

// watchIdle cuts the relay when nothing moved for d. The kernel's counters tell, so that spliced bytes count without being seen.
func (r *relay) watchIdle(d time.Duration) (stop func()) {
	var mu sync.Mutex // the function may run while the timer is being stopped
	var timer *time.Timer
	last, quiet, stopped := r.moved(), 0, false
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(d/idleParts, func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		if now := r.moved(); now != last {
			last, quiet = now, 0
		} else if quiet++; quiet >= idleParts {
			r.cut()
			return
		}
		timer.Reset(d / idleParts)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// past is a deadline that has been.
var past = time.Unix(1, 0)

// cut wakes both directions for good.
func (r *relay) cut() {
	for _, c := range []*net.TCPConn{r.a, r.b} {
		_ = c.SetDeadline(past)
	}
}

// direction copies src to dst until src ends; then the sending side of dst is ended too. A fault ends both directions, and the other
// peer sees a reset rather than an end that could pass for a whole message.
func (r *relay) direction(dst, src *net.TCPConn, early []byte, halfClose time.Duration) int64 {
	n, err := copyAll(dst, src, early)
	if err == nil {
		_ = dst.CloseWrite()
		if t := time.AfterFunc(halfClose, r.cut); !r.half.CompareAndSwap(nil, t) {
			t.Stop() // the other direction had ended before
		}
		return n
	}
	if !errors.Is(err, net.ErrClosed) {
		_ = dst.SetLinger(0)
		_ = src.SetLinger(0)
	}
	r.cut()
	return n
}

func copyAll(dst, src *net.TCPConn, early []byte) (int64, error) {
	total := int64(len(early))
	if len(early) > 0 {
		if _, err := dst.Write(early); err != nil {
			return 0, err
		}
	}
	n, err := io.Copy(dst, src)
	return total + n, err
}
