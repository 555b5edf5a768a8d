package health

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// dumb is TierDown by its sentence: it keeps everything that ever happened.
type dumb struct {
	events []event
	down   bool
}

type event struct {
	at       int64
	endpoint uint64 // of a refusal; 0: an answer or a connect
}

func (d *dumb) refused(now int64, endpoint uint64) bool {
	if d.down {
		return false
	}
	for i := len(d.events) - 1; i >= 0; i-- {
		e := d.events[i]
		if e.endpoint == 0 || now-e.at > int64(time.Second) {
			break
		}
		if e.endpoint != endpoint {
			d.down = true
		}
	}
	d.events = append(d.events, event{now, endpoint})
	return d.down
}

func (d *dumb) connected(now int64) bool {
	was := d.down
	d.down = false
	d.events = append(d.events, event{now, 0})
	return was
}

func TestTierDownIsItsSentence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var fast TierDown
		var slow dumb
		now := int64(0)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now += int64(rapid.IntRange(0, 700).Draw(t, "ms")) * int64(time.Millisecond)
			switch op := rapid.SampledFrom([]string{"refused", "refused", "refused", "answer", "connected"}).Draw(t, "op"); op {
			case "refused":
				e := uint64(rapid.IntRange(1, 3).Draw(t, "endpoint"))
				if got, want := fast.OnRefused(now, e), slow.refused(now, e); got != want {
					t.Fatalf("refused %d at %v: became down %v, want %v", e, time.Duration(now), got, want)
				}
			case "answer":
				fast.OnAnswer(now)
				if !slow.down {
					slow.events = append(slow.events, event{now, 0})
				}
			case "connected":
				if got, want := fast.OnConnected(now), slow.connected(now); got != want {
					t.Fatalf("connected at %v: was down %v, want %v", time.Duration(now), got, want)
				}
			}
			if fast.Down() != slow.down || (fast.ProbeDue() != 0) != slow.down {
				t.Fatalf("at %v: down %v, probe due %d, want %v", time.Duration(now), fast.Down(), fast.ProbeDue(), slow.down)
			}
		}
	})
}

// TestTierDownCases are the cases that the sentence was written for.
func TestTierDownCases(t *testing.T) {
	const ms = int64(time.Millisecond)
	type step struct {
		at       int64
		endpoint uint64 // 0: an answer
	}
	for _, row := range []struct {
		name  string
		steps []step
		down  bool
	}{
		{"two within a second", []step{{0, 1}, {1000 * ms, 2}}, true},
		{"two just over a second apart", []step{{0, 1}, {1001 * ms, 2}}, false},
		{"one endpoint many times", []step{{0, 1}, {10 * ms, 1}, {20 * ms, 1}}, false},
		{"an answer between them", []step{{0, 1}, {10 * ms, 0}, {20 * ms, 2}}, false},
		{"answers up to the first refusal count no more", []step{{0, 0}, {9 * ms, 0}, {10 * ms, 1}, {11 * ms, 2}}, true},
		{"the later refusal of the first one counts", []step{{0, 1}, {900 * ms, 1}, {1500 * ms, 2}}, true},
		{"after an answer it starts again", []step{{0, 1}, {10 * ms, 0}, {20 * ms, 2}, {30 * ms, 1}}, true},
		{"a late answer that came before the refusal", []step{{10 * ms, 1}, {9 * ms, 0}, {11 * ms, 2}}, true},
	} {
		var td TierDown
		for _, s := range row.steps {
			if s.endpoint == 0 {
				td.OnAnswer(s.at)
			} else {
				td.OnRefused(s.at, s.endpoint)
			}
		}
		if td.Down() != row.down {
			t.Errorf("%s: down %v", row.name, td.Down())
		}
	}
}

// TestTierDownProbes: the others are probed at once, then with a growing wait; answers on older connections do not end it.
func TestTierDownProbes(t *testing.T) {
	var td TierDown
	td.OnRefused(5, 1)
	if !td.OnRefused(6, 2) || td.ProbeDue() != 6 {
		t.Fatalf("down %v, probe due %d", td.Down(), td.ProbeDue())
	}
	td.OnAnswer(7)
	now, last := int64(7), int64(0)
	for range 10 {
		if td.OnRefused(now, 3) || !td.Down() {
			t.Fatal("became down twice")
		}
		wait := td.ProbeDue() - now
		if wait < int64(ProbeBackoffMin) || wait > int64(ProbeBackoffMax) || wait < last/5*4 {
			t.Fatalf("wait %v after %v", time.Duration(wait), time.Duration(last))
		}
		due := td.ProbeDue()
		if td.OnRefused(now+1, 4); td.ProbeDue() != due {
			t.Fatal("a refusal before the probe was due moved it")
		}
		now, last = due, wait
	}
	if !td.OnConnected(now) || td.Down() || td.ProbeDue() != 0 || td.OnConnected(now) {
		t.Fatal("one connect did not end it")
	}
}

// TestTierDownConcurrent: exactly one of those that refuse together makes it down, exactly one of those that connect ends it.
func TestTierDownConcurrent(t *testing.T) {
	for round := range int64(200) {
		var td TierDown
		var downs, ups atomic.Int64
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				if td.OnRefused(round, uint64(g)+1) {
					downs.Add(1)
				}
			})
		}
		wg.Wait()
		for range 8 {
			wg.Go(func() {
				td.OnAnswer(round)
				if td.OnConnected(round) {
					ups.Add(1)
				}
			})
		}
		wg.Wait()
		if downs.Load() != 1 || ups.Load() != 1 {
			t.Fatalf("%d times down, %d times up", downs.Load(), ups.Load())
		}
	}
}
