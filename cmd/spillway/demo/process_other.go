//go:build !linux

package demo

import "syscall"

// childAttr leaves children as they are where the kernel cannot tie them to this process.
func childAttr() *syscall.SysProcAttr { return nil }
