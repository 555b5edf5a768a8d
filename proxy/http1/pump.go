package http1

import (
	"errors"
	"sync/atomic"
	"time"

	"spillway/proxy/http1/codec"
	"spillway/proxy/pool"
	"spillway/proxy/sock"
)

// helper is the one goroutine beside the owner. The owner writes the plain fields before the start and after the join; the atomic ones
// are for both in between.
type helper struct {
	run     func() // bound once
	done    chan struct{}
	running bool // the owner's: started and not joined
	pump    bool // what it was started for: to send the request, or only to watch
	pumping bool // this try's request was given to the helper
	up      *pool.Conn
	pending []byte    // encoded bytes the endpoint's socket did not take yet
	out     *sock.Buf // the buffer under pending

	stop      atomic.Bool // the owner calls back
	cancelled atomic.Bool // the helper calls the owner off: nobody waits for the answer
	sentAll   atomic.Bool // the endpoint has been sent the whole request
	over      atomic.Bool // nothing more of the request will be sent
	woke      atomic.Bool // the owner was woken to look at the two above
	taken     int64       // body bytes read from the client by the helper; the owner reads it after the join
	buf       *sock.Buf   // what the helper read; buf.B[r:w] belongs to the next request
	r, w      int
}

func (h *helper) reset() {
	h.pumping, h.pending, h.taken = false, nil, 0
	h.stop.Store(false)
	h.cancelled.Store(false)
	h.sentAll.Store(false)
	h.over.Store(false)
	h.woke.Store(false)
}

// uploading tells whether the request is still being sent.
func (h *helper) uploading() bool { return h.running && h.pumping && !h.over.Load() }

// startHelper starts the helper: to send the rest of the request and then to watch, or to watch at once.
func (x *conn) startHelper(pump bool) {
	h := &x.help
	h.up, h.running, h.pump = x.ex.up, true, pump
	if pump {
		h.pumping, h.pending, h.out = true, x.ex.encoded, x.out
		x.out = nil
	}
	h.stop.Store(false)
	x.readBy = time.Time{}
	x.c.SetReadDeadline(time.Time{})
	go h.run()
}

// join calls the helper back and waits for it.
func (x *conn) join() {
	h := &x.help
	if !h.running {
		return
	}
	h.stop.Store(true)
	x.c.WakeReader()
	if h.pumping && !h.sentAll.Load() {
		h.up.WakeWriter()
	}
	<-h.done
	h.running = false
	x.readBy = time.Time{}
	x.s.Bufs.Put(h.out)
	h.out, h.pending = nil, nil
	if h.buf != nil {
		// Bytes behind the body are the beginning of the next request.
		x.s.Bufs.Put(x.nextIn(h.buf, h.r, h.w))
		h.buf = nil
	}
}

// nextIn keeps pipelined bytes that the helper read. The head of this request must stay in place until the exchange ends, so they are
// put behind it.
func (x *conn) nextIn(b *sock.Buf, r, w int) *sock.Buf {
	if r < w {
		x.r = x.w
		if need := x.w + w - r; need > len(x.in.B) {
			grown := make([]byte, need)
			copy(grown, x.in.B[:x.w])
			x.in.B = grown
		}
		x.w += copy(x.in.B[x.w:], b.B[r:w])
	}
	return b
}

func (x *conn) helperMain() {
	h := &x.help
	watch := true
	if h.pump {
		watch = x.pump() && !x.watched
		h.over.Store(true)
		h.woke.Store(true)
		h.up.WakeReader()
	}
	if watch {
		for !h.stop.Load() {
			if x.c.WatchGone() {
				h.cancelled.Store(true)
				h.up.WakeReader()
				break
			}
			if h.stop.Load() || sock.WatchOnce {
				break
			}
			x.c.SetReadDeadline(time.Time{})
		}
	}
	h.done <- struct{}{}
}

// pump sends the rest of the request. It returns whether the client should be watched after it.
func (x *conn) pump() bool {
	h := &x.help
	if err := x.pumpWrite(h.pending); err != nil {
		return false
	}
	left := x.ex.left
	whole := x.ex.whole
	for !whole {
		if h.buf == nil {
			h.buf = x.s.Bufs.GetBig()
		}
		n, err := x.pumpRead(h.buf.B)
		if err != nil {
			return x.pumpBroken(err)
		}
		h.taken += int64(n)
		h.r, h.w = n, n
		send := h.buf.B[:n]
		if x.req.Framing == codec.Chunked {
			m, used, done, cerr := x.body.Next(send)
			if cerr != nil {
				return x.pumpBroken(errBadBody)
			}
			whole, h.r = done, used
			send = h.buf.B[:m]
		} else {
			if int64(n) > left {
				send, h.r = send[:left], int(left)
			}
			left -= int64(len(send))
			whole = left == 0
		}
		x.ex.bytesIn += int64(len(send))
		// The endpoint may have answered already and ended: never write to a connection whose end was seen.
		if s := h.up.Peek(); s == sock.Ended || s == sock.Broken {
			return false
		}
		if err := x.pumpWrite(send); err != nil {
			return false
		}
		if whole && x.req.Framing == codec.Chunked {
			if err := x.pumpWrite(x.body.Trailer()); err != nil {
				return false
			}
		}
	}
	h.sentAll.Store(true)
	return true
}

var (
	errStopped = errors.New("called back")
	errBadBody = errors.New("malformed chunked body")
)

// pumpBroken ends a request that will never be complete: the owner is called off, and the endpoint sees the connection end.
func (x *conn) pumpBroken(err error) bool {
	if err != errStopped {
		x.help.cancelled.Store(true)
		x.help.up.WakeReader()
	}
	return false
}

func (x *conn) pumpRead(b []byte) (int, error) {
	by := x.idleBy()
	for {
		x.c.SetReadDeadline(by)
		if x.help.stop.Load() {
			return 0, errStopped
		}
		n, err := x.c.Read(b)
		if n > 0 || err == nil {
			return n, nil
		}
		if isTimeout(err) && !x.help.stop.Load() && time.Now().Before(by) {
			continue // woken for another reason
		}
		if x.help.stop.Load() {
			return 0, errStopped
		}
		return 0, err
	}
}

func (x *conn) pumpWrite(b []byte) error {
	up := x.help.up
	for len(b) > 0 {
		n, err := up.TryWrite(b)
		b = b[n:]
		if err == nil {
			return nil
		}
		if !errors.Is(err, sock.ErrWouldBlock) {
			return err
		}
		up.SetWriteDeadline(x.idleBy())
		if x.help.stop.Load() {
			return errStopped
		}
		n, err = up.Write(b[:min(len(b), sock.CallMax)])
		b = b[n:]
		if err != nil {
			return err
		}
	}
	return nil
}
