//go:build linux

package e2e

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// inHTTP declares the application's port on inbound.
const inHTTP = "ports: [{port: 8080, protocol: http}]"

// withSidecar puts an application into a datacenter: its sidecar stands on the same address, trusts loopback and knows the services.
func withSidecar(t *testing.T, app *endpoint, region, services string) *sidecar {
	t.Helper()
	s := prepareSidecar(t, setup{region: region, inbound: inHTTP, trusted: true, services: services}, app.ip)
	s.start(t)
	s.waitReady(t)
	return s
}

func sidecarAt(e *endpoint, region string) string { return at(e.addr, region, "sidecar: 15006") }

// toInbound is the head of a request to the inbound side of an application, up to the last field.
func toInbound(e *endpoint, fields string) string {
	return "GET / HTTP/1.1\r\nHost: pay\r\nx-spillway-target: " + e.addr + "\r\n" + fields + "\r\n"
}

// TestHopRecord: what the next sidecar is told, and what is left of it for an endpoint that has none.
func TestHopRecord(t *testing.T) {
	t.Parallel()
	far, near, bare := heads(t), heads(t), heads(t)
	listen := func(e *endpoint) *endpoint { // the sidecar's port, played by an endpoint
		in := &endpoint{ip: e.ip, addr: e.ip + ":15006", open: map[net.Conn]bool{}}
		in.ln = listenTCP(t, in.addr)
		in.wg.Add(1)
		go in.accept(in.ln, func(w *wire) {
			for {
				m, err := w.request()
				if err != nil || !w.ok(m.head) {
					return
				}
			}
		})
		t.Cleanup(in.stop)
		return in
	}
	listen(far)
	listen(near)
	s := startSidecar(t, setup{services: service("far", "", sidecarAt(far, "dc2")) + service("near", "", sidecarAt(near, "dc1")) + service("bare", "", at(bare.addr, "dc2"))})
	id := "n-" + s.ip
	const state = "TraceState: a=1, spillway=1:2:ledger@dc1,b=2\r\n"
	for _, row := range []struct{ service, fields, record string }{
		{"far", "", "1;p=far@dc2;v=" + id + ";d=1;e=0"},
		{"near", "", "1;p=;v=" + id + ";d=1;e=0"},
		{"bare", "", ""},
		{"far", state, "1;p=ledger@dc1,far@dc2;v=" + id + ";d=3;e=0"},
		{"near", state, "1;p=ledger@dc1;v=" + id + ";d=3;e=0"},
		{"bare", state, ""},
	} {
		c := dial(t, s.outbound())
		c.send("GET / HTTP/1.1\r\nHost: ", row.service, "\r\nx-spillway-hop: 1;p=far@dc2;v=x;d=9;e=7\r\n", row.fields, "\r\n")
		m := c.answer("GET")
		if m.status() != 200 {
			t.Errorf("%s: %q", row.service, m.head)
			continue
		}
		got := ""
		for line := range strings.Lines(string(m.body)) {
			if v, ok := strings.CutPrefix(line, "x-spillway-hop: "); ok {
				got += strings.TrimSpace(v)
			}
		}
		if got != row.record || !strings.Contains(string(m.body), row.fields) {
			t.Errorf("%s: record %q, want %q, in\n%s", row.service, got, row.record, m.body)
		}
	}
	if n := s.metric(t, "spillway_records_dropped_total", `field="x-spillway-hop"`, `reason="untrusted"`); n != 6 {
		t.Errorf("%v records of the application were dropped, sent were 6", n)
	}
}

// TestHopThroughApplication: an application sees the chain in tracestate alone, with the members of others behind it.
func TestHopThroughApplication(t *testing.T) {
	t.Parallel()
	app := heads(t)
	withSidecar(t, app, "dc2", "")
	s := startSidecar(t, setup{services: service("pay", "", sidecarAt(app, "dc2"))})
	for _, row := range []struct{ fields, want string }{
		{"", "spillway=1:1:pay@dc2"},
		{"tracestate: a=1,spillway=1:2:ledger@dc1\r\nX-Between: 1\r\nTracestate: b=2\r\n", "spillway=1:3:ledger@dc1;pay@dc2,a=1,b=2"},
		{"tracestate: spillway=nonsense,a=1\r\n", "spillway=1:1:pay@dc2,a=1"},
	} {
		c := dial(t, s.outbound())
		c.send("GET / HTTP/1.1\r\nHost: pay\r\n", row.fields, "\r\n")
		m := c.answer("GET")
		got := strings.ToLower(string(m.body))
		if strings.Count(got, "tracestate:") != 1 || !strings.Contains(got, "tracestate: "+row.want+"\r\n") || strings.Contains(got, "x-spillway") {
			t.Errorf("want tracestate %q alone, the application got\n%s", row.want, m.body)
		}
	}
	// A trusted peer that says nothing of the chain: no hop, depth 0.
	c := dial(t, app.ip+":15006")
	c.send(toInbound(app, ""))
	if m := c.answer("GET"); !strings.Contains(string(m.body), "tracestate: spillway=1:0:\r\n") {
		t.Errorf("the application got\n%s", m.body)
	}
}

// TestHopLimit: a chain that has hopped for a service stays in the datacenter where it is, or ends.
func TestHopLimit(t *testing.T) {
	t.Parallel()
	near, far := named(t, "near"), named(t, "far")
	dead := named(t, "dead")
	dead.stop()
	const quick = "retry: {attempts: 1}, balance: round_robin"
	s := startSidecar(t, setup{services: service("pay", quick, at(near.addr, "dc1"), at(dead.addr, "dc1"), at(far.addr, "dc2")) +
		service("away", "", at(far.addr, "dc2")) + service("gone", quick, at(dead.addr, "dc1"), at(far.addr, "dc2"))})
	c := dial(t, s.outbound())
	ask := func(service, state string) message {
		t.Helper()
		c.send("GET / HTTP/1.1\r\nHost: ", service, "\r\ntracestate: ", state, "\r\n\r\n")
		return c.answer("GET")
	}
	// With half of its endpoints, tier 0 keeps 70 % of the requests; of those that may not hop, all.
	count := map[string]int{}
	for range 200 {
		count[string(ask("pay", "spillway=1:1:").body)]++
	}
	if count["far"] < 40 || count["near"] < 120 {
		t.Errorf("requests that may hop: %v", count)
	}
	for range 100 {
		c.want(ask("pay", "spillway=1:1:pay@dc2"), 200, "near")
	}
	c.want(ask("away", "spillway=1:5:pay@dc2;pay@dc1"), 200, "far") // hops for others do not count
	m := ask("away", "spillway=1:1:away@dc1")
	c.refused(m, 508, "loop")
	if line := string(m.body); line != "loop: away: the call chain has made its 1/1 hops for it (hop.limit), and dc1 has no endpoint\n" {
		t.Errorf("line %q", line)
	}
	ask("gone", "spillway=1:1:") // finds out that the near one is dead
	m = ask("gone", "spillway=1:1:gone@dc1")
	c.refused(m, 508, "loop")
	if n := s.metric(t, "spillway_refusals_total", `service="away"`, `code="loop"`); n != 1 {
		t.Errorf("%v refusals counted", n)
	}
}

// TestHopLimits: other limits than one.
func TestHopLimits(t *testing.T) {
	t.Parallel()
	far := named(t, "far")
	for limit, states := range map[int]map[string]int{
		0: {"spillway=1:1:": 508, "a=1": 508},
		3: {"spillway=1:1:pay@dc2;pay@dc1": 200, "spillway=1:1:pay@dc2;pay@dc1;pay@dc2": 508},
	} {
		s := startSidecar(t, setup{hop: fmt.Sprintf("limit: %d", limit), services: service("pay", "", at(far.addr, "dc2"))})
		c := dial(t, s.outbound())
		for state, want := range states {
			c.send("GET / HTTP/1.1\r\nHost: pay\r\ntracestate: ", state, "\r\n\r\n")
			if m := c.answer("GET"); m.status() != want {
				t.Errorf("limit %d, %s: %q", limit, state, m.head)
			}
		}
	}
}

// TestDepth: services that call each other in a ring end here, in one datacenter too, and so does one that calls itself.
func TestDepth(t *testing.T) {
	t.Parallel()
	var outs sync.Map
	calls := func(name, next string) *endpoint {
		return each(t, func(w *wire, m message) bool {
			out, _ := outs.Load(name)
			m.head = strings.Replace(m.head, "Host: "+name, "Host: "+next, 1)
			return forward(w, m, out.(string))
		})
	}
	a, b, self := calls("a", "b"), calls("b", "a"), calls("self", "self")
	all := service("a", "", sidecarAt(a, "dc1")) + service("b", "", sidecarAt(b, "dc1")) + service("self", "", sidecarAt(self, "dc1"))
	for name, app := range map[string]*endpoint{"a": a, "b": b, "self": self} {
		outs.Store(name, withSidecar(t, app, "dc1", all).outbound())
	}
	s := startSidecar(t, setup{services: all})
	for _, name := range []string{"a", "self"} {
		c := dial(t, s.outbound())
		if m := c.get(name, "/"); m.status() != 508 || string(m.body) != "loop: the call chain is 32 calls deep, 32 are allowed (hop.depth_max)\n" {
			t.Errorf("%s: %q %q", name, m.head, m.body)
		}
	}
	if na, nb, ns := a.requests.Load(), b.requests.Load(), self.requests.Load(); na != 16 || nb != 16 || ns != 32 {
		t.Errorf("%d and %d passes in the ring, %d by itself; want 16, 16, 32", na, nb, ns)
	}
}

// forward answers what the outbound side says to the same request, all fields of it kept as a reverse proxy does.
func forward(w *wire, m message, outbound string) bool {
	c, err := net.DialTimeout("tcp4", outbound, waitMax)
	if err != nil {
		return w.say("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(waitMax))
	up := newWire(c, 0)
	if _, err := io.WriteString(c, m.head+"\r\n"); err != nil {
		return false
	}
	a, err := readMessage(up.br, "GET")
	if err != nil {
		return w.say("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
	}
	return w.say(a.head, "\r\n", string(a.body))
}

// TestTwoGateways is the five-second loop: the table of each datacenter says that the request belongs to the other one. Each gateway is
// an application that forwards all fields, behind its own sidecar.
func TestTwoGateways(t *testing.T) {
	t.Parallel()
	var out1, out2 atomic.Value
	gw1 := each(t, func(w *wire, m message) bool { return forward(w, m, out1.Load().(string)) })
	gw2 := each(t, func(w *wire, m message) bool { return forward(w, m, out2.Load().(string)) })
	local := named(t, "local")
	s1 := withSidecar(t, gw1, "dc1", service("gw", "", sidecarAt(gw2, "dc2"))+service("local", "", at(local.addr, "dc1")))
	s2 := withSidecar(t, gw2, "dc2", service("gw", "", sidecarAt(gw1, "dc1")))
	out1.Store(s1.outbound())
	out2.Store(s2.outbound())
	c := dial(t, s1.outbound())
	const n = 50
	for range n {
		// The sidecar of gw2 has answered gw2, which is an application: its word is passed on, its field of ours is not.
		if m := c.get("gw", "/"); m.status() != 508 || m.reason() != "" || !strings.HasPrefix(string(m.body), "loop: gw: the call chain has made its 1/1 hops") {
			t.Fatalf("%q %q", m.head, m.body)
		}
		c.want(c.get("local", "/"), 200, "local")
	}
	if a, b := gw1.requests.Load(), gw2.requests.Load(); a != 0 || b != n {
		t.Errorf("%d requests came back, %d hopped; sent were %d", a, b, n)
	}
}

// TestNoFalseLoops: chains that cross datacenters for one service after the other are none.
func TestNoFalseLoops(t *testing.T) {
	t.Parallel()
	var outs sync.Map
	hop := func(name, next string) *endpoint {
		return each(t, func(w *wire, m message) bool {
			out, _ := outs.Load(name)
			m.head = strings.Replace(m.head, "Host: "+strings.TrimRight(name, "12"), "Host: "+next, 1)
			return forward(w, m, out.(string))
		})
	}
	b := hop("b2", "c")
	c1 := named(t, "c")
	sb := withSidecar(t, b, "dc2", service("c", "", sidecarAt(c1, "dc1")))
	outs.Store("b2", sb.outbound())
	withSidecar(t, c1, "dc1", "")
	s := startSidecar(t, setup{services: service("b", "", sidecarAt(b, "dc2"))})
	c := dial(t, s.outbound())
	for range 20 {
		c.want(c.get("b", "/"), 200, "c") // a@dc1 -> b@dc2 -> c only in dc1
	}

	// Three levels, each in both datacenters and split evenly between them: every datacenter has all, so no chain has to end.
	x1, x2 := hop("x1", "y"), hop("x2", "y")
	y1, y2 := hop("y1", "z"), hop("y2", "z")
	z1, z2 := named(t, "z"), named(t, "z")
	dead := []string{}
	for range 2 {
		e := named(t, "dead")
		e.stop()
		dead = append(dead, e.addr)
	}
	// One of two endpoints of the own datacenter is dead and the factor is 100: half of the requests leave.
	split := func(name string, own, other *endpoint, region, far string) string {
		return service(name, "locality: {overprovisioning_factor: 100, panic_threshold: 0}", sidecarAt(own, region), at(dead[0], region), sidecarAt(other, far), at(dead[1], far))
	}
	for _, e := range []struct {
		name string
		app  *endpoint
	}{{"x1", x1}, {"x2", x2}, {"y1", y1}, {"y2", y2}, {"z1", z1}, {"z2", z2}} {
		region, far := "dc1", "dc2"
		y, z := [2]*endpoint{y1, y2}, [2]*endpoint{z1, z2}
		if strings.HasSuffix(e.name, "2") {
			region, far = "dc2", "dc1"
			y, z = [2]*endpoint{y2, y1}, [2]*endpoint{z2, z1}
		}
		outs.Store(e.name, withSidecar(t, e.app, region, split("y", y[0], y[1], region, far)+split("z", z[0], z[1], region, far)).outbound())
	}
	s = startSidecar(t, setup{services: split("x", x1, x2, "dc1", "dc2")})
	c = dial(t, s.outbound())
	for range 200 {
		c.want(c.get("x", "/"), 200, "z")
	}
	for name, pair := range map[string][2]*endpoint{"x": {x1, x2}, "y": {y1, y2}, "z": {z1, z2}} {
		if a, b := pair[0].requests.Load(), pair[1].requests.Load(); a < 40 || b < 40 {
			t.Errorf("%s: %d in dc1, %d in dc2: no split to speak of", name, a, b)
		}
	}
}

// TestOwnListener: an endpoint that is a listener of the proxy is never dialled, and a service that calls itself needs no second pass.
func TestOwnListener(t *testing.T) {
	t.Parallel()
	app := heads(t)
	s := prepareSidecar(t, setup{region: "dc1", inbound: inHTTP, trusted: true, services: service("self", "", sidecarAt(app, "dc1")) +
		service("mad", "health: {active: {tcp: true, interval: 50ms}}", at(app.ip+":15001", "dc1"), at(app.ip+":15006", "dc1"))}, app.ip)
	s.start(t)
	s.waitReady(t)
	c := dial(t, s.outbound())
	m := c.get("mad", "/")
	c.refused(m, 503, "no_healthy_endpoint")
	if !strings.Contains(string(m.body), app.ip+":15001 is a listener of this proxy and never dialled") {
		t.Errorf("line %q", m.body)
	}
	if state := s.state(t, "mad", app.ip+":15006"); state != "a listener of this proxy: never dialled" {
		t.Errorf("state %q", state)
	}
	m = c.get("self", "/")
	if m.status() != 200 || strings.Contains(string(m.body), "x-spillway") {
		t.Errorf("the application got\n%s", m.body)
	}
	if !strings.Contains(string(m.body), "tracestate: spillway=1:1:\r\n") {
		t.Errorf("the application got\n%s", m.body)
	}
	if n := s.metric(t, "spillway_dials_total"); n != 1 {
		t.Errorf("%v connections were opened, want the one to the application", n)
	}
}

// TestTCPHop: a TCP connection carries the record to the sidecar of its endpoint; one that comes back to its proxy is closed.
func TestTCPHop(t *testing.T) {
	t.Parallel()
	app := serve(t, echo)
	in := prepareSidecar(t, setup{region: "dc2", inbound: "ports: [{port: 8080, protocol: tcp}]", trusted: true}, app.ip)
	in.start(t)
	in.waitReady(t)
	ip := strings.Split(app.ip, ".")
	header := func(records ...string) string {
		tlvs := "\xe5\x00\x06"
		for _, part := range ip {
			n, _ := strconv.Atoi(part)
			tlvs += string([]byte{byte(n)})
		}
		tlvs += "\x1f\x90"
		for _, r := range records {
			tlvs += string([]byte{0xe6, byte(len(r) >> 8), byte(len(r))}) + r
		}
		return "\r\n\r\n\x00\r\nQUIT\n\x20\x00" + string([]byte{byte(len(tlvs) >> 8), byte(len(tlvs))}) + tlvs
	}
	for _, row := range []struct {
		records []string
		served  bool
	}{
		{nil, true},
		{[]string{"1;p=db@dc2;v=other;d=1;e=0"}, true},
		{[]string{"1;p=db@dc2;v=n-" + app.ip + ";d=1;e=0"}, false},
		{[]string{"1;p=;v=other;d=33;e=0"}, false},
		{[]string{"nonsense"}, true},
		{[]string{"1;p=;v=n-" + app.ip + ";d=1", "1;p=;v=n-" + app.ip + ";d=1"}, true},
	} {
		c := dial(t, in.inbound())
		c.send(header(row.records...), "ping")
		_ = c.CloseWrite()
		got, _ := io.ReadAll(c.br)
		if string(got) == "pingbye" != row.served {
			t.Errorf("%q: %q", row.records, got)
		}
	}
	if n := in.metric(t, "spillway_inbound_refused_total", `reason="loop"`); n != 2 {
		t.Errorf("%v loops counted, want 2", n)
	}
	if n := in.metric(t, "spillway_records_dropped_total", `field="proxy_protocol"`); n != 2 {
		t.Errorf("%v records dropped, want 2", n)
	}

	// What an outbound side writes: the endpoint here is its own sidecar's port and shows it.
	seen := make(chan string, 1)
	shows := serve(t, func(w *wire) {
		b, _ := io.ReadAll(w.br)
		seen <- string(b)
	})
	s := tcpService(t, "", at(shows.addr, "dc2", "sidecar: 8080"))
	c := dial(t, s.db())
	c.send("x")
	_ = c.CloseWrite()
	if got, want := <-seen, "1;p=db@dc2;v=n-"+s.ip+";d=1;e=0x"; !strings.HasSuffix(got, want) {
		t.Errorf("the sidecar was told %q, want %q at the end", got, want)
	}
}

// TestForgedRecords: what an application or a peer says wrongly is dropped and counted, and the request is served as without it.
func TestForgedRecords(t *testing.T) {
	t.Parallel()
	app := heads(t)
	in := withSidecar(t, app, "dc1", "")
	far := named(t, "far")
	out := startSidecar(t, setup{services: service("pay", "", at(far.addr, "dc2"))})
	long := strings.Repeat("n", 300)
	records := []string{ // of a trusted peer; all but the last two lines are malformed
		"", "1", "2;p=pay@dc2;v=a;d=1", "1;p=pay@dc2", "1;v=a;d=1", "1;p=pay;v=a;d=1", "1;p=pay@dc2,;v=a;d=1", "1;p=@;v=;d=1", "1;p=;v=a,,b;d=1",
		"1;p=;v=a;d=-1", "1;p=;v=a;d=1e3", "1;p=;v=a;d=0x1", "1;p=;v=a;d=99999999999", "1;p=;v=a;d=1;d=2", "1;p=;v=a;d=1;e=x", "1;p=;v=a;d=1;f=yes",
		"1;p=\xff@dc;v=a;d=1", "1;p=a@b@c;v=a;d=1", "1; p=; v=a; d=1", "1;p=;v=a;d=1;", "1,1;p=;v=a;d=1", "1;p=" + long + "@dc2;v=a;d=1",
		"1;d=1;p=" + strings.Repeat("a@b,", 200) + "a@b", "1;p=;d=1;x=" + strings.Repeat("y", 600),
	}
	c := dial(t, in.inbound())
	for _, r := range records {
		c.send(toInbound(app, "x-spillway-hop: "+r+"\r\n"))
		if m := c.answer("GET"); m.status() != 200 || !strings.Contains(string(m.body), "tracestate: spillway=1:0:\r\n") {
			t.Errorf("%q: %q, the application got\n%s", r, m.head, m.body)
		}
	}
	c.send(toInbound(app, "x-spillway-hop: 1;p=;v=a;d=1\r\nX-Spillway-Hop: 1;p=;v=b;d=1\r\n"))
	c.answer("GET")
	for reason, want := range map[string]float64{"malformed": float64(len(records) - 2), "oversized": 2, "duplicate": 1, "untrusted": 0} {
		if n := in.metric(t, "spillway_records_dropped_total", `field="x-spillway-hop"`, `reason="`+reason+`"`); n != want {
			t.Errorf("inbound: %v %s, want %v", n, reason, want)
		}
	}

	states := []string{ // of an application; each would keep the request from dc2 if it counted
		"spillway=", "spillway=1", "spillway=1:1", "spillway=2:1:pay@dc2", "spillway=1:x:pay@dc2", "spillway=1:-1:pay@dc2", "spillway=1::pay@dc2",
		"spillway=1:1:pay@dc2;", "spillway=1:1:pay", "spillway=1:1:pay@dc2:x", "spillway=1:1:pay@dc2@dc1", "spillway=1:1:p ay@dc2;pay@dc2",
		"spillway=1:99999999999999999999:pay@dc2", "spillway=1:1:" + strings.Repeat("pay@dc2;", 40) + "pay@dc2", "spillway=1:1:pay@dc2,spillway=1:1:pay@dc2",
	}
	c = dial(t, out.outbound())
	for _, st := range states {
		c.send("GET / HTTP/1.1\r\nHost: pay\r\ntracestate: ", st, "\r\n\r\n")
		c.want(c.answer("GET"), 200, "far")
	}
	if n := out.metric(t, "spillway_records_dropped_total", `field="tracestate"`); n != float64(len(states)) {
		t.Errorf("outbound: %v dropped, want %d", n, len(states))
	}
	// The id of this proxy, from a trusted peer and from one that is not.
	c = dial(t, in.inbound())
	c.send(toInbound(app, "x-spillway-hop: 1;p=;v=a,n-"+app.ip+";d=1;e=0\r\n"))
	c.refused(c.answer("GET"), 508, "loop")
	c = dial(t, in.inbound())
	c.send(toInbound(app, "x-spillway-hop: 1;p=;v=a;d=33;e=0\r\n"))
	c.refused(c.answer("GET"), 508, "loop")
	c = dial(t, in.inbound())
	c.send(toInbound(app, "x-spillway-hop: 1;p=;v=a;d=32;e=0\r\n"))
	if m := c.answer("GET"); m.status() != 200 {
		t.Errorf("depth 32: %q", m.head)
	}
}
