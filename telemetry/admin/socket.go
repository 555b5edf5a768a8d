package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	socketPathMax = 107         // bytes that Linux takes
	answerWaitMax = time.Second // for whoever holds a socket to answer
	lockTriesMax  = 100         // lockPause apart
	lockPause     = 20 * time.Millisecond
)

// ListenSocket opens the control socket, mode 0600 from its first moment whatever the umask, and makes its folder (mode 0700) where there
// is none. A socket that a dead process left behind is replaced; one that a process holds, even one too busy to answer, is left alone, and
// so is what is no socket. Of two processes that start at a time one gets it. The listener removes the socket when it is closed.
func ListenSocket(path string) (net.Listener, error) {
	if len(path) > socketPathMax {
		return nil, fmt.Errorf("%s: expected a path of at most %d bytes, it has %d", path, socketPathMax, len(path))
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	unlock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	return listenPrivate(path)
}

// removeStale removes a socket that nobody holds. Only a refused connect proves that: a full queue of a live process is another error.
func removeStale(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s exists and is no socket", path)
	}
	c, err := net.DialTimeout("unix", path, answerWaitMax)
	switch {
	case err == nil:
		_ = c.Close()
		return fmt.Errorf("%s: another process answers there", path)
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: another process may hold it: %w", path, err)
	}
	return os.Remove(path)
}

// private sets the mode of the socket before it is bound. On Linux the mode of its file comes from the descriptor's: there is no moment in
// which others may connect. Elsewhere this may be refused; listenPrivate looks again.
func private(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
}

// listenPrivate binds and listens with mode 0600.
func listenPrivate(path string) (net.Listener, error) {
	lc := net.ListenConfig{Control: private}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	st, err := os.Lstat(path)
	if err == nil && st.Mode().Perm() != 0o600 {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// lockFolder keeps other processes from opening a socket in the folder while this one looks and binds: between the two of them a second
// process could remove the socket that the first has just made. The lock ends with the process that holds it.
func lockFolder(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for range lockTriesMax {
		err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return func() { _ = d.Close() }, nil // locked, or a file system without locks
		}
		time.Sleep(lockPause)
	}
	_ = d.Close()
	return nil, fmt.Errorf("%s: another process is opening a socket there: %w", dir, err)
}
