package listen

import (
	"errors"
	"syscall"
)

// noV6 tells what a machine without IPv6 answers to a listen on ::1.
func noV6(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)
}
