package blackhole

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// dropAll is "ret 0": keep no byte of the segment.
var dropAll = unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}

func control(s syscall.Conn, f func(fd int) error) error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// Dig makes the kernel drop everything that arrives at s, a TCP listener or connection.
func Dig(s syscall.Conn) error {
	err := control(s, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &dropAll})
	})
	if err != nil {
		return fmt.Errorf("attach socket filter: %w", err)
	}
	return nil
}

// Fill undoes Dig.
func Fill(s syscall.Conn) error {
	err := control(s, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
	})
	if err != nil {
		return fmt.Errorf("detach socket filter: %w", err)
	}
	return nil
}
