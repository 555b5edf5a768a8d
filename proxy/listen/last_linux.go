package listen

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// acceptNow accepts a connection that is there already; nil where there is none.
func acceptNow(s *net.TCPListener) *net.TCPConn {
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	fd := -1
	_ = raw.Control(func(l uintptr) {
		if n, _, err := unix.Accept4(int(l), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC); err == nil {
			fd = n
		}
	})
	if fd < 0 {
		return nil
	}
	f := os.NewFile(uintptr(fd), "accepted")
	defer f.Close() // FileConn has a descriptor of its own
	c, err := net.FileConn(f)
	if err != nil {
		return nil
	}
	return c.(*net.TCPConn)
}
