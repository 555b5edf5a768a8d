//go:build linux && !stdnet

package sock

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Conn is one TCP socket. The callbacks are bound once, so that no call allocates; the socket is held as an os.File, because the raw
// calls of a net.Conn wrap a passed deadline in a new error each time, and those of a file do not.
type Conn struct {
	f   *os.File
	raw syscall.RawConn

	rd struct { // of the one reader
		buf     []byte
		bufs    *Bufs
		got     *Buf
		n       int
		err     error
		wait    func(uintptr) bool
		waitBuf func(uintptr) bool
		try     func(uintptr)
	}
	wr struct { // of the one writer
		buf  []byte
		n    int
		err  error
		wait func(uintptr) bool
		try  func(uintptr)
	}
	pk struct { // of the one peeker
		state State
		fn    func(uintptr)
	}
	wt struct { // of the one watcher
		gone bool
		fn   func(uintptr) bool
	}
}

// New takes over a connected TCP socket: t is closed, its socket goes on in the Conn.
func New(t *net.TCPConn) (*Conn, error) {
	f, err := t.File()
	_ = t.Close()
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	c := &Conn{f: f, raw: raw}
	c.rd.wait, c.rd.waitBuf, c.rd.try = c.readWait, c.readWaitBuf, c.readTry
	c.wr.wait, c.wr.try = c.writeWait, c.writeTry
	c.pk.fn = c.peekNow
	c.wt.fn = c.watchWait
	return c, nil
}

// Detach gives the socket away as a net.TCPConn, for a relay that splices. The Conn is closed after it. early is what was read from
// the socket and not returned by a read.
func (c *Conn) Detach() (t *net.TCPConn, early []byte, err error) {
	nc, err := net.FileConn(c.f)
	_ = c.f.Close()
	if err != nil {
		return nil, nil, err
	}
	return nc.(*net.TCPConn), nil, nil
}

// control runs f on the descriptor.
func (c *Conn) control(f func(fd int)) {
	_ = c.raw.Control(func(fd uintptr) { f(int(fd)) })
}

// Close closes the socket; what was written is still sent.
func (c *Conn) Close() { _ = c.f.Close() }

// CloseWrite ends the sending side.
func (c *Conn) CloseWrite() { c.control(func(fd int) { _ = unix.Shutdown(fd, unix.SHUT_WR) }) }

// abort closes the socket with a reset.
func (c *Conn) abort() {
	c.control(func(fd int) { _ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) })
	_ = c.f.Close()
}

func recv(fd uintptr, b []byte, flags int) (int, syscall.Errno) {
	if len(b) > CallMax {
		b = b[:CallMax]
	}
	for {
		n, _, e := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			uintptr(flags|unix.MSG_DONTWAIT), 0, 0)
		if e != syscall.EINTR {
			return int(n), e
		}
	}
}

func send(fd uintptr, b []byte) (int, syscall.Errno) {
	if len(b) > CallMax {
		b = b[:CallMax]
	}
	for {
		n, _, e := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		if e != syscall.EINTR {
			return int(n), e
		}
	}
}

// readTry is one recv; rd.n, rd.err tell. Zero bytes with a non-empty buffer is the end of input.
func (c *Conn) readTry(fd uintptr) {
	n, e := recv(fd, c.rd.buf, 0)
	switch {
	case e == syscall.EAGAIN:
		c.rd.n, c.rd.err = 0, ErrWouldBlock
	case e != 0:
		c.rd.n, c.rd.err = 0, os.NewSyscallError("recv", e)
	case n == 0 && len(c.rd.buf) > 0:
		c.rd.n, c.rd.err = 0, io.EOF
	default:
		c.rd.n, c.rd.err = n, nil
	}
}

func (c *Conn) readWait(fd uintptr) bool {
	c.readTry(fd)
	return c.rd.err != ErrWouldBlock
}

// readWaitBuf holds a buffer only while there is something to put into it.
func (c *Conn) readWaitBuf(fd uintptr) bool {
	b := c.rd.bufs.Get()
	c.rd.buf = b.B
	if c.readWait(fd) {
		c.rd.got = b
		return true
	}
	c.rd.bufs.Put(b)
	return false
}

// TryRead reads what is there; ErrWouldBlock when there is nothing. It does not look at the deadline.
func (c *Conn) TryRead(b []byte) (int, error) {
	c.rd.buf = b
	if err := c.raw.Control(c.rd.try); err != nil {
		return 0, err
	}
	c.rd.buf = nil
	return c.rd.n, c.rd.err
}

// Read parks until something can be read, the peer ended (io.EOF) or the read deadline passed (os.ErrDeadlineExceeded).
func (c *Conn) Read(b []byte) (int, error) {
	c.rd.buf = b
	if err := c.raw.Read(c.rd.wait); err != nil {
		return 0, err
	}
	c.rd.buf = nil
	return c.rd.n, c.rd.err
}

// ReadInto parks like Read but takes a buffer from the pool only when there are bytes: an idle connection holds none.
// The buffer is returned also with an error and then holds nothing; it may be nil.
func (c *Conn) ReadInto(p *Bufs) (*Buf, int, error) {
	c.rd.bufs, c.rd.got = p, nil
	if err := c.raw.Read(c.rd.waitBuf); err != nil {
		return nil, 0, err
	}
	got := c.rd.got
	c.rd.buf, c.rd.got = nil, nil
	return got, c.rd.n, c.rd.err
}

// writeTry sends until the socket is full, everything is sent or an error comes.
func (c *Conn) writeTry(fd uintptr) {
	c.wr.err = nil
	for c.wr.n < len(c.wr.buf) {
		n, e := send(fd, c.wr.buf[c.wr.n:])
		if e == syscall.EAGAIN {
			c.wr.err = ErrWouldBlock
			return
		}
		if e != 0 {
			c.wr.err = os.NewSyscallError("send", e)
			return
		}
		c.wr.n += n
	}
}

func (c *Conn) writeWait(fd uintptr) bool {
	c.writeTry(fd)
	return c.wr.err != ErrWouldBlock
}

// TryWrite sends what the socket takes now; n may be short with ErrWouldBlock. It does not look at the deadline.
func (c *Conn) TryWrite(b []byte) (int, error) {
	c.wr.buf, c.wr.n = b, 0
	if err := c.raw.Control(c.wr.try); err != nil {
		return 0, err
	}
	c.wr.buf = nil
	return c.wr.n, c.wr.err
}

// Write parks until all of b is sent, an error comes or the write deadline passed.
func (c *Conn) Write(b []byte) (int, error) {
	c.wr.buf, c.wr.n = b, 0
	if err := c.raw.Write(c.wr.wait); err != nil {
		return c.wr.n, err
	}
	c.wr.buf = nil
	return c.wr.n, c.wr.err
}

func (c *Conn) peekNow(fd uintptr) {
	var b [1]byte
	n, e := recv(fd, b[:], unix.MSG_PEEK)
	switch {
	case e == syscall.EAGAIN:
		c.pk.state = Quiet
	case e != 0:
		c.pk.state = Broken
	case n == 0:
		c.pk.state = Ended
	default:
		c.pk.state = Bytes
	}
}

// Peek tells what stands on the receiving side without taking it.
func (c *Conn) Peek() State {
	if c.raw.Control(c.pk.fn) != nil {
		return Broken
	}
	return c.pk.state
}

// tcpState reads the state of the connection (linux/tcp_states.h); the end of input alone is CLOSE_WAIT, a reset is CLOSE.
func tcpState(fd uintptr) uint8 {
	var info [8]byte
	size := uint32(len(info))
	_, _, e := syscall.RawSyscall6(syscall.SYS_GETSOCKOPT, fd, unix.IPPROTO_TCP, unix.TCP_INFO,
		uintptr(unsafe.Pointer(&info[0])), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return tcpClose
	}
	return info[0]
}

const tcpClose = 7

func (c *Conn) watchWait(fd uintptr) bool {
	c.wt.gone = tcpState(fd) == tcpClose
	return c.wt.gone
}

// WatchGone parks until the peer has reset the connection (true) or the watch is called back by WakeReader (false). Input that comes
// and the end of input do not end it: the answer is still due. It must not run beside a Read.
func (c *Conn) WatchGone() bool {
	if c.raw.Read(c.wt.fn) != nil {
		return false
	}
	return c.wt.gone
}
