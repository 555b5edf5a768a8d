//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestAbortedExchanges breaks 10,000 exchanges off at random points, on either side; goroutines and descriptors go back to where
// they were.
func TestAbortedExchanges(t *testing.T) {
	const all, workers = 10_000, 32
	e := each(t, func(w *wire, m message) bool {
		switch m.path() {
		case "/cut":
			w.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart")
			w.reset()
			return false
		case "/close":
			return false
		case "/slow":
			pace(8 * time.Millisecond) // long enough for the client to be watched
		case "/big":
			return w.ok(strings.Repeat("x", 300_000))
		}
		return w.ok("ok")
	})
	s := one(t, "health: {passive: {consecutive_failures: 0}}", e)
	var wg sync.WaitGroup
	warm := func() {
		for range workers {
			wg.Go(func() {
				c := dial(t, s.outbound())
				for range 5 {
					c.get("pay", "/slow")
				}
				_ = c.Close()
			})
		}
		wg.Wait()
	}
	warm()
	pace(200 * time.Millisecond) // the closed clients of the warm-up are seen
	// Connections kept to the endpoint are no leak: their number follows the most exchanges that were under way at once.
	descriptors := func() float64 {
		return s.metric(t, "process_open_fds") - s.metric(t, "spillway_bulkhead_held", `limit="connections"`)
	}
	goroutines, fds := s.metric(t, "go_goroutines"), descriptors()
	var next atomic.Int64
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 9))
			for next.Add(1) <= all {
				abort(t, s.outbound(), rng)
			}
		})
	}
	wg.Wait()
	const left = 4 // scrapes in progress and the like
	var g, f float64
	back := func() bool {
		g, f = s.metric(t, "go_goroutines"), descriptors()
		return g <= goroutines+left && f <= fds+left
	}
	deadline := time.Now().Add(waitMax)
	for !back() {
		if time.Now().After(deadline) {
			t.Fatalf("goroutines %v before, %v after; descriptors %v before, %v after", goroutines, g, fds, f)
		}
		pace(50 * time.Millisecond)
	}
	t.Logf("goroutines %v before, %v after; descriptors %v before, %v after", goroutines, g, fds, f)
	c := dial(t, s.outbound())
	c.want(c.get("pay", "/"), 200, "ok")
}

// abort is one exchange that is broken off.
func abort(t *testing.T, addr string, rng *rand.Rand) {
	c, err := net.Dial("tcp4", addr)
	if err != nil {
		t.Errorf("dial: %v", err)
		return
	}
	w := newWire(c, 0)
	path := []string{"/", "/slow", "/big", "/cut", "/close"}[rng.IntN(5)]
	text := []string{
		"GET " + path + " HTTP/1.1\r\nHost: pay\r\n\r\n",
		fmt.Sprintf("POST %s HTTP/1.1\r\nHost: pay\r\nContent-Length: 2000\r\n\r\n%s", path, strings.Repeat("x", 2000)),
		"POST " + path + " HTTP/1.1\r\nHost: pay\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"GET " + path + " HTTP/1.1\r\nHost: pay\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	}[rng.IntN(4)]
	cut := len(text)
	if rng.IntN(2) == 0 {
		cut = rng.IntN(len(text))
	}
	w.say(text[:cut])
	switch rng.IntN(4) {
	case 0: // at once
	case 1:
		pace(time.Duration(rng.IntN(8000)) * time.Microsecond) // somewhere in the exchange
	case 2: // inside the answer
		_ = w.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, _ = w.Read(make([]byte, 1+rng.IntN(1000)))
	case 3: // an end instead of a reset
		_ = w.Close()
		return
	}
	w.reset()
}
