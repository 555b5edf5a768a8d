package demo

import "syscall"

// childAttr lets the kernel end the child when this process dies without a word, and keeps a Ctrl-C at the terminal away from it:
// this process ends its children itself.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
