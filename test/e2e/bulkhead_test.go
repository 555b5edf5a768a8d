//go:build linux

package e2e

import (
	"fmt"
	"regexp"
	"sync"
	"testing"
	"time"

	"spillway/test/e2e/blackhole"
)

// holder is an endpoint that holds every request until it is released.
func holder(t *testing.T) (e *endpoint, release func()) {
	t.Helper()
	open := make(chan struct{})
	e = each(t, func(w *wire, _ message) bool {
		select {
		case <-open:
		case <-t.Context().Done():
			return false
		}
		return w.ok("held")
	})
	return e, sync.OnceFunc(func() { close(open) })
}

// TestBulkheadLimits fills each limit of a cluster exactly; what is over it is refused at once with a line that names the limit, its
// value and the key to change.
func TestBulkheadLimits(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		name, datacenter, policy, line string
		admitted, connections          int
	}{
		{"requests", "dc2", "bulkhead: {cross_datacenter: {connections: 64, pending: 64, requests: 6, retries: 4}}",
			`overflow: pay@dc2 6/6 requests \(policy\.bulkhead\.cross_datacenter\.requests\)`, 6, 6},
		{"connections and pending", "dc2", "bulkhead: {cross_datacenter: {connections: 4, pending: 3, requests: 100, retries: 4}}",
			`overflow: pay@dc2 (4/4 connections|3/3 pending) \(policy\.bulkhead\.cross_datacenter\.(connections|pending)\)`, 7, 4},
		{"local", "dc1", "bulkhead: {local: {connections: 3, pending: 2, requests: 100, retries: 4}, cross_datacenter: {requests: 1}}",
			`overflow: pay@dc1 (3/3 connections|2/2 pending) \(policy\.bulkhead\.local\.(connections|pending)\)`, 5, 3},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			e, release := holder(t)
			s := startSidecar(t, setup{services: service("pay", r.policy, at(e.addr, r.datacenter))})
			const all = 30
			answers := make(chan message, all)
			var wg sync.WaitGroup
			for i := range all {
				c := dial(t, s.outbound())
				wg.Go(func() {
					c.say(fmt.Sprintf("POST /%d HTTP/1.1\r\nHost: pay\r\nContent-Length: 0\r\n\r\n", i))
					m, err := readMessage(c.br, "POST")
					if err != nil {
						t.Errorf("request %d: %v", i, err)
					}
					answers <- m
				})
			}
			line := regexp.MustCompile(`^` + r.line + `\n?$`)
			for i := range all - r.admitted {
				select {
				case m := <-answers:
					if m.status() != 503 || m.reason() != "overflow" || !m.has("Retry-After", "") || !line.Match(m.body) {
						t.Fatalf("refusal %q %q, want the line %s", m.head, m.body, r.line)
					}
				case <-time.After(waitMax):
					t.Fatalf("%d refused, want %d", i, all-r.admitted)
				}
			}
			eventually(t, waitMax, "all connections are in use", func() bool { return e.requests.Load() == int64(r.connections) })
			release()
			wg.Wait()
			for range r.admitted {
				if m := <-answers; m.status() != 200 {
					t.Errorf("an admitted request got %q %q", m.head, m.body)
				}
			}
			if n := e.conns.Load(); n > int64(r.connections) {
				t.Errorf("%d connections at the endpoint, the limit is %d", n, r.connections)
			}
			c := dial(t, s.outbound()) // everything was given back
			for range 10 {
				c.want(c.get("pay", "/"), 200, "held")
			}
		})
	}
}

// TestBulkheadSpans: the limits of one datacenter do not count requests to the other, and overflow of a cluster is no verdict on its
// endpoints.
func TestBulkheadSpans(t *testing.T) {
	t.Parallel()
	e, release := holder(t)
	near := named(t, "near")
	policy := "bulkhead: {cross_datacenter: {connections: 2, pending: 1, requests: 2}}"
	s := startSidecar(t, setup{services: service("far", policy, at(e.addr, "dc2")) + service("near", policy, at(near.addr, "dc1"))})
	var held []*client
	for range 2 {
		c := dial(t, s.outbound())
		c.send("GET / HTTP/1.1\r\nHost: far\r\n\r\n")
		held = append(held, c)
	}
	eventually(t, waitMax, "both are held", func() bool { return e.requests.Load() == 2 })
	c := dial(t, s.outbound())
	for range 20 {
		c.refused(c.get("far", "/"), 503, "overflow")
		c.want(c.get("near", "/"), 200, "near")
	}
	release()
	for _, h := range held {
		h.want(h.answer("GET"), 200, "held")
	}
	for range 5 {
		c.want(c.get("far", "/"), 200, "held")
	}
}

// TestIsolation: a dead and a silent cluster in dc2 do not slow a service of dc1. The medians are taken inside one run.
func TestIsolation(t *testing.T) {
	silent, near := named(t, "silent"), named(t, "near")
	if err := blackhole.Dig(silent.ln); err != nil {
		t.Fatal(err)
	}
	s := startSidecar(t, setup{services: service("near", "", at(near.addr, "dc1")) +
		service("silent", "connect_timeout: {cross_datacenter: 2s}, timeout: 2s", at(silent.addr, "dc2")) +
		service("dead", "timeout: 2s", at(newIP()+":8080", "dc2"))})
	c := dial(t, s.outbound())
	median := func() time.Duration {
		var all []outcome
		for range 600 {
			start := time.Now()
			c.want(c.get("near", "/"), 200, "near")
			all = append(all, outcome{took: time.Since(start)})
		}
		return percentile(all, 0.5)
	}
	median() // warm
	before := median()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 80 { // more than the connections of the cluster
		name := "silent"
		if i%8 == 0 {
			name = "dead"
		}
		c := dial(t, s.outbound())
		wg.Go(func() {
			for {
				c.say("GET / HTTP/1.1\r\nHost: ", name, "\r\n\r\n")
				m, err := readMessage(c.br, "GET")
				if err != nil || m.status()/100 != 5 {
					t.Errorf("%s: %q %v", name, m.head, err)
					return
				}
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond): // a caller that tries again
				}
			}
		})
	}
	pace(300 * time.Millisecond) // all of them hang
	during := median()
	close(stop)
	wg.Wait()
	t.Logf("median %v alone, %v beside sick clusters", before, during)
	if during > 6*before+2*time.Millisecond {
		t.Errorf("median %v beside sick clusters, %v alone", during, before)
	}
}
