//go:build linux

package e2e

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// tcpService starts a sidecar whose port 3306 belongs to the TCP service db.
func tcpService(t *testing.T, policy string, endpoints ...string) *sidecar {
	t.Helper()
	return startSidecar(t, setup{
		outbound: `ports: [{listen: "$IP:3306", service: db, protocol: tcp}]`, trusted: true,
		services: service("db", policy, endpoints...),
	})
}

func (s *sidecar) db() string { return s.ip + ":3306" }

// echo sends everything back and says "bye" after the end of input.
func echo(w *wire) {
	if _, err := io.Copy(w.Conn, w.br); err == nil {
		w.say("bye")
	}
}

// TestTCPEcho sends 1 MiB there and back, by a direct endpoint and by one with a sidecar.
func TestTCPEcho(t *testing.T) {
	t.Parallel()
	block := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	for _, way := range []string{"direct", "sidecar"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			e := serve(t, echo)
			ep := at(e.addr, "dc1")
			if way == "sidecar" {
				car := prepareSidecar(t, setup{inbound: "ports: [{port: 8080, protocol: tcp}]", trusted: true}, e.ip)
				car.start(t)
				car.waitReady(t)
				ep = at(e.addr, "dc1", "sidecar: 15006")
			}
			s := tcpService(t, "", ep)
			for range 3 {
				c := dial(t, s.db())
				go func() {
					c.say(string(block))
					_ = c.CloseWrite()
				}()
				got, err := io.ReadAll(c.br)
				if err != nil || !bytes.Equal(got, append(bytes.Clone(block), "bye"...)) {
					t.Fatalf("%d bytes back, %v", len(got), err)
				}
			}
		})
	}
}

// TestTCPHalfClose ends each direction by itself (R38).
func TestTCPHalfClose(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	e := serve(t, func(w *wire) {
		w.say("hello") // the server speaks first, and ends its side first
		_ = w.CloseWrite()
		b, err := io.ReadAll(w.br)
		if err != nil {
			b = append(b, err.Error()...)
		}
		got <- string(b)
	})
	s := tcpService(t, "", at(e.addr, "dc1"))
	c := dial(t, s.db())
	b, err := io.ReadAll(c.br)
	if err != nil || string(b) != "hello" {
		t.Fatalf("first words %q %v", b, err)
	}
	for range 5 {
		pace(30 * time.Millisecond) // a client that goes on after the server's end
		c.send("more")
	}
	_ = c.CloseWrite()
	if g := <-got; g != "moremoremoremoremore" {
		t.Errorf("the endpoint got %q", g)
	}
}

// TestTCPReset passes a reset of either side on as a reset (R38).
func TestTCPReset(t *testing.T) {
	t.Parallel()
	ends := make(chan error, 1)
	e := serve(t, func(w *wire) {
		b := make([]byte, 1)
		if _, err := io.ReadFull(w.br, b); err != nil {
			return
		}
		if b[0] == 'r' {
			w.reset()
			return
		}
		err, ended := w.gone(waitMax)
		if ended && err == nil {
			err = io.EOF
		}
		ends <- err
	})
	s := tcpService(t, "", at(e.addr, "dc1"))
	c := dial(t, s.db())
	c.send("r")
	if err, ended := c.gone(waitMax); !ended || err == nil {
		t.Errorf("the endpoint's reset came as %v, ended %v", err, ended)
	}
	c = dial(t, s.db())
	c.send("x")
	pace(50 * time.Millisecond) // the byte has reached the endpoint
	c.reset()
	if err := <-ends; err == nil || err == io.EOF {
		t.Errorf("the client's reset came as %v", err)
	}
}

// TestTCPRefused goes on to the next endpoint, also in the next datacenter, and closes when there is none.
func TestTCPRefused(t *testing.T) {
	t.Parallel()
	e := serve(t, echo)
	s := tcpService(t, "", at(newIP()+":8080", "dc1"), at(newIP()+":8080", "dc1"), at(e.addr, "dc2"))
	for range 10 {
		c := dial(t, s.db())
		c.send("ping")
		c.expect("ping")
		_ = c.Close()
	}
	e.stop()
	if !turnedAway(s.db()) {
		t.Error("the connection stays open though nobody is there")
	}
}

// turnedAway connects and tells whether the connection is ended from the other side. A reset may come before connect has returned.
func turnedAway(addr string) bool {
	c, err := net.DialTimeout("tcp4", addr, waitMax)
	if err != nil {
		return errors.Is(err, syscall.ECONNRESET)
	}
	defer c.Close()
	_, ended := newWire(c, 0).gone(waitMax)
	return ended
}

// TestTCPBulkhead refuses connections over the limit of the cluster by closing them.
func TestTCPBulkhead(t *testing.T) {
	t.Parallel()
	e := serve(t, echo)
	s := tcpService(t, "bulkhead: {local: {connections: 2, pending: 1}}, connect_timeout: {local: 500ms}, timeout: 500ms", at(e.addr, "dc1"))
	var open []*client
	for range 2 {
		c := dial(t, s.db())
		c.send("ping")
		c.expect("ping")
		open = append(open, c)
	}
	for range 3 {
		if !turnedAway(s.db()) {
			t.Error("a connection over the limit stays open")
		}
	}
	for _, c := range open {
		c.send("pong")
		c.expect("pong")
		_ = c.CloseWrite()
		c.expect("bye")
	}
	eventually(t, waitMax, "the connections are given back", func() bool {
		c, err := net.DialTimeout("tcp4", s.db(), waitMax)
		if err != nil {
			return false
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = c.Write([]byte("x"))
		_, err = io.ReadFull(c, make([]byte, 1))
		return err == nil
	})
}

// TestTCPWeightZero (R69): no new connections for an endpoint of weight 0, the open one lives.
func TestTCPWeightZero(t *testing.T) {
	t.Parallel()
	old := serve(t, echo)
	next := serve(t, func(w *wire) { w.say("next"); echo(w) })
	c := discovered("")
	c.outbound = `ports: [{listen: "$IP:3306", service: db, protocol: tcp}]`
	s := prepareSidecar(t, c, newIP())
	put(t, s, "services:\n"+service("db", "", at(old.addr, "dc1")))
	s.start(t)
	s.waitReady(t)
	kept := dial(t, s.db())
	kept.send("ping")
	kept.expect("ping")
	put(t, s, "services:\n"+service("db", "", at(old.addr, "dc1", "weight: 0"), at(next.addr, "dc1")))
	eventually(t, 4*time.Second, "new connections go to the other endpoint", func() bool {
		c := dial(t, s.db())
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		b := make([]byte, 4)
		_, err := io.ReadFull(c.br, b)
		return err == nil && string(b) == "next"
	})
	n := old.conns.Load()
	for range 10 {
		c := dial(t, s.db())
		c.expect("next")
		_ = c.Close()
	}
	if old.conns.Load() != n {
		t.Error("a new connection went to an endpoint of weight 0")
	}
	kept.send("still")
	kept.expect("still")
}

// TestTCPDatacenterKilled leaves a killed datacenter without a failed connect.
func TestTCPDatacenterKilled(t *testing.T) {
	t.Parallel()
	a, b, far := serve(t, echo), serve(t, echo), serve(t, func(w *wire) { echo(w) })
	s := tcpService(t, "", at(a.addr, "dc1"), at(b.addr, "dc1"), at(far.addr, "dc2"))
	for i := range 40 {
		if i == 10 {
			a.stop()
			b.stop()
		}
		c := dial(t, s.db())
		c.send("ping")
		c.expect("ping")
		_ = c.Close()
	}
	if a.conns.Load()+b.conns.Load() != 10 || far.conns.Load() != 30 {
		t.Errorf("connections: %d and %d in dc1, %d in dc2; want 10 and 30", a.conns.Load(), b.conns.Load(), far.conns.Load())
	}
}
