package retry

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// dumb is a Budget that keeps every event.
type dumb struct {
	requests, shared, free []int64 // instants
}

func (d *dumb) take(now int64, share float64) bool {
	slot := now / int64(slotSpan)
	in := func(list []int64) (n int) {
		for _, at := range list {
			if slot-at/int64(slotSpan) < int64(slotsMax) {
				n++
			}
		}
		return n
	}
	if float64(in(d.shared)+1) <= share*float64(in(d.requests))+1e-9 {
		d.shared = append(d.shared, now)
		return true
	}
	recent := 0
	for _, at := range d.free {
		if now-at < int64(time.Second) {
			recent++
		}
	}
	if recent >= FloorPerSecMax {
		return false
	}
	d.free = append(d.free, now)
	return true
}

// TestBudgetIsItsReference also holds the promise of R24 over the whole run.
func TestBudgetIsItsReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var fast Budget
		var slow dumb
		share := rapid.Float64Range(0, 1).Draw(t, "share")
		start := int64(rapid.IntRange(0, 100_000).Draw(t, "start")) * int64(time.Millisecond)
		now, taken := start, 0
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now += int64(rapid.SampledFrom([]int{0, 0, 1, 50, 300, 1000, 2500, 12_000}).Draw(t, "ms")) * int64(time.Millisecond)
			for range rapid.IntRange(0, 20).Draw(t, "requests") {
				fast.OnRequest(now)
				slow.requests = append(slow.requests, now)
			}
			for range rapid.IntRange(0, 15).Draw(t, "retries") {
				got, want := fast.Take(now, share), slow.take(now, share)
				if got != want {
					t.Fatalf("at %v: %v, want %v", time.Duration(now), got, want)
				}
				if got {
					taken++
				}
			}
			seconds := math.Floor(time.Duration(now-start).Seconds()) + 1
			if most := share*float64(len(slow.requests)) + FloorPerSecMax*seconds + 1e-6; float64(taken) > most {
				t.Fatalf("%d retries for %d requests in %v seconds, at most %v", taken, len(slow.requests), seconds, most)
			}
		}
	})
}

// TestAllFail is R24: 600 requests, 64 at a time, attempts 4, budget 0.2, everything fails. Fast and slow endpoints.
func TestAllFail(t *testing.T) {
	const requests, workers, attempts = 600, 64, 4
	for _, took := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond} {
		var b Budget
		now, sent, begun := int64(0), 0, 0
		tries := make([]int, workers) // of the request that each worker has; 0: none
		for {
			busy := false
			for w := range tries {
				switch {
				case tries[w] > 0 && tries[w] < attempts && b.Take(now, 0.2):
					tries[w]++
				case begun < requests:
					b.OnRequest(now)
					begun++
					tries[w] = 1
				default:
					tries[w] = 0
					continue
				}
				busy = true
				sent++
			}
			if !busy {
				break
			}
			now += int64(took)
		}
		seconds := math.Ceil(max(time.Duration(now).Seconds(), 1))
		most := int(1.2*requests + FloorPerSecMax*seconds)
		if sent > most || sent < requests*6/5 {
			t.Errorf("tries of %v: %d requests became %d tries in %v s, at most %d", took, requests, sent, seconds, most)
		}
	}
}

// TestWindow: requests count for ten slots of a second, their own included, and no longer, whoever comes first in the next one.
func TestWindow(t *testing.T) {
	for _, row := range []struct {
		at   time.Duration
		want int
	}{{0, 20}, {9999 * time.Millisecond, 20}, {10 * time.Second, 0}, {time.Hour, 0}} {
		var b Budget
		for range 100 {
			b.OnRequest(0)
		}
		taken := 0
		for b.Take(int64(row.at), 0.2) {
			taken++
		}
		if taken -= FloorPerSecMax; taken != row.want {
			t.Errorf("after %v: %d retries for 100 requests, want %d", row.at, taken, row.want)
		}
	}
}

// TestFloor: a service with hardly any requests has retries, ten in any second.
func TestFloor(t *testing.T) {
	var b Budget
	now := int64(0)
	for round := range 5 {
		for i := range FloorPerSecMax {
			if !b.Take(now+int64(i), 0) {
				t.Fatalf("round %d: retry %d refused", round, i)
			}
		}
		if b.Take(now+int64(time.Second)-1, 0) {
			t.Fatalf("round %d: an eleventh retry within a second", round)
		}
		now += int64(time.Second)
	}
}

// TestConcurrentTakes: with everybody at it no request is lost and not one retry too many is given.
func TestConcurrentTakes(t *testing.T) {
	const workers, each = 8, 1000
	var b Budget
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range int64(each) {
				b.OnRequest(i * int64(time.Millisecond)) // all in the first second
			}
		})
	}
	wg.Wait()
	var taken atomic.Int64
	for range workers {
		wg.Go(func() {
			for range each {
				if b.Take(int64(999*time.Millisecond), 0.2) {
					taken.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if want := int64(workers*each/5 + FloorPerSecMax); taken.Load() != want {
		t.Errorf("%d retries for %d requests, want %d", taken.Load(), workers*each, want)
	}
}

func TestBudgetAllocatesNothing(t *testing.T) {
	var b Budget
	now := int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += int64(time.Second) / 3
		b.OnRequest(now)
		b.Take(now, 0.2)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	p, try := policy(), Try{Kind: Silence, Idempotent: true, Replayable: true, Left: 1, Attempts: 1}
	if n := testing.AllocsPerRun(1000, func() {
		if Decide(p, try) != Retry {
			t.Error("no retry")
		}
	}); n != 0 {
		t.Errorf("Decide: %v allocations", n)
	}
}

func BenchmarkOnRequest(b *testing.B) {
	var budget Budget
	for i := range b.N {
		budget.OnRequest(int64(i) * 1000)
	}
}
