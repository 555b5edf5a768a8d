package balance

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/discovery"
)

var methods = []discovery.BalanceMethod{discovery.P2C, discovery.RoundRobin, discovery.WeightedRoundRobin, discovery.Random}

// warmed is an endpoint whose latency is known.
func warmed(inFlight int, latency time.Duration, now int64) *Load {
	l := new(Load)
	for range inFlight {
		l.Begin()
	}
	for range warm {
		l.Observe(now, latency)
	}
	return l
}

// chances is the probability of each candidate under p2c from its words: two different ones drawn by weight, the second only when the
// first costs more than coin times as much. The dumb reference looks at every pair.
// sure is false where two costs differ by the factor exactly, and rounding decides.
func chances(inFlight, weights []int, latency []time.Duration, tried []bool) (out []float64, sure bool) {
	sure = true
	out = make([]float64, len(weights))
	all, mean := 0.0, 0.0
	for i, w := range weights {
		mean += float64(w) / float64(len(weights))
		if !tried[i] {
			all += float64(w)
		}
	}
	cost := func(i int) float64 {
		return (float64(inFlight[i])*mean/float64(weights[i]) + 1) * max(noise, latency[i].Seconds())
	}
	for a, wa := range weights {
		if tried[a] {
			continue
		}
		first := float64(wa) / all
		if float64(wa) == all {
			out[a] += first
			continue
		}
		for b, wb := range weights {
			if b == a || tried[b] {
				continue
			}
			sure = sure && math.Abs(cost(a)/cost(b)/coin-1) > 1e-9
			pair := first * float64(wb) / (all - float64(wa))
			if cost(a) > coin*cost(b) {
				out[b] += pair
			} else {
				out[a] += pair
			}
		}
	}
	return out, sure
}

func TestP2CAgainstReference(t *testing.T) {
	const draws = 4000
	now := int64(time.Hour)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "endpoints")
		weights, inFlight := make([]int, n), make([]int, n)
		latency, tried := make([]time.Duration, n), make([]bool, n)
		loads := make([]*Load, n)
		var out []*Load
		equal := rapid.Bool().Draw(t, "equal weights")
		for i := range n {
			weights[i] = 1
			if !equal {
				weights[i] = rapid.IntRange(1, 20).Draw(t, "weight")
			}
			inFlight[i] = rapid.IntRange(0, 5).Draw(t, "in flight")
			latency[i] = rapid.SampledFrom([]time.Duration{200 * time.Microsecond, 2 * time.Millisecond, 7 * time.Millisecond}).Draw(t, "latency")
			loads[i] = warmed(inFlight[i], latency[i], now)
			if tried[i] = rapid.IntRange(0, 4).Draw(t, "tried") == 0; tried[i] {
				out = append(out, loads[i])
			}
		}
		want, sure := chances(inFlight, weights, latency, tried)
		if !sure {
			return
		}
		set := NewSet(discovery.P2C, loads, weights, nil)
		rng := seeded(rapid.Uint64().Draw(t, "seed"))
		counts := make([]int, n)
		for range draws {
			i := set.Pick(now, rng, out)
			if i < 0 {
				if len(out) != n {
					t.Fatal("nothing picked, though something is left")
				}
				return
			}
			counts[i]++
		}
		for i, p := range want {
			// Six standard deviations: one false alarm in a hundred million.
			if off := math.Abs(float64(counts[i]) - p*draws); off > 6*math.Sqrt(draws*p*(1-p))+1e-6 {
				t.Fatalf("endpoint %d picked %d times of %d, its chance is %.4f", i, counts[i], draws, p)
			}
		}
	})
}

// TestPickHolds: whatever the method, a pick is a candidate that was not tried, and there is none only when all were.
func TestPickHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 300).Draw(t, "endpoints")
		loads, weights := fresh(n), make([]int, n)
		for i := range weights {
			weights[i] = rapid.IntRange(0, 3).Draw(t, "weight")
		}
		var tried []*Load
		for range min(n, rapid.IntRange(0, 8).Draw(t, "tried")) {
			tried = append(tried, loads[rapid.IntRange(0, n-1).Draw(t, "which")])
		}
		left := n
		for _, l := range loads {
			if slices.Contains(tried, l) {
				left--
			}
		}
		set := NewSet(rapid.SampledFrom(methods).Draw(t, "method"), loads, weights, new(Cursor))
		rng := seeded(rapid.Uint64().Draw(t, "seed"))
		for range 20 {
			i := set.Pick(0, rng, tried)
			if (i < 0) != (left == 0) || i >= n || i >= 0 && slices.Contains(tried, loads[i]) {
				t.Fatalf("picked %d of %d, %d tried", i, n, len(tried))
			}
		}
		if set.Len() != n {
			t.Fatalf("length %d", set.Len())
		}
	})
}

// TestAnother: asked with what it gave before, every method names all endpoints, each once.
func TestAnother(t *testing.T) {
	for _, m := range methods {
		for _, weights := range [][]int{nil, {1, 1, 1, 1, 1}, {50, 1, 2, 1, 9}} {
			loads := fresh(5)
			set, rng := NewSet(m, loads, weights, new(Cursor)), seeded(9)
			var tried []*Load
			for range loads {
				i := set.Pick(0, rng, tried)
				if i < 0 || slices.Contains(tried, loads[i]) {
					t.Fatalf("method %d gave %d after %d", m, i, len(tried))
				}
				tried = append(tried, loads[i])
			}
			if i := set.Pick(0, rng, tried); i != -1 {
				t.Errorf("method %d gave %d though all were tried", m, i)
			}
		}
	}
}

// TestRetriesSpread: the requests of a dead endpoint go to the others evenly, not to its neighbour.
func TestRetriesSpread(t *testing.T) {
	for _, m := range methods {
		loads := fresh(5)
		set, rng := NewSet(m, loads, nil, new(Cursor)), seeded(11)
		counts := make([]int, 5)
		for range 10_000 {
			i := set.Pick(0, rng, nil)
			if i == 2 {
				i = set.Pick(0, rng, loads[2:3])
			}
			counts[i]++
		}
		if worst := evenness([]int{counts[0], counts[1], counts[3], counts[4]}, 10_000); counts[2] != 0 || worst > 0.1 {
			t.Errorf("method %d: %v", m, counts)
		}
	}
}

// TestUnknownIsMedian: a new endpoint is neither flooded nor left out.
func TestUnknownIsMedian(t *testing.T) {
	now := int64(time.Hour)
	loads := []*Load{warmed(0, 20*time.Millisecond, now), warmed(0, 20*time.Millisecond, now), warmed(0, 20*time.Millisecond, now), new(Load)}
	set, rng, counts := NewSet(discovery.P2C, loads, nil, nil), seeded(5), make([]int, 4)
	for range 4000 {
		counts[set.Pick(now, rng, nil)]++
	}
	if worst := evenness(counts, 4000); worst > 0.15 {
		t.Errorf("%v", counts)
	}
}

// TestMedianOfTwo: of two endpoints the slow one comes back by the clock, since the median is the well one's.
func TestMedianOfTwo(t *testing.T) {
	now := int64(time.Hour)
	loads := []*Load{warmed(0, 500*time.Millisecond, now), warmed(0, 5*time.Millisecond, now)}
	set, rng := NewSet(discovery.P2C, loads, nil, nil), seeded(5)
	picks := func() (slow int) {
		for range 1000 {
			if set.Pick(now, rng, nil) == 0 {
				slow++
			}
		}
		return slow
	}
	if got := picks(); got != 0 {
		t.Errorf("the slow one got %d of 1000", got)
	}
	now += int64(70 * time.Second)
	if got := picks(); got < 400 {
		t.Errorf("the slow one got %d of 1000 after 70 s", got)
	}
}

// TestMedianIsKept: within medianEvery the median is the cached one, after that it is made anew; it is of a sample where there are many.
func TestMedianIsKept(t *testing.T) {
	now := int64(time.Hour)
	loads := fresh(1000)
	for i := range loads {
		loads[i] = warmed(0, time.Duration(i+1)*time.Millisecond, now)
	}
	set := NewSet(discovery.P2C, loads, nil, nil)
	if got := set.typical(now); math.Abs(got-0.5) > 0.005 {
		t.Errorf("median %v, want half a second", got)
	}
	for _, l := range loads {
		l.latency.Store(math.Float64bits(2))
	}
	if got := set.typical(now + medianEvery - 1); got > 1 {
		t.Errorf("median %v, should be the cached one", got)
	}
	if got := set.typical(now + medianEvery); got != 2 {
		t.Errorf("median %v, should be made anew", got)
	}
}

// TestNoAllocations: picks and observations allocate nothing.
func TestNoAllocations(t *testing.T) {
	for _, m := range methods {
		for _, n := range []int{1, 4, 300} {
			loads, weights := fresh(n), make([]int, n)
			for i := range weights {
				weights[i] = 1 + i%3
			}
			set, rng, now, tried := NewSet(m, loads, weights, new(Cursor)), seeded(1), int64(time.Hour), loads[:1]
			allocs := testing.AllocsPerRun(200, func() {
				now += medianEvery / 2
				set.Pick(now, rng, tried)
				l := loads[set.Pick(now, rng, nil)]
				l.Begin()
				l.Observe(now, time.Millisecond)
				l.End()
			})
			if allocs != 0 {
				t.Errorf("method %d of %d: %v allocations", m, n, allocs)
			}
		}
	}
}

// TestTogether: many goroutines on one set. The race detector looks on; in flight returns to zero.
func TestTogether(t *testing.T) {
	for _, m := range methods {
		for _, n := range []int{3, 300} {
			loads, weights := fresh(n), make([]int, n)
			for i := range weights {
				weights[i] = 1 + i%3
			}
			set := NewSet(m, loads, weights, new(Cursor))
			var wg sync.WaitGroup
			for g := range 4 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(g), 2))
					for k := range 500 {
						now := int64(time.Duration(k) * 10 * time.Millisecond)
						l := loads[set.Pick(now, rng, nil)]
						l.Begin()
						l.Observe(now, time.Duration(1+k%5)*time.Millisecond)
						l.End()
					}
				})
			}
			wg.Wait()
			for i, l := range loads {
				if l.InFlight() != 0 {
					t.Errorf("method %d: endpoint %d has %d in flight", m, i, l.InFlight())
				}
			}
		}
	}
}

// TestObserveHolds: the latency stays between the least and the greatest that was observed, is a number, and moves to where answers are.
func TestObserveHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, now := new(Load), int64(0)
		least, most := math.Inf(1), 0.0
		for range rapid.IntRange(1, 60).Draw(t, "answers") {
			now += rapid.Int64Range(-int64(time.Second), int64(time.Minute)).Draw(t, "gap") // clocks of two readers may cross
			took := rapid.Int64Range(-5, int64(time.Minute)).Draw(t, "latency")
			l.Observe(now, time.Duration(took))
			least, most = min(least, max(latencyMin, float64(took)/1e9)), max(most, float64(took)/1e9, latencyMin)
			if v := l.known(); v != 0 && (math.IsNaN(v) || v < least*(1-1e-9) || v > most*(1+1e-9)) {
				t.Fatalf("latency %v outside %v..%v", v, least, most)
			}
		}
		for range 400 {
			now += int64(time.Second)
			l.Observe(now, 10*time.Millisecond)
		}
		if v := l.known(); math.Abs(v-0.01) > 1e-4 {
			t.Fatalf("latency %v after answers of 10 ms", v)
		}
	})
}

func TestKeep(t *testing.T) {
	for _, age := range []time.Duration{-time.Hour, 0, 1, time.Millisecond, 99 * time.Millisecond, 101 * time.Millisecond, time.Second, time.Minute, 1 << 62} {
		want := min(1, math.Exp(-age.Seconds()/10))
		if got := keep(int64(age)); math.Abs(got-want) > 1e-6 {
			t.Errorf("%v: %v, want %v", age, got, want)
		}
	}
}
