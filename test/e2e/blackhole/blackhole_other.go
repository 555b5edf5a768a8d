//go:build !linux

package blackhole

import (
	"errors"
	"syscall"
)

// Dig needs Linux.
func Dig(syscall.Conn) error { return errors.ErrUnsupported }

// Fill needs Linux.
func Fill(syscall.Conn) error { return errors.ErrUnsupported }
