//go:build !linux || stdnet

package sock

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// tryWait is how long a Try call or a peek waits on a net.Conn, which has no call that does not wait.
const tryWait = 200 * time.Microsecond

// Conn is one TCP socket through the methods of net.Conn. A byte that a peek took is handed to the next read.
type Conn struct {
	tcp *net.TCPConn

	mu     sync.Mutex // guards the fields below; never held over a wait of a caller
	held   bool
	gone   bool // detached
	trying bool // a read with tryWait for a deadline is under way
	byte0  byte
	ended  error // what a peek met: returned by the next read
	readTo time.Time
	writeT time.Time
	read   sync.Mutex // held by whoever is inside tcp.Read
}

// New takes over a connected TCP socket.
func New(t *net.TCPConn) (*Conn, error) { return &Conn{tcp: t}, nil }

// Detach gives the socket away as a net.TCPConn, for a relay that splices. The Conn must not be used after it, but for Close. early is
// what a peek took from the socket and no read has returned.
func (c *Conn) Detach() (t *net.TCPConn, early []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		early, c.held = []byte{c.byte0}, false
	}
	t, c.gone = c.tcp, true
	return t, early, t.SetDeadline(time.Time{})
}

func (c *Conn) control(f func(fd int)) {
	raw, err := c.tcp.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}

// Close closes the socket; what was written is still sent. After Detach it does nothing.
func (c *Conn) Close() {
	c.mu.Lock()
	gone := c.gone
	c.mu.Unlock()
	if !gone {
		_ = c.tcp.Close()
	}
}

// CloseWrite ends the sending side.
func (c *Conn) CloseWrite() { _ = c.tcp.CloseWrite() }

// abort closes the socket with a reset.
func (c *Conn) abort() {
	_ = c.tcp.SetLinger(0)
	_ = c.tcp.Close()
}

func (c *Conn) take(b []byte) (int, error, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held && len(b) > 0 {
		b[0], c.held = c.byte0, false
		return 1, nil, true
	}
	if c.ended != nil {
		return 0, c.ended, true
	}
	return 0, nil, false
}

// Read parks until something can be read, the peer ended (io.EOF) or the read deadline passed (os.ErrDeadlineExceeded).
func (c *Conn) Read(b []byte) (int, error) {
	c.read.Lock()
	defer c.read.Unlock()
	if n, err, ok := c.take(b); ok {
		return n, err
	}
	return c.tcp.Read(b[:min(len(b), CallMax)])
}

// ReadInto parks like Read and takes a buffer from the pool.
func (c *Conn) ReadInto(p *Bufs) (*Buf, int, error) {
	b := p.Get()
	n, err := c.Read(b.B)
	return b, n, err
}

// TryRead reads what is there; ErrWouldBlock when there is nothing.
func (c *Conn) TryRead(b []byte) (int, error) {
	c.read.Lock()
	defer c.read.Unlock()
	return c.tryRead(b)
}

func (c *Conn) tryRead(b []byte) (int, error) {
	if n, err, ok := c.take(b); ok {
		return n, err
	}
	c.mu.Lock()
	c.trying = true // a deadline that is set meanwhile is put into force at the end
	_ = c.tcp.SetReadDeadline(time.Now().Add(tryWait))
	c.mu.Unlock()
	n, err := c.tcp.Read(b[:min(len(b), CallMax)])
	c.mu.Lock()
	c.trying = false
	_ = c.tcp.SetReadDeadline(c.readTo)
	c.mu.Unlock()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, ErrWouldBlock
	}
	return n, err
}

// Peek tells what stands on the receiving side without taking it. While another goroutine reads, that one will see: Quiet.
func (c *Conn) Peek() State {
	if !c.read.TryLock() {
		return Quiet
	}
	defer c.read.Unlock()
	c.mu.Lock()
	held, ended := c.held, c.ended
	c.mu.Unlock()
	if held {
		return Bytes
	}
	if ended != nil {
		return stateOf(ended)
	}
	var b [1]byte
	n, err := c.tryRead(b[:])
	if n == 1 {
		c.mu.Lock()
		c.held, c.byte0 = true, b[0]
		c.mu.Unlock()
		return Bytes
	}
	if errors.Is(err, ErrWouldBlock) {
		return Quiet
	}
	c.mu.Lock()
	c.ended = err
	c.mu.Unlock()
	return stateOf(err)
}

func stateOf(err error) State {
	if errors.Is(err, io.EOF) {
		return Ended
	}
	return Broken
}

// TryWrite sends what the socket takes at once; n may be short with ErrWouldBlock.
func (c *Conn) TryWrite(b []byte) (int, error) {
	c.mu.Lock()
	_ = c.tcp.SetWriteDeadline(time.Now().Add(tryWait))
	c.mu.Unlock()
	n, err := c.tcp.Write(b)
	c.mu.Lock()
	_ = c.tcp.SetWriteDeadline(c.writeT)
	c.mu.Unlock()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, ErrWouldBlock
	}
	return n, err
}

// Write parks until all of b is sent, an error comes or the write deadline passed.
func (c *Conn) Write(b []byte) (int, error) { return c.tcp.Write(b) }

// WatchGone parks until the peer has reset the connection (true) or the watch is called back by WakeReader (false). A net.Conn tells of
// a reset only by a read, so this build sees one only while no input and no end of input came before it.
func (c *Conn) WatchGone() bool {
	c.read.Lock()
	defer c.read.Unlock()
	c.mu.Lock()
	idle := !c.held && c.ended == nil
	c.mu.Unlock()
	if !idle {
		return false
	}
	var b [1]byte
	n, err := c.tcp.Read(b[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	if n == 1 {
		c.held, c.byte0 = true, b[0]
		return false
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	c.ended = err
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
