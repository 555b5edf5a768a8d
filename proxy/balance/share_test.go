package balance

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"spillway/discovery"
)

// one sends requests one after the other, each as long as latency says, and counts who got them.
func oneAtATime(set *Set, loads []*Load, requests int, rng *rand.Rand, latency func(i, nth int) time.Duration) []int {
	counts := make([]int, len(loads))
	now := int64(time.Hour)
	for range requests {
		i := set.Pick(now, rng, nil)
		took := latency(i, counts[i])
		counts[i]++
		loads[i].Begin()
		now += int64(took)
		loads[i].End()
		loads[i].Observe(now, took)
	}
	return counts
}

// evenness is by how much the counts differ from equal at most, as a part of equal.
func evenness(counts []int, requests int) (worst float64) {
	equal := float64(requests) / float64(len(counts))
	for _, c := range counts {
		worst = max(worst, math.Abs(float64(c)/equal-1))
	}
	return worst
}

// TestEqualEndpointsShareEqually: 2, 4 and 8 equal endpoints, one request at a time, 10,000 requests: each within 20 % of equal, with latencies
// as they are in real life. Stray answers and slow first ones are what a proxy meets on a busy machine.
func TestEqualEndpointsShareEqually(t *testing.T) {
	const requests = 10_000
	times := func(base time.Duration, f float64) time.Duration { return time.Duration(float64(base) * f) }
	noises := []struct {
		name string
		of   func(rng *rand.Rand, base time.Duration, nth int) time.Duration
	}{
		{"all the same", func(_ *rand.Rand, base time.Duration, _ int) time.Duration { return base }},
		{"20 % up and down", func(rng *rand.Rand, base time.Duration, _ int) time.Duration {
			return times(base, 0.8+0.4*rng.Float64())
		}},
		{"log-normal", func(rng *rand.Rand, base time.Duration, _ int) time.Duration {
			return times(base, math.Exp(0.5*rng.NormFloat64()))
		}},
		{"exponential", func(rng *rand.Rand, base time.Duration, _ int) time.Duration {
			return times(base, 0.05+rng.ExpFloat64())
		}},
		{"slow first answer", func(rng *rand.Rand, base time.Duration, nth int) time.Duration {
			if nth == 0 {
				return times(base, 5+20*rng.Float64())
			}
			return times(base, 0.8+0.4*rng.Float64())
		}},
		{"one stray answer of a hundred", func(rng *rand.Rand, base time.Duration, _ int) time.Duration {
			if rng.IntN(100) == 0 {
				return times(base, 20+40*rng.Float64())
			}
			return times(base, 0.8+0.4*rng.Float64())
		}},
	}
	for _, noise := range noises {
		for _, base := range []time.Duration{100 * time.Microsecond, 3 * time.Millisecond, 30 * time.Millisecond} {
			for _, n := range []int{2, 4, 8} {
				for _, m := range []discovery.BalanceMethod{discovery.P2C, discovery.RoundRobin, discovery.WeightedRoundRobin, discovery.Random} {
					rng, loads := seeded(uint64(n)), fresh(n)
					set := NewSet(m, loads, nil, new(Cursor))
					counts := oneAtATime(set, loads, requests, rng, func(_, nth int) time.Duration { return noise.of(rng, base, nth) })
					if worst := evenness(counts, requests); worst > 0.2 {
						t.Errorf("%s, %v, %d endpoints, method %d: %.0f %% off: %v", noise.name, base, n, m, 100*worst, counts)
					}
				}
			}
		}
	}
}

// TestSlowEndpointIsLeft: an endpoint that becomes slow gets a few requests more and then next to none, and is asked again when the clock has
// forgotten it; once well it gets its share back.
func TestSlowEndpointIsLeft(t *testing.T) {
	for _, factor := range []time.Duration{2, 10, 100} {
		for _, n := range []int{2, 4, 8} {
			rng, loads := seeded(7), fresh(n)
			set := NewSet(discovery.P2C, loads, nil, nil)
			slow := time.Duration(1)
			now := int64(time.Hour)
			run := func(requests int) (slowOnes int) {
				for range requests {
					i := set.Pick(now, rng, nil)
					took := time.Duration(float64(5*time.Millisecond) * (0.8 + 0.4*rng.Float64()))
					if i == 0 {
						slowOnes++
						took *= slow
					}
					now += int64(took)
					loads[i].Observe(now, took)
				}
				return slowOnes
			}
			before := run(500)
			slow = factor
			during := run(1000)
			slow = 1
			now += int64(90 * time.Second)
			after := run(1000)
			if min(before, after/2)*n < 350 || during > 60 {
				t.Errorf("%d endpoints, one x %d: %d of 500 before, %d of 1000 during, %d of 1000 after", n, factor, before, during, after)
			}
		}
	}
}

// ending is a request under way in a simulation of many at a time.
type ending struct {
	at   int64
	took time.Duration
	who  int
}
type endings []ending

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].at < e[j].at }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)        { *e = append(*e, x.(ending)) }
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// closedLoop keeps so many requests under way; each endpoint serves so many at a time, the others wait there.
func closedLoop(set *Set, loads []*Load, requests, together int, slots []int, service func(i int) time.Duration, rng *rand.Rand) []int {
	counts, now := make([]int, len(loads)), int64(time.Hour)
	free := make([][]int64, len(loads)) // when each slot is free again
	for i := range free {
		free[i] = make([]int64, slots[i])
	}
	var under endings
	for sent := 0; sent < requests; sent++ {
		if len(under) == together {
			e := heap.Pop(&under).(ending)
			now = e.at
			loads[e.who].End()
			loads[e.who].Observe(now, e.took)
		}
		i := set.Pick(now, rng, nil)
		counts[i]++
		loads[i].Begin()
		slot := 0
		for k, at := range free[i] {
			if at < free[i][slot] {
				slot = k
			}
		}
		end := max(now, free[i][slot]) + int64(service(i))
		free[i][slot] = end
		heap.Push(&under, ending{end, time.Duration(end - now), i})
	}
	return counts
}

// TestWeightsHold: a weight is a share of the requests, for idle endpoints and for busy ones that have the capacity their weight says, with
// every method that knows weights.
func TestWeightsHold(t *testing.T) {
	const requests = 20_000
	for _, weights := range [][]int{{3, 1}, {5, 1, 1}, {100, 10}, {4, 3, 2, 1}, {1, 1, 1, 5}} {
		for _, m := range []discovery.BalanceMethod{discovery.P2C, discovery.WeightedRoundRobin, discovery.Random} {
			for _, together := range []int{1, 24} {
				rng, loads := seeded(3), fresh(len(weights))
				set := NewSet(m, loads, weights, new(Cursor))
				sum := 0
				for _, w := range weights {
					sum += w
				}
				got := closedLoop(set, loads, requests, together, weights, func(int) time.Duration {
					return time.Duration(float64(4*time.Millisecond) * (0.8 + 0.4*rng.Float64()))
				}, rng)
				for i, w := range weights {
					want := float64(requests) * float64(w) / float64(sum)
					tolerance := 0.1
					if together > 1 && m == discovery.P2C {
						tolerance = 0.25 // it also evens out what queues
					}
					if math.Abs(float64(got[i])-want) > tolerance*want {
						t.Errorf("method %d, weights %v, %d together: %v, endpoint %d should get %.0f", m, weights, together, got, i, want)
					}
				}
			}
		}
	}
}

// TestBusyEndpointGetsLess: one of four serves a fifth of what the others do. Round robin lets requests queue there, p2c does not.
func TestBusyEndpointGetsLess(t *testing.T) {
	rng, loads := seeded(4), fresh(4)
	set := NewSet(discovery.P2C, loads, nil, nil)
	got := closedLoop(set, loads, 20_000, 24, []int{8, 8, 8, 8}, func(i int) time.Duration {
		if i == 0 {
			return 25 * time.Millisecond
		}
		return 5 * time.Millisecond
	}, rng)
	if got[0] > 2000 {
		t.Errorf("the slow one got %d of 20000", got[0])
	}
	if worst := evenness(got[1:], got[1]+got[2]+got[3]); worst > 0.1 {
		t.Errorf("the others: %v", got[1:])
	}
}

// TestLightEndpointAtLowTraffic: weights 100 and 10, four starts of 110 requests: the light one gets 3-20 % and its first within 33 requests.
func TestLightEndpointAtLowTraffic(t *testing.T) {
	for start := range 4 {
		loads := fresh(2)
		set := NewSet(discovery.WeightedRoundRobin, loads, []int{100, 10}, new(Cursor))
		first, light := -1, 0
		for k := range 110 {
			if set.Pick(0, seeded(uint64(start)), nil) == 1 {
				if light++; first < 0 {
					first = k
				}
			}
		}
		if first < 0 || first >= 33 || light < 4 || light > 22 {
			t.Errorf("start %d: first at %d, %d in all", start, first, light)
		}
	}
}

// TestFewConnections: two client connections, each with its own chance, twelve endpoints, 2,000 requests: each endpoint within 30 % of its share.
func TestFewConnections(t *testing.T) {
	for _, m := range []discovery.BalanceMethod{discovery.P2C, discovery.RoundRobin, discovery.WeightedRoundRobin} {
		loads := fresh(12)
		set := NewSet(m, loads, nil, new(Cursor))
		chance := []*rand.Rand{seeded(31), seeded(32)}
		counts, now := make([]int, 12), int64(time.Hour)
		for k := range 2000 {
			i := set.Pick(now, chance[k%2], nil)
			counts[i]++
			now += int64(time.Millisecond)
			loads[i].Observe(now, time.Millisecond)
		}
		if worst := evenness(counts, 2000); worst > 0.3 {
			t.Errorf("method %d: %v", m, counts)
		}
	}
}

func BenchmarkPick(b *testing.B) {
	for _, m := range []discovery.BalanceMethod{discovery.P2C, discovery.RoundRobin, discovery.WeightedRoundRobin, discovery.Random} {
		for _, n := range []int{4, 100, 1000} {
			for _, weighted := range []bool{false, true} {
				b.Run(fmt.Sprintf("method=%d/endpoints=%d/weighted=%v", m, n, weighted), func(b *testing.B) {
					loads, weights := fresh(n), make([]int, n)
					for i, l := range loads {
						weights[i] = 1
						if weighted {
							weights[i] += i % 7
						}
						for range warm {
							l.Observe(int64(time.Second), time.Duration(i+1)*time.Millisecond)
						}
					}
					set, rng, now := NewSet(m, loads, weights, new(Cursor)), seeded(1), int64(time.Second)
					b.ReportAllocs()
					for b.Loop() {
						now += 1000
						set.Pick(now, rng, nil)
					}
				})
			}
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	l, now := new(Load), int64(0)
	b.ReportAllocs()
	for b.Loop() {
		now += 1_000_000
		l.Observe(now, time.Duration(1+now%7)*time.Millisecond)
	}
}

func BenchmarkNewSet(b *testing.B) {
	for _, n := range []int{4, 256, 1000} {
		b.Run(fmt.Sprintf("weighted_round_robin/endpoints=%d", n), func(b *testing.B) {
			loads, weights := fresh(n), make([]int, n)
			for i := range weights {
				weights[i] = 1000 + i*i%997
			}
			b.ReportAllocs()
			for b.Loop() {
				NewSet(discovery.WeightedRoundRobin, loads, weights, nil)
			}
		})
	}
}
