// Package accesslog writes one JSON line for each request and never holds the data path up.
//
// Its job: formatting a record without allocating, a bounded buffer, one writer goroutine, dropping and counting when the buffer is full
// or the file takes nothing.
// Not its job: what is logged (the callers), when the file is rotated (Reopen is there for it).
// Goroutines: one writer; it alone touches the file. Bounds: BufferMax bytes waiting and as many being written, valueMax bytes of any
// value, closeWaitMax for a writer that does not come back.
package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"spillway/proxy/answer"
)

const (
	// BufferMax bounds the lines that wait for the writer, in bytes.
	BufferMax = 1 << 20
	// valueMax bounds one value, in bytes before escaping; what is longer is cut.
	valueMax = 2048
	// lineMax is more than any line takes: ten values of which every byte is escaped as \u00xx, and the numbers and keys. Buffers have this
	// much room above BufferMax, so that a line that turns out not to fit has not made them grow.
	lineMax = 10*6*valueMax + 1024
	// closeWaitMax bounds how long Close waits for a writer whose file takes nothing (a pipe that nobody reads).
	closeWaitMax = 2 * time.Second
)

// Stdout is the path that means the standard output.
const Stdout = "stdout"

// errStuck is what Close returns when the writer did not come back.
var errStuck = errors.New("access log: the writer is stuck, lines that waited are lost")

// Record is one request. The slices are copied. The query of Path is left out: secrets stand there.
type Record struct {
	Time                          time.Time
	Listener                      string
	Method, Host, Path, RequestID []byte
	Status                        int
	Code                          answer.Code
	Hint                          string
	Service, Datacenter           string
	Endpoint                      netip.AddrPort
	Tier                          int
	Reason                        string
	Attempts                      int
	BytesIn, BytesOut             int64
	Duration                      time.Duration
}

// Logger is one log. A nil Logger is off: its methods do nothing. Safe for concurrent use.
type Logger struct {
	path    string
	dropped func()
	wake    chan struct{}
	end     chan struct{}
	done    chan struct{} // closed by the writer when it has ended
	once    sync.Once

	mu     sync.Mutex     // guards what follows; never held over I/O
	buf    []byte         // whole lines, at most BufferMax bytes
	next   io.WriteCloser // the file that Reopen opened, until the writer takes it
	closed bool

	// The writer's own; err may be read after done.
	file   io.WriteCloser
	broken bool // the last thing in the file is part of a line
	err    error
}

// Open opens the log: Stdout, or a file that is appended to (mode 0640 where it is made). An empty path gives nil: off. dropped is called
// for each line that is lost; it must not call the Logger.
func Open(path string, dropped func()) (*Logger, error) {
	if path == "" {
		return nil, nil
	}
	f, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("access log: %w", err)
	}
	return start(path, f, dropped), nil
}

func start(path string, f io.WriteCloser, dropped func()) *Logger {
	l := &Logger{path: path, file: f, dropped: dropped, wake: make(chan struct{}, 1), end: make(chan struct{}), done: make(chan struct{})}
	l.buf = newBuffer()
	go l.run()
	return l
}

func newBuffer() []byte { return make([]byte, 0, BufferMax+lineMax) }

// stdout leaves the standard output open: it is not ours to close.
type stdout struct{ io.Writer }

func (stdout) Close() error { return nil }

func open(path string) (io.WriteCloser, error) {
	if path == Stdout {
		return stdout{os.Stdout}, nil
	}
	// O_NONBLOCK: a named pipe that nobody reads is an error here, not a wait for ever. It changes nothing for a regular file.
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o640)
}

// Reopen opens the path again, after the file was moved away; lines go to the new file from the next write on. On an error the old file
// stays. It does not wait for the writer.
func (l *Logger) Reopen() error {
	if l == nil || l.path == Stdout {
		return nil
	}
	f, err := open(l.path)
	if err != nil {
		return fmt.Errorf("access log: reopen: %w", err)
	}
	l.mu.Lock()
	unused := l.next
	if l.closed {
		unused = f
	} else {
		l.next = f
	}
	l.mu.Unlock()
	if unused != nil {
		_ = unused.Close()
	}
	l.rouse()
	return nil
}

// Log adds a line. It waits for nothing but the formatting of other lines.
func (l *Logger) Log(r *Record) {
	if l == nil {
		return
	}
	l.mu.Lock()
	before := len(l.buf)
	full := l.closed
	if !full {
		l.buf = appendRecord(l.buf, r)
		if full = len(l.buf) > BufferMax; full {
			l.buf = l.buf[:before]
		}
	}
	l.mu.Unlock()
	if full {
		l.dropped()
		return
	}
	if before == 0 { // who found lines waiting need not wake the writer: it has been woken for them
		l.rouse()
	}
}

func (l *Logger) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run is the writer: it swaps the two buffers and writes the full one.
func (l *Logger) run() {
	defer close(l.done)
	spare := newBuffer()
	for ended := false; !ended; {
		select {
		case <-l.wake:
		case <-l.end:
			ended = true
		}
		l.mu.Lock()
		full, next := l.buf, l.next
		l.buf, l.next = spare[:0], nil
		l.mu.Unlock()
		if next != nil {
			l.fail(l.file.Close())
			l.file, l.broken = next, false
		}
		l.write(full)
		spare = full
	}
	l.fail(l.file.Close())
}

var lineEnd = []byte{'\n'}

// write writes whole lines. After a write that broke off inside a line the next one begins on a line of its own.
func (l *Logger) write(b []byte) {
	if len(b) == 0 {
		return
	}
	if l.broken {
		if _, err := l.file.Write(lineEnd); err != nil {
			l.lose(b, err)
			return
		}
		l.broken = false
	}
	if n, err := l.file.Write(b); err != nil {
		l.broken = n > 0 && b[n-1] != '\n'
		l.lose(b[n:], err)
	}
}

// lose counts the lines that end in b.
func (l *Logger) lose(b []byte, err error) {
	l.fail(err)
	for range bytes.Count(b, lineEnd) {
		l.dropped()
	}
}

func (l *Logger) fail(err error) {
	if err != nil {
		l.err = fmt.Errorf("access log: %w", err)
	}
}

// Close writes what waits and closes the file. It returns the last error of the writer, or that the writer did not come back within
// closeWaitMax. What is logged after it is dropped and counted. A second call does nothing.
func (l *Logger) Close() error {
	if l == nil {
		return nil
	}
	var err error
	l.once.Do(func() {
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		close(l.end)
		wait := time.NewTimer(closeWaitMax)
		defer wait.Stop()
		select {
		case <-l.done:
			err = l.err
		case <-wait.C:
			l.mu.Lock()
			lost := bytes.Count(l.buf, lineEnd)
			l.buf = l.buf[:0]
			l.mu.Unlock()
			for range lost {
				l.dropped()
			}
			err = errStuck
		}
	})
	return err
}
