//go:build linux

package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// hidden is a request that a smuggler hides behind an ambiguous one.
const hidden = "GET /hidden HTTP/1.1\r\nHost: pay\r\n\r\n"

// ambiguous requests must be answered 400, and what hides in them must not reach an endpoint (R43, R67, RFC 9112 6.3).
var ambiguous = map[string]string{
	"length and chunked":          "POST / HTTP/1.1\r\nHost: pay\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"chunked and length":          "POST / HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	"lengths that differ":         "POST / HTTP/1.1\r\nHost: pay\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
	"list of lengths that differ": "POST / HTTP/1.1\r\nHost: pay\r\nContent-Length: 5, 6\r\n\r\nhello",
	"empty length":                "POST / HTTP/1.1\r\nHost: pay\r\nContent-Length: \r\n\r\n",
	"length with plus":            "POST / HTTP/1.1\r\nHost: pay\r\nContent-Length: +5\r\n\r\nhello",
	"negative length":             "POST / HTTP/1.1\r\nHost: pay\r\nContent-Length: -5\r\n\r\nhello",
	"hexadecimal length":          "POST / HTTP/1.1\r\nHost: pay\r\nContent-Length: 0x5\r\n\r\nhello",
	"length with a space inside":  "POST / HTTP/1.1\r\nHost: pay\r\nContent-Length: 5 5\r\n\r\nhello",
	"length over 64 bits":         "POST / HTTP/1.1\r\nHost: pay\r\nContent-Length: 18446744073709551621\r\n\r\nhello",
	"chunked twice":               "POST / HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"chunked, chunked":            "POST / HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
	"unknown coding":              "POST / HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
	"chunked not last":            "POST / HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
	"identity":                    "POST / HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
	"vertical tab before chunked": "POST / HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n",
	"space before the colon":      "POST / HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
	"folded line":                 "POST / HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
	"chunked on HTTP/1.0":         "POST / HTTP/1.0\r\nHost: pay\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"line ends with LF alone":     "POST / HTTP/1.1\nHost: pay\nContent-Length: 5\n\nhello",
	"CR alone in a value":         "GET / HTTP/1.1\r\nHost: pay\r\nX: a\rb\r\n\r\n",
	"NUL in a value":              "GET / HTTP/1.1\r\nHost: pay\r\nX: a\x00b\r\n\r\n",
	"name with a space":           "GET / HTTP/1.1\r\nHost: pay\r\nX Y: 1\r\n\r\n",
	"empty name":                  "GET / HTTP/1.1\r\nHost: pay\r\n: 1\r\n\r\n",
	"line without colon":          "GET / HTTP/1.1\r\nHost: pay\r\nabc\r\n\r\n",
	"no Host":                     "GET / HTTP/1.1\r\n\r\n",
	"two Hosts":                   "GET / HTTP/1.1\r\nHost: pay\r\nHost: other\r\n\r\n",
	"Host with a list":            "GET / HTTP/1.1\r\nHost: pay, other\r\n\r\n",
	"Host with a path":            "GET / HTTP/1.1\r\nHost: pay/x\r\n\r\n",
	"Host with a user":            "GET / HTTP/1.1\r\nHost: a@pay\r\n\r\n",
	"unknown version":             "GET / HTTP/1.7\r\nHost: pay\r\n\r\n",
	"version in small letters":    "GET / http/1.1\r\nHost: pay\r\n\r\n",
	"no version":                  "GET /\r\nHost: pay\r\n\r\n",
	"two spaces":                  "GET  / HTTP/1.1\r\nHost: pay\r\n\r\n",
	"control byte in the path":    "GET /a\x01b HTTP/1.1\r\nHost: pay\r\n\r\n",
	"method that is no token":     "G@T / HTTP/1.1\r\nHost: pay\r\n\r\n",
	"path without slash":          "GET path HTTP/1.1\r\nHost: pay\r\n\r\n",
	"asterisk with GET":           "GET * HTTP/1.1\r\nHost: pay\r\n\r\n",
}

// TestAmbiguousRequests refuses each and closes.
func TestAmbiguousRequests(t *testing.T) {
	t.Parallel()
	e := named(t, "ok")
	s := one(t, "", e)
	for name, text := range ambiguous {
		c := dial(t, s.outbound())
		c.send(text, hidden)
		m, err := readMessage(c.br, "GET")
		if err != nil {
			t.Errorf("%s: %v, want a 400", name, err)
			continue
		}
		if m.status() != 400 || m.reason() != "bad_request" || len(m.body) == 0 {
			t.Errorf("%s: %q %q, want 400 bad_request", name, m.head, m.body)
		}
		_ = c.SetReadDeadline(time.Now().Add(waitMax))
		if b, _ := io.ReadAll(c.br); len(b) > 0 {
			t.Errorf("%s: more after the refusal: %q", name, b)
		}
	}
	if n := e.requests.Load(); n != 0 {
		t.Errorf("%d requests reached the endpoint", n)
	}
}

// TestEqualLengths merges repeated lengths that are equal, or refuses them; what goes on has one length.
func TestEqualLengths(t *testing.T) {
	t.Parallel()
	e := each(t, func(w *wire, m message) bool { return w.ok(m.head + string(m.body)) })
	s := one(t, "", e)
	for _, fields := range []string{"Content-Length: 5\r\nContent-Length: 5\r\n", "Content-Length: 5, 5\r\n"} {
		c := dial(t, s.outbound())
		c.send("POST / HTTP/1.1\r\nHost: pay\r\n", fields, "\r\nhello", hidden)
		m := c.answer("POST")
		if m.status() == 400 {
			continue
		}
		got := strings.ToLower(string(m.body))
		if m.status() != 200 || strings.Count(got, "content-length") != 1 || !strings.Contains(got, "content-length: 5\r\n") || !strings.HasSuffix(got, "hello") {
			t.Errorf("%q: %q, the endpoint got %q", fields, m.line, m.body)
		}
	}
}

// TestBrokenChunks refuses bodies whose chunks are malformed; the endpoint never sees them end.
func TestBrokenChunks(t *testing.T) {
	t.Parallel()
	e := named(t, "whole")
	s := one(t, "", e)
	for name, body := range map[string]string{
		"no hexadecimal size":    "zz\r\nhello\r\n0\r\n\r\n",
		"size with 0x":           "0x5\r\nhello\r\n0\r\n\r\n",
		"negative size":          "-5\r\nhello\r\n0\r\n\r\n",
		"size of 17 digits":      "00000000000000005\r\nhello\r\n0\r\n\r\n",
		"size over 63 bits":      "ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
		"data longer than size":  "4\r\nhello\r\n0\r\n\r\n",
		"LF alone after a size":  "5\nhello\r\n0\r\n\r\n",
		"LF alone after data":    "5\r\nhello\n0\r\n\r\n",
		"empty size":             "\r\nhello\r\n0\r\n\r\n",
		"trailer without colon":  "5\r\nhello\r\n0\r\nabc\r\n\r\n",
		"trailer of 1 MiB":       "5\r\nhello\r\n0\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 1000) + "\r\n",
		"extensions of 1 MiB":    "5;" + strings.Repeat("x", 1<<20) + "\r\nhello\r\n0\r\n\r\n",
		"folded line in trailer": "5\r\nhello\r\n0\r\nA: b\r\n c\r\n\r\n",
	} {
		for _, whole := range []bool{true, false} { // in one segment with the head, or after it
			c := dial(t, s.outbound())
			head := "POST / HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding: chunked\r\n\r\n"
			if whole {
				c.say(head, body, hidden)
			} else {
				c.say(head)
				pace(2 * time.Millisecond) // the head goes on to the endpoint before the body comes
				c.say(body, hidden)
			}
			m, err := readMessage(c.br, "POST")
			if err == nil && (m.status() != 400 || m.reason() != "bad_request") {
				t.Errorf("%s: %q %q, want 400 or a closed connection", name, m.head, m.body)
			}
			if _, ended := c.gone(waitMax); !ended {
				t.Errorf("%s: the connection stays open", name)
			}
		}
	}
	if n := e.requests.Load(); n != 0 {
		t.Errorf("%d requests looked whole to the endpoint", n)
	}
}

// TestAmbiguousAnswers never passes an answer on whose length is in doubt.
func TestAmbiguousAnswers(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"lengths that differ":  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
		"list that differs":    "HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello!",
		"empty length":         "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\nhello",
		"length with plus":     "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
		"length and chunked":   "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"unknown coding":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
		"chunked not last":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
		"no status line":       "hello\r\n\r\n",
		"status of two digits": "HTTP/1.1 20 OK\r\n\r\n",
		"folded line":          "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
		"space before colon":   "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello",
		"head of 1 MiB":        "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
		"switching unasked":    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
	}
	e := each(t, func(w *wire, m message) bool {
		name, _ := m.get("X-Case")
		w.say(answers[name])
		return true
	})
	s := one(t, "health: {passive: {consecutive_failures: 0}}", e)
	for name := range answers {
		c := dial(t, s.outbound())
		c.send("POST / HTTP/1.1\r\nHost: pay\r\nContent-Length: 0\r\nX-Case: ", name, "\r\n\r\n")
		m, err := readMessage(c.br, "POST")
		if err == nil && (m.status()/100 != 5 || m.reason() == "") {
			t.Errorf("%s: %q %q, want the proxy's refusal or a broken connection", name, m.head, tail(string(m.body), 100))
		}
	}
}

// TestGarbage sends what is no HTTP to the outbound and inbound listeners: each ends in the stated answer or a closed connection.
func TestGarbage(t *testing.T) {
	t.Parallel()
	e := named(t, "ok")
	s := startSidecar(t, setup{
		inbound: "ports: [{port: 8080, protocol: http}]", limits: "head_timeout: 1s", trusted: true, services: service("pay", "", at(e.addr, "dc1")),
	})
	noise := make([]byte, 4096)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	hello := "\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + string(noise[:194])
	var wg sync.WaitGroup
	for _, listener := range []string{s.outbound(), s.inbound()} {
		for name, text := range map[string]string{
			"random bytes": string(noise), "TLS hello": hello, "HTTP/2 preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
			"one byte and silence": "G", "half a head and silence": "GET / HTTP/1.1\r\nHost: p", "line ends alone": "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n",
			"zero bytes": strings.Repeat("\x00", 1000), "1 MiB of header": "", "10,000 fields": "", "1 MiB of path": "",
		} {
			wg.Go(func() { garbage(t, listener, name, text) })
		}
	}
	wg.Wait()
	if n := e.requests.Load(); n != 0 {
		t.Errorf("%d requests reached the endpoint", n)
	}
	c := dial(t, s.outbound())
	c.want(c.get("pay", "/"), 200, "ok")
}

func garbage(t *testing.T, listener, name, text string) {
	c := dial(t, listener)
	status := ""
	switch name {
	case "1 MiB of header":
		text, status = "GET / HTTP/1.1\r\nHost: pay\r\nX: "+strings.Repeat("x", 1<<20), "431"
	case "10,000 fields":
		text, status = "GET / HTTP/1.1\r\nHost: pay\r\n"+strings.Repeat("X: y\r\n", 10_000)+"\r\n", "431"
	case "1 MiB of path":
		text, status = "GET /"+strings.Repeat("x", 1<<20), "431"
	case "half a head and silence", "one byte and silence":
		status = "408"
	}
	go c.say(text)
	start := time.Now()
	_ = c.SetReadDeadline(time.Now().Add(waitMax))
	m, err := readMessage(c.br, "GET")
	if err == nil {
		if m.status()/100 != 4 || m.reason() == "" {
			t.Errorf("%s at %s: %q", name, listener, m.head)
		}
		if status != "" && fmt.Sprint(m.status()) != status {
			t.Errorf("%s at %s: %q, want %s", name, listener, m.head, status)
		}
	} else if status == "431" {
		t.Errorf("%s at %s: %v, want 431", name, listener, err)
	}
	if _, ended := c.gone(waitMax); !ended {
		t.Errorf("%s at %s: still open after %v", name, listener, time.Since(start))
	}
}
