//go:build linux

package e2e

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

// tunnelHead asks for a WebSocket connection.
const tunnelHead = "GET /ws HTTP/1.1\r\nHost: pay\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// tunnelEndpoint switches protocols, says "first" in the same segment and echoes from then on. A half-closed tunnel still gets "bye".
func tunnelEndpoint(t *testing.T) *endpoint {
	t.Helper()
	return serve(t, func(w *wire) {
		for {
			m, err := w.request()
			if err != nil {
				return
			}
			connection, _ := m.get("Connection")
			low := strings.ToLower(connection)
			if !strings.Contains(low, "upgrade") || strings.Contains(low, "close") || !m.has("Upgrade", "websocket") || !m.has("Sec-WebSocket-Version", "13") {
				w.ok("no upgrade: " + m.head)
				continue
			}
			if m.path() == "/refuse" {
				w.ok("refused")
				continue
			}
			w.say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\nfirst")
			_, err = io.Copy(w.Conn, w.br)
			if err == nil {
				w.say("bye")
			}
			return
		}
	})
}

// open switches the client's connection to the tunnel and reads the first bytes.
func (c *client) open() {
	c.t.Helper()
	c.send(tunnelHead)
	m := c.answer("GET")
	connection, _ := m.get("Connection")
	if m.status() != 101 || !strings.EqualFold(connection, "upgrade") || !m.has("Upgrade", "websocket") || !m.has("Sec-WebSocket-Accept", "x") {
		c.t.Fatalf("answer to the upgrade: %q %q", m.head, m.body)
	}
	c.expect("first")
}

// expect reads exactly this text.
func (c *client) expect(text string) {
	c.t.Helper()
	b := make([]byte, len(text))
	if n, err := io.ReadFull(c.br, b); err != nil || string(b) != text {
		c.t.Fatalf("got %q (%v), want %q", tail(string(b[:n]), 100), err, tail(text, 100))
	}
}

// TestTunnel passes WebSocket-like connections through (R04): nothing lost around the switch, each direction ends by itself.
func TestTunnel(t *testing.T) {
	t.Parallel()
	s := one(t, "timeout: 1s", tunnelEndpoint(t))
	block := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
	for range 10 {
		c := dial(t, s.outbound())
		c.open()
		go c.say(string(block))
		c.expect(string(block))
		_ = c.CloseWrite()
		c.expect("bye")
		c.ended(waitMax)
	}
	c := dial(t, s.outbound())
	c.send(strings.Replace(tunnelHead, "/ws", "/refuse", 1))
	c.want(c.answer("GET"), 200, "refused")
	c.open() // the connection serves on after a refused upgrade
	c.reset()
}

// TestTunnelOutlivesTimeout leaves a quiet tunnel alone that is older than the policy's timeout, and cuts it when nothing moved for
// idle_timeout.
func TestTunnelOutlivesTimeout(t *testing.T) {
	t.Parallel()
	s := one(t, "timeout: 300ms, idle_timeout: 1500ms", tunnelEndpoint(t))
	c := dial(t, s.outbound())
	c.open()
	for range 4 {
		pace(700 * time.Millisecond) // a tunnel that is quiet, but not for idle_timeout
		c.send("x")
		c.expect("x")
	}
	start := time.Now()
	if _, ended := c.gone(waitMax); !ended || time.Since(start) < time.Second {
		t.Errorf("the idle tunnel ended: %v, after %v, want about 1.5s", ended, time.Since(start))
	}
}

// TestTunnelReset passes a reset of either side to the other.
func TestTunnelReset(t *testing.T) {
	t.Parallel()
	ends := make(chan bool, 1)
	e := serve(t, func(w *wire) {
		m, err := w.request()
		if err != nil {
			return
		}
		w.say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\nfirst")
		if m.has("X-Cut", "") {
			w.reset()
			return
		}
		_, ended := w.gone(waitMax)
		ends <- ended
	})
	s := one(t, "", e)
	c := dial(t, s.outbound())
	c.open()
	c.reset()
	if !<-ends {
		t.Error("the endpoint did not see the client's reset")
	}
	c = dial(t, s.outbound())
	c.send(strings.Replace(tunnelHead, "\r\n\r\n", "\r\nX-Cut: 1\r\n\r\n", 1))
	c.answer("GET")
	if err, ended := c.gone(waitMax); !ended || err == nil {
		t.Errorf("the endpoint's reset came as %v, ended %v", err, ended)
	}
}
