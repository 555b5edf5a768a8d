//go:build linux

package e2e

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
)

// gatewayOf starts a gateway of a datacenter that knows the services.
func gatewayOf(t *testing.T, region, services string) *sidecar {
	t.Helper()
	ip := newIP()
	s := prepareSidecar(t, setup{region: region, trusted: true, services: services, more: fmt.Sprintf("gateway: {listen: %q}\n", ip+":15443")}, ip)
	s.start(t)
	s.waitReady(t)
	return s
}

// by lists datacenters of which dc2 is reached through gateways.
func by(gateways ...*sidecar) string {
	var list []string
	for _, g := range gateways {
		list = append(list, fmt.Sprintf("%q", g.gateway()))
	}
	return "{name: dc1, gateways: [\"192.0.2.1:15443\"]}, {name: dc2, gateways: [" + strings.Join(list, ", ") + "]}"
}

// TestGateway: what hops goes through the gateway of the other datacenter, which the caller's proxy knows alone.
func TestGateway(t *testing.T) {
	t.Parallel()
	app, bare, near := heads(t), heads(t), named(t, "near")
	withSidecar(t, app, "dc2", "")
	g := gatewayOf(t, "dc2", service("pay", "", sidecarAt(app, "dc2"))+service("bare", "", at(bare.addr, "dc2"))+service("both", "", at(bare.addr, "dc2")))
	s := startSidecar(t, setup{datacenters: by(g), services: service("pay", "", at("192.0.2.9:80", "dc2")) + service("bare", "", at("192.0.2.9:81", "dc2")) +
		service("both", "", at(near.addr, "dc1"), at("192.0.2.9:82", "dc2")) + service("drained", "", at("192.0.2.9:83", "dc2", "weight: 0"))})
	c := dial(t, s.outbound())
	m := c.get("pay", "/x")
	if m.status() != 200 || !strings.Contains(string(m.body), "tracestate: spillway=1:1:pay@dc2\r\n") || strings.Contains(string(m.body), "x-spillway") {
		t.Errorf("behind a sidecar the application got %q\n%s", m.head, m.body)
	}
	if m = c.get("bare", "/x"); m.status() != 200 || strings.Contains(string(m.body), "spillway") {
		t.Errorf("an endpoint without a sidecar got %q\n%s", m.head, m.body)
	}
	c.want(c.get("both", "/"), 200, "near") // the own datacenter has no use for gateways
	c.refused(c.get("drained", "/"), 503, "no_healthy_endpoint")
	if got := s.state(t, "pay", g.gateway()); got != "usable" {
		t.Errorf("the gateway is %q in /services", got)
	}
	near.stop()
	if m := c.get("both", "/"); m.status() != 200 {
		t.Errorf("%q", m.head)
	}
	if n := s.metric(t, "spillway_dials_total", `destination_datacenter="dc2"`, `result="ok"`); n == 0 {
		t.Error("no connection to the gateway was counted")
	}
}

// TestGatewayRecord: it hands the record on with its own id, and believes trusted peers alone.
func TestGatewayRecord(t *testing.T) {
	t.Parallel()
	shows := heads(t)
	g := gatewayOf(t, "dc2", service("pay", "", at(shows.addr, "dc2", "sidecar: 8080"))+service("away", "", at("192.0.2.9:80", "dc1")))
	id := "n-" + g.ip
	for _, row := range []struct{ host, record, want string }{
		{"any.example", "1;p=x@dc1,pay@dc2;v=a;d=3;e=7", "1;p=x@dc1,pay@dc2;v=a," + id + ";d=3;e=7"},
		{"pay", "1;p=;v=a;d=1;e=0", "1;p=;v=a," + id + ";d=1;e=0"},
		{"pay", "nonsense", "1;p=;v=" + id + ";d=0;e=0"},
		{"pay", "1;p=;v=" + id + ";d=1;e=0", "508 loop"},
		{"pay", "1;p=;v=a;d=33;e=0", "508 loop"},
		{"pay", "1;p=pay@dc3;v=a;d=1;e=0", "404 no_route"},
		{"pay", "1;p=unknown@dc2;v=a;d=1;e=0", "404 no_route"},
		{"unknown", "1;p=;v=a;d=1;e=0", "404 no_route"},
		{"away", "1;p=away@dc2;v=a;d=1;e=0", "503 no_healthy_endpoint"}, // its table says dc1, and it never sends across again
		{"away", "1;p=;v=a;d=1;e=0", "503 no_healthy_endpoint"},
	} {
		c := dial(t, g.gateway())
		c.send("GET / HTTP/1.1\r\nHost: ", row.host, "\r\nx-spillway-hop: ", row.record, "\r\n\r\n")
		m := c.answer("GET")
		if m.status() != 200 {
			if got := fmt.Sprint(m.status(), " ", m.reason()); got != row.want {
				t.Errorf("%s, %s: %s (%s), want %s", row.host, row.record, got, m.body, row.want)
			}
			continue
		}
		got := ""
		for line := range strings.Lines(string(m.body)) {
			if v, ok := strings.CutPrefix(line, "x-spillway-hop: "); ok {
				got += strings.TrimSpace(v)
			}
		}
		if got != row.want {
			t.Errorf("%s, %s: handed on %q, want %q", row.host, row.record, got, row.want)
		}
	}

	ip := newIP()
	closed := prepareSidecar(t, setup{region: "dc2", services: service("pay", "", at(shows.addr, "dc2")), more: fmt.Sprintf("gateway: {listen: %q}\n", ip+":15443")}, ip)
	closed.start(t)
	closed.waitReady(t)
	for _, first := range []string{"GET / HTTP/1.1\r\nHost: pay\r\n\r\n", "GET / HTTP/1.1\r\nHost: pay\r\ntracestate: spillway=1:99:\r\n\r\n", "\r\n\r\n\x00\r\nQUIT\n"} {
		c := dial(t, closed.gateway())
		c.send(first)
		c.ended(waitMax)
	}
	if n := closed.metric(t, "spillway_inbound_refused_total", `reason="untrusted"`); n != 3 {
		t.Errorf("%v refusals, want 3", n)
	}
}

// TestGatewaysDisagree: the tables of two gateways each say that the service is in the other datacenter. No loop can form, and no 508.
func TestGatewaysDisagree(t *testing.T) {
	t.Parallel()
	g1 := gatewayOf(t, "dc1", service("pay", "", at("192.0.2.9:80", "dc2")))
	g2 := gatewayOf(t, "dc2", service("pay", "", at("192.0.2.9:80", "dc1")))
	s := startSidecar(t, setup{datacenters: fmt.Sprintf("{name: dc1, gateways: [%q]}, {name: dc2, gateways: [%q]}", g1.gateway(), g2.gateway()),
		services: service("pay", "", at("192.0.2.9:80", "dc2"))})
	c := dial(t, s.outbound())
	for range 20 {
		m := c.get("pay", "/")
		c.refused(m, 503, "no_healthy_endpoint")
		if string(m.body) != "no_healthy_endpoint: pay: behind this gateway dc2 has no endpoint\n" {
			t.Fatalf("line %q", m.body)
		}
	}
	if n := g1.metric(t, "spillway_refusals_total"); n != 0 {
		t.Errorf("%v requests came back to dc1", n)
	}
}

// TestGatewayTCP: a TCP connection goes through the gateway by the service that its record names.
func TestGatewayTCP(t *testing.T) {
	t.Parallel()
	app := serve(t, echo)
	in := prepareSidecar(t, setup{region: "dc2", inbound: "ports: [{port: 8080, protocol: tcp}]", trusted: true}, app.ip)
	in.start(t)
	in.waitReady(t)
	g := gatewayOf(t, "dc2", service("db", "", sidecarAt(app, "dc2")))
	s := startSidecar(t, setup{datacenters: by(g), outbound: `ports: [{listen: "$IP:3306", service: db, protocol: tcp}]`, services: service("db", "", at("192.0.2.9:80", "dc2"))})
	for range 3 {
		c := dial(t, s.db())
		c.send("ping")
		_ = c.CloseWrite()
		if got, err := io.ReadAll(c.br); string(got) != "pingbye" {
			t.Fatalf("%q %v", got, err)
		}
	}
	for reason, header := range map[string]string{
		"no_target":      "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00",
		"foreign_target": proxyRecord("1;p=db@dc1;d=1"),
		"loop":           proxyRecord("1;p=db@dc2;d=1;v=n-" + g.ip),
		"bad_target":     "\r\n\r\n\x00\r\nQUIT\n\x31",
	} {
		c := dial(t, g.gateway())
		c.send(header)
		c.ended(waitMax)
		if n := g.metric(t, "spillway_inbound_refused_total", `reason="`+reason+`"`); n != 1 {
			t.Errorf("%v refusals for %s, want 1", n, reason)
		}
	}
}

// proxyRecord is a PROXY v2 header that speaks for its sender and holds a hop record alone.
func proxyRecord(record string) string {
	n := len(record)
	return "\r\n\r\n\x00\r\nQUIT\n\x20\x00" + string([]byte{byte((n + 3) >> 8), byte(n + 3), 0xe6, byte(n >> 8), byte(n)}) + record
}

// TestGatewayKilled: of two gateways one is killed under load; no request is lost that may be sent again.
func TestGatewayKilled(t *testing.T) {
	t.Parallel()
	app := named(t, "ok")
	services := service("pay", "", at(app.addr, "dc2"))
	g1, g2 := gatewayOf(t, "dc2", services), gatewayOf(t, "dc2", services)
	s := startSidecar(t, setup{datacenters: by(g1, g2), services: service("pay", "", at("192.0.2.9:80", "dc2"))})
	l := startLoad(s.outbound(), "pay", 200, "GET")
	eventually(t, waitMax, "100 requests", func() bool { return l.sofar() >= 100 })
	g1.signal(syscall.SIGKILL)
	n := l.sofar()
	eventually(t, waitMax, "200 further requests", func() bool { return l.sofar() >= n+200 })
	if bad := failures(l.finish()); len(bad) > 0 {
		t.Errorf("%d requests failed, the first with %v", len(bad), bad[0])
	}
}
