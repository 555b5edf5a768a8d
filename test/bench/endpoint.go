//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bodySize is the size of every answer's body in bytes.
const bodySize = 1024

// delay is the work that an exchange for /10ms takes at the endpoint.
const delay = 10 * time.Millisecond

// endpointLoop answers GETs: at once, or after delay. Equal delays keep the answers due in the order in which they were asked for.
type endpointLoop struct {
	*loop
	listener int
	buf      []byte
	half     map[int][]byte // begun requests by connection
	due      []dueAnswer
	answer   []byte
}

type dueAnswer struct {
	at time.Time
	fd int
}

// serveEndpoint answers on every local address with this port until the process is killed.
func serveEndpoint(port uint16) error {
	l, err := newLoop()
	if err != nil {
		return err
	}
	fd, err := listen(netip.AddrPortFrom(netip.IPv4Unspecified(), port))
	if err != nil {
		return err
	}
	e := &endpointLoop{loop: l, listener: fd, buf: make([]byte, 64<<10), half: map[int][]byte{}}
	e.answer = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s",
		bodySize, strings.Repeat("x", bodySize))
	if err := l.add(fd); err != nil {
		return err
	}
	for {
		timeout := -1
		if len(e.due) > 0 {
			timeout = max(0, int((time.Until(e.due[0].at)+time.Millisecond-1)/time.Millisecond))
		}
		events, err := e.wait(timeout)
		if err != nil {
			return fmt.Errorf("epoll_wait: %w", err)
		}
		for _, ev := range events {
			if int(ev.Fd) == e.listener {
				e.accept()
			} else {
				e.read(int(ev.Fd))
			}
		}
		e.sendDue()
	}
}

func (e *endpointLoop) accept() {
	for {
		fd, _, err := unix.Accept4(e.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		if e.add(fd) != nil {
			_ = unix.Close(fd)
		}
	}
}

func (e *endpointLoop) drop(fd int) {
	delete(e.half, fd)
	for i := range e.due { // its number may be given out again
		if e.due[i].fd == fd {
			e.due[i].fd = -1
		}
	}
	_ = unix.Close(fd)
}

func (e *endpointLoop) read(fd int) {
	n, err := unix.Read(fd, e.buf)
	if err == unix.EAGAIN {
		return
	}
	if err != nil || n <= 0 {
		e.drop(fd)
		return
	}
	in := e.buf[:n]
	if h := e.half[fd]; len(h) > 0 {
		in = append(h, in...)
	}
	for {
		end := bytes.Index(in, []byte("\r\n\r\n"))
		if end < 0 {
			break
		}
		if bytes.HasPrefix(in, []byte("GET /10ms")) {
			e.due = append(e.due, dueAnswer{time.Now().Add(delay), fd})
		} else if _, err := unix.Write(fd, e.answer); err != nil {
			e.drop(fd)
			return
		}
		in = in[end+4:]
	}
	if len(in) > 0 {
		e.half[fd] = bytes.Clone(in)
	} else if len(e.half[fd]) > 0 {
		delete(e.half, fd)
	}
}

func (e *endpointLoop) sendDue() {
	now, n := time.Now(), 0
	for n < len(e.due) && !e.due[n].at.After(now) {
		fd := e.due[n].fd
		n++
		if fd < 0 {
			continue
		}
		if _, err := unix.Write(fd, e.answer); err != nil {
			e.drop(fd)
		}
	}
	e.due = append(e.due[:0], e.due[n:]...)
}
