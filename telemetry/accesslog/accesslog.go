// Package accesslog writes one JSON line for each request and never holds the data path up.
//
// Its job: formatting a record without allocating, a bounded buffer, one writer goroutine, dropping and counting when the buffer is full.
// Not its job: what is logged (the callers), rotation (Reopen is there for it).
// Goroutines: one writer. Bounds: BufferMax bytes waiting, valueMax bytes of any value.
package accesslog

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"spillway/proxy/answer"
)

const (
	// BufferMax bounds the lines that wait for the writer, in bytes.
	BufferMax = 1 << 20
	valueMax  = 2048 // bytes of one value of a client
)

// Record is one request. The slices are copied.
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

// Logger is one log. A nil Logger is off: its methods do nothing.
type Logger struct {
	path    string
	dropped func()
	wake    chan struct{}
	end     chan struct{}
	done    chan struct{}

	mu  sync.Mutex // guards buf; never held over I/O
	buf []byte

	fileMu sync.Mutex // guards file
	file   *os.File
	err    error // the writer's last; guarded by fileMu
}

// Open opens the log: stdout, or a file that is appended to. An empty path gives nil: off. dropped is called for each line that is lost.
func Open(path string, dropped func()) (*Logger, error) {
	if path == "" {
		return nil, nil
	}
	l := &Logger{path: path, dropped: dropped, wake: make(chan struct{}, 1), end: make(chan struct{}), done: make(chan struct{})}
	l.buf = make([]byte, 0, BufferMax)
	if err := l.open(); err != nil {
		return nil, err
	}
	go l.run()
	return l, nil
}

func (l *Logger) open() error {
	if l.path == "stdout" {
		l.file = os.Stdout
		return nil
	}
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	l.file = f
	return err
}

// Reopen opens the file again, after it was moved away.
func (l *Logger) Reopen() error {
	if l == nil || l.path == "stdout" {
		return nil
	}
	l.fileMu.Lock()
	defer l.fileMu.Unlock()
	old := l.file
	if err := l.open(); err != nil {
		l.file = old
		return fmt.Errorf("access log: %w", err)
	}
	return old.Close()
}

// Log adds a line. It waits for nothing but the formatting of other lines.
func (l *Logger) Log(r *Record) {
	if l == nil {
		return
	}
	l.mu.Lock()
	before := len(l.buf)
	l.buf = appendRecord(l.buf, r)
	full := len(l.buf) > BufferMax
	if full {
		l.buf = l.buf[:before]
	}
	l.mu.Unlock()
	if full {
		l.dropped()
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Logger) run() {
	defer close(l.done)
	spare := make([]byte, 0, BufferMax)
	for {
		ended := false
		select {
		case <-l.wake:
		case <-l.end:
			ended = true
		}
		l.mu.Lock()
		full := l.buf
		l.buf = spare[:0]
		l.mu.Unlock()
		l.write(full)
		spare = full
		if ended {
			return
		}
	}
}

func (l *Logger) write(b []byte) {
	if len(b) == 0 {
		return
	}
	l.fileMu.Lock()
	defer l.fileMu.Unlock()
	if n, err := l.file.Write(b); err != nil {
		l.err = err
		for _, c := range b[n:] {
			if c == '\n' {
				l.dropped()
			}
		}
	}
}

// Close writes what waits and closes the file. It returns the last error of the writer. Nothing may be logged after it.
func (l *Logger) Close() error {
	if l == nil {
		return nil
	}
	close(l.end)
	<-l.done
	l.fileMu.Lock()
	defer l.fileMu.Unlock()
	if l.path == "stdout" {
		return l.err
	}
	if err := l.file.Close(); err != nil {
		return err
	}
	return l.err
}

func appendRecord(b []byte, r *Record) []byte {
	b = append(b, `{"time":"`...)
	b = r.Time.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000000Z")
	b = text(b, `","listener":`, r.Listener)
	b = bytesField(b, `,"method":`, r.Method)
	b = bytesField(b, `,"host":`, r.Host)
	b = bytesField(b, `,"path":`, withoutQuery(r.Path))
	if len(r.RequestID) > 0 {
		b = bytesField(b, `,"request_id":`, r.RequestID)
	}
	b = number(b, `,"status":`, int64(r.Status))
	if r.Code != answer.None {
		b = text(b, `,"code":`, r.Code.String())
		b = text(b, `,"hint":`, r.Hint)
	}
	if r.Service != "" {
		b = text(b, `,"service":`, r.Service)
	}
	if r.Endpoint.IsValid() {
		b = text(b, `,"datacenter":`, r.Datacenter)
		b = append(b, `,"endpoint":"`...)
		b = r.Endpoint.AppendTo(b)
		b = number(b, `","tier":`, int64(r.Tier))
		b = text(b, `,"reason":`, r.Reason)
	}
	b = number(b, `,"attempts":`, int64(r.Attempts))
	b = number(b, `,"bytes_in":`, r.BytesIn)
	b = number(b, `,"bytes_out":`, r.BytesOut)
	b = append(b, `,"duration_seconds":`...)
	b = strconv.AppendFloat(b, r.Duration.Seconds(), 'f', 6, 64)
	return append(b, "}\n"...)
}

// withoutQuery leaves out what often holds secrets.
func withoutQuery(p []byte) []byte {
	for i, c := range p {
		if c == '?' {
			return p[:i]
		}
	}
	return p
}

func number(b []byte, key string, v int64) []byte {
	return strconv.AppendInt(append(b, key...), v, 10)
}

func text(b []byte, key, v string) []byte {
	b = append(append(b, key...), '"')
	for i := 0; i < len(v) && i < valueMax; {
		r, n := utf8.DecodeRuneInString(v[i:])
		b = appendRune(b, r, n, v[i])
		i += n
	}
	return append(b, '"')
}

func bytesField(b []byte, key string, v []byte) []byte {
	b = append(append(b, key...), '"')
	for i := 0; i < len(v) && i < valueMax; {
		r, n := utf8.DecodeRune(v[i:])
		b = appendRune(b, r, n, v[i])
		i += n
	}
	return append(b, '"')
}

const hex = "0123456789abcdef"

// appendRune writes one rune as JSON; a byte that is no UTF-8 becomes the replacement character.
func appendRune(b []byte, r rune, n int, c byte) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(b, '\\', c)
	case r < ' ' || r == 0x7f:
		return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	case r == utf8.RuneError && n <= 1:
		return append(b, "\ufffd"...)
	}
	return utf8.AppendRune(b, r)
}
