package accesslog

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"spillway/proxy/answer"
)

func record() *Record {
	return &Record{Time: time.Unix(1700000000, 5), Listener: "outbound", Method: []byte("GET"), Host: []byte("pay"), Path: []byte("/a?token=secret"),
		Status: 503, Code: answer.Overflow, Hint: `pay@dc2 64/64 connections`, Service: "pay", Datacenter: "dc2",
		Endpoint: netip.MustParseAddrPort("10.0.0.1:80"), Tier: 2, Reason: "spill_health", Attempts: 1, BytesIn: 3, BytesOut: 4, Duration: 1500 * time.Microsecond}
}

func TestLine(t *testing.T) {
	want := `{"time":"2023-11-14T22:13:20.000000005Z","listener":"outbound","method":"GET","host":"pay","path":"/a","status":503,` +
		`"code":"overflow","hint":"pay@dc2 64/64 connections","service":"pay","datacenter":"dc2","endpoint":"10.0.0.1:80","tier":2,` +
		`"reason":"spill_health","attempts":1,"bytes_in":3,"bytes_out":4,"duration_seconds":0.001500}` + "\n"
	if got := string(appendRecord(nil, record())); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// Whatever bytes a client sends, the line is one line of valid JSON and valid UTF-8.
func TestAnyBytesAreValidJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := record()
		r.Method = rapid.SliceOf(rapid.Byte()).Draw(t, "method")
		r.Host = rapid.SliceOf(rapid.Byte()).Draw(t, "host")
		r.Path = rapid.SliceOf(rapid.Byte()).Draw(t, "path")
		r.RequestID = rapid.SliceOf(rapid.Byte()).Draw(t, "id")
		r.Hint = string(rapid.SliceOf(rapid.Byte()).Draw(t, "hint"))
		line := appendRecord(nil, r)
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil || !utf8.Valid(line) || bytes.Count(line, []byte("\n")) != 1 {
			t.Fatalf("%v: %q", err, line)
		}
	})
}

func TestFileGetsEveryLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var dropped atomic.Int64
	l, err := Open(path, func() { dropped.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		l.Log(record())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(b, []byte("\n")); int64(lines)+dropped.Load() != 1000 {
		t.Fatalf("%d lines, %d dropped", lines, dropped.Load())
	}
}

// A log that cannot be written must cost lines, counted, and nothing else.
func TestFullBufferDropsAndCounts(t *testing.T) {
	dropped := 0
	l := &Logger{dropped: func() { dropped++ }, wake: make(chan struct{}, 1)} // no writer
	for range 10000 {
		l.Log(record())
	}
	if len(l.buf) > BufferMax || dropped == 0 {
		t.Fatalf("%d bytes wait, %d dropped", len(l.buf), dropped)
	}
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	l, err := Open(path, func() {})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	l.Log(record())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || len(b) == 0 {
		t.Fatalf("%d bytes, %v", len(b), err)
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
	l := &Logger{dropped: func() {}, wake: make(chan struct{}, 1), buf: make([]byte, 0, BufferMax)}
	r := record()
	if n := testing.AllocsPerRun(1000, func() { l.Log(r) }); n != 0 {
		t.Fatalf("%v allocations a line", n)
	}
}

func BenchmarkLog(b *testing.B) {
	l := &Logger{dropped: func() {}, wake: make(chan struct{}, 1), buf: make([]byte, 0, BufferMax)}
	r := record()
	b.ReportAllocs()
	for b.Loop() {
		l.Log(r)
		l.buf = l.buf[:0]
	}
}
