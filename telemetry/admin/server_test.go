package admin

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// serving starts a server on loopback; its handler waits in /slow until the test ends.
func serving(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	srv := Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			_, _ = io.WriteString(w, "begun\n")
			_ = http.NewResponseController(w).Flush()
			<-end
		}
	}))
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() {
		close(end)
		srv.Close()
	})
	return l.Addr().String()
}

// client is one connection.
type client struct {
	net.Conn
	in *bufio.Reader
}

func connect(t *testing.T, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return &client{c, bufio.NewReader(c)}
}

// get asks for a path and reads the head of the answer; the error tells that the connection is closed.
func (c *client) get(path string) (status int, err error) {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, nil
}

// Who holds connections open without using them must keep nobody out: not the probe, not the scraper.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	addr := serving(t)
	held := make([]*client, connectionsMax)
	for i := range held {
		held[i] = connect(t, addr)
		if status, err := held[i].get("/"); status != 200 {
			t.Fatal(status, err)
		}
	}
	for range 10 { // a probe has a connection of its own each time
		probe := connect(t, addr)
		if status, err := probe.get("/"); status != 200 {
			t.Fatalf("a probe got %d, %v", status, err)
		}
		probe.Close()
	}
	closed := 0
	for _, c := range held {
		if _, err := c.get("/"); err != nil {
			closed++
		}
	}
	if closed == 0 || closed > 10 {
		t.Fatalf("%d of %d idle connections made room for 10 probes, one at a time", closed, len(held))
	}
}

// Connections that never say anything make room like those that said something once.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	addr := serving(t)
	for range 3 * connectionsMax {
		connect(t, addr)
	}
	if status, err := connect(t, addr).get("/"); status != 200 {
		t.Fatalf("a probe got %d, %v", status, err)
	}
}

// A server whose connections are all at work takes no more: they would take the descriptors of the data path.
func TestWorkingConnectionsAreBounded(t *testing.T) {
	addr := serving(t)
	held := make([]*client, connectionsMax)
	for i := range held {
		held[i] = connect(t, addr)
		if status, err := held[i].get("/slow"); status != 200 {
			t.Fatal(status, err)
		}
	}
	if status, err := connect(t, addr).get("/"); err == nil {
		t.Fatalf("one more than connectionsMax got %d", status)
	}
	held[0].Close() // the handler is still at work, its connection counts until it ends
}

func TestServerIsBounded(t *testing.T) {
	s := Server(http.NotFoundHandler())
	for name, d := range map[string]time.Duration{"head": s.ReadHeaderTimeout, "request": s.ReadTimeout, "answer": s.WriteTimeout, "idle": s.IdleTimeout} {
		if d <= 0 || d > time.Minute {
			t.Errorf("%s: %v", name, d)
		}
	}
	c := connect(t, serving(t))
	_, _ = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nx: %s\r\n\r\n", strings.Repeat("a", 2*headerMax))
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil || resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Fatal(resp, err)
	}
}
