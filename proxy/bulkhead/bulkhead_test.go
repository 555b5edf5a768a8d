package bulkhead

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"spillway/discovery"
	"spillway/proxy/answer"
)

// TestExactUnderConcurrency: with more takers than places there are never more than max inside, nobody is turned away while there is
// room for good, and what was given and refused adds up.
func TestExactUnderConcurrency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(0, 6).Draw(t, "max")
		workers := rapid.IntRange(1, 8).Draw(t, "workers")
		const each = 200
		var l Limit
		l.Set(most)
		var inside, peak, given atomic.Int64
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range each {
					if !l.TryAcquire() {
						continue
					}
					given.Add(1)
					n := inside.Add(1)
					for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
					}
					inside.Add(-1)
					l.Release()
				}
			})
		}
		wg.Wait()
		if peak.Load() > int64(most) {
			t.Fatalf("%d inside, at most %d", peak.Load(), most)
		}
		if l.Held() != 0 {
			t.Fatalf("%d held after all were released", l.Held())
		}
		if total := uint64(given.Load()) + l.Refused(); total != uint64(workers*each) {
			t.Fatalf("%d given and %d refused of %d", given.Load(), l.Refused(), workers*each)
		}
		if workers <= most && l.Refused() != 0 {
			t.Fatalf("%d refused with %d places for %d", l.Refused(), most, workers)
		}
	})
}

// TestFillsExactly: takers that keep their places get exactly max of them.
func TestFillsExactly(t *testing.T) {
	for _, most := range []int{0, 1, 7, 64} {
		var l Limit
		l.Set(most)
		var given atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					if l.TryAcquire() {
						given.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if given.Load() != int64(most) || l.Held() != int64(most) || l.Refused() != uint64(400-most) {
			t.Errorf("max %d: %d given, %d held, %d refused", most, given.Load(), l.Held(), l.Refused())
		}
	}
}

// TestLimitIsACounter runs any sequence, changes of the bound among it, beside a plain counter.
func TestLimitIsACounter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Limit
		held, most, refused := 0, 0, uint64(0)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0:
				most = rapid.IntRange(0, 5).Draw(t, "max")
				l.Set(most)
			case 1:
				if held > 0 {
					l.Release()
					held--
				}
			default:
				got := l.TryAcquire()
				if got != (held < most) {
					t.Fatalf("acquire with %d/%d: %v", held, most, got)
				}
				if got {
					held++
				} else {
					refused++
				}
			}
			if l.Held() != int64(held) || l.Max() != int64(most) || l.Refused() != refused {
				t.Fatalf("%d/%d refused %d, want %d/%d refused %d", l.Held(), l.Max(), l.Refused(), held, most, refused)
			}
		}
	})
}

func TestReleaseTooMuchPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	var l Limit
	l.Set(1)
	l.TryAcquire()
	l.Release()
	l.Release()
}

func TestConfigure(t *testing.T) {
	var c Cluster
	c.Configure(discovery.BulkheadLimits{Connections: 4, Pending: 3, Requests: 2, Retries: 1})
	c.Configure(discovery.BulkheadLimits{Connections: 1, Pending: 2, Requests: 3, Retries: 0})
	for i, l := range []*Limit{&c.Connections, &c.Pending, &c.Requests, &c.Retries} {
		if want := []int64{1, 2, 3, 0}[i]; l.Max() != want {
			t.Errorf("limit %d: %d, want %d", i, l.Max(), want)
		}
	}
	if c.Retries.TryAcquire() {
		t.Error("a retry was let in by a limit of 0")
	}
	c.Connections.TryAcquire()
	if c.Connections.TryAcquire() || !c.Pending.TryAcquire() || !c.Requests.TryAcquire() {
		t.Error("one full limit changes another")
	}
	c.Configure(discovery.BulkheadLimits{Connections: 2, Pending: 2, Requests: 3})
	if c.Connections.Held() != 1 || !c.Connections.TryAcquire() {
		t.Error("a new bound must keep what is held and give the new room at once")
	}
}

func TestHint(t *testing.T) {
	full := func(n int) *Limit {
		l := new(Limit)
		l.Set(n)
		for range n {
			l.TryAcquire()
		}
		return l
	}
	lowered := full(70)
	lowered.Set(64)
	emptied := full(3)
	emptied.Release()
	for _, row := range []struct {
		service, datacenter string
		l                   *Limit
		what                string
		cross               bool
		want                string
	}{
		{"pay", "dc2", full(64), "connections", true, "pay@dc2 64/64 connections (policy.bulkhead.cross_datacenter.connections)"},
		{"pay", "dc1", full(2), "pending", false, "pay@dc1 2/2 pending (policy.bulkhead.local.pending)"},
		{"pay", "dc1", full(0), "retries", false, "pay@dc1 0/0 retries (policy.bulkhead.local.retries)"},
		{"pay", "dc2", lowered, "requests", true, "pay@dc2 70/64 requests (policy.bulkhead.cross_datacenter.requests)"},
		{"pay", "dc1", emptied, "requests", false, "pay@dc1 3/3 requests (policy.bulkhead.local.requests)"},
	} {
		if got := Hint(row.service, row.datacenter, row.l, row.what, row.cross); got != row.want {
			t.Errorf("got  %s\nwant %s", got, row.want)
		}
	}
	long := strings.Repeat("x", 1000)
	if got := Hint(long, long, full(1), "connections", true); len(got) > answer.HintMax || !strings.HasSuffix(got, "datacenter.connections)") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

func TestLimitAllocatesNothing(t *testing.T) {
	var l Limit
	l.Set(1)
	if n := testing.AllocsPerRun(1000, func() {
		l.TryAcquire()
		l.TryAcquire()
		l.Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLimit(b *testing.B) {
	var l Limit
	l.Set(1 << 30)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.TryAcquire()
			l.Release()
		}
	})
}
