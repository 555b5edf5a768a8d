// Package listen owns the listening sockets of the proxy.
//
// Its job: opening them all or none, accepting, handing each connection to its server in a goroutine of its own, pausing when the
// process is out of descriptors, closing.
// Not its job: what a connection speaks.
//
// Goroutines: one a socket, one a connection. Bounds: acceptPauseMax between two tries after a failed accept.
package listen

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"spillway/proxy/sock"
)

// acceptPauseMax bounds the pause after an accept that failed for want of descriptors or memory.
const acceptPauseMax = time.Second

// Serve serves one accepted connection and closes it.
type Serve func(c *sock.Conn, remote, local netip.AddrPort)

// Listener is the sockets of one named listener.
type Listener struct {
	Serve   Serve // set before Run
	name    string
	sockets []*net.TCPListener
	log     *slog.Logger
	wg      sync.WaitGroup
	once    sync.Once
	running bool // Run was called: the accepting goroutines close the sockets
	done    chan struct{}
	active  atomic.Int64
}

// Open opens the addresses of one listener. On an error nothing stays open.
func Open(name string, addrs []netip.AddrPort, log *slog.Logger) (*Listener, error) {
	l := &Listener{name: name, log: log, done: make(chan struct{})}
	for _, a := range addrs {
		lc := net.ListenConfig{}
		lc.SetMultipathTCP(false) // what is read of a connection's state is that of one TCP path
		network := "tcp4"         // an address means that address: no socket of one family takes the other's
		if a.Addr().Is6() {
			network = "tcp6"
		}
		nl, err := lc.Listen(context.Background(), network, a.String())
		if err != nil {
			if len(addrs) > 1 && a.Addr().Is6() && noV6(err) {
				continue // a bare port means both loopback addresses where the machine has both
			}
			l.Close()
			return nil, fmt.Errorf("%s: listen on %s: %w", name, a, err)
		}
		l.sockets = append(l.sockets, nl.(*net.TCPListener))
	}
	return l, nil
}

// Addrs are the addresses that were opened.
func (l *Listener) Addrs() []netip.AddrPort {
	out := make([]netip.AddrPort, len(l.sockets))
	for i, s := range l.sockets {
		out[i] = s.Addr().(*net.TCPAddr).AddrPort()
	}
	return out
}

// Name is the configuration key that the listener came from.
func (l *Listener) Name() string { return l.name }

// Run accepts on all sockets until Close. It returns at once.
func (l *Listener) Run() {
	l.running = true
	for _, s := range l.sockets {
		l.wg.Add(1)
		go func() {
			defer l.wg.Done()
			l.accept(s)
			l.finish(s)
		}()
	}
}

// finish takes what has connected but was not accepted yet, and closes the socket: closing alone would reset those, requests that they
// have sent included. What is left is the moment between the last look and the close.
func (l *Listener) finish(s *net.TCPListener) {
	for t := acceptNow(s); t != nil; t = acceptNow(s) {
		l.serve(t)
	}
	_ = s.Close()
}

// accept accepts until Close.
func (l *Listener) accept(s *net.TCPListener) {
	pause := time.Duration(0)
	for {
		t, err := s.AcceptTCP()
		if err != nil {
			select {
			case <-l.done:
				return
			default:
			}
			pause = min(max(2*pause, 5*time.Millisecond), acceptPauseMax)
			l.log.Warn("accept failed", "listener", l.name, "error", err.Error(), "pause", pause.String())
			select {
			case <-l.done:
				return
			case <-time.After(pause):
			}
			continue
		}
		pause = 0
		l.serve(t)
	}
}

// serve starts the goroutine of a connection.
func (l *Listener) serve(t *net.TCPConn) {
	remote, local := unmap(t.RemoteAddr().(*net.TCPAddr).AddrPort()), unmap(t.LocalAddr().(*net.TCPAddr).AddrPort())
	c, err := sock.New(t)
	if err != nil {
		_ = t.Close()
		return
	}
	l.active.Add(1)
	go func() {
		defer l.active.Add(-1)
		l.Serve(c, remote, local)
	}()
}

// Active is the number of connections that were accepted and have not ended.
func (l *Listener) Active() int64 { return l.active.Load() }

// unmap makes an IPv4 address of a dual-stack socket an IPv4 address.
func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// Close closes the sockets and waits until nothing is accepted any more. Whoever has connected by then is served; connections that were
// accepted go on.
func (l *Listener) Close() {
	l.once.Do(func() {
		close(l.done)
		for _, s := range l.sockets {
			if l.running {
				_ = s.SetDeadline(time.Unix(1, 0)) // calls the accepting goroutine back
			} else {
				_ = s.Close()
			}
		}
	})
	l.wg.Wait()
}
