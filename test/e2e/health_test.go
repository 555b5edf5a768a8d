//go:build linux

package e2e

import (
	"fmt"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spillway/test/e2e/blackhole"
)

// slack is what a busy machine may add to a promised time.
const slack = time.Second

// TestIdleService: a service that nobody calls but that is listed is checked. A refused endpoint is out within 3 intervals, a silent
// one within 2 x (interval + timeout) + interval, and both come back.
func TestIdleService(t *testing.T) {
	t.Parallel()
	const interval, timeout = 400 * time.Millisecond, 400 * time.Millisecond
	ip := newIP()
	refused := serveAt(t, ip, healthy)
	silent, well := serveAt(t, newIP(), healthy), serveAt(t, newIP(), healthy)
	s := startSidecar(t, setup{
		outbound: "services: [pay]",
		services: service("pay", fmt.Sprintf("health: {active: {path: /healthz, interval: %s, timeout: %s}}", interval, timeout),
			at(refused.addr, "dc1"), at(silent.addr, "dc1"), at(well.addr, "dc1")),
	})
	usable := func(e *endpoint) bool { return s.state(t, "pay", e.addr) == "usable" }
	eventually(t, waitMax, "all are checked", func() bool { return usable(refused) && usable(silent) && usable(well) })
	refused.stop()
	took := eventually(t, 3*interval+slack, "the refused endpoint is out", func() bool { return !usable(refused) })
	t.Logf("refused: out after %v, promised %v", took, 3*interval)
	for _, c := range silent.sockets() {
		if err := blackhole.Dig(c); err != nil {
			t.Fatal(err)
		}
	}
	promised := 2*(interval+timeout) + interval
	took = eventually(t, promised+slack, "the silent endpoint is out", func() bool { return !usable(silent) })
	t.Logf("silent: out after %v, promised %v", took, promised)
	if !usable(well) {
		t.Error("the well endpoint is out too")
	}
	for _, c := range silent.sockets() {
		_ = blackhole.Fill(c)
	}
	refused = serveAt(t, ip, healthy)
	took = eventually(t, waitMax, "both are back", func() bool { return usable(refused) && usable(silent) })
	t.Logf("back after %v", took)
}

// healthy answers checks and requests.
func healthy(w *wire) {
	for {
		if _, err := w.request(); err != nil {
			return
		}
		if !w.ok("well") {
			return
		}
	}
}

// TestCheckStatus takes 2xx alone for good, asks with the service's name, and leaves services alone that nobody listed or called.
func TestCheckStatus(t *testing.T) {
	t.Parallel()
	bad := each(t, func(w *wire, m message) bool {
		if m.path() == "/up" && m.has("Host", "pay") && m.has("User-Agent", "spillway-check/1") {
			return w.say("HTTP/1.1 302 Found\r\nLocation: /well\r\nContent-Length: 0\r\n\r\n")
		}
		return w.ok("bad")
	})
	good, idle := named(t, "good"), named(t, "idle")
	policy := "health: {active: {path: /up, interval: 200ms, unhealthy_after: 2}}"
	s := startSidecar(t, setup{
		outbound: "services: [pay]",
		services: service("pay", policy, at(bad.addr, "dc1"), at(good.addr, "dc1"), at(named(t, "good").addr, "dc1")) + service("idle", policy, at(idle.addr, "dc1")),
	})
	eventually(t, waitMax, "302 is no good check", func() bool { return s.state(t, "pay", bad.addr) == "check failed" })
	c := dial(t, s.outbound())
	for range 30 {
		c.want(c.get("pay", "/"), 200, "good")
	}
	if n := idle.requests.Load(); n != 0 {
		t.Errorf("%d checks of a service that nobody calls", n)
	}
	c.get("idle", "/")
	eventually(t, waitMax, "a called service is checked", func() bool { return idle.requests.Load() > 1 })
}

// TestCheckThroughSidecar: checks of an endpoint with a sidecar go through it and name their target, and a draining sidecar says so.
func TestCheckThroughSidecar(t *testing.T) {
	t.Parallel()
	e := each(t, func(w *wire, m message) bool {
		if strings.Contains(strings.ToLower(m.head), "x-spillway-target") {
			return w.say("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
		}
		return w.ok("well")
	})
	car := prepareSidecar(t, setup{inbound: "ports: [{port: 8080, protocol: http}]", trusted: true, drain: "announce: 5s, timeout: 10s"}, e.ip)
	car.start(t)
	car.waitReady(t)
	s := startSidecar(t, setup{
		outbound: "services: [pay]", trusted: true,
		services: service("pay", "health: {active: {path: /, interval: 200ms}}", at(e.addr, "dc1", "sidecar: 15006")),
	})
	eventually(t, waitMax, "the check is good", func() bool { return s.state(t, "pay", e.addr) == "usable" && e.requests.Load() > 1 })
	car.signal(syscall.SIGTERM)
	eventually(t, 3*time.Second, "the endpoint drains", func() bool { return s.state(t, "pay", e.addr) == "draining" })
}

// TestEjection (R26): endpoints that answer 500 are ejected, never more than max_ejected_percent of a tier (rounded down), so that an
// application error of a service with one endpoint stays what it is; when they are well again the service is well at once.
func TestEjection(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			var well atomic.Bool
			var eps []*endpoint
			for range n {
				eps = append(eps, each(t, func(w *wire, _ message) bool {
					if well.Load() {
						return w.ok("well")
					}
					return w.say("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 5\r\n\r\nsorry")
				}))
			}
			s := one(t, "locality: {panic_threshold: 0}, health: {passive: {ejection: 30s, max_ejected_percent: 50}}", eps...)
			c := dial(t, s.outbound())
			for i := range 60 {
				m := c.get("pay", "/")
				if m.status() != 500 || m.reason() != "" {
					t.Fatalf("request %d: %q %q, want the application's own 500", i, m.head, m.body)
				}
			}
			ejected := 0
			for _, e := range eps {
				if s.state(t, "pay", e.addr) == "ejected" {
					ejected++
				}
			}
			if ejected != n/2 {
				t.Errorf("%d of %d ejected, want %d", ejected, n, n/2)
			}
			well.Store(true)
			for range 20 {
				c.want(c.get("pay", "/"), 200, "well")
			}
		})
	}
}

// off is how far a share is from its equal part, as a part of that.
func off(got int64, equal float64) float64 { return math.Abs(float64(got)-equal) / equal }

// noise widens what is asked of shares under the race detector: there every answer takes milliseconds, and which endpoint looks slow is
// the scheduler's doing.
func noise() float64 {
	if os.Getenv("SPILLWAY_RACE") == "1" {
		return 2.5
	}
	return 1
}

// TestEvenShares: 2, 4 and 8 equal endpoints, one request at a time, 10,000 requests: each within 20 % of equal.
func TestEvenShares(t *testing.T) {
	for _, n := range []int{2, 4, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			var eps []*endpoint
			for range n {
				eps = append(eps, named(t, "ok"))
			}
			s := one(t, "", eps...)
			c := dial(t, s.outbound())
			const all = 10_000
			for range all {
				c.send("GET / HTTP/1.1\r\nHost: pay\r\n\r\n")
				if m := c.answer("GET"); m.status() != 200 {
					t.Fatalf("answer %q", m.head)
				}
			}
			var counts []int64
			for _, e := range eps {
				got := e.requests.Load()
				counts = append(counts, got)
				if equal := float64(all) / float64(n); off(got, equal) > 0.2*noise() {
					t.Errorf("%d requests at one of %d endpoints, equal is %.0f", got, n, equal)
				}
			}
			t.Logf("shares %v", counts)
		})
	}
}

// TestFewConnections (R63): two client connections over twelve endpoints: each within 30 % of its share.
func TestFewConnections(t *testing.T) {
	t.Parallel()
	var eps []*endpoint
	for range 12 {
		eps = append(eps, named(t, "ok"))
	}
	s := one(t, "", eps...)
	a, b := dial(t, s.outbound()), dial(t, s.outbound())
	const all = 6000
	for range all / 2 {
		a.send("GET / HTTP/1.1\r\nHost: pay\r\n\r\n")
		b.send("GET / HTTP/1.1\r\nHost: pay\r\n\r\n")
		a.answer("GET")
		b.answer("GET")
	}
	for _, e := range eps {
		if got := e.requests.Load(); off(got, all/12) > 0.3*noise() {
			t.Errorf("%d requests at one of 12 endpoints, equal is %d", got, all/12)
		}
	}
}
