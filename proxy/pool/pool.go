// Package pool keeps connections to endpoints: those of one cluster share one bulkhead and nothing with other clusters.
//
// Its job: reuse (newest first), noticing that an idle connection has ended or has stray bytes before it is written to, the
// connections and pending limits of the cluster, making room by closing the connection that is idle longest, handing a freed
// connection or slot to who waits longest, dialling.
// Not its job: which endpoint (proxy/upstream), what goes over the connection (proxy/http1, proxy/tcp).
//
// It starts no goroutine; Sweep is called by the owner. One mutex a cluster guards its lists and is never held over I/O that waits.
// Bounds: bulkhead Connections (idle ones count) and Pending.
package pool

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"spillway/proxy/bulkhead"
	"spillway/proxy/sock"
)

// Errors of Fresh.
var (
	ErrPending = errors.New("pending limit")
	ErrRefused = errors.New("connection refused")
	ErrTimeout = errors.New("connect timed out")
	ErrLocal   = errors.New("this machine could not open a connection")
	ErrWait    = errors.New("no connection became free in time")
)

// Group is the connections of one cluster.
type Group struct {
	Limits *bulkhead.Cluster
	Opened func(err error) // told how every dial ended: nil or one of the errors above; may be nil

	mu      sync.Mutex
	oldest  *Conn // idle connections of all queues, oldest first
	newest  *Conn
	waiters []*Waiter // first come first served; at most Pending long
}

// Queue is the idle connections of one endpoint. A Queue belongs to one Group.
type Queue struct {
	Group       *Group
	Dial        netip.AddrPort
	UserTimeout time.Duration // TCP_USER_TIMEOUT of its connections

	top    *Conn // newest idle one; guarded by Group.mu
	closed bool  // the endpoint left: nothing is kept any more
	epoch  int   // grows with CloseIdle: connections of an older epoch are not kept
}

// Conn is one connection to an endpoint. While it is not idle, who got it owns it.
type Conn struct {
	*sock.Conn
	Reused bool // it served before

	queue        *Queue
	epoch        int
	idleSince    int64
	idleUntil    int64 // by the endpoint\'s own word; 0: not said
	older, newer *Conn // in Group by age
	below        *Conn // in Queue, towards the older
	above        *Conn
	idle         bool
}

// Waiter is one parked request. Make one a client connection and use it again.
type Waiter struct {
	queue *Queue
	grant chan *Conn // a connection, or nil: a slot to dial with
}

// NewWaiter makes a Waiter.
func NewWaiter() *Waiter { return &Waiter{grant: make(chan *Conn, 1)} }

// Idle gives the newest idle connection that is still quiet, nil if there is none. Connections that ended or that hold stray bytes
// are closed on the way, and so are those that the endpoint is about to close: they are never written to.
func (q *Queue) Idle(now int64) *Conn {
	for {
		q.Group.mu.Lock()
		c := q.top
		if c != nil {
			q.Group.unlink(c)
		}
		q.Group.mu.Unlock()
		if c == nil {
			return nil
		}
		if (c.idleUntil == 0 || now < c.idleUntil) && c.Peek() == sock.Quiet {
			c.Reused = true
			return c
		}
		c.Discard()
	}
}

// Fresh dials a new connection within the limits of the cluster: at the connections limit it closes the connection that is idle
// longest, otherwise it waits its turn until the deadline. A waiter may be handed a used connection of the same endpoint unless
// mustDial is set. timeout bounds the dial alone.
func (q *Queue) Fresh(w *Waiter, timeout time.Duration, deadline time.Time, mustDial bool) (*Conn, error) {
	if !q.Group.slot() {
		c, err := q.wait(w, deadline, mustDial)
		if err != nil || c != nil {
			return c, err
		}
	}
	return q.dial(timeout, deadline)
}

// slot takes a connection slot, if need be from an idle connection.
func (g *Group) slot() bool {
	if g.Limits.Connections.TryAcquire() {
		return true
	}
	g.mu.Lock()
	c := g.oldest
	if c != nil {
		g.unlink(c)
	}
	g.mu.Unlock()
	if c == nil {
		return false
	}
	c.Close() // its slot is ours now
	return true
}

func (q *Queue) wait(w *Waiter, deadline time.Time, mustDial bool) (*Conn, error) {
	g := q.Group
	if !g.Limits.Pending.TryAcquire() {
		return nil, ErrPending
	}
	defer g.Limits.Pending.Release()
	w.queue = q
	if mustDial {
		w.queue = nil
	}
	g.mu.Lock()
	// A slot may have been given back between the try and the lock; who releases looks for waiters under the same lock.
	if g.Limits.Connections.TryAcquire() {
		g.mu.Unlock()
		return nil, nil
	}
	// The same for a connection that became idle in between.
	if c := g.oldest; c != nil {
		g.unlink(c)
		g.mu.Unlock()
		c.Close() // its slot is ours now
		return nil, nil
	}
	g.waiters = append(g.waiters, w)
	g.mu.Unlock()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case c := <-w.grant:
		return c, nil
	case <-timer.C:
	}
	g.mu.Lock()
	for i, o := range g.waiters {
		if o == w {
			g.waiters = append(g.waiters[:i], g.waiters[i+1:]...)
			g.mu.Unlock()
			return nil, ErrWait
		}
	}
	g.mu.Unlock()
	return <-w.grant, nil // granted in the same moment
}

// dial opens a connection with the slot that is held, and gives the slot back where that fails.
func (q *Queue) dial(timeout time.Duration, deadline time.Time) (*Conn, error) {
	c, err := q.connect(timeout, deadline)
	if err != nil {
		q.Group.release()
	}
	if q.Group.Opened != nil {
		q.Group.Opened(err)
	}
	return c, err
}

func (q *Queue) connect(timeout time.Duration, deadline time.Time) (*Conn, error) {
	d := net.Dialer{Deadline: deadline, Timeout: timeout, Control: func(_, _ string, rc syscall.RawConn) error {
		return rc.Control(func(fd uintptr) { _ = sock.SetUserTimeout(fd, q.UserTimeout) })
	}}
	q.Group.mu.Lock()
	epoch := q.epoch
	q.Group.mu.Unlock()
	nc, err := d.DialContext(context.Background(), "tcp", q.Dial.String())
	if err != nil {
		var ne net.Error
		switch {
		case local(err):
			return nil, errors.Join(ErrLocal, err)
		case errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &ne) && ne.Timeout():
			return nil, errors.Join(ErrTimeout, err)
		}
		return nil, errors.Join(ErrRefused, err)
	}
	s, err := sock.New(nc.(*net.TCPConn))
	if err != nil {
		_ = nc.Close()
		return nil, errors.Join(ErrLocal, err)
	}
	return &Conn{Conn: s, queue: q, epoch: epoch}, nil
}

// local tells faults of this machine (descriptors, ports, memory) from what an endpoint did: they say nothing about its health.
func local(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Keep gives back a connection that may be used again. now is in nanoseconds of the caller's clock, the one Sweep gets. idleMax is how
// many nanoseconds the endpoint said that it keeps an idle connection; 0: it said nothing.
func (c *Conn) Keep(now, idleMax int64) {
	g := c.queue.Group
	c.idleUntil = 0
	if idleMax > 0 {
		c.idleUntil = now + idleMax
	}
	g.mu.Lock()
	if c.queue.closed || c.epoch != c.queue.epoch {
		g.mu.Unlock()
		c.Discard()
		return
	}
	if len(g.waiters) > 0 {
		w := g.popWaiter()
		if w.queue == c.queue {
			c.Reused = true
			w.grant <- c
			g.mu.Unlock()
			return
		}
		w.grant <- nil
		g.mu.Unlock()
		c.Close() // its slot went to the waiter
		return
	}
	c.idleSince, c.idle = now, true
	g.link(c)
	g.mu.Unlock()
}

// Discard closes a connection and gives its slot back.
func (c *Conn) Discard() {
	c.Close()
	c.queue.Group.release()
}

func (g *Group) release() {
	g.mu.Lock()
	if len(g.waiters) > 0 {
		g.popWaiter().grant <- nil
	} else {
		g.Limits.Connections.Release()
	}
	g.mu.Unlock()
}

func (g *Group) popWaiter() *Waiter {
	w := g.waiters[0]
	g.waiters = append(g.waiters[:0], g.waiters[1:]...)
	return w
}

func (g *Group) link(c *Conn) {
	c.older, c.newer = g.newest, nil
	if g.newest != nil {
		g.newest.newer = c
	} else {
		g.oldest = c
	}
	g.newest = c
	c.below, c.above = c.queue.top, nil
	if c.below != nil {
		c.below.above = c
	}
	c.queue.top = c
}

func (g *Group) unlink(c *Conn) {
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		g.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		g.newest = c.older
	}
	if c.above != nil {
		c.above.below = c.below
	} else {
		c.queue.top = c.below
	}
	if c.below != nil {
		c.below.above = c.above
	}
	c.older, c.newer, c.above, c.below, c.idle = nil, nil, nil, nil, false
}

// CloseIdle closes what is idle; connections that are out now will not be kept. With gone, nothing is kept ever after.
func (q *Queue) CloseIdle(gone bool) {
	g := q.Group
	var first *Conn
	g.mu.Lock()
	q.closed = q.closed || gone
	q.epoch++
	for c := q.top; c != nil; c = q.top {
		g.unlink(c)
		c.older, first = first, c
	}
	g.mu.Unlock()
	for c := first; c != nil; {
		next := c.older
		c.older = nil
		c.Discard()
		c = next
	}
}

// Sweep closes connections that are idle for longer than idleMax nanoseconds or whose end was seen.
func (g *Group) Sweep(now, idleMax int64) {
	g.mu.Lock()
	var dead []*Conn
	for c := g.oldest; c != nil; {
		next := c.newer
		if now-c.idleSince > idleMax || c.Peek() != sock.Quiet {
			g.unlink(c)
			dead = append(dead, c)
		}
		c = next
	}
	g.mu.Unlock()
	for _, c := range dead {
		c.Discard()
	}
}
