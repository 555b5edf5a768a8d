//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// ledger counts how often each request was seen by endpoints.
type ledger struct {
	mu   sync.Mutex
	seen map[string]int
}

func (l *ledger) note(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[string]int{}
	}
	l.seen[id]++
	return l.seen[id]
}

// count is how often the request was seen.
func (l *ledger) count(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[id]
}

// most is the largest count.
func (l *ledger) most() (id string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, v := range l.seen {
		if v > n {
			id, n = k, v
		}
	}
	return id, n
}

// TestEndSeenBeforeWrite (R01): the endpoint closes 30 ms after each answer, the client returns after 150 ms. The end has been seen,
// so a new connection is used, for a POST too.
func TestEndSeenBeforeWrite(t *testing.T) {
	t.Parallel()
	var book ledger
	e := each(t, func(w *wire, m message) bool {
		book.note(m.path())
		w.ok("ok")
		pace(30 * time.Millisecond) // a short keep-alive
		return false
	})
	s := one(t, "", e)
	c := dial(t, s.outbound())
	for i := range 8 {
		c.want(c.post("pay", fmt.Sprint("/", i), "body"), 200, "ok")
		pace(150 * time.Millisecond) // a caller of low traffic
	}
	if id, n := book.most(); n != 1 {
		t.Errorf("POST %s reached endpoints %d times", id, n)
	}
}

// TestEndRaces (R01): the endpoint closes in the moment the next request arrives. A GET is sent again on a new connection; a POST is
// answered or refused, and never sent twice.
func TestEndRaces(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"end", "reset"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			var book ledger
			e := serve(t, func(w *wire) {
				m, err := w.request()
				if err != nil {
					return
				}
				book.note(m.method() + m.path())
				w.ok("ok")
				if m, err = w.request(); err == nil { // the second request of a connection is read and cut
					book.note(m.method() + m.path())
				}
				if how == "reset" {
					w.reset()
				}
			})
			s := one(t, "health: {passive: {consecutive_failures: 0}}", e)
			c := dial(t, s.outbound())
			for i := range 40 {
				c.want(c.get("pay", fmt.Sprint("/", i)), 200, "ok")
				m := c.post("pay", fmt.Sprint("/", i), "body")
				if m.status() != 200 {
					c.refused(m, 503, "reset")
				}
			}
			for i := range 40 {
				if n := book.count(fmt.Sprint("POST/", i)); n > 1 {
					t.Errorf("POST %d reached the endpoint %d times", i, n)
				}
			}
		})
	}
}

// TestEndRacesUnread cuts pooled connections at random moments, without reading: a POST is answered or refused, never twice.
func TestEndRacesUnread(t *testing.T) {
	t.Parallel()
	var book ledger
	e := serve(t, func(w *wire) {
		rng := rand.New(rand.NewPCG(uint64(w.n), 0))
		m, err := w.request()
		if err != nil {
			return
		}
		book.note(m.path())
		w.ok("ok")
		pace(time.Duration(rng.IntN(1500)) * time.Microsecond) // the close falls on the next request, more or less
	})
	s := one(t, "health: {passive: {consecutive_failures: 0}}", e)
	c := dial(t, s.outbound())
	refused := 0
	for i := range 400 {
		m := c.post("pay", fmt.Sprint("/", i), "body")
		if m.status() != 200 {
			c.refused(m, 503, "reset")
			refused++
		}
		pace(700 * time.Microsecond) // about as long as the endpoint waits
	}
	if id, n := book.most(); n != 1 {
		t.Errorf("POST %s reached the endpoint %d times", id, n)
	}
	t.Logf("%d of 400 POSTs met the close", refused)
}

// TestKeepAliveHint (R61): an endpoint that says timeout=1 closes after a second; its connection is not used again close to that.
func TestKeepAliveHint(t *testing.T) {
	t.Parallel()
	e := serve(t, func(w *wire) {
		for first := true; ; first = false {
			idle := time.Now()
			_ = w.SetReadDeadline(idle.Add(time.Second))
			if _, err := w.request(); err != nil {
				return
			}
			if d := time.Since(idle); !first && d > 990*time.Millisecond {
				t.Errorf("connection %d was used again after %v, the hint was 1 s", w.n, d)
			}
			w.say("HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	s := one(t, "", e)
	c := dial(t, s.outbound())
	for i := range 8 {
		c.want(c.post("pay", "/", "body"), 200, "ok")
		pace(930*time.Millisecond + time.Duration(i)*20*time.Millisecond) // callers around the edge of the hint
	}
}

// TestRetryElsewhere: an endpoint that cuts every request costs a GET nothing while another one answers; a POST that it took is
// refused and not sent twice; the budget bounds what all retries together may add.
func TestRetryElsewhere(t *testing.T) {
	t.Parallel()
	var book ledger
	bad := each(t, func(_ *wire, m message) bool { book.note(m.method() + m.path()); return false })
	good := each(t, func(w *wire, m message) bool { book.note(m.method() + m.path()); return w.ok("ok") })
	s := one(t, "balance: round_robin, health: {passive: {consecutive_failures: 0}}", bad, good)
	c := dial(t, s.outbound())
	failed := 0
	for i := range 20 {
		c.want(c.get("pay", fmt.Sprint("/", i)), 200, "ok")
		if m := c.post("pay", fmt.Sprint("/", i), "x"); m.status() != 200 {
			c.refused(m, 503, "reset")
			failed++
		}
		if n := book.count(fmt.Sprint("POST/", i)); n != 1 {
			t.Errorf("POST %d reached endpoints %d times", i, n)
		}
	}
	if failed == 0 {
		t.Error("no POST met the bad endpoint: the test shows nothing")
	}
}

// TestRetryBudget (R24): when all is broken the endpoints see at most 1.2 times the requests plus 10 a second.
func TestRetryBudget(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"503", "cut"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			broken := func(w *wire, _ message) bool {
				if how == "cut" {
					return false
				}
				return w.say("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
			}
			a, b := each(t, broken), each(t, broken)
			s := one(t, "retry: {attempts: 4, budget: 0.2}, health: {passive: {consecutive_failures: 0}}", a, b)
			var wg sync.WaitGroup
			const all = 600
			start := time.Now()
			for range 20 {
				wg.Go(func() {
					c := dial(t, s.outbound())
					for range all / 20 {
						if m := c.get("pay", "/"); m.status() != 503 {
							t.Errorf("answer %q", m.head)
						}
					}
				})
			}
			wg.Wait()
			got := a.requests.Load() + b.requests.Load()
			floor := 10 * (10 + time.Since(start).Seconds()) // ten a second over the window of ten seconds
			if float64(got) > 1.2*all+floor {
				t.Errorf("%d requests at the endpoints for %d, allowed 1.2 x and %.0f", got, all, floor)
			}
			if got < all {
				t.Errorf("%d requests at the endpoints for %d", got, all)
			}
		})
	}
}

// TestRefusedGoesOn: a refused connection costs no request, whatever its method, and the endpoint is left alone afterwards.
func TestRefusedGoesOn(t *testing.T) {
	t.Parallel()
	good := named(t, "ok")
	s := startSidecar(t, setup{services: service("pay", "balance: round_robin",
		at(newIP()+":8080", "dc1"), at(newIP()+":8080", "dc1"), at(good.addr, "dc1"))})
	c := dial(t, s.outbound())
	for range 50 {
		c.want(c.post("pay", "/", "body"), 200, "ok")
	}
	if n := good.requests.Load(); n != 50 {
		t.Errorf("%d requests at the good endpoint for 50", n)
	}
}

// TestRefusedComesBack: a probe connect brings a refused endpoint back without a request being risked.
func TestRefusedComesBack(t *testing.T) {
	t.Parallel()
	ip := newIP()
	good := named(t, "good")
	s := startSidecar(t, setup{services: service("pay", "balance: round_robin", at(ip+":8080", "dc1"), at(good.addr, "dc1"))})
	c := dial(t, s.outbound())
	for range 4 {
		c.want(c.get("pay", "/"), 200, "good")
	}
	serveAt(t, ip, func(w *wire) {
		for {
			if _, err := w.request(); err != nil {
				return
			}
			w.ok("back")
		}
	})
	took := eventually(t, 8*time.Second, "the endpoint serves again", func() bool { return string(c.get("pay", "/").body) == "back" })
	t.Logf("back after %v", took)
}
