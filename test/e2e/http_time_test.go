//go:build linux

package e2e

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// TestEventStream (R13): the head before the first event, each event when it is sent. The endpoint sends the next one only after the
// client has the one before, so that anything held back shows.
func TestEventStream(t *testing.T) {
	t.Parallel()
	for _, framing := range []string{"chunked", "close"} {
		t.Run(framing, func(t *testing.T) {
			t.Parallel()
			have := make(chan struct{})
			e := serve(t, func(w *wire) {
				if _, err := w.request(); err != nil {
					return
				}
				w.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
				if framing == "chunked" {
					w.say("Transfer-Encoding: chunked\r\n")
				}
				w.say("\r\n")
				for i := range 6 {
					select {
					case <-have:
					case <-t.Context().Done():
						return
					}
					event := fmt.Sprintf("data: %d\n\n", i)
					if framing == "chunked" {
						event = fmt.Sprintf("%x\r\n%s\r\n", len(event), event)
					}
					w.say(event)
				}
				if framing == "chunked" {
					w.say("0\r\n\r\n")
				}
			})
			s := one(t, "", e)
			c := dial(t, s.outbound())
			c.send("GET / HTTP/1.1\r\nHost: pay\r\n\r\n")
			_ = c.SetReadDeadline(time.Now().Add(waitMax))
			m, err := readHead(c.br)
			if err != nil || !m.has("Transfer-Encoding", "chunked") {
				t.Fatalf("head of the stream: %v %q", err, m.head)
			}
			for i := range 6 {
				start := time.Now()
				have <- struct{}{}
				c.expect(fmt.Sprintf("9\r\ndata: %d\n\n\r\n", i))
				if d := time.Since(start); d > time.Second {
					t.Errorf("event %d took %v", i, d)
				}
			}
			c.expect("0\r\n\r\n")
		})
	}
}

// TestUploadStream passes the pieces of a chunked request on as they come.
func TestUploadStream(t *testing.T) {
	t.Parallel()
	got := make(chan string)
	e := serve(t, func(w *wire) {
		if _, err := readHead(w.br); err != nil {
			return
		}
		b := make([]byte, len("3\r\nabc\r\n"))
		for {
			if _, err := io.ReadFull(w.br, b[:5]); err != nil {
				return
			}
			if string(b[:5]) == "0\r\n\r\n" {
				w.ok("done")
				return
			}
			if _, err := io.ReadFull(w.br, b[5:]); err != nil {
				return
			}
			select {
			case got <- string(b):
			case <-t.Context().Done():
				return
			}
		}
	})
	s := one(t, "", e)
	c := dial(t, s.outbound())
	c.send("POST / HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding: chunked\r\n\r\n")
	for i := range 5 {
		piece := fmt.Sprintf("3\r\n%03d\r\n", i)
		c.send(piece)
		select {
		case g := <-got:
			if g != piece {
				t.Fatalf("the endpoint got %q, want %q", g, piece)
			}
		case <-time.After(waitMax):
			t.Fatalf("piece %d is held back", i)
		}
	}
	c.send("0\r\n\r\n")
	c.want(c.answer("POST"), 200, "done")
}

// TestTimeout (R16): without a head of an answer 504 after the policy's timeout; a stream that is alive is left alone for longer.
func TestTimeout(t *testing.T) {
	t.Parallel()
	e := each(t, func(w *wire, m message) bool {
		if m.path() == "/silent" {
			pace(4 * time.Second) // an endpoint that does not answer in time
			return w.ok("late")
		}
		w.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range 10 {
			pace(300 * time.Millisecond) // a stream that is alive
			w.say("1\r\nx\r\n")
		}
		return w.say("0\r\n\r\n")
	})
	s := one(t, "timeout: 1s", e)
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		for _, method := range []string{"GET", "POST"} {
			c := dial(t, s.outbound())
			start := time.Now()
			c.send(method, " /silent HTTP/1.1\r\nHost: pay\r\nContent-Length: 0\r\n\r\n")
			c.refused(c.answer(method), 504, "timeout")
			if d := time.Since(start); d < 900*time.Millisecond || d > 3*time.Second {
				t.Errorf("%s: 504 after %v, want 1 s", method, d)
			}
		}
	})
	t.Run("stream", func(t *testing.T) {
		t.Parallel()
		c := dial(t, s.outbound())
		c.want(c.get("pay", "/stream"), 200, strings.Repeat("x", 10))
	})
}

// TestPerTryTimeout moves a GET on from an endpoint that is silent, within the timeout of the whole.
func TestPerTryTimeout(t *testing.T) {
	t.Parallel()
	silent := each(t, func(w *wire, _ message) bool { w.gone(waitMax); return false })
	good := named(t, "good")
	s := one(t, "timeout: 5s, balance: round_robin, retry: {attempts: 2, per_try_timeout: 300ms}, health: {passive: {consecutive_failures: 0}}", silent, good)
	c := dial(t, s.outbound())
	for range 4 {
		start := time.Now()
		c.want(c.get("pay", "/"), 200, "good")
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("took %v", d)
		}
	}
	if silent.requests.Load() == 0 {
		t.Error("the silent endpoint was never asked: the test shows nothing")
	}
}

// TestIdleBody cuts a body that stopped moving, without giving it a valid end.
func TestIdleBody(t *testing.T) {
	t.Parallel()
	e := each(t, func(w *wire, _ message) bool {
		w.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart")
		w.gone(waitMax)
		return false
	})
	s := one(t, "idle_timeout: 1s", e)
	c := dial(t, s.outbound())
	c.send("GET / HTTP/1.1\r\nHost: pay\r\n\r\n")
	start := time.Now()
	m, err := readMessage(c.br, "GET")
	if d := time.Since(start); err == nil || string(m.body) != "part" || d < 900*time.Millisecond || d > 5*time.Second {
		t.Errorf("after %v: %v, body %q; want a cut after 1 s", d, err, m.body)
	}
}

// TestClientGone (R22): a client that resets ends the work of the endpoint.
func TestClientGone(t *testing.T) {
	t.Parallel()
	began, ends := make(chan struct{}, 1), make(chan bool, 1)
	e := serve(t, func(w *wire) {
		m, err := w.request()
		if err != nil {
			return
		}
		if m.path() == "/streaming" {
			w.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
		}
		began <- struct{}{}
		_, ended := w.gone(5 * time.Second)
		ends <- ended
	})
	s := one(t, "", e)
	for _, path := range []string{"/thinking", "/streaming"} {
		c := dial(t, s.outbound())
		c.send("GET ", path, " HTTP/1.1\r\nHost: pay\r\n\r\n")
		<-began
		pace(30 * time.Millisecond) // well inside the wait for an answer
		start := time.Now()
		c.reset()
		if !<-ends {
			t.Errorf("%s: the endpoint did not see the end", path)
		}
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("%s: the endpoint saw the end after %v, want 1.3 s at most", path, d)
		}
	}
}

// TestClientHalfClosed (R22): a client that ended its side after the request still gets its answer.
func TestClientHalfClosed(t *testing.T) {
	t.Parallel()
	e := each(t, func(w *wire, _ message) bool {
		pace(300 * time.Millisecond) // an answer that takes its time
		return w.ok("still")
	})
	s := one(t, "", e)
	for _, request := range []string{
		"GET / HTTP/1.0\r\nHost: pay\r\n\r\n", "GET / HTTP/1.1\r\nHost: pay\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: pay\r\nContent-Length: 4\r\n\r\nbody",
		"POST / HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
	} {
		c := dial(t, s.outbound())
		c.send(request)
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		c.want(c.answer("GET"), 200, "still")
		c.ended(waitMax)
	}
}

// TestClientGoneInBody: an upload that breaks off never looks whole to the endpoint.
func TestClientGoneInBody(t *testing.T) {
	t.Parallel()
	ends := make(chan error, 1)
	e := serve(t, func(w *wire) {
		_, err := w.request()
		ends <- err
	})
	s := one(t, "", e)
	for _, head := range []string{"Content-Length: 100\r\n\r\npart", "Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n"} {
		for _, how := range []string{"end", "reset"} {
			c := dial(t, s.outbound())
			c.send("POST / HTTP/1.1\r\nHost: pay\r\n", head)
			pace(20 * time.Millisecond) // what came is on its way to the endpoint
			if how == "reset" {
				c.reset()
			} else {
				_ = c.Close()
			}
			select {
			case err := <-ends:
				if err == nil {
					t.Errorf("%q, %s: the endpoint saw a whole request", head, how)
				}
			case <-time.After(waitMax):
				t.Fatalf("%q, %s: the endpoint still waits", head, how)
			}
		}
	}
}
