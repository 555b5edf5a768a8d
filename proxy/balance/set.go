package balance

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"spillway/discovery"
)

const (
	// coin is the factor within which two costs are the same: the first one drawn is taken, which is a fair toss.
	coin = 1.5
	// noise is the latency below which endpoints do not differ, in seconds: scheduling and the network of a datacenter make more than that.
	noise = 1e-3
	// medianEvery is how old the cached median of a set may become; medianSoon the same while nothing is known.
	medianEvery = int64(time.Second)
	medianSoon  = int64(10 * time.Millisecond)
	// medianMax bounds the latencies that a median is made of; a larger set is sampled evenly.
	medianMax = 256
)

// Set is the candidates of one tier. It is immutable but for a cached median and, for weighted round robin, the turns. Safe for
// concurrent use.
type Set struct {
	method  discovery.BalanceMethod
	loads   []*Load
	weights []int     // each >= 1; nil when all are equal
	cum     []uint64  // cum[i] = weights[0] + .. + weights[i]; nil when all are equal
	ease    []float64 // mean weight / weight of each; nil when all are equal
	cursor  *Cursor
	seq     []uint16   // weighted round robin up to SequenceMax: indexes in order
	queue   *deadlines // weighted round robin above

	median   atomic.Uint64 // bits of a float64, in seconds; 0: not made yet
	medianAt atomic.Int64  // when it is due again
	busy     atomic.Bool   // somebody makes the median: owns scratch
	scratch  []float64
}

// WeightMax is the greatest weight that counts; a greater one counts as this.
const WeightMax = 1 << 30

// NewSet makes the set of loads with their weights; a weight under 1 counts as 1, and nil means that all are equal. The round robins go
// on from cursor; others need none. NewSet keeps loads.
func NewSet(m discovery.BalanceMethod, loads []*Load, weights []int, cursor *Cursor) *Set {
	s := &Set{method: m, loads: loads, cursor: cursor}
	if s.cursor == nil {
		s.cursor = new(Cursor)
	}
	if m == discovery.P2C {
		s.scratch = make([]float64, 0, min(len(loads), medianMax))
	}
	differ := slices.ContainsFunc(weights, func(w int) bool { return max(1, w) != max(1, weights[0]) })
	if differ && m != discovery.RoundRobin {
		s.weigh(weights)
	}
	if m == discovery.WeightedRoundRobin && s.weights != nil {
		if len(loads) <= SequenceMax {
			s.seq = sequence(s.weights)
		} else {
			s.queue = newDeadlines(s.weights)
		}
	}
	return s
}

// weigh takes weights that differ.
func (s *Set) weigh(weights []int) {
	s.weights = make([]int, len(weights))
	s.cum = make([]uint64, len(weights))
	s.ease = make([]float64, len(weights))
	sum := uint64(0)
	for i, w := range weights {
		s.weights[i] = min(max(1, w), WeightMax)
		sum += uint64(s.weights[i])
		s.cum[i] = sum
	}
	mean := float64(sum) / float64(len(weights))
	for i, w := range s.weights {
		s.ease[i] = mean / float64(w)
	}
}

// Len is the number of candidates.
func (s *Set) Len() int { return len(s.loads) }

// Pick gives an index into the set, or -1 when all of it are among tried. It takes constant time for p2c, round robin and random with
// equal weights and nothing tried; the logarithm of the set's size with weights; the size of the set when something was tried.
func (s *Set) Pick(now int64, rng *rand.Rand, tried []*Load) int {
	if len(s.loads) == 0 {
		return -1
	}
	switch s.method {
	case discovery.RoundRobin, discovery.WeightedRoundRobin:
		return s.inTurn(rng, tried)
	case discovery.Random:
		if len(tried) > 0 {
			return s.spare(rng, tried, -1)
		}
		return s.one(rng)
	}
	return s.p2c(now, rng, tried)
}

// inTurn takes the next turns until one falls to an endpoint that was not tried, so that the turns of a dead endpoint spread over the
// others; after turnsTriedMax the draw decides. -1: all were tried.
func (s *Set) inTurn(rng *rand.Rand, tried []*Load) int {
	for range turnsTriedMax {
		if i := s.turn(rng); !slices.Contains(tried, s.loads[i]) {
			return i
		}
	}
	return s.spare(rng, tried, -1)
}

// p2c draws two different candidates by weight and takes the second only when it is cheaper by more than a toss.
func (s *Set) p2c(now int64, rng *rand.Rand, tried []*Load) int {
	var a, b int
	switch {
	case len(tried) > 0:
		if a = s.spare(rng, tried, -1); a < 0 {
			return -1
		}
		if b = s.spare(rng, tried, a); b < 0 {
			return a
		}
	case len(s.loads) == 1:
		return 0
	default:
		a = s.one(rng)
		b = s.other(rng, a)
	}
	median := s.typical(now)
	if s.cost(a, now, median) > coin*s.cost(b, now, median) {
		return b
	}
	return a
}

// one draws a candidate by weight.
func (s *Set) one(rng *rand.Rand) int {
	if s.cum == nil {
		return rng.IntN(len(s.loads))
	}
	return s.owner(rng.Uint64N(s.cum[len(s.cum)-1]))
}

// other draws a candidate but a by weight: from the range of weights without a's own.
func (s *Set) other(rng *rand.Rand, a int) int {
	if s.cum == nil {
		b := rng.IntN(len(s.loads) - 1)
		if b >= a {
			b++
		}
		return b
	}
	own := uint64(s.weights[a])
	r := rng.Uint64N(s.cum[len(s.cum)-1] - own)
	if r >= s.cum[a]-own {
		r += own
	}
	return s.owner(r)
}

// owner is the candidate whose part of the summed weights r lies in: cum[i-1] <= r < cum[i].
func (s *Set) owner(r uint64) int {
	at, _ := slices.BinarySearch(s.cum, r+1)
	return at
}

// spare draws a candidate by weight that is neither among tried nor but; -1: there is none.
func (s *Set) spare(rng *rand.Rand, tried []*Load, but int) int {
	sum := uint64(0)
	for i, l := range s.loads {
		if i != but && !slices.Contains(tried, l) {
			sum += s.weight(i)
		}
	}
	if sum == 0 {
		return -1
	}
	r := rng.Uint64N(sum)
	for i, l := range s.loads {
		if i == but || slices.Contains(tried, l) {
			continue
		}
		if w := s.weight(i); r >= w {
			r -= w
			continue
		}
		return i
	}
	return -1 // not reached: r < sum
}

func (s *Set) weight(i int) uint64 {
	if s.weights == nil {
		return 1
	}
	return uint64(s.weights[i])
}

// cost is (in flight + 1) x latency. With weights, requests in flight count against what the endpoint is there for: an idle one costs the
// same whatever its weight, since the draw has honoured that already, and a heavy one may hold more before it is dearer.
func (s *Set) cost(i int, now int64, median float64) float64 {
	l := s.loads[i]
	busy := float64(max(0, l.InFlight()))
	if s.ease != nil {
		busy *= s.ease[i]
	}
	return (busy + 1) * max(noise, l.estimate(now, median))
}

// typical is the median of the known latencies in seconds, at most medianEvery old; noise while nothing is known. Of an even number it is
// the lower one: where half of a tier is slow, latencies decay towards the well half.
func (s *Set) typical(now int64) float64 {
	if now >= s.medianAt.Load() && s.busy.CompareAndSwap(false, true) {
		s.remake(now)
		s.busy.Store(false)
	}
	return max(noise, math.Float64frombits(s.median.Load()))
}

// remake makes the median anew. The caller owns busy.
func (s *Set) remake(now int64) {
	known := s.scratch[:0]
	step := (len(s.loads) + medianMax - 1) / medianMax
	for i := 0; i < len(s.loads); i += step {
		if v := s.loads[i].known(); v != 0 {
			known = append(known, v)
		}
	}
	if len(known) == 0 {
		s.medianAt.Store(now + medianSoon)
		return
	}
	slices.Sort(known)
	s.median.Store(math.Float64bits(known[(len(known)-1)/2]))
	s.medianAt.Store(now + medianEvery)
}
