//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// one starts a sidecar with the service pay, which has these endpoints in its own datacenter.
func one(t *testing.T, policy string, endpoints ...*endpoint) *sidecar {
	t.Helper()
	var eps []string
	for _, e := range endpoints {
		eps = append(eps, at(e.addr, "dc1"))
	}
	return startSidecar(t, setup{services: service("pay", policy, eps...)})
}

// splitAt sends a text in two segments.
func (w *wire) splitAt(text string, i int) {
	w.say(text[:i])
	if i > 0 && i < len(text) {
		pace(300 * time.Microsecond) // two segments, not one
	}
	w.say(text[i:])
}

// TestFramingSplit cuts small messages at every byte: requests and answers, of known length and chunked.
func TestFramingSplit(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;ext=1\r\nhello\r\n006\r\n world\r\n0\r\n\r\n",
		"trailer": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\nX-Sum: 1\r\n\r\n",
	}
	e := each(t, func(w *wire, m message) bool {
		kind, at, _ := strings.Cut(strings.TrimPrefix(m.path(), "/"), "/")
		i, _ := strconv.Atoi(at)
		if string(m.body) != "ping pong" {
			return w.ok(fmt.Sprintf("bad body %q", m.body))
		}
		w.splitAt(answers[kind], min(i, len(answers[kind])))
		return true
	})
	s := one(t, "", e)
	requests := map[string]string{
		"length":  "POST /%s/%d HTTP/1.1\r\nHost: pay\r\nContent-Length: 9\r\n\r\nping pong",
		"chunked": "POST /%s/%d HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nping\r\n5;a=b\r\n pong\r\n0\r\n\r\n",
		"trailer": "POST /%s/%d HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nping pong\r\n0\r\nX-Sum: 1\r\n\r\n",
	}
	for kind, format := range requests {
		c := dial(t, s.outbound())
		for i := 1; i <= 130; i++ {
			text := fmt.Sprintf(format, kind, i)
			c.splitAt(text, min(i, len(text)))
			m := c.answer("POST")
			if m.status() != 200 || string(m.body) != "hello world" {
				t.Fatalf("%s split at %d: %q %q", kind, i, m.head, m.body)
			}
			if m.chunked != (kind != "length") {
				t.Fatalf("%s: the framing changed: %q", kind, m.head)
			}
		}
	}
	if n := e.conns.Load(); n > 6 {
		t.Errorf("%d connections to the endpoint for three client connections that take turns", n)
	}
}

// TestFramingBig sends bodies that are larger than every buffer, both ways at once.
func TestFramingBig(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("0123456789abcdef"), 256<<10) // 4 MiB
	e := each(t, func(w *wire, m message) bool {
		if !bytes.Equal(m.body, body) {
			return w.ok("bad body")
		}
		if m.chunked {
			w.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for at := 0; at < len(body); at += 100_000 {
				part := body[at:min(at+100_000, len(body))]
				w.say(fmt.Sprintf("%x\r\n%s\r\n", len(part), part))
			}
			return w.say("0\r\n\r\n")
		}
		return w.ok(string(body))
	})
	s := one(t, "", e)
	c := dial(t, s.outbound())
	for range 2 {
		if m := c.post("pay", "/", string(body)); !bytes.Equal(m.body, body) {
			t.Fatalf("length: %d bytes back: %q", len(m.body), tail(string(m.body), 50))
		}
		c.send("POST / HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding: chunked\r\n\r\n")
		for at := 0; at < len(body); at += 77_777 {
			part := body[at:min(at+77_777, len(body))]
			c.send(fmt.Sprintf("%X\r\n", len(part)), string(part), "\r\n")
		}
		c.send("0\r\n\r\n")
		if m := c.answer("POST"); !bytes.Equal(m.body, body) {
			t.Fatalf("chunked: %d bytes back: %q", len(m.body), tail(string(m.body), 50))
		}
	}
}

// TestNoBodyAnswers has answers without a body followed by others on the same connection.
func TestNoBodyAnswers(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"/head":      "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
		"/head-te":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"/204":       "HTTP/1.1 204 No Content\r\n\r\n",
		"/304":       "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\nETag: \"a\"\r\n\r\n",
		"/empty":     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"/no-reason": "HTTP/1.1 299 \r\nContent-Length: 2\r\n\r\nok",
	}
	e := each(t, func(w *wire, m message) bool { return w.say(answers[m.path()]) })
	s := one(t, "", e)
	c := dial(t, s.outbound())
	for range 2 {
		for _, r := range []struct {
			method, path string
			status       int
		}{{"HEAD", "/head", 200}, {"HEAD", "/head-te", 200}, {"GET", "/204", 204}, {"GET", "/304", 304}, {"GET", "/empty", 200}, {"GET", "/no-reason", 299}} {
			c.send(r.method, " ", r.path, " HTTP/1.1\r\nHost: pay\r\n\r\n")
			m := c.answer(r.method)
			if m.status() != r.status {
				t.Fatalf("%s %s: %q", r.method, r.path, m.head)
			}
			if (r.path == "/head" || r.path == "/304") && !m.has("Content-Length", "10") {
				t.Errorf("%s lost its Content-Length: %q", r.path, m.head)
			}
		}
	}
	if n := e.conns.Load(); n != 1 {
		t.Errorf("%d connections to the endpoint, want 1: answers without a body leave the connection usable", n)
	}
}

// TestInterim passes several 1xx answers on, and none of them to an HTTP/1.0 client (RFC 9110 15.2).
func TestInterim(t *testing.T) {
	t.Parallel()
	e := each(t, func(w *wire, _ message) bool {
		w.say("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
		pace(20 * time.Millisecond) // the final answer takes its time
		w.say("HTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n")
		return w.ok("final")
	})
	s := one(t, "", e)
	c := dial(t, s.outbound())
	for range 2 {
		c.send("GET / HTTP/1.1\r\nHost: pay\r\n\r\n")
		for _, want := range []string{"102", "103 </a>", "103 </b>"} {
			m := c.answer("GET")
			link, _ := m.get("Link")
			if got := strings.TrimSpace(fmt.Sprint(m.status(), " ", link)); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
		c.want(c.answer("GET"), 200, "final")
	}
	old := dial(t, s.outbound())
	old.send("GET / HTTP/1.0\r\nHost: pay\r\n\r\n")
	old.want(old.answer("GET"), 200, "final")
}

// TestExpect leaves 100-continue to the endpoint (R03).
func TestExpect(t *testing.T) {
	t.Parallel()
	e := serve(t, func(w *wire) {
		for {
			m, err := readHead(w.br)
			if err != nil {
				return
			}
			if !m.has("Expect", "100-continue") {
				w.ok("no Expect")
				return
			}
			if m.path() == "/refuse" {
				w.say("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
				return
			}
			w.say("HTTP/1.1 100 Continue\r\n\r\n")
			if err := m.readSized(w, 5); err != nil {
				return
			}
			w.ok("got " + string(m.body))
		}
	})
	s := one(t, "", e)
	head := "PUT %s HTTP/1.1\r\nHost: pay\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
	c := dial(t, s.outbound())
	for range 3 {
		c.send(fmt.Sprintf(head, "/take"))
		if m := c.answer("PUT"); m.status() != 100 {
			t.Fatalf("first answer %q, want the endpoint's 100", m.head)
		}
		c.send("hello")
		c.want(c.answer("PUT"), 200, "got hello")
	}
	c.send(fmt.Sprintf(head, "/refuse"))
	m := c.answer("PUT")
	c.want(m, 401, "no")
	if m.reason() != "" {
		t.Errorf("the endpoint's refusal became the proxy's: %q", m.head)
	}
}

// readSized reads a body of n bytes.
func (m *message) readSized(w *wire, n int) error {
	m.body = make([]byte, n)
	for got := 0; got < n; {
		k, err := w.br.Read(m.body[got:])
		if err != nil {
			return err
		}
		got += k
	}
	return nil
}

// TestTrailers passes trailers on both ways (R06).
func TestTrailers(t *testing.T) {
	t.Parallel()
	e := each(t, func(w *wire, m message) bool {
		if !m.has("TE", "trailers") || fmt.Sprint(m.trailer) != "[X-Sum: abc x-two:2]" {
			return w.ok(fmt.Sprintf("head %q trailer %q", m.head, m.trailer))
		}
		return w.say("HTTP/1.1 200 OK\r\nTrailer: X-Out\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Out: 7\r\nContent-Length: 9\r\n\r\n")
	})
	s := one(t, "", e)
	c := dial(t, s.outbound())
	for range 2 {
		c.send("POST / HTTP/1.1\r\nHost: pay\r\nTE: trailers\r\nConnection: TE\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n",
			"3\r\nabc\r\n0\r\nX-Sum: abc\r\nHost: evil\r\nx-two:2\r\n\r\n")
		m := c.answer("POST")
		c.want(m, 200, "ok")
		if fmt.Sprint(m.trailer) != "[X-Out: 7]" {
			t.Fatalf("trailer of the answer %q", m.trailer)
		}
	}
}

// TestPooling uses connections to the endpoint again, one at a time and many.
func TestPooling(t *testing.T) {
	t.Parallel()
	e := each(t, func(w *wire, _ message) bool { return w.ok(fmt.Sprint(w.n)) })
	s := one(t, "", e)
	for range 20 {
		c := dial(t, s.outbound())
		for range 5 {
			c.want(c.get("pay", "/"), 200, "1")
		}
		_ = c.Close()
	}
	if n := e.conns.Load(); n != 1 {
		t.Errorf("100 requests in turn took %d connections, want 1", n)
	}
}

// TestPipelined answers requests that came in one segment in their order.
func TestPipelined(t *testing.T) {
	t.Parallel()
	e := each(t, func(w *wire, m message) bool {
		if m.path() == "/slow" {
			pace(30 * time.Millisecond) // longer than the watch for a client that went away takes to start
		}
		return w.ok(m.path() + string(m.body))
	})
	s := one(t, "", e)
	c := dial(t, s.outbound())
	c.send("GET /slow HTTP/1.1\r\nHost: pay\r\n\r\n",
		"POST /2 HTTP/1.1\r\nHost: pay\r\nContent-Length: 4\r\n\r\nbody",
		"POST /3 HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nmore\r\n0\r\n\r\n",
		"\r\n", // an empty line before a request is harmless (RFC 9112 2.2)
		"GET /4 HTTP/1.1\r\nHost: pay\r\n\r\n")
	for _, want := range []string{"/slow", "/2body", "/3more", "/4"} {
		c.want(c.answer("GET"), 200, want)
	}
}

// TestEarlyAnswer passes an answer on that comes while the body is still being sent, also when the endpoint closes with a reset.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	e := serve(t, func(w *wire) {
		m, err := readHead(w.br)
		if err != nil {
			return
		}
		w.say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
		if m.path() == "/linger" {
			w.gone(waitMax)
		}
	})
	s := one(t, "", e)
	for _, path := range []string{"/linger", "/close"} {
		for _, framing := range []string{"Content-Length: 100000000", "Transfer-Encoding: chunked"} {
			c := dial(t, s.outbound())
			c.send("POST ", path, " HTTP/1.1\r\nHost: pay\r\n", framing, "\r\n\r\n")
			stop := make(chan struct{})
			sent := make(chan int, 1)
			go func() { // the client that goes on sending
				n := 0
				part := "8000\r\n" + strings.Repeat("x", 0x8000) + "\r\n"
				for c.say(part) {
					n += len(part)
					select {
					case <-stop:
						sent <- n
						return
					default:
					}
				}
				sent <- n
			}()
			m := c.answer("POST")
			c.want(m, 413, "big")
			if m.reason() != "" {
				t.Errorf("%s: not the endpoint's answer: %q", path, m.head)
			}
			close(stop)
			_ = c.Close()
			<-sent
		}
	}
}
