package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
		if w.Code != 200 && strings.Contains(w.Body.String(), "node:") {
			t.Errorf("%s: the configuration leaked", c.name)
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
	if got := get("/explain?service=pay&header=X-User-Id:17"); !strings.Contains(got, `"user": "17"`) {
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

func TestControlSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "admin.sock")
	l, err := ListenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", st.Mode(), err)
	}
	if _, err := ListenSocket(path); err == nil || !strings.Contains(err.Error(), "another process answers") {
		t.Fatalf("a socket in use: %v", err)
	}
	drained := make(chan struct{})
	srv := Server(Socket(func() { close(drained) }))
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) }}}
	resp, err := client.Get("http://socket/drain")
	if err != nil || resp.StatusCode != 405 {
		t.Fatalf("GET: %v %v", resp, err)
	}
	resp.Body.Close()
	resp, err = client.Post("http://socket/drain", "", nil)
	if err != nil || resp.StatusCode != 202 {
		t.Fatalf("POST: %v %v", resp, err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	<-drained
}

func TestStaleSocketIsReplacedAndFilesAreNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	l, err = ListenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenSocket(path); err == nil {
		t.Fatal("a file was replaced")
	}
}
