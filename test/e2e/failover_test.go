//go:build linux

package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"spillway/test/e2e/blackhole"
)

// TestDatacenterKilled kills every application of dc1 with kill -9 under 100 requests a second. No request may fail, but a POST that
// an application had already read.
func TestDatacenterKilled(t *testing.T) {
	var dc1 []*child
	var eps []string
	for i := range 8 {
		dc := fmt.Sprint("dc", i/4+1)
		c := startChild(t, dc, 0)
		eps = append(eps, at(c.addr, dc))
		if dc == "dc1" {
			dc1 = append(dc1, c)
		}
	}
	s := startSidecar(t, setup{services: service("pay", "", eps...)})
	l := startLoad(s.outbound(), "pay", 100, "GET", "POST")
	eventually(t, waitMax, "150 requests", func() bool { return l.sofar() >= 150 })
	killed := time.Now()
	for _, c := range dc1 {
		_ = c.cmd.Process.Kill()
	}
	n := l.sofar()
	eventually(t, waitMax, "200 further requests", func() bool { return l.sofar() >= n+200 })
	all := l.finish()
	var first time.Duration
	for _, o := range all {
		end := o.start.Add(o.took)
		if o.body == "dc2" && end.After(killed) && (first == 0 || end.Sub(killed) < first) {
			first = end.Sub(killed)
		}
		if o.body == "dc2" && end.Before(killed) {
			t.Errorf("left dc1 while it was well: %v", o)
		}
	}
	if first == 0 {
		t.Error("dc2 never answered")
	}
	t.Logf("%d requests, first answer of dc2 %v after the kill, longest %v", len(all), first, percentile(all, 1))
	taken := 0
	for _, o := range failures(all) {
		if o.method == "POST" && o.reason == "reset" {
			t.Logf("a POST that had been taken: %v", o)
			taken++
			continue
		}
		t.Errorf("failed: %v", o)
	}
	if taken > 1 {
		t.Errorf("%d POSTs failed, at most one can have been in the hands of an application", taken)
	}
}

// TestDatacenterSilent turns dc1 into a black hole while the pools are warm. No idempotent request may be lost.
func TestDatacenterSilent(t *testing.T) {
	const connectTimeout = time.Second
	var dc1 []*endpoint
	var eps []string
	for range 4 {
		e := named(t, "dc1")
		dc1 = append(dc1, e)
		eps = append(eps, at(e.addr, "dc1"), at(named(t, "dc2").addr, "dc2"))
	}
	s := startSidecar(t, setup{services: service("pay", "connect_timeout: {local: 1s}", eps...)})
	l := startLoad(s.outbound(), "pay", 100, "GET")
	eventually(t, waitMax, "150 requests", func() bool { return l.sofar() >= 150 })
	for _, e := range dc1 {
		for _, c := range e.sockets() {
			if err := blackhole.Dig(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	n := l.sofar()
	eventually(t, waitMax, "400 further requests", func() bool { return l.sofar() >= n+400 })
	all := l.finish()
	for _, o := range failures(all) {
		t.Errorf("failed: %v", o)
	}
	if last := all[len(all)-1]; last.body != "dc2" {
		t.Errorf("the last answer is not of dc2: %v", last)
	}
	longest := percentile(all, 1)
	t.Logf("%d requests, longest %v, promised %v", len(all), longest, connectTimeout+2*time.Second)
	if longest > connectTimeout+3*time.Second {
		t.Errorf("longest answer %v", longest)
	}
}

// TestRollingRestart restarts four applications with their sidecars, one after the other, under 500 requests a second. Nothing may
// fail, POSTs included.
func TestRollingRestart(t *testing.T) {
	const drain = "announce: 700ms, timeout: 5s"
	var apps []*child
	var cars []*sidecar
	var eps []string
	for i := range 4 {
		app := startChild(t, fmt.Sprint("app", i), 0)
		car := prepareSidecar(t, setup{inbound: "ports: [{port: 8080, protocol: http}]", drain: drain, trusted: true}, app.ip)
		car.start(t)
		car.waitReady(t)
		apps, cars = append(apps, app), append(cars, car)
		eps = append(eps, at(app.addr, "dc1", "sidecar: 15006"))
	}
	s := startSidecar(t, setup{trusted: true, services: service("pay", "", eps...)})
	rate := 500
	if os.Getenv("SPILLWAY_RACE") == "1" {
		rate = 100 // five instrumented processes are slower than the load
	}
	l := startLoad(s.outbound(), "pay", rate, "GET", "POST")
	eventually(t, waitMax, "a second of requests", func() bool { return l.sofar() >= rate })
	for i, car := range cars {
		car.signal(syscall.SIGTERM)
		if code := car.waitExit(t, waitMax); code != 0 {
			t.Errorf("drained sidecar ended with %d", code)
		}
		apps[i].kill()
		apps[i].start(t)
		car.start(t)
		car.waitReady(t)
		n := l.sofar()
		eventually(t, waitMax, "150 further requests", func() bool { return l.sofar() >= n+150 })
	}
	all := l.finish()
	bad := failures(all)
	for i, o := range bad {
		if i == 10 {
			break
		}
		t.Errorf("failed: %v", o)
	}
	by := map[string]int{}
	for _, o := range all {
		by[o.body]++
	}
	t.Logf("%d requests, %d failed, longest %v, answered by %v", len(all), len(bad), percentile(all, 1), by)
	for i := range apps {
		if by[fmt.Sprint("app", i)] == 0 {
			t.Errorf("app%d answered nothing", i)
		}
	}
}

// TestOneEndpointKilled kills one of two applications without sidecars, twice.
// GETs must all succeed, POSTs as far as no application had read them.
func TestOneEndpointKilled(t *testing.T) {
	t.Parallel()
	a, b := startChild(t, "a", 0), startChild(t, "b", 0)
	s := startSidecar(t, setup{services: service("pay", "", at(a.addr, "dc1"), at(b.addr, "dc1"))})
	l := startLoad(s.outbound(), "pay", 100, "GET", "POST")
	for range 2 {
		n := l.sofar()
		eventually(t, waitMax, "50 requests", func() bool { return l.sofar() >= n+50 })
		a.kill()
		eventually(t, waitMax, "50 requests", func() bool { return l.sofar() >= n+100 })
		a.start(t)
	}
	taken := 0
	for _, o := range failures(l.finish()) {
		if o.method != "POST" || o.reason != "reset" {
			t.Errorf("failed: %v", o)
		}
		taken++
	}
	if taken > 2 {
		t.Errorf("%d POSTs failed, at most one per kill can have been in the hands of an application", taken)
	}
}

// TestNearest sends everything to the own zone while that is well, then to the own datacenter, then in the order of the datacenters.
func TestNearest(t *testing.T) {
	t.Parallel()
	zone, dc, far, farther := named(t, "zone"), named(t, "dc"), named(t, "dc2"), named(t, "dc3")
	same := func(addr, zone string) string { return strings.Replace(at(addr, "dc1"), "dc1-a", zone, 1) }
	s := startSidecar(t, setup{services: service("pay", "locality: {spill: last_resort, tier_endpoints_min: 1}",
		at(farther.addr, "dc3"), at(far.addr, "dc2"), same(dc.addr, "dc1-b"), same(zone.addr, "dc1-a"))})
	c := dial(t, s.outbound())
	for _, step := range []struct {
		want string
		kill *endpoint
	}{{"zone", zone}, {"dc", dc}, {"dc2", far}, {"dc3", farther}} {
		for i := range 50 {
			if m := c.get("pay", "/"); string(m.body) != step.want {
				_, why := tool(t, "explain", "--admin", "http://"+s.admin(), "--service", "pay")
				t.Fatalf("request %d after the step to %s went to %q: %q\n%s", i, step.want, m.body, m.head, why)
			}
		}
		step.kill.stop()
	}
	if m := c.get("pay", "/"); m.status() != 503 {
		t.Errorf("after all are gone: %q", m.head)
	}
}

// TestSpill sends the measured share to the next datacenter: with two of four endpoints refused, 2/4 x 140 % stay. last_resort keeps all.
func TestSpill(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"health", "last_resort"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var eps []string
			for i := range 4 {
				near := newIP() + ":8080" // nobody listens
				if i < 2 {
					near = named(t, "dc1").addr
				}
				eps = append(eps, at(near, "dc1"), at(named(t, "dc2").addr, "dc2"))
			}
			s := startSidecar(t, setup{
				outbound: "services: [pay]",
				services: service("pay", "locality: {spill: "+mode+"}, health: {active: {tcp: true, interval: 200ms}}", eps...),
			})
			eventually(t, waitMax, "the refused endpoints are out", func() bool {
				usable := 0
				for _, svc := range s.view(t).Services {
					for _, tier := range svc.Tiers {
						for _, e := range tier.Endpoints {
							if e.State == "usable" {
								usable++
							}
						}
					}
				}
				return usable == 6
			})
			c := dial(t, s.outbound())
			const all = 3000
			near := 0
			for range all {
				m := c.get("pay", "/")
				if m.status() != 200 {
					t.Fatalf("answer %q", m.head)
				}
				if string(m.body) == "dc1" {
					near++
				}
			}
			got := 100 * float64(near) / all
			if mode == "health" && (got < 66 || got > 74) {
				t.Errorf("%.1f %% stayed, want 70", got)
			}
			if mode == "last_resort" && near != all {
				t.Errorf("%.1f %% stayed, want 100", got)
			}
		})
	}
}
