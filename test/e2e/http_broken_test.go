//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"
)

// brokenAnswers begin well and break off; each begins its body with "part".
var brokenAnswers = map[string]string{
	"length short":        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart",
	"chunk cut":           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\npart",
	"no last chunk":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n",
	"last chunk cut":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n0\r\n",
	"trailer cut":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n0\r\nX-Sum: 1\r\n",
	"chunk malformed":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\nzz\r\nmore\r\n0\r\n\r\n",
	"until close, reset":  "HTTP/1.1 200 OK\r\n\r\npart",
	"old endpoint, reset": "HTTP/1.0 200 OK\r\n\r\npart",
}

// TestBrokenAnswers passes an answer that broke off on as far as it came and never gives it a valid end: HTTP/1.1 clients miss the
// rest of the length or the last chunk, HTTP/1.0 clients, for whom the close would be the end, see a reset.
func TestBrokenAnswers(t *testing.T) {
	t.Parallel()
	e := each(t, func(w *wire, m message) bool {
		name, _ := m.get("X-Case")
		w.say(brokenAnswers[name])
		pace(5 * time.Millisecond) // what came before the break is on its way
		if strings.Contains(name, "reset") || m.path() == "/reset" {
			w.reset()
		}
		return false
	})
	s := one(t, "health: {passive: {consecutive_failures: 0}}", e)
	for name := range brokenAnswers {
		for _, path := range []string{"/end", "/reset"} {
			for _, version := range []string{"1.1", "1.0"} {
				c := dial(t, s.outbound())
				c.send("GET ", path, " HTTP/", version, "\r\nHost: pay\r\nX-Case: ", name, "\r\n\r\n")
				m, err := readMessage(c.br, "GET")
				what := fmt.Sprintf("%s, %s, client of HTTP/%s", name, path, version)
				switch {
				case err == nil:
					t.Errorf("%s: looks whole: %q %q", what, m.head, m.body)
				case m.status() != 200 || !strings.HasPrefix(string(m.body), "part"):
					t.Errorf("%s: %v, what came was not passed on: %q %q", what, err, m.head, m.body)
				case version == "1.0" && !m.has("Content-Length", "") && !errors.Is(err, syscall.ECONNRESET):
					t.Errorf("%s: ended with %v, want a reset", what, err)
				}
			}
		}
	}
	if n := e.requests.Load(); n != int64(len(brokenAnswers)*4) {
		t.Errorf("%d requests at the endpoint for %d: an answer that had begun was asked for again", n, len(brokenAnswers)*4)
	}
}

// TestBrokenHead gives a POST the proxy's own answer when the endpoint breaks off inside the head.
func TestBrokenHead(t *testing.T) {
	t.Parallel()
	heads := []string{"", "H", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", "HTTP/1.1 103 Early Hints\r\n\r\n"}
	e := each(t, func(w *wire, m message) bool {
		w.say(heads[len(m.body)])
		return false
	})
	s := one(t, "health: {passive: {consecutive_failures: 0}}", e)
	for i := range heads {
		c := dial(t, s.outbound())
		m := c.post("pay", "/", strings.Repeat("x", i))
		if m.status() == 103 {
			m = c.answer("POST")
		}
		c.refused(m, 503, "reset")
	}
	if n := e.requests.Load(); n != int64(len(heads)) {
		t.Errorf("%d POSTs at the endpoint for %d", n, len(heads))
	}
}

// TestStrayBytes never takes bytes that nobody asked for as an answer: not those that follow an answer, nor those that come later.
func TestStrayBytes(t *testing.T) {
	t.Parallel()
	const stray = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"
	e := each(t, func(w *wire, m message) bool {
		switch m.path() {
		case "/with":
			return w.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood", stray)
		case "/chunked":
			return w.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n", stray)
		case "/head":
			return w.say("HTTP/1.1 200 OK\r\nContent-Length: 43\r\n\r\n", stray)
		case "/204":
			return w.say("HTTP/1.1 204 No Content\r\n\r\n", stray)
		case "/later":
			w.ok("good")
			pace(20 * time.Millisecond) // the connection is back in the pool by then
			return w.say(stray)
		}
		return w.ok("good")
	})
	s := one(t, "", e)
	for range 3 {
		for _, path := range []string{"/with", "/chunked", "/head", "/204", "/later"} {
			c := dial(t, s.outbound())
			method := "GET"
			if path == "/head" {
				method = "HEAD"
			}
			c.send(method, " ", path, " HTTP/1.1\r\nHost: pay\r\n\r\n")
			if m := c.answer(method); m.status()/100 != 2 || strings.Contains(string(m.body), "EVIL") {
				t.Fatalf("%s: %q %q", path, m.head, m.body)
			}
			pace(40 * time.Millisecond) // an idle connection on which the stray bytes arrive
			for range 3 {
				if m := c.post("pay", "/", "x"); string(m.body) != "good" {
					t.Fatalf("after %s: %q %q", path, m.head, m.body)
				}
			}
			_ = c.Close()
		}
	}
}

// TestDeadEndpointsAnswers are the proxy's own: nobody listens, and nobody is there at all.
func TestDeadEndpointsAnswers(t *testing.T) {
	t.Parallel()
	s := startSidecar(t, setup{services: service("pay", "", at(newIP()+":8080", "dc1"), at(newIP()+":8080", "dc1")) + service("none", "")})
	c := dial(t, s.outbound())
	for range 3 {
		m := c.post("pay", "/", "x")
		if r := m.reason(); m.status() != 503 || (r != "connect_failure" && r != "no_healthy_endpoint") {
			t.Fatalf("every endpoint refuses: %q %q", m.head, m.body)
		}
		c.refused(m, 503, m.reason())
		c.refused(c.get("none", "/"), 503, "no_healthy_endpoint")
		c.refused(c.get("nobody", "/"), 404, "no_route")
	}
	c.send("CONNECT pay:80 HTTP/1.1\r\nHost: pay:80\r\n\r\n")
	if m, err := readMessage(c.br, "GET"); err == nil && m.reason() == "" {
		t.Errorf("CONNECT: %q", m.head)
	}
}

// TestProxyAnswerLeavesConnection: the proxy's refusal of a request whose body has come whole costs nobody the connection.
func TestProxyAnswerLeavesConnection(t *testing.T) {
	t.Parallel()
	s := one(t, "", named(t, "ok"))
	c := dial(t, s.outbound())
	for range 3 {
		c.refused(c.post("nobody", "/", "0123456789"), 404, "no_route")
		c.want(c.get("pay", "/"), 200, "ok")
	}
	c.send("HEAD / HTTP/1.1\r\nHost: nobody\r\n\r\n")
	if m := c.answer("HEAD"); m.status() != 404 || m.reason() != "no_route" {
		t.Errorf("HEAD: %q", m.head)
	}
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if b, _ := io.ReadAll(c.br); len(b) > 0 {
		t.Errorf("the answer to HEAD has a body: %q", b)
	}
}
