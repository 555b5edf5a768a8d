package demo

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// How often the progress line may change: in place on a terminal, as a line of its own elsewhere.
const (
	progressTerminalEvery = 100 * time.Millisecond
	progressLogEvery      = time.Second
)

// progress is one line that says what happens at the moment. Safe for concurrent use; nil shows nothing.
type progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	name     string
	start    time.Time
	last     time.Time
	shown    bool // a line stands on the terminal
}

func newProgress(w io.Writer, terminal bool, name string) *progress {
	return &progress{w: w, terminal: terminal, name: name, start: time.Now()}
}

// show prints the line unless the last one is too young.
func (p *progress) show(format string, args ...any) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	every := progressLogEvery
	if p.terminal {
		every = progressTerminalEvery
	}
	now := time.Now()
	if !p.last.IsZero() && now.Sub(p.last) < every {
		return
	}
	p.last = now
	text := fmt.Sprintf("%s %4.1f s  ", p.name, now.Sub(p.start).Seconds()) + fmt.Sprintf(format, args...)
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", text)
		p.shown = true
		return
	}
	fmt.Fprintln(p.w, text)
}

// clear takes the line off the terminal.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
