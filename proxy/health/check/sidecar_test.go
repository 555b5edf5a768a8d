package check

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"spillway/discovery"
	"spillway/proxy/health"
	"spillway/proxy/listen/proxyproto"
)

// sidecar reads the header in front of a connection and goes on with f.
func sidecar(t *testing.T, want netip.AddrPort, f func(net.Conn)) netip.AddrPort {
	return server(t, func(c net.Conn) {
		var buf []byte
		b := make([]byte, 1)
		for {
			h, n, err := proxyproto.Parse(buf)
			if err != nil {
				t.Errorf("header %q: %v", buf, err)
				return
			}
			if n > 0 {
				if h.Target != want || h.Source.IsValid() {
					t.Errorf("header %+v, want the target %v alone", h, want)
				}
				break
			}
			if _, err := c.Read(b); err != nil {
				return
			}
			buf = append(buf, b...)
		}
		f(c)
	})
}

// TestTCPBehindSidecar: the sidecar itself always connects; what it does then tells of the endpoint.
func TestTCPBehindSidecar(t *testing.T) {
	target := netip.MustParseAddrPort("10.1.2.3:3306")
	for _, row := range []struct {
		name  string
		serve func(net.Conn)
		want  health.Result
	}{
		{"passes on to a silent endpoint", silent, health.Good},
		{"passes on to one that speaks first", func(c net.Conn) { io.WriteString(c, "5.7.1"); silent(c) }, health.Good},
		{"closes", func(net.Conn) {}, health.Bad},
		{"resets", func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }, health.Bad},
	} {
		for _, at := range []netip.AddrPort{target, netip.MustParseAddrPort("[2001:db8::1]:3306")} {
			item := Item{Dial: sidecar(t, at, row.serve), Target: at, Check: discovery.ActiveCheck{TCP: true, Timeout: 5 * time.Second}}
			if o := look(t, item); o.result != row.want {
				t.Errorf("%s: %v (%v), want %v", row.name, o.result, o.cause, row.want)
			}
		}
	}
	gone := Item{Dial: closed(t), Target: target, Check: discovery.ActiveCheck{TCP: true, Timeout: 5 * time.Second}}
	if o := look(t, gone); o.result != health.Refused {
		t.Errorf("no sidecar: %v", o.result)
	}
}

// TestShutdownInGrace: the end of the context while a sidecar is waited for is no verdict.
func TestShutdownInGrace(t *testing.T) {
	target := netip.MustParseAddrPort("10.1.2.3:3306")
	began := make(chan struct{})
	item := Item{Dial: sidecar(t, target, func(c net.Conn) { close(began); silent(c) }), Target: target, Cross: true,
		Check: discovery.ActiveCheck{TCP: true, Timeout: time.Hour, CrossDatacenterTime: 1000}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan outcome)
	go func() { done <- dial(ctx, item, jobCheck) }()
	<-began
	cancel()
	if o := <-done; o.ok {
		t.Errorf("after shutdown: %+v", o)
	}
}
