package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"spillway/discovery"
	"spillway/proxy/hop"
	"spillway/proxy/http1"
	"spillway/proxy/http1/codec"
	"spillway/proxy/locality"
	"spillway/telemetry/metric"
)

func policy() discovery.Policy {
	return discovery.Policy{
		Locality: discovery.LocalityPolicy{Overprovisioning: 140, PanicThreshold: 50, Tiers: []discovery.TierLevel{discovery.TierZone, discovery.TierRegion}, TierEndpointsMin: 2},
		Health: discovery.HealthPolicy{ChecksPerSecMax: 200, Passive: discovery.PassiveHealth{ConsecutiveFailures: 3, Window: 10 * time.Second,
			Ejection: 5 * time.Second, EjectionMax: time.Minute, MaxEjectedPercent: 50}},
		Bulkhead: discovery.BulkheadPolicy{Local: discovery.BulkheadLimits{Connections: 1024, Pending: 1024, Requests: 4096, Retries: 64},
			CrossDatacenter: discovery.BulkheadLimits{Connections: 64, Pending: 128, Requests: 512, Retries: 32}},
		Retry:   discovery.RetryPolicy{Attempts: 2, ResendMax: 5, On: discovery.OnResetBeforeResponse | discovery.OnGatewayError, Budget: 0.2},
		Timeout: 15 * time.Second, Connect: discovery.ConnectTimeout{Local: time.Second, CrossDatacenter: 3 * time.Second}, IdleAfter: time.Minute,
	}
}

var (
	dc1 = discovery.Locality{Region: "dc1", Zone: "dc1-a"}
	dc2 = discovery.Locality{Region: "dc2", Zone: "dc2-a"}
)

func service(p discovery.Policy, endpoints ...discovery.Endpoint) discovery.Service {
	for i := range endpoints {
		if endpoints[i].Locality == (discovery.Locality{}) {
			endpoints[i].Locality = dc1
		}
		endpoints[i].Weight = 1
	}
	return discovery.Service{Name: "pay", Hosts: []string{"pay"}, Endpoints: endpoints, Policy: &p}
}

// start runs a proxy on loopback that routes by Host, and gives the address of its outbound listener.
func start(t testing.TB, services ...discovery.Service) (*Proxy, string) {
	t.Helper()
	cfg := Config{Place: locality.Place{Home: dc1, Order: []string{"dc1", "dc2"}, Levels: policy().Locality.Tiers},
		Outbound: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, Policy: policy(),
		Hop:    hop.Guard{ID: "test", Datacenter: "dc1", Limit: 1, DepthMax: 32},
		Limits: http1.Limits{Head: codec.Limits{HeadMax: 64 << 10, FieldsMax: 256}, HeadTimeout: 10 * time.Second, Idle: time.Minute, HalfClose: time.Minute},
		Drain:  time.Second}
	p, err := New(cfg, Tools{Log: slog.New(slog.DiscardHandler), Metrics: metric.New("test")})
	if err != nil {
		t.Fatal(err)
	}
	snap, _, _ := discovery.Build(nil, services)
	p.Apply(snap)
	p.Start()
	t.Cleanup(p.Close)
	return p, p.outL[0].Addrs()[0].String()
}

func endpoint(t testing.TB, h http.HandlerFunc) discovery.Endpoint {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return discovery.Endpoint{Address: netip.MustParseAddrPort(s.Listener.Addr().String())}
}

func dial(t testing.TB, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c, bufio.NewReader(c)
}

func ask(t testing.TB, c net.Conn, r *bufio.Reader, method, request string) (*http.Response, string) {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestKeptConnectionServesOneRequestAfterTheOther(t *testing.T) {
	ep := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %q", r.Method, r.RequestURI, b)
	})
	_, addr := start(t, service(policy(), ep))
	c, r := dial(t, addr)
	for i := range 3 {
		resp, body := ask(t, c, r, "GET", fmt.Sprintf("GET /a?b=%d HTTP/1.1\r\nHost: PAY\r\n\r\n", i))
		if resp.StatusCode != 200 || body != fmt.Sprintf("GET /a?b=%d \"\"", i) {
			t.Fatalf("%d %q", resp.StatusCode, body)
		}
	}
	big := strings.Repeat("x", 1<<20)
	for range 2 {
		resp, body := ask(t, c, r, "POST", fmt.Sprintf("POST /up HTTP/1.1\r\nHost: pay\r\nContent-Length: %d\r\n\r\n%s", len(big), big))
		if resp.StatusCode != 200 || len(body) != len(big)+len("POST /up \"\"") {
			t.Fatalf("%d, %d bytes", resp.StatusCode, len(body))
		}
	}
	resp, body := ask(t, c, r, "POST", "POST /c HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n")
	if resp.StatusCode != 200 || body != `POST /c "abc"` {
		t.Fatalf("%d %q", resp.StatusCode, body)
	}
}

func TestNobodyAndNoRoute(t *testing.T) {
	_, addr := start(t, service(policy()))
	c, r := dial(t, addr)
	resp, body := ask(t, c, r, "GET", "GET / HTTP/1.1\r\nHost: pay\r\n\r\n")
	if resp.StatusCode != 503 || resp.Header.Get("X-Spillway-Reason") != "no_healthy_endpoint" || body != "no_healthy_endpoint: pay has no endpoints\n" {
		t.Fatalf("%d %v %q", resp.StatusCode, resp.Header, body)
	}
	resp, body = ask(t, c, r, "GET", "GET / HTTP/1.1\r\nHost: other\r\n\r\n")
	if resp.StatusCode != 404 || resp.Header.Get("X-Spillway-Reason") != "no_route" {
		t.Fatalf("%d %v %q", resp.StatusCode, resp.Header, body)
	}
}

func TestRefusedEndpointIsLeftWithoutALoss(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := discovery.Endpoint{Address: netip.MustParseAddrPort(l.Addr().String())}
	l.Close()
	ok := endpoint(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "ok") })
	ok.Locality = dc2
	p, addr := start(t, service(policy(), dead, ok))
	c, r := dial(t, addr)
	resp, body := ask(t, c, r, "POST", "POST / HTTP/1.1\r\nHost: pay\r\nContent-Length: 2\r\n\r\nhi")
	if resp.StatusCode != 200 || body != "ok" {
		t.Fatalf("%d %q", resp.StatusCode, body)
	}
	rec, err := p.Explain("pay", "")
	if err != nil || rec.Datacenter != "dc2" {
		t.Fatalf("%+v, %v", rec, err)
	}
}

func TestDrainEndsIdleConnectionsAndReturns(t *testing.T) {
	ep := endpoint(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "ok") })
	p, addr := start(t, service(policy(), ep))
	c, r := dial(t, addr)
	ask(t, c, r, "GET", "GET / HTTP/1.1\r\nHost: pay\r\n\r\n")
	done := make(chan struct{})
	go func() { p.Drain(context.Background()); close(done) }()
	if _, err := r.ReadByte(); err != io.EOF {
		t.Fatalf("an idle connection at a drain: %v", err)
	}
	<-done
}
