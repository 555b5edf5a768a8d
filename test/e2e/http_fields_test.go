//go:build linux

package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// heads starts an endpoint that answers with the head that it received, byte for byte.
func heads(t *testing.T) *endpoint {
	t.Helper()
	return each(t, func(w *wire, m message) bool { return w.ok(m.head) })
}

// TestHeadByteForByte keeps the path and the spelling and order of fields.
func TestHeadByteForByte(t *testing.T) {
	t.Parallel()
	s := one(t, "", heads(t))
	c := dial(t, s.outbound())
	for _, head := range []string{
		"GET /a%2Fb/../c;v=1//d?x=%zz&y=1 HTTP/1.1\r\nhOsT: PAY\r\nX-Odd_Name~: v  w\r\nx-request-id: 7\r\nCOOKIE: a=1; b=2\r\nCookie: c=3\r\nx-Bin: \xff\xfe\r\n",
		"PURGE / HTTP/1.1\r\nX-Request-Id: 8\r\nAccept: */*\r\nHost: pay\r\nX-Empty: \r\nUser-Agent: odd/1 (x)\r\n",
		"DELETE /x HTTP/1.1\r\nX-Request-Id: 9\r\nHost: pay\r\nVia: 1.1 before\r\nX-Forwarded-For: 192.0.2.9\r\n",
	} {
		c.send(head, "\r\n")
		m := c.answer("GET")
		if got := string(m.body); m.status() != 200 || got != head {
			t.Errorf("the endpoint got\n%q, sent was\n%q", got, head)
		}
	}
}

// TestRequestID passes an id on and names it in the proxy's own answers.
func TestRequestID(t *testing.T) {
	t.Parallel()
	s := one(t, "", heads(t))
	c := dial(t, s.outbound())
	c.send("GET / HTTP/1.1\r\nHost: pay\r\nX-Request-ID: mine\r\n\r\n")
	if m := c.answer("GET"); !strings.Contains(string(m.body), "X-Request-ID: mine\r\n") {
		t.Errorf("the endpoint got %q", m.body)
	}
	c.send("GET / HTTP/1.1\r\nHost: unknown\r\nX-Request-ID: mine\r\n\r\n")
	if m := c.answer("GET"); !m.has("x-request-id", "mine") {
		t.Errorf("the proxy's own answer does not name the request id: %q", m.head)
	}
}

// TestRequestIDIsMade: a request without an id, or with an empty one, is given one; it is the same at the second proxy and in the log.
func TestRequestIDIsMade(t *testing.T) {
	t.Parallel()
	uuid := regexp.MustCompile(`(?m)^x-request-id: ([0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})\r$`)
	app := heads(t)
	withSidecar(t, app, "dc1", "")
	s := startSidecar(t, setup{services: service("pay", "", sidecarAt(app, "dc1")), more: "telemetry: {access_log: {path: stdout}}\n"})
	c := dial(t, s.outbound())
	seen := map[string]bool{}
	for _, fields := range []string{"", "X-Request-Id: \r\n", ""} {
		c.send("GET / HTTP/1.1\r\nHost: pay\r\n", fields, "\r\n")
		m := c.answer("GET")
		found := uuid.FindAllStringSubmatch(string(m.body), -1)
		if len(found) != 1 || strings.Count(strings.ToLower(string(m.body)), "x-request-id") != 1 || seen[found[0][1]] {
			t.Fatalf("the application got\n%s", m.body)
		}
		seen[found[0][1]] = true
		eventually(t, waitMax, "the id in the log", func() bool { return strings.Contains(s.output.String(), found[0][1]) })
	}
	c.send("GET / HTTP/1.1\r\nHost: unknown\r\n\r\n")
	if m := c.answer("GET"); !uuid.MatchString(m.head) {
		t.Errorf("the proxy's own answer has no id: %q", m.head)
	}

	for mode, named := range map[string]bool{"pass": true, "off": false} {
		s := startSidecar(t, setup{services: service("pay", "", at(app.addr, "dc1")), more: "telemetry: {request_id: " + mode + "}\n"})
		c := dial(t, s.outbound())
		if m := c.get("pay", "/"); strings.Contains(strings.ToLower(string(m.body)), "x-request-id") {
			t.Errorf("%s: the application got\n%s", mode, m.body)
		}
		c.send("GET / HTTP/1.1\r\nHost: pay\r\nX-Request-Id: mine\r\n\r\n")
		if m := c.answer("GET"); !strings.Contains(string(m.body), "X-Request-Id: mine\r\n") {
			t.Errorf("%s: the application got\n%s", mode, m.body)
		}
		c.send("GET / HTTP/1.1\r\nHost: unknown\r\nX-Request-Id: mine\r\n\r\n")
		if m := c.answer("GET"); m.has("x-request-id", "mine") != named {
			t.Errorf("%s: own answer %q", mode, m.head)
		}
	}
}

// TestHopByHop removes hop-by-hop and Connection-nominated fields both ways (R15, RFC 9110 7.6.1).
func TestHopByHop(t *testing.T) {
	t.Parallel()
	e := each(t, func(w *wire, m message) bool {
		return w.say("HTTP/1.1 200 OK\r\nConnection: x-private, keep-alive\r\nX-Private: secret\r\nKeep-Alive: timeout=30\r\n" +
			fmt.Sprintf("Proxy-Connection: keep-alive\r\nX-Public: yes\r\nContent-Length: %d\r\n\r\n%s", len(m.head), m.head))
	})
	s := one(t, "", e)
	c := dial(t, s.outbound())
	c.send("GET / HTTP/1.1\r\nHost: pay\r\nConnection: close-not, X-Secret , keep-alive\r\nx-secret: 1\r\nKeep-Alive: timeout=5\r\n",
		"Proxy-Connection: keep-alive\r\nTE: gzip\r\nX-Open: 1\r\n\r\n")
	m := c.answer("GET")
	got := strings.ToLower(string(m.body))
	for _, bad := range []string{"x-secret", "keep-alive", "proxy-connection", "te: gzip", "connection:"} {
		if strings.Contains(got, bad) {
			t.Errorf("%q reached the endpoint: %q", bad, m.body)
		}
	}
	if !strings.Contains(got, "x-open: 1") {
		t.Errorf("X-Open was lost: %q", m.body)
	}
	if m.has("X-Private", "") || m.has("Keep-Alive", "") || m.has("Proxy-Connection", "") || !m.has("X-Public", "yes") {
		t.Errorf("fields of the answer: %q", m.head)
	}
	c.get("pay", "/") // none of it has closed the connection
}

// TestUpgradeH2C serves a request that asks for h2c as HTTP/1.1 and tells the endpoint nothing of it (R15).
func TestUpgradeH2C(t *testing.T) {
	t.Parallel()
	s := one(t, "", heads(t))
	c := dial(t, s.outbound())
	for _, connection := range []string{"Upgrade, HTTP2-Settings", "upgrade"} {
		c.send("GET / HTTP/1.1\r\nHost: pay\r\nConnection: ", connection, "\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
		m := c.answer("GET")
		got := strings.ToLower(string(m.body))
		if m.status() != 200 || strings.Contains(got, "upgrade") || strings.Contains(got, "http2-settings") {
			t.Errorf("Connection: %s: %q, the endpoint got %q", connection, m.line, got)
		}
	}
}

// TestOwnFields keeps the fields between proxies away from applications and from endpoints without a sidecar, both ways.
func TestOwnFields(t *testing.T) {
	t.Parallel()
	e := each(t, func(w *wire, m message) bool {
		return w.say("HTTP/1.1 503 Service Unavailable\r\nX-Spillway-Reason: overflow\r\nx-spillway-load: 1;u=0.9;h=0;c=1;t=2000\r\n" +
			fmt.Sprintf("X-SPILLWAY-HOP: 1;p=;v=;d=0\r\nx-spillway-anything: 1\r\nX-Mine: 1\r\nContent-Length: %d\r\n\r\n%s", len(m.head), m.head))
	})
	s := one(t, "retry: {attempts: 1}, health: {passive: {consecutive_failures: 0}}", e)
	c := dial(t, s.outbound())
	for i := range 3 {
		c.send("POST / HTTP/1.1\r\nHost: pay\r\nX-Spillway-Hop: 1;p=pay@dc2;v=a;d=3\r\nx-spillway-LOAD: 1;u=0;h=9;c=1;t=9000\r\n",
			"X-Spillway-Target: 127.0.0.1:1\r\nx-spillway-reason: overflow\r\nContent-Length: 0\r\n\r\n")
		m := c.answer("POST")
		if m.status() != 503 || !m.has("X-Mine", "1") {
			t.Fatalf("not the endpoint's answer: %q", m.head)
		}
		if strings.Contains(strings.ToLower(m.head), "x-spillway") {
			t.Errorf("a field of ours from an endpoint without a sidecar reached the application: %q", m.head)
		}
		if strings.Contains(strings.ToLower(string(m.body)), "x-spillway") {
			t.Errorf("a field of ours reached an endpoint without a sidecar: %q", m.body)
		}
		if n := e.requests.Load(); n != int64(i+1) {
			t.Errorf("%d requests at the endpoint after %d: an unread field had an effect", n, i+1)
		}
	}
}

// TestAbsoluteForm routes by the target of the request line and sends the origin form on (R11, RFC 9112 3.2.2).
func TestAbsoluteForm(t *testing.T) {
	t.Parallel()
	s := one(t, "", heads(t))
	c := dial(t, s.outbound())
	for _, r := range []struct{ line, fields, want string }{
		{"GET http://pay/path?q HTTP/1.1", "Host: pay\r\n", "GET /path?q HTTP/1.1"},
		{"GET http://PAY HTTP/1.1", "Host: pay\r\n", "GET / HTTP/1.1"},
		{"GET http://pay?q=1 HTTP/1.1", "Host: pay\r\n", "GET /?q=1 HTTP/1.1"},
		{"OPTIONS * HTTP/1.1", "Host: pay\r\n", "OPTIONS * HTTP/1.1"},
	} {
		c.send(r.line, "\r\n", r.fields, "\r\n")
		m := c.answer("GET")
		line, rest, _ := strings.Cut(string(m.body), "\r\n")
		if m.status() != 200 || line != r.want || !strings.Contains(strings.ToLower(rest), "host: pay\r\n") {
			t.Errorf("%s: %q, the endpoint got %q", r.line, m.line, m.body)
		}
	}
	c.send("GET http://pay/path HTTP/1.1\r\nHost: other\r\n\r\n")
	c.refused(c.answer("GET"), 400, "bad_request")
}

// TestMaxForwards counts down for TRACE and OPTIONS and answers itself at 0 (RFC 9110 7.6.2).
func TestMaxForwards(t *testing.T) {
	t.Parallel()
	e := heads(t)
	s := one(t, "", e)
	for _, method := range []string{"OPTIONS", "TRACE"} {
		c := dial(t, s.outbound())
		c.send(method, " / HTTP/1.1\r\nHost: pay\r\nMax-Forwards: 3\r\n\r\n")
		if m := c.answer(method); !strings.Contains(string(m.body), "Max-Forwards: 2\r\n") {
			t.Errorf("%s: the endpoint got %q", method, m.body)
		}
		before := e.requests.Load()
		c.send(method, " / HTTP/1.1\r\nHost: pay\r\nMax-Forwards: 0\r\n\r\n")
		if m := c.answer(method); m.status() == 0 || m.status() >= 500 || e.requests.Load() != before {
			t.Errorf("%s with Max-Forwards 0: %q, %d requests sent on", method, m.line, e.requests.Load()-before)
		}
	}
	c := dial(t, s.outbound())
	c.send("GET / HTTP/1.1\r\nHost: pay\r\nMax-Forwards: 0\r\n\r\n")
	if m := c.answer("GET"); !strings.Contains(string(m.body), "Max-Forwards: 0\r\n") {
		t.Errorf("Max-Forwards means nothing on GET: %q %q", m.line, m.body)
	}
}

// TestHostNames finds a service by any case of its hosts, with and without the port.
func TestHostNames(t *testing.T) {
	t.Parallel()
	e := heads(t)
	s := startSidecar(t, setup{services: strings.Replace(service("pay", "", at(e.addr, "dc1")), "- name: pay\n",
		"- name: pay\n    hosts: [pay, pay.shop.svc]\n    ports: [{port: 80}]\n", 1)})
	for host, status := range map[string]int{
		"pay": 200, "Pay.SHOP.svc": 200, "pay:80": 200, "pay.shop.svc:80": 200, "pay.shop": 404, "pay:81": 404, "xpay": 404, "pay.shop.svc.x": 404,
	} {
		c := dial(t, s.outbound())
		c.send("GET / HTTP/1.1\r\nHost: ", host, "\r\n\r\n")
		m := c.answer("GET")
		if m.status() != status {
			t.Errorf("Host %q: %q, want %d", host, m.line, status)
		}
		if status == 404 {
			c.refused(m, 404, "no_route")
		}
	}
}

// TestHTTP10 serves clients of HTTP/1.0 (R09): never chunked, closed unless they ask otherwise and the end is known.
func TestHTTP10(t *testing.T) {
	t.Parallel()
	e := each(t, func(w *wire, m message) bool {
		if m.line != "GET "+m.path()+" HTTP/1.1" || strings.Contains(strings.ToLower(m.head), "connection:") {
			return w.ok("sent on as " + m.head)
		}
		switch m.path() {
		case "/chunked":
			return w.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3;x\r\ndef\r\n0\r\nX-T: 1\r\n\r\n")
		case "/close":
			w.say("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabcdef")
			return false
		case "/old":
			w.say("HTTP/1.0 200 OK\r\n\r\nabcdef")
			return false
		}
		return w.ok("abcdef")
	})
	s := one(t, "", e)
	for _, r := range []struct {
		path, connection string
		stays            bool
	}{
		{"/length", "", false}, {"/chunked", "", false}, {"/close", "", false}, {"/old", "", false},
		{"/length", "keep-alive", true}, {"/chunked", "Keep-Alive", false}, {"/close", "keep-alive", false}, {"/length", "close", false},
	} {
		c := dial(t, s.outbound())
		for range 2 {
			c.send("GET ", r.path, " HTTP/1.0\r\nHost: pay\r\n")
			if r.connection != "" {
				c.send("Connection: ", r.connection, "\r\n")
			}
			c.send("\r\n")
			m := c.answer("GET")
			c.want(m, 200, "abcdef")
			if m.has("Transfer-Encoding", "") || m.has("Connection", "keep-alive") != r.stays {
				t.Errorf("%s, Connection %q: %q", r.path, r.connection, m.head)
			}
			if !r.stays {
				c.ended(waitMax)
				break
			}
		}
	}
	c := dial(t, s.outbound())
	c.send("GET / HTTP/1.0\r\n\r\n")
	c.refused(c.answer("GET"), 404, "no_route")
}

// TestOldEndpoint turns answers that end with the connection into chunked ones for HTTP/1.1 clients, who keep their connection.
func TestOldEndpoint(t *testing.T) {
	t.Parallel()
	e := each(t, func(w *wire, m message) bool {
		w.say("HTTP/1."+strings.TrimPrefix(m.path(), "/"), " 200 OK\r\nX-A: 1\r\n\r\nuntil the end")
		return false
	})
	s := one(t, "", e)
	c := dial(t, s.outbound())
	for _, minor := range []string{"0", "1", "0"} {
		m := c.get("pay", "/"+minor)
		c.want(m, 200, "until the end")
		if !m.chunked || !m.has("X-A", "1") || !strings.HasPrefix(m.line, "HTTP/1.1 ") {
			t.Errorf("HTTP/1.%s answer: %q", minor, m.head)
		}
	}
}

// TestConnectionClose closes after the answer when the client says so, and tells it.
func TestConnectionClose(t *testing.T) {
	t.Parallel()
	e := heads(t)
	s := one(t, "", e)
	c := dial(t, s.outbound())
	c.send("GET / HTTP/1.1\r\nHost: pay\r\nConnection: close\r\n\r\n")
	m := c.answer("GET")
	if !m.has("Connection", "close") || strings.Contains(strings.ToLower(string(m.body)), "connection:") {
		t.Errorf("answer %q, the endpoint got %q", m.head, m.body)
	}
	c.ended(waitMax)
	c = dial(t, s.outbound())
	c.get("pay", "/")
	if n := e.conns.Load(); n != 1 {
		t.Errorf("%d connections to the endpoint: the client's close is not the endpoint's", n)
	}
}
