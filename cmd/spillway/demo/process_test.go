package demo

import (
	"context"
	"errors"
	"flag"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// TestMain lets the test binary be the endpoint process that a world starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "demo-endpoint" {
		os.Exit(endpointProcess(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func endpointProcess(args []string) int {
	var o EndpointOptions
	f := flag.NewFlagSet("demo-endpoint", flag.ContinueOnError)
	f.StringVar(&o.Listen, "listen", "", "")
	f.StringVar(&o.Name, "name", "", "")
	f.StringVar(&o.Datacenter, "datacenter", "", "")
	f.DurationVar(&o.Delay, "delay", 0, "")
	if f.Parse(args) != nil || Endpoint(context.Background(), o, os.Stdout) != nil {
		return 1
	}
	return 0
}

// TestWorld starts both datacenters as processes, takes dc1 away in both ways, and checks that nothing is left at the end.
func TestWorld(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(t.Context(), self, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	near := w.in(nearby)
	first := near[0].address
	serves := func(e *endpoint) {
		t.Helper()
		c := newCaller(e.address.String())
		defer c.close()
		if a, err := c.call(http.MethodPost); err != nil || a.endpoint != e.name || a.datacenter != e.datacenter {
			t.Errorf("%s: %+v %v", e.name, a, err)
		}
	}
	for _, e := range w.endpoints {
		serves(e)
	}
	if _, err := kill(near[:2]); err != nil {
		t.Fatal(err)
	}
	if near[0].proc.alive() || !near[2].proc.alive() {
		t.Error("the wrong ones were killed")
	}
	if c, err := net.Dial("tcp", first.String()); err == nil {
		c.Close()
		t.Error("a killed endpoint still takes connections")
	}
	if err := w.revive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if near[0].address != first {
		t.Errorf("came back at %v, was at %v", near[0].address, first)
	}
	serves(near[0])
	if holeSupported {
		silent(t, near[3])
	}
	w.close()
	for _, e := range w.endpoints {
		if e.proc.alive() {
			t.Errorf("%s was left running", e.name)
		}
	}
	if _, err := os.Stat(w.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder was left: %v", err)
	}
}

// silent swallows an endpoint: neither a kept connection nor a new one gets any sign of life.
func silent(t *testing.T, e *endpoint) {
	t.Helper()
	c := newCaller(e.address.String())
	defer c.close()
	if _, err := c.call(http.MethodGet); err != nil {
		t.Fatal(err)
	}
	if _, err := swallow(t.Context(), []*endpoint{e}); err != nil {
		t.Fatal(err)
	}
	const wait = 50 * time.Millisecond
	if _, err := c.conn.Write([]byte(requestText(http.MethodGet, serviceName))); err != nil {
		t.Errorf("a write into a black hole must look fine: %v", err)
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(wait))
	if n, err := c.conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read from a black hole: %d %v", n, err)
	}
	conn, err := net.DialTimeout("tcp", e.address.String(), wait)
	if err == nil {
		conn.Close()
		t.Error("connected to a black hole")
	} else if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
		t.Errorf("connect: %v, want silence", err)
	}
}

// TestStartFails: a child that does not start says why.
func TestStartFails(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := start("broken", self, "demo-endpoint", "--listen", "256.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if line, err := p.line(t.Context()); err == nil {
		t.Errorf("it said %q", line)
	}
	if err := p.bury(); err != nil {
		t.Error(err)
	}
	if _, err := start("missing", self+".missing"); err == nil {
		t.Error("started what does not exist")
	}
}
