//go:build linux && !stdnet

package sock

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// watchEventsMax is how many resets are fetched at a time.
const watchEventsMax = 64

// Watcher tells of connections that their peer has reset, from when they were added until they are removed, whatever their owner does
// meanwhile: reading, writing, or waiting for something else. It costs nothing as long as nothing happens. A nil Watcher watches nothing.
//
// It is an epoll set of its own that asks for no event: errors and the end of both directions are always told (epoll_ctl(2)), bytes
// and the end of input are not. One goroutine; it parks in the runtime's poller, to which an epoll set is a file like any other.
type Watcher struct {
	f   *os.File
	raw syscall.RawConn

	mu   sync.Mutex // guards what follows; held while Gone is called
	last uint64
	on   map[uint64]Gone
}

// NewWatcher makes a watcher and starts its goroutine, which ends with Close.
func NewWatcher() (*Watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // only such files are parked on
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	w := &Watcher{f: os.NewFile(uintptr(fd), "epoll"), on: map[uint64]Gone{}}
	if w.raw, err = w.f.SyscallConn(); err != nil {
		_ = w.f.Close()
		return nil, err
	}
	go w.run()
	return w, nil
}

// Add watches a connection; id is for Remove. ok is false where it could not be added: then it is not watched.
func (w *Watcher) Add(c *Conn, g Gone) (id uint64, ok bool) {
	if w == nil {
		return 0, false
	}
	w.mu.Lock()
	w.last++
	id = w.last
	w.on[id] = g
	w.mu.Unlock()
	err := unix.EBADF
	_ = w.raw.Control(func(ep uintptr) {
		c.control(func(fd int) {
			// Once is enough, and a connection that is dead stays so.
			e := unix.EpollEvent{Events: unix.EPOLLONESHOT, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))}
			if add := unix.EpollCtl(int(ep), unix.EPOLL_CTL_ADD, fd, &e); add == nil {
				err = 0
			}
		})
	})
	if err != 0 {
		w.Remove(id)
		return 0, false
	}
	return id, true
}

// Remove ends a watch: after it Gone is not called, and not running. The kernel forgets the socket when it is closed.
func (w *Watcher) Remove(id uint64) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.on, id)
}

// Close ends all watches.
func (w *Watcher) Close() {
	if w != nil {
		_ = w.f.Close()
	}
}

func (w *Watcher) run() {
	var events [watchEventsMax]unix.EpollEvent
	_ = w.raw.Read(func(fd uintptr) bool {
		for {
			n, err := unix.EpollWait(int(fd), events[:], 0)
			if err == unix.EINTR {
				continue
			}
			if n <= 0 {
				return false
			}
			w.tell(events[:n])
		}
	})
}

func (w *Watcher) tell(events []unix.EpollEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		if g := w.on[uint64(uint32(e.Fd))|uint64(uint32(e.Pad))<<32]; g != nil {
			g.Gone()
		}
	}
}
