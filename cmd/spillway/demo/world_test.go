package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// endpointHere serves an endpoint inside the test and gives its address.
func endpointHere(t *testing.T, o EndpointOptions) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Endpoint(ctx, o, in) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("endpoint: %v", err)
		}
	})
	return strings.TrimSpace(line)
}

func TestEndpointAndClient(t *testing.T) {
	address := endpointHere(t, EndpointOptions{Listen: "127.0.0.1:0", Name: "dc1-1", Datacenter: "dc1"})
	c := newCaller(address)
	defer c.close()
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodGet} {
		a, err := c.call(method)
		if want := (answer{status: 200, endpoint: "dc1-1", datacenter: "dc1"}); err != nil || a != want {
			t.Fatalf("%s: %+v %v, want %+v", method, a, err, want)
		}
	}
	got, err := parallel(t.Context(), address, 100, 4, func(int) {})
	if err != nil || got.requests != 100 || got.errors != 0 || got.endpoints["dc1-1"] != 100 {
		t.Errorf("parallel: %+v %v", got, err)
	}
	if got, err = sequential(t.Context(), address, 100, func(int) {}); err != nil || got.datacenters["dc1"] != 100 {
		t.Errorf("sequential: %+v %v", got, err)
	}
}

// TestClientSendsOnce: a connection that breaks is an error and not a silent second try.
func TestClientSendsOnce(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := make(chan int, 1)
	go func() {
		n := 0
		for {
			c, err := l.Accept()
			if err != nil {
				taken <- n
				return
			}
			n++
			_, _ = http.ReadRequest(bufio.NewReader(c))
			c.Close()
		}
	}()
	c := newCaller(l.Addr().String())
	if a, err := c.call(http.MethodGet); err == nil {
		t.Errorf("answered with %+v", a)
	}
	l.Close()
	if n := <-taken; n != 1 {
		t.Errorf("sent %d times", n)
	}
}

// TestOpenLoad: a request that is answered late delays no other, and the fault comes between two requests.
func TestOpenLoad(t *testing.T) {
	const slow = 50 * time.Millisecond // the endpoint's; the load sends a request each 2 ms
	address := endpointHere(t, EndpointOptions{Listen: "127.0.0.1:0", Name: "dc1-1", Datacenter: "dc1", Delay: slow})
	faults, openMost := 0, 0
	shots, err := openLoad{address: address, requests: 50, every: 2 * time.Millisecond, method: func(int) string { return http.MethodGet },
		faultAt: 10, fault: func() error { faults++; return nil },
		each: func(sent, answered int) { openMost = max(openMost, sent-answered) }}.run(t.Context())
	if err != nil || faults != 1 {
		t.Fatalf("%d faults, %v", faults, err)
	}
	for i, s := range shots {
		if !s.good() {
			t.Errorf("request %d: %+v %v", i, s.answer, s.err)
		}
		if i > 0 && s.due.Sub(shots[i-1].due) != 2*time.Millisecond {
			t.Errorf("request %d is due %v after the one before", i, s.due.Sub(shots[i-1].due))
		}
	}
	if openMost < 3 {
		t.Errorf("at most %d requests were open: they wait for each other", openMost)
	}
}

func TestUsable(t *testing.T) {
	var v shown
	text := `{"services":[
		{"name":"order","tiers":[{"number":0,"datacenter":"dc1","usable":1,"total":2},{"number":1,"datacenter":"dc1","usable":2,"total":2},{"number":2,"datacenter":"dc2","usable":4}]},
		{"name":"pay","tiers":[{"number":0,"datacenter":"dc1","usable":9}]}]}`
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	if near, far := v.usable(nearby), v.usable(faraway); near != 3 || far != 4 {
		t.Errorf("%d and %d usable endpoints, want 3 and 4", near, far)
	}
}

func TestLines(t *testing.T) {
	lines := make(chan string, 2)
	w := &lineWriter{lines: lines}
	for _, part := range []string{"on", "e\ntwo\nthr", "ee\n"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if a, b := <-lines, <-lines; a != "one" || b != "two" || len(lines) != 0 {
		t.Errorf("%q %q and %d more, want one, two and the third dropped", a, b, len(lines))
	}
	var kept tail
	_, _ = kept.Write([]byte(strings.Repeat("x", childTailMax) + "end"))
	if s := kept.String(); len(s) != childTailMax || !strings.HasSuffix(s, "xend") {
		t.Errorf("tail keeps %d bytes", len(s))
	}
}
