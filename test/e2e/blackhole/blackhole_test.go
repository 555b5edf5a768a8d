//go:build linux

package blackhole

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestSilence shows the three things that make a black hole one: a connected peer's bytes are neither taken nor refused, a new
// connect gets no answer, and both work again afterwards.
func TestSilence(t *testing.T) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, s := range []any{l, b} {
		if err := Dig(s.(syscall.Conn)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Write([]byte("x")); err != nil {
		t.Fatalf("a write into a black hole must look fine: %v", err)
	}
	buf := make([]byte, 1)
	_ = b.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := b.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read in the black hole: %v, want nothing", err)
	}
	if c, err := net.DialTimeout("tcp4", l.Addr().String(), 50*time.Millisecond); err == nil {
		c.Close()
		t.Fatal("connected to a black hole")
	} else if ne, ok := err.(net.Error); !ok || !ne.Timeout() {
		t.Fatalf("connect: %v, want silence", err)
	}
	for _, s := range []any{l, b} {
		if err := Fill(s.(syscall.Conn)); err != nil {
			t.Fatal(err)
		}
	}
	_ = b.SetReadDeadline(time.Now().Add(10 * time.Second)) // the peer's retransmission
	if _, err := b.Read(buf); err != nil || buf[0] != 'x' {
		t.Fatalf("after filling: %q %v", buf, err)
	}
}
