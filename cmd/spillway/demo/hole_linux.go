package demo

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// holeSupported tells whether a black hole can be dug here.
const holeSupported = true

// dropAll is the classic BPF program "ret 0": keep no byte of a segment. Attaching it needs no privilege.
var dropAll = unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}

// dig makes the kernel drop every segment that arrives at a TCP listener or connection: its peer gets neither an acknowledgement nor
// a reset, as with a cut cable. Connections that a listener accepts later inherit it.
func dig(s syscall.Conn) error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) {
		inner = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &dropAll})
	})
	if err == nil {
		err = inner
	}
	if err != nil {
		return fmt.Errorf("attach socket filter: %w", err)
	}
	return nil
}

// fill takes away what dig has put there.
func fill(s syscall.Conn) error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0) })
	if err == nil && inner != unix.ENOENT { // a connection that was made after the hole was filled has none
		err = inner
	}
	if err != nil {
		return fmt.Errorf("detach socket filter: %w", err)
	}
	return nil
}

// notifyHole delivers the wish for a black hole, and the next time the wish for its end.
func notifyHole(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR1) }

// askHole tells an endpoint process to vanish into a black hole, or to come back from it.
func askHole(p *os.Process) error { return p.Signal(syscall.SIGUSR1) }
