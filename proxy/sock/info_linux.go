package sock

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// ackSlack is how much earlier than asked a path counts as silent: the kernel counts in ticks.
const ackSlack = 10 * time.Millisecond

// Silent tells whether bytes that were sent have stayed unacknowledged while nothing was heard from the peer for at least d:
// the path is dead as far as a sender can know (tcpi_unacked, tcpi_last_ack_recv of linux/tcp.h).
func (c *Conn) Silent(d time.Duration) bool {
	silent := false
	c.control(func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		silent = err == nil && info.Unacked > 0 && time.Duration(info.Last_ack_recv)*time.Millisecond >= d-ackSlack
	})
	return silent
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
