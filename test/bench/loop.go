//go:build linux

package main

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// loop is one epoll with its connections by descriptor.
type loop struct {
	ep     int
	events [256]unix.EpollEvent
}

func newLoop() (*loop, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	return &loop{ep: ep}, nil
}

func (l *loop) add(fd int) error {
	return unix.EpollCtl(l.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// wait gives the descriptors that can be read; timeout in milliseconds, -1 for ever.
func (l *loop) wait(timeout int) ([]unix.EpollEvent, error) {
	for {
		n, err := unix.EpollWait(l.ep, l.events[:], timeout)
		if err == unix.EINTR {
			continue
		}
		return l.events[:max(n, 0)], err
	}
}

func sockaddr(a netip.AddrPort) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
}

func listen(a netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("socket: %w", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err := unix.Bind(fd, sockaddr(a)); err != nil {
		return 0, fmt.Errorf("bind %v: %w", a, err)
	}
	return fd, unix.Listen(fd, 1024)
}

// dial connects and then makes the socket non-blocking.
func dial(a netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("socket: %w", err)
	}
	if err := unix.Connect(fd, sockaddr(a)); err != nil {
		return 0, fmt.Errorf("connect %v: %w", a, err)
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	return fd, unix.SetNonblock(fd, true)
}
