package accesslog

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"spillway/proxy/answer"
)

func record() *Record {
	return &Record{Time: time.Unix(1700000000, 5), Listener: "outbound", Method: []byte("GET"), Host: []byte("pay"), Path: []byte("/a?token=secret"),
		Status: 503, Code: answer.Overflow, Hint: `pay@dc2 64/64 connections`, Service: "pay", Datacenter: "dc2",
		Endpoint: netip.MustParseAddrPort("10.0.0.1:80"), Tier: 2, Reason: "spill_health", Attempts: 1, BytesIn: 3, BytesOut: 4, Duration: 1500 * time.Microsecond}
}

// memory is a file of which each write can be made to fail.
type memory struct {
	mu     sync.Mutex
	b      bytes.Buffer
	takes  int // bytes that the next write takes when err is set
	err    error
	closed int
}

func (m *memory) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		n := min(m.takes, len(b))
		m.b.Write(b[:n])
		m.takes -= n
		return n, m.err
	}
	return m.b.Write(b)
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed++
	return nil
}

func (m *memory) set(takes int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.takes, m.err = takes, err
}

func TestFileGetsEveryLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var dropped atomic.Int64
	l, err := Open(path, func() { dropped.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 250 {
				l.Log(record())
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat(string(appendRecord(nil, record())), 1000) // far below BufferMax: nothing may be dropped
	if string(b) != want || dropped.Load() != 0 {
		t.Fatalf("%d lines, %d dropped", bytes.Count(b, lineEnd), dropped.Load())
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm()&^0o640 != 0 {
		t.Fatalf("mode %v, %v", st.Mode(), err)
	}
}

func TestFileIsAppendedTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for range 2 {
		l, err := Open(path, func() {})
		if err != nil {
			t.Fatal(err)
		}
		l.Log(record())
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if b, _ := os.ReadFile(path); bytes.Count(b, lineEnd) != 2 {
		t.Fatalf("%q", b)
	}
}

// A log that cannot be written must cost lines, counted, and nothing else: not memory either.
func TestFullBufferDropsAndCounts(t *testing.T) {
	dropped := 0
	l := &Logger{dropped: func() { dropped++ }, wake: make(chan struct{}, 1), buf: newBuffer()} // no writer
	room := cap(l.buf)
	for range 10000 {
		l.Log(record())
	}
	if len(l.buf) > BufferMax || dropped == 0 || cap(l.buf) != room {
		t.Fatalf("%d bytes wait in %d, %d dropped", len(l.buf), cap(l.buf), dropped)
	}
	if kept := bytes.Count(l.buf, lineEnd); kept+dropped != 10000 {
		t.Fatalf("%d kept, %d dropped", kept, dropped)
	}
}

func TestNoLineIsLongerThanItsBound(t *testing.T) {
	r := record()
	long := strings.Repeat("\x00", 3*valueMax)
	r.Listener, r.Hint, r.Service, r.Datacenter, r.Reason = long, long, long, long, long
	r.Method, r.Host, r.Path, r.RequestID = []byte(long), []byte(long), []byte(long), []byte(long)
	r.BytesIn, r.BytesOut, r.Duration = -1<<63, -1<<63, 1<<63-1
	if n := len(appendRecord(nil, r)); n > lineMax || n < 9*6*valueMax {
		t.Fatalf("%d bytes, lineMax %d", n, lineMax)
	}
}

// The writer's errors cost the lines that they hit, each counted once; the next good line is whole and on a line of its own.
func TestFailedWritesAreCountedAndMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dropped := 0
		m := &memory{}
		l := start("x", m, func() { dropped++ })
		log := func(n int) {
			for range n {
				l.Log(record())
			}
			synctest.Wait()
		}
		line := string(appendRecord(nil, record()))
		full := errors.New("no space left")
		log(1)
		m.set(10, full)
		log(1)
		if dropped != 1 {
			t.Fatalf("a line that broke off: %d dropped", dropped)
		}
		log(1)
		if dropped != 2 {
			t.Fatalf("a line that could not begin: %d dropped", dropped)
		}
		m.set(0, nil)
		log(1)
		if err := l.Close(); !errors.Is(err, full) {
			t.Fatal(err)
		}
		if got, want := m.b.String(), line+line[:10]+"\n"+line; got != want || dropped != 2 || m.closed != 1 {
			t.Fatalf("%d dropped, closed %d times\ngot  %q\nwant %q", dropped, m.closed, got, want)
		}
	})
}

// stuck is a pipe that nobody reads.
type stuck struct{ release chan struct{} }

func (s stuck) Write(b []byte) (int, error) { <-s.release; return len(b), nil }
func (stuck) Close() error                  { return nil }

// A reader that stopped reading must not keep requests or the end of the process waiting.
func TestStuckWriterHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stuck{make(chan struct{})}
		dropped := 0
		l := start("x", s, func() { dropped++ })
		begin := time.Now()
		l.Log(record())
		synctest.Wait() // the writer has it and is stuck
		for range 10 {
			l.Log(record())
		}
		if took := time.Since(begin); took != 0 {
			t.Fatalf("a request waited %v", took)
		}
		if err := l.Close(); !errors.Is(err, errStuck) || time.Since(begin) != closeWaitMax {
			t.Fatalf("%v after %v", err, time.Since(begin))
		}
		if dropped != 10 {
			t.Fatalf("%d of the 10 waiting lines counted", dropped)
		}
		l.Log(record())
		if dropped != 11 || l.Close() != nil {
			t.Fatalf("after the end: %d dropped", dropped)
		}
		close(s.release)
		<-l.done
	})
}

func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := Open(path, func() {})
	if err != nil {
		t.Fatal(err)
	}
	first := record()
	first.Service = "first"
	l.Log(first)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	for range 3 { // files that the writer has not taken yet are closed
		if err := l.Reopen(); err != nil {
			t.Fatal(err)
		}
	}
	l.Log(record())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	old, _ := os.ReadFile(path + ".1")
	now, _ := os.ReadFile(path)
	if all := append(old, now...); bytes.Count(all, lineEnd) != 2 || !bytes.HasSuffix(now, appendRecord(nil, record())) {
		t.Fatalf("old %q, new %q", old, now)
	}
	if err := l.Reopen(); err != nil {
		t.Fatalf("after the end: %v", err)
	}
}

func TestFailedReopenKeepsTheOldFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "log")
	l, err := Open(path, func() { t.Error("a line was dropped") })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".gone"); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err == nil {
		t.Fatal("reopened in a folder that is gone")
	}
	l.Log(record())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir+".gone", "log")); bytes.Count(b, lineEnd) != 1 {
		t.Fatalf("%q", b)
	}
}

func TestUnreadPipeIsAnErrorAtTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, func() {}); !errors.Is(err, syscall.ENXIO) {
		t.Fatal(err)
	}
}

func TestOpenFails(t *testing.T) {
	if l, err := Open(t.TempDir(), func() {}); err == nil || l != nil {
		t.Fatal("a folder was opened as a log")
	}
}

func TestStandardOutputStaysOpen(t *testing.T) {
	f, err := open(Stdout)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdout.Stat(); err != nil {
		t.Fatal(err)
	}
	if f.(stdout).Writer != io.Writer(os.Stdout) {
		t.Fatal("another file")
	}
}

func TestOffDoesNothing(t *testing.T) {
	l, err := Open("", nil)
	if l != nil || err != nil {
		t.Fatal(l, err)
	}
	l.Log(record())
	if l.Reopen() != nil || l.Close() != nil {
		t.Fatal("a log that is off failed")
	}
}

func TestLogAllocatesNothing(t *testing.T) {
	l := &Logger{dropped: func() {}, wake: make(chan struct{}, 1), buf: newBuffer()}
	r := record()
	if n := testing.AllocsPerRun(20000, func() { l.Log(r) }); n != 0 { // more than the buffer holds
		t.Fatalf("%v allocations a line", n)
	}
}

func BenchmarkLog(b *testing.B) {
	l := &Logger{dropped: func() {}, wake: make(chan struct{}, 1), buf: newBuffer()}
	r := record()
	b.ReportAllocs()
	for b.Loop() {
		l.Log(r)
		l.buf = l.buf[:0]
	}
}
