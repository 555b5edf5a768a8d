package listen

import (
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"spillway/proxy/sock"
)

func open(t *testing.T, addrs ...string) (*Listener, error) {
	t.Helper()
	var list []netip.AddrPort
	for _, a := range addrs {
		list = append(list, netip.MustParseAddrPort(a))
	}
	return Open("test.listen", list, slog.New(slog.DiscardHandler))
}

func TestServesUntilClosed(t *testing.T) {
	l, err := open(t, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hold := make(chan struct{})
	l.Serve = func(c *sock.Conn, remote, local netip.AddrPort) {
		<-hold
		_ = c.WriteAll([]byte(local.Addr().String()), 1e9)
		c.Close()
	}
	l.Run()
	addr := l.Addrs()[0].String()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for l.Active() != 1 {
		runtime.Gosched()
	}
	l.Close()
	if d, err := net.Dial("tcp", addr); err == nil {
		d.Close()
		t.Error("a closed listener takes connections")
	}
	close(hold) // what was accepted goes on
	if b, err := io.ReadAll(c); err != nil || string(b) != "127.0.0.1" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestAllOrNone(t *testing.T) {
	taken, err := open(t, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	_, err = open(t, addr, taken.Addrs()[0].String())
	if err == nil || !strings.Contains(err.Error(), "test.listen: listen on "+taken.Addrs()[0].String()) {
		t.Fatalf("%v", err)
	}
	again, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("the first address stayed open: %v", err)
	}
	again.Close()
}

// TestCloseServesWhoWaits: connections that nobody has accepted yet when the listener closes are served.
func TestCloseServesWhoWaits(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // elsewhere they go with the socket
	}
	l, err := open(t, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Serve = func(c *sock.Conn, _, _ netip.AddrPort) {
		_ = c.WriteAll([]byte("served"), 1e9)
		c.Close()
	}
	var waiting []net.Conn
	for range 100 {
		c, err := net.Dial("tcp", l.Addrs()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		waiting = append(waiting, c)
	}
	l.Run()
	l.Close()
	for i, c := range waiting {
		if b, err := io.ReadAll(c); err != nil || string(b) != "served" {
			t.Fatalf("connection %d: %q, %v", i, b, err)
		}
	}
}
