//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processes are all that were started, in order.
type processes struct {
	mu  sync.Mutex
	all []*process
}

// process is one running proxy, endpoint or load.
type process struct {
	name string
	cmd  *exec.Cmd
	errs bytes.Buffer
	done chan struct{}
}

func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// startOn starts the command bound to one CPU (modulo their number). The binding is inherited by all threads it will have.
func (ps *processes) startOn(cpu int, name string, cmd *exec.Cmd) (*process, error) {
	p := &process{name: name, cmd: cmd, done: make(chan struct{})}
	cmd.Stderr = &p.errs
	started := make(chan error)
	go func() {
		// The thread keeps its binding and is not unlocked, so that it ends with this goroutine. Pdeathsig is about the thread that
		// started the process: it must live as long, hence the wait.
		runtime.LockOSThread()
		var set unix.CPUSet
		set.Set(cpu % runtime.NumCPU())
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			started <- fmt.Errorf("bind to CPU %d: %w", cpu, err)
			return
		}
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	ps.mu.Lock()
	ps.all = append(ps.all, p)
	ps.mu.Unlock()
	return p, nil
}

// end kills what still runs and waits for it.
func (ps *processes) end() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.all {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// alive tells whether the process has not ended yet, with what it said otherwise.
func (p *process) alive() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended: %v\n%s", p.name, p.cmd.ProcessState, tail(p.errs.Bytes(), 4000))
	default:
		return nil
	}
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// cpu is the CPU time that all threads of the process have used, by the kernel's own accounting in nanoseconds: /proc/PID/stat counts
// ticks of 10 ms, which is too coarse at 1,000 requests a second.
func (p *process) cpu() (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED: linux/posix-timers.h, MAKE_PROCESS_CPUCLOCK
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^p.cmd.Process.Pid)<<3|sched, &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of %s: %w", p.name, err)
	}
	return time.Duration(ts.Nano()), nil
}

// exists tells whether a program is installed.
func exists(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// self is this program.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}
