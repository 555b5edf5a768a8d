//go:build !linux

package demo

import (
	"errors"
	"os"
	"syscall"
)

// holeSupported tells whether a black hole can be dug here.
const holeSupported = false

func dig(syscall.Conn) error      { return errors.ErrUnsupported }
func fill(syscall.Conn) error     { return errors.ErrUnsupported }
func notifyHole(chan<- os.Signal) {}
func askHole(*os.Process) error   { return errors.ErrUnsupported }
