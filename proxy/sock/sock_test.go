package sock

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// pair makes a connected pair on loopback: ours and the peer's plain end.
func pair(t testing.TB) (*Conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(nc.(*net.TCPConn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); peer.Close() })
	return c, peer.(*net.TCPConn)
}

// until asks again until ok says yes; the kernel needs a moment to carry bytes over loopback.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

func TestReadSeesBytesThenTheEnd(t *testing.T) {
	c, peer := pair(t)
	if _, err := peer.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	n, err := c.Read(b)
	if err != nil || string(b[:n]) != "hello" {
		t.Fatalf("got %q, %v", b[:n], err)
	}
	if n, err = c.TryRead(b); n != 0 || !errors.Is(err, ErrWouldBlock) {
		t.Fatalf("a quiet socket gave %d, %v", n, err)
	}
	_ = peer.CloseWrite()
	if n, err = c.Read(b); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("the end gave %d, %v", n, err)
	}
}

func TestReadIntoHoldsNoBufferWhileNothingComes(t *testing.T) {
	c, peer := pair(t)
	var bufs Bufs
	c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if b, _, err := c.ReadInto(&bufs); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v, %v", b, err)
	}
	c.SetReadDeadline(time.Time{})
	if _, err := peer.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	b, n, err := c.ReadInto(&bufs)
	if err != nil || n != 1 || b.B[0] != 'x' {
		t.Fatalf("got %d, %v", n, err)
	}
}

func TestPeekTakesNothing(t *testing.T) {
	c, peer := pair(t)
	if s := c.Peek(); s != Quiet {
		t.Fatalf("fresh connection: %d", s)
	}
	if _, err := peer.Write([]byte("ab")); err != nil {
		t.Fatal(err)
	}
	until(t, "bytes seen", func() bool { return c.Peek() == Bytes })
	b := make([]byte, 8)
	n, _ := io.ReadAtLeast(reader{c}, b, 2)
	if string(b[:n]) != "ab" {
		t.Fatalf("got %q", b[:n])
	}
	_ = peer.CloseWrite()
	until(t, "end seen", func() bool { return c.Peek() == Ended })
	if _, err := c.Read(b); !errors.Is(err, io.EOF) {
		t.Fatalf("read after a peek at the end: %v", err)
	}
}

func TestPeekSeesAReset(t *testing.T) {
	c, peer := pair(t)
	_ = peer.SetLinger(0)
	peer.Close()
	until(t, "reset seen", func() bool { return c.Peek() == Broken })
}

type reader struct{ c *Conn }

func (r reader) Read(b []byte) (int, error) { return r.c.Read(b) }

func TestWriteWaitsForASlowReader(t *testing.T) {
	c, peer := pair(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB: more than the socket buffers
	done := make(chan error, 1)
	go func() { done <- c.WriteAll(data, 10*time.Second) }()
	got, err := io.ReadAll(io.LimitReader(peer, int64(len(data))))
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestTryWriteStopsWhenFull(t *testing.T) {
	c, _ := pair(t)
	data := make([]byte, 32<<20)
	n, err := c.TryWrite(data)
	if !errors.Is(err, ErrWouldBlock) || n == len(data) {
		t.Fatalf("wrote %d, %v", n, err)
	}
}

func TestWakeReaderCallsBack(t *testing.T) {
	c, _ := pair(t)
	done := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		done <- err
	}()
	c.WakeReader()
	if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestWatchSeesAReset(t *testing.T) {
	c, peer := pair(t)
	done := make(chan bool, 1)
	go func() { done <- c.WatchGone() }()
	_ = peer.SetLinger(0)
	peer.Close()
	if !<-done {
		t.Fatal("the reset was not seen")
	}
}

func TestWatchIsCalledBack(t *testing.T) {
	c, peer := pair(t)
	done := make(chan bool, 1)
	go func() { done <- c.WatchGone() }()
	if !WatchOnce {
		// Pipelined bytes and the end of input do not end the watch.
		if _, err := peer.Write([]byte("more")); err != nil {
			t.Fatal(err)
		}
		_ = peer.CloseWrite()
		until(t, "bytes seen", func() bool { return c.Peek() == Bytes })
	}
	c.WakeReader()
	if <-done {
		t.Fatal("a peer that is there was taken for gone")
	}
}

func TestResetIsNoEnd(t *testing.T) {
	c, peer := pair(t)
	if err := c.WriteAll([]byte("partial"), time.Second); err != nil {
		t.Fatal(err)
	}
	c.Reset()
	got, err := io.ReadAll(peer)
	if string(got) != "partial" || err == nil {
		t.Fatalf("got %q, %v: the peer must get the bytes and no clean end", got, err)
	}
}

func TestExchangeAllocatesNothing(t *testing.T) {
	if WatchOnce {
		return // the deadlines around each try of a net.Conn allocate; it is the raw build that must not
	}
	c, peer := pair(t)
	var bufs Bufs
	one := make([]byte, 1)
	n := testing.AllocsPerRun(200, func() {
		_, _ = peer.Write(one)
		b, _, err := c.ReadInto(&bufs)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Peek()
		_, _ = c.TryWrite(b.B[:1])
		bufs.Put(b)
		_, _ = peer.Read(one)
	})
	if n >= 1 {
		t.Fatalf("%v allocations an exchange", n)
	}
}

func BenchmarkEcho(b *testing.B) {
	c, peer := pair(b)
	go func() {
		var bufs Bufs
		for {
			buf, n, err := c.ReadInto(&bufs)
			if err != nil {
				return
			}
			_, _ = c.TryWrite(buf.B[:n])
			bufs.Put(buf)
		}
	}()
	msg := make([]byte, 128)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = peer.Write(msg)
		if _, err := io.ReadFull(peer, msg); err != nil {
			b.Fatal(err)
		}
	}
}
