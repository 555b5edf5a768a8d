package demo

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Bounds of child processes.
const (
	childStartMax = 10 * time.Second // until it says that it serves
	childEndMax   = 5 * time.Second  // from kill -9 until it is gone
	childLinesMax = 16               // lines of output that nobody has read yet; more are dropped
	childTailMax  = 4 << 10          // bytes of the last of stderr, for messages
)

// process is one child. lines are those of its stdout; done is closed when it has ended and was waited for.
type process struct {
	name  string
	cmd   *exec.Cmd
	lines chan string
	done  chan struct{}
	tail  *tail
}

// start runs the binary with the arguments.
func start(name, executable string, args ...string) (*process, error) {
	p := &process{
		name:  name,
		cmd:   exec.Command(executable, args...),
		lines: make(chan string, childLinesMax),
		done:  make(chan struct{}),
		tail:  &tail{},
	}
	p.cmd.Stdout = &lineWriter{lines: p.lines}
	p.cmd.Stderr = p.tail
	p.cmd.SysProcAttr = childAttr()
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // killed is how most of them end; p.cmd.ProcessState keeps it
		close(p.done)
	}()
	return p, nil
}

// line is the next line of its stdout.
func (p *process) line(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, childStartMax)
	defer cancel()
	select {
	case l := <-p.lines:
		return l, nil
	case <-p.done:
		return "", p.ended()
	case <-ctx.Done():
		return "", fmt.Errorf("%s says nothing: %w", p.name, ctx.Err())
	}
}

// ended says how a process that should be running has ended.
func (p *process) ended() error {
	return fmt.Errorf("%s ended (%v): %s", p.name, p.cmd.ProcessState, p.tail)
}

// alive tells whether it has not ended yet.
func (p *process) alive() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// strike sends SIGKILL and does not wait.
func (p *process) strike() {
	if p != nil {
		_ = p.cmd.Process.Kill() // fails only if it has ended already
	}
}

// bury waits until a process that was struck is gone.
func (p *process) bury() error {
	if p == nil {
		return nil
	}
	t := time.NewTimer(childEndMax)
	defer t.Stop()
	select {
	case <-p.done:
		return nil
	case <-t.C:
		return fmt.Errorf("%s is still there %v after kill -9", p.name, childEndMax)
	}
}

// lineWriter hands on whole lines and drops what nobody takes. One goroutine writes.
type lineWriter struct {
	lines chan<- string
	part  []byte
}

// Write implements io.Writer.
func (w *lineWriter) Write(b []byte) (int, error) {
	w.part = append(w.part, b...)
	for {
		i := bytes.IndexByte(w.part, '\n')
		if i < 0 {
			if len(w.part) > childTailMax {
				w.part = w.part[:0]
			}
			return len(b), nil
		}
		select {
		case w.lines <- string(w.part[:i]):
		default:
		}
		w.part = w.part[i+1:]
	}
}

// tail keeps the last bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if extra := len(t.buf) - childTailMax; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(b), nil
}

// String is what was kept, without surrounding space.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := strings.TrimSpace(string(t.buf)); s != "" {
		return s
	}
	return "it said nothing"
}
