package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

type fakeView struct{}

func (fakeView) Services() any { return map[string]int{"services": 1} }

func (fakeView) Explain(q ExplainQuery) (any, []string, error) {
	if q.Service != "pay" {
		return nil, nil, errors.New("unknown service")
	}
	return map[string]string{"user": q.Headers["x-user-id"]}, []string{"tier 0 dc1", "goes to 10.0.0.1:80 in dc1: nearest"}, nil
}

func pages() http.Handler {
	return Admin(fakeView{}, func() []byte { return []byte("node: {}\n") }, []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:15000")})
}

// A web page in somebody's browser must not read the configuration or change anything: DNS rebinding, foreign origins, other methods.
func TestOnlyLocalReadersAreServed(t *testing.T) {
	for _, c := range []struct {
		name, method, host, path string
		header                   map[string]string
		want                     int
	}{
		{"own address", "GET", "127.0.0.1:15000", "/config", nil, 200},
		{"localhost", "GET", "LOCALHOST:15000", "/services", nil, 200},
		{"own origin", "GET", "127.0.0.1:15000", "/healthz", map[string]string{"Origin": "http://127.0.0.1:15000"}, 200},
		{"evil host", "GET", "evil.example", "/config", nil, 403},
		{"evil host with our prefix", "GET", "127.0.0.1.evil.example", "/config", nil, 403},
		{"our host with another port", "GET", "127.0.0.1:80", "/config", nil, 403},
		{"no host", "GET", "", "/config", nil, 403},
		{"foreign origin", "GET", "127.0.0.1:15000", "/config", map[string]string{"Origin": "http://evil.example"}, 403},
		{"null origin", "GET", "127.0.0.1:15000", "/config", map[string]string{"Origin": "null"}, 403},
		{"own fetch", "GET", "127.0.0.1:15000", "/config", map[string]string{"Sec-Fetch-Site": "same-origin"}, 200},
		{"typed into the address bar", "GET", "127.0.0.1:15000", "/config", map[string]string{"Sec-Fetch-Site": "none"}, 200},
		{"page of another port of this machine", "GET", "localhost:15000", "/config", map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		{"origin of another port", "GET", "localhost:15000", "/config", map[string]string{"Origin": "http://localhost:3000"}, 403},
		{"origin over tls", "GET", "localhost:15000", "/config", map[string]string{"Origin": "https://localhost:15000"}, 403},
		{"evil host with our port", "GET", "127.0.0.1.evil.example:15000", "/config", nil, 403},
		{"evil host that ends like us", "GET", "evil-localhost:15000", "/config", nil, 403},
		{"localhost with a dot", "GET", "localhost.:15000", "/config", nil, 403},
		{"no port", "GET", "localhost", "/config", nil, 403},
		{"another address of the machine", "GET", "127.0.0.2:15000", "/config", nil, 403},
		{"cross-site fetch", "GET", "127.0.0.1:15000", "/config", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"post", "POST", "127.0.0.1:15000", "/services", nil, 405},
		{"head", "HEAD", "127.0.0.1:15000", "/services", nil, 405},
		{"drain is not here", "GET", "127.0.0.1:15000", "/drain", nil, 404},
		{"drain is not here by post", "POST", "127.0.0.1:15000", "/drain", nil, 405},
		{"unknown service", "GET", "127.0.0.1:15000", "/explain?service=x", nil, 404},
		{"no service", "GET", "127.0.0.1:15000", "/explain", nil, 400},
		{"bad header", "GET", "127.0.0.1:15000", "/explain?service=pay&header=x", nil, 400},
		{"index", "GET", "127.0.0.1:15000", "/", nil, 200},
		{"elsewhere", "GET", "127.0.0.1:15000", "/etc", nil, 404},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Host = c.host
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		pages().ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: %d, want %d (%s)", c.name, w.Code, c.want, w.Body)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", c.name, w.Header())
		}
		if got := w.Header().Get("Allow"); (w.Code == 405) != (got == "GET") {
			t.Errorf("%s: Allow %q", c.name, got)
		}
		if got := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'") {
			t.Errorf("%s: policy %q", c.name, got)
		}
		if w.Code != 200 && strings.Contains(w.Body.String(), "node:") {
			t.Errorf("%s: the configuration leaked", c.name)
		}
	}
}

// A listener on every address of the machine is named by the address that a connection came to, and by no other name.
func TestHostsOfAListenerOnEveryAddress(t *testing.T) {
	for _, c := range []struct {
		listen, local, host string
		want                int
	}{
		{"0.0.0.0:15000", "10.1.2.3:15000", "10.1.2.3:15000", 200},
		{"0.0.0.0:15000", "10.1.2.3:15000", "localhost:15000", 200},
		{"0.0.0.0:15000", "10.1.2.3:15000", "10.1.2.4:15000", 403},
		{"0.0.0.0:15000", "10.1.2.3:15000", "10.1.2.3.evil.example:15000", 403},
		{"[::]:15000", "[::ffff:10.1.2.3]:15000", "10.1.2.3:15000", 200},
		{"[::]:15000", "[2001:db8::1]:15000", "[2001:DB8::1]:15000", 200},
		{"127.0.0.1:15000", "10.1.2.3:15000", "10.1.2.3:15000", 403},
		{"127.0.0.1:80", "127.0.0.1:80", "127.0.0.1", 200},
		{"[::1]:80", "[::1]:80", "[::1]", 200},
		{"127.0.0.1:80", "127.0.0.1:80", "localhost", 200},
		{"127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1", 403},
	} {
		h := Admin(fakeView{}, func() []byte { return nil }, []netip.AddrPort{netip.MustParseAddrPort(c.listen)})
		r := httptest.NewRequest("GET", "/healthz", nil)
		r.Host = c.host
		local := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.local))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local))))
		if w.Code != c.want {
			t.Errorf("listens on %s, Host %s at %s: %d, want %d", c.listen, c.host, c.local, w.Code, c.want)
		}
	}
}

func TestExplain(t *testing.T) {
	get := func(path string) string {
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "127.0.0.1:15000"
		w := httptest.NewRecorder()
		pages().ServeHTTP(w, r)
		return w.Body.String()
	}
	if got := get("/explain?service=pay&header=X-User-Id:+17"); !strings.Contains(got, `"user": "17"`) {
		t.Fatal(got)
	}
	if got := get("/explain?service=pay&format=text"); got != "tier 0 dc1\ngoes to 10.0.0.1:80 in dc1: nearest\n" {
		t.Fatal(got)
	}
}

func TestReady(t *testing.T) {
	for _, c := range []struct {
		ok   bool
		path string
		want int
	}{{true, "/", 200}, {true, "/ready", 200}, {false, "/", 503}, {false, "/ready", 503}, {true, "/other", 404}} {
		w := httptest.NewRecorder()
		Ready(func() (bool, string) { return c.ok, "draining" }).ServeHTTP(w, httptest.NewRequest("GET", c.path, nil))
		if w.Code != c.want {
			t.Errorf("%s, ready %v: %d", c.path, c.ok, w.Code)
		}
		if c.want == 503 && w.Body.String() != "draining\n" {
			t.Errorf("%q", w.Body)
		}
	}
}
