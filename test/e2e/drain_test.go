//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// drainEndpoint has slow answers, streams, and answers after an upload.
func drainEndpoint(t *testing.T) *endpoint {
	t.Helper()
	return each(t, func(w *wire, m message) bool {
		switch m.path() {
		case "/slow":
			pace(1200 * time.Millisecond) // the work of a slow endpoint
		case "/stream":
			w.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for range 8 {
				pace(200 * time.Millisecond) // a stream that is alive
				w.say("1\r\nx\r\n")
			}
			return w.say("0\r\n\r\n")
		}
		return w.ok(fmt.Sprint("got ", len(m.body)))
	})
}

// TestDrainOutbound (R37): 5 slow answers, 3 streams and a half-sent upload, then SIGTERM: all nine end well, kept connections are
// told to close, and the process ends by itself.
func TestDrainOutbound(t *testing.T) {
	t.Parallel()
	s := startSidecar(t, setup{drain: "announce: 500ms, timeout: 12s", services: service("pay", "", at(drainEndpoint(t).addr, "dc1"))})
	var wg sync.WaitGroup
	began := make(chan struct{}, 9)
	exchange := func(first, second, body string) {
		c := dial(t, s.outbound())
		wg.Go(func() {
			c.say(first)
			began <- struct{}{}
			if second != "" {
				pace(1500 * time.Millisecond) // the second half comes during the drain
				c.say(second)
			}
			m, err := readMessage(c.br, "POST")
			if err != nil || m.status() != 200 || string(m.body) != body {
				t.Errorf("%q: %v %q %q", first, err, m.head, m.body)
			}
			// A stream's head was written before the drain began; who answers later says that the connection ends.
			if !m.chunked && !m.has("Connection", "close") {
				t.Errorf("not told to close: %q", m.head)
			}
		})
	}
	for range 5 {
		exchange("GET /slow HTTP/1.1\r\nHost: pay\r\n\r\n", "", "got 0")
	}
	for range 3 {
		exchange("GET /stream HTTP/1.1\r\nHost: pay\r\n\r\n", "", "xxxxxxxx")
	}
	exchange("POST /up HTTP/1.1\r\nHost: pay\r\nContent-Length: 10\r\n\r\n01234", "56789", "got 10")
	kept := dial(t, s.outbound())
	kept.get("pay", "/")
	for range 9 {
		<-began
	}
	eventually(t, waitMax, "all nine are on their way", func() bool { return s.metric(t, "go_goroutines") > 0 })
	pace(100 * time.Millisecond) // the requests are at the endpoint
	s.signal(syscall.SIGTERM)
	eventually(t, 2*time.Second, "readiness says draining", func() bool { code, _ := get(s.ready(), "/ready"); return code == 503 })
	if m := kept.get("pay", "/"); m.status() != 200 || !m.has("Connection", "close") {
		t.Errorf("a request on a kept connection while draining: %q", m.head)
	}
	kept.ended(waitMax)
	wg.Wait()
	if code := s.waitExit(t, 5*time.Second); code != 0 {
		t.Errorf("exit code %d after a drain", code)
	}
}

// TestDrainIdle closes idle connections after the announcement and ends with 0; the unix socket asks for a drain as SIGTERM does.
func TestDrainIdle(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"signal", "socket"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := startSidecar(t, setup{drain: "announce: 500ms, timeout: 10s", services: service("pay", "", at(named(t, "ok").addr, "dc1"))})
			c := dial(t, s.outbound())
			c.get("pay", "/")
			start := time.Now()
			if how == "signal" {
				s.signal(syscall.SIGTERM)
			} else if code := s.postDrain(t); code/100 != 2 {
				t.Fatalf("POST /drain: %d", code)
			}
			c.ended(waitMax)
			if d := time.Since(start); d < 400*time.Millisecond {
				t.Errorf("an idle connection was closed %v after the signal, before the announcement was over", d)
			}
			if code := s.waitExit(t, 5*time.Second); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// postDrain asks for a drain through the unix socket.
func (s *sidecar) postDrain(t *testing.T) int {
	t.Helper()
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", s.socket()) },
	}}
	res, err := c.Post("http://localhost/drain", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// TestDrainTimeout cuts what remains at drain.timeout and still ends with 0; a second signal ends at once with 1.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	for _, second := range []bool{false, true} {
		t.Run(fmt.Sprint("second signal ", second), func(t *testing.T) {
			t.Parallel()
			limit := 1500 * time.Millisecond
			if second {
				limit = time.Minute
			}
			s := startSidecar(t, setup{drain: fmt.Sprintf("announce: 200ms, timeout: %s", limit), services: service("pay", "", at(tunnelEndpoint(t).addr, "dc1"))})
			c := dial(t, s.outbound())
			c.open()
			start := time.Now()
			s.signal(syscall.SIGTERM)
			pace(600 * time.Millisecond) // the announcement is over; the tunnel has time left
			c.send("alive")
			c.expect("alive")
			want := 0
			if second {
				s.signal(syscall.SIGTERM)
				want = 1
			}
			if code := s.waitExit(t, 5*time.Second); code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
			if d := time.Since(start); !second && d < limit-200*time.Millisecond {
				t.Errorf("the tunnel was cut after %v, it had %v", d, limit)
			}
			if _, ended := c.gone(waitMax); !ended {
				t.Error("the tunnel is still open")
			}
		})
	}
}

// TestDrainInbound: a draining inbound side keeps serving while it announces, tells callers to close, and ends when it is empty.
func TestDrainInbound(t *testing.T) {
	t.Parallel()
	e := drainEndpoint(t)
	car := prepareSidecar(t, setup{inbound: "ports: [{port: 8080, protocol: http}]", trusted: true, drain: "announce: 800ms, timeout: 10s"}, e.ip)
	car.start(t)
	car.waitReady(t)
	request := func(path string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: pay\r\nx-spillway-target: " + e.addr + "\r\n\r\n"
	}
	kept, slow := dial(t, car.inbound()), dial(t, car.inbound())
	kept.send(request("/"))
	kept.want(kept.answer("GET"), 200, "got 0")
	slow.send(request("/slow"))
	pace(50 * time.Millisecond) // the slow request is at the application
	car.signal(syscall.SIGTERM)
	eventually(t, 2*time.Second, "readiness says draining", func() bool { code, _ := get(car.ready(), "/ready"); return code == 503 })
	fresh := dial(t, car.inbound())
	for _, c := range []*client{fresh, kept} { // a POST that arrives in the announcement must not be lost
		c.send(strings.Replace(request("/"), "GET", "POST", 1))
		m := c.answer("POST")
		refusal := m.status() == 503 && m.reason() == "draining"
		if (m.status() != 200 && !refusal) || !m.has("Connection", "close") {
			t.Errorf("while announcing: %q %q", m.head, m.body)
		}
	}
	m := slow.answer("GET")
	slow.want(m, 200, "got 0")
	if code := car.waitExit(t, 5*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestShutdownUnderNewConnections (R66): new connections while the process ends are refused or served, never accepted and reset.
func TestShutdownUnderNewConnections(t *testing.T) {
	t.Parallel()
	s := startSidecar(t, setup{drain: "announce: 500ms, timeout: 5s", services: service("pay", "", at(named(t, "ok").addr, "dc1"))})
	var mu sync.Mutex
	served, refused, reset := 0, 0, 0
	var wg sync.WaitGroup
	for i := range 300 {
		if i == 60 {
			s.signal(syscall.SIGTERM)
		}
		pace(5 * time.Millisecond) // 200 new connections a second
		wg.Go(func() {
			c, err := net.DialTimeout("tcp4", s.outbound(), waitMax)
			if err != nil {
				mu.Lock()
				refused++
				mu.Unlock()
				return
			}
			defer c.Close()
			w := newWire(c, 0)
			w.say("POST / HTTP/1.1\r\nHost: pay\r\nContent-Length: 1\r\n\r\nx")
			m, err := readMessage(w.br, "POST")
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, syscall.ECONNRESET) && m.head == "" {
				reset++
				return
			}
			if err != nil || m.status() != 200 {
				t.Errorf("accepted, then %v %q", err, m.head)
			}
			served++
		})
	}
	wg.Wait()
	if code := s.waitExit(t, waitMax); code != 0 {
		t.Errorf("exit code %d", code)
	}
	// The kernel may complete one connection between the last look at its queue and the close of the socket.
	if reset > 1 {
		t.Errorf("%d connections were made and reset", reset)
	}
	t.Logf("%d served, %d refused, %d reset", served, refused, reset)
}

// TestInboundTargets (inbound never routes): straight to the listener only a trusted peer that names a declared port is served.
func TestInboundTargets(t *testing.T) {
	t.Parallel()
	e := each(t, func(w *wire, m message) bool { return w.ok(m.head) })
	for _, trusted := range []bool{true, false} {
		car := prepareSidecar(t, setup{inbound: "ports: [{port: 8080, protocol: http}]", trusted: trusted, services: service("pay", "", at(e.addr, "dc1"))}, e.ip)
		car.start(t)
		car.waitReady(t)
		for target, want := range map[string]bool{
			"x-spillway-target: " + e.addr + "\r\n": trusted, "": false,
			"x-spillway-target: " + e.ip + ":8081\r\n":                                     false,
			"x-spillway-target: " + e.ip + ":15000\r\n":                                    false,
			"x-spillway-target: here\r\n":                                                  false,
			"x-spillway-target: " + e.addr + "\r\nx-spillway-target: " + e.ip + ":9\r\n":   false,
			"x-spillway-target: " + e.addr + ", " + e.addr + "\r\n":                        false,
			"x-spillway-target: " + e.addr + "\r\nX-Spillway-Hop: 1;p=pay@dc1;v=a;d=1\r\n": trusted,
		} {
			c := dial(t, car.inbound())
			c.send("GET /x HTTP/1.1\r\nHost: pay\r\n", target, "\r\n")
			m, err := readMessage(c.br, "GET")
			if served := err == nil && m.status() == 200; served != want {
				t.Errorf("trusted %v, %q: %v %q", trusted, target, err, m.head)
			}
			if strings.Contains(strings.ToLower(string(m.body)), "x-spillway-") {
				t.Errorf("the application saw %q", m.body)
			}
			if err != nil && err != io.EOF && !strings.Contains(err.Error(), "reset") {
				t.Errorf("trusted %v, %q: %v", trusted, target, err)
			}
		}
		car.signal(syscall.SIGKILL)
		car.waitExit(t, waitMax)
	}
}

// TestInboundConcurrency: a receiver at its limit refuses with overflow, which the caller's proxy sends elsewhere, a POST too.
func TestInboundConcurrency(t *testing.T) {
	t.Parallel()
	full, release := holder(t)
	other := named(t, "other")
	car := prepareSidecar(t, setup{inbound: "ports: [{port: 8080, protocol: http}], concurrency_max: 2", trusted: true}, full.ip)
	car.start(t)
	car.waitReady(t)
	car2 := prepareSidecar(t, setup{inbound: "ports: [{port: 8080, protocol: http}]", trusted: true}, other.ip)
	car2.start(t)
	car2.waitReady(t)
	s := startSidecar(t, setup{trusted: true, services: service("pay", "balance: round_robin",
		at(full.addr, "dc1", "sidecar: 15006"), at(other.addr, "dc1", "sidecar: 15006"))})
	held := 0
	var waiting []*client
	for range 40 {
		c := dial(t, s.outbound())
		c.send("POST / HTTP/1.1\r\nHost: pay\r\nContent-Length: 1\r\n\r\nx")
		waiting = append(waiting, c)
		_ = c.SetReadDeadline(time.Now().Add(60 * time.Millisecond))
		if _, err := c.br.Peek(1); err != nil {
			held++
		}
		_ = c.SetReadDeadline(time.Now().Add(waitMax))
	}
	if held != 2 || full.requests.Load() != 2 {
		t.Errorf("%d requests are held, %d reached the full endpoint, want 2", held, full.requests.Load())
	}
	release()
	for _, c := range waiting {
		if m := c.answer("POST"); m.status() != 200 {
			t.Errorf("answer %q %q", m.head, m.body)
		}
	}
}
