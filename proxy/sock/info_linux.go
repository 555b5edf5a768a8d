package sock

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Unacknowledged tells whether bytes that were sent are not acknowledged yet (tcpi_unacked of linux/tcp.h). When they stay so for the
// time that a connect may take, the path is as dead as one on which a connect gets no answer. The time of the last acknowledgement is
// no measure: a peer that hears nothing repeats its own last bytes, and each repetition counts as one.
func (c *Conn) Unacknowledged() bool {
	waiting := false
	c.control(func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		waiting = err == nil && info.Unacked > 0
	})
	return waiting
}

// Unsent is the number of bytes that the peer has not acknowledged yet.
func (c *Conn) Unsent() int {
	n := 0
	c.control(func(fd int) { n, _ = unix.IoctlGetInt(fd, unix.SIOCOUTQ) })
	return n
}

// Moved is the number of bytes that t received and that its peer acknowledged: it grows as long as a relay is alive, also a spliced one.
func Moved(t *net.TCPConn) uint64 {
	var n uint64
	raw, err := t.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = info.Bytes_received + info.Bytes_acked
		}
	})
	return n
}

// SetUserTimeout bounds how long sent bytes may stay unacknowledged before the connection is given up (TCP_USER_TIMEOUT).
func SetUserTimeout(fd uintptr, d time.Duration) error {
	return unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
}
