package balance

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"spillway/discovery"
)

const (
	// SequenceMax is how many endpoints have a precomputed weighted sequence; above, earliest deadline first is computed.
	SequenceMax = 256
	sequenceLen = 1 << 16 // elements of a precomputed sequence: weights are scaled down to fit

	coin        = 1.5 // costs within this factor are a coin toss
	medianEvery = int64(time.Second)
)

// Set is the candidates of one tier. It is immutable but for the cached median.
type Set struct {
	method  discovery.BalanceMethod
	loads   []*Load
	cum     []uint64 // running sums of the weights; nil when all are equal
	seq     []uint16 // weighted round robin: indexes in smooth order
	weights []int
	cursor  *Cursor

	median   atomic.Uint64 // bits of a float64 in seconds
	medianAt atomic.Int64  // when it is due again
	scratch  []float64     // for the median; owned by whoever moved medianAt
	busy     atomic.Bool   // scratch is in use
}

// NewSet makes the set of loads with their weights, each over 0. cursor is used by the round robins.
func NewSet(m discovery.BalanceMethod, loads []*Load, weights []int, cursor *Cursor) *Set {
	s := &Set{method: m, loads: loads, weights: weights, cursor: cursor, scratch: make([]float64, 0, len(loads))}
	equal := true
	for _, w := range weights {
		equal = equal && w == weights[0]
	}
	if !equal {
		s.cum = make([]uint64, len(weights))
		sum := uint64(0)
		for i, w := range weights {
			sum += uint64(w)
			s.cum[i] = sum
		}
	}
	if m == discovery.WeightedRoundRobin && !equal {
		s.seq = sequence(weights)
	}
	return s
}

// Len is the number of candidates.
func (s *Set) Len() int { return len(s.loads) }

// Pick gives an index into the set, or -1 when all of it has been tried.
func (s *Set) Pick(now int64, rng *rand.Rand, tried []*Load) int {
	n := len(s.loads)
	if n == 0 {
		return -1
	}
	var i int
	switch s.method {
	case discovery.RoundRobin:
		i = int((s.cursor.n.Add(1) - 1) % uint64(n))
	case discovery.WeightedRoundRobin:
		i = s.next(n)
	case discovery.Random:
		i = s.draw(rng)
	default:
		return s.p2c(now, rng, tried)
	}
	return s.orOther(i, tried)
}

func (s *Set) next(n int) int {
	at := s.cursor.n.Add(1) - 1
	if s.seq == nil {
		return int(at % uint64(n))
	}
	return int(s.seq[at%uint64(len(s.seq))])
}

// draw is one index by weight.
func (s *Set) draw(rng *rand.Rand) int {
	if s.cum == nil {
		return rng.IntN(len(s.loads))
	}
	at, found := slices.BinarySearch(s.cum, rng.Uint64N(s.cum[len(s.cum)-1]))
	if found {
		at++ // cum[i] is the first value that is no longer i's
	}
	return at
}

// orOther is i, or the next one after it that was not tried; -1 if there is none.
func (s *Set) orOther(i int, tried []*Load) int {
	for range s.loads {
		if !slices.Contains(tried, s.loads[i]) {
			return i
		}
		if i++; i == len(s.loads) {
			i = 0
		}
	}
	return -1
}

// p2c draws two different candidates and takes the cheaper one.
func (s *Set) p2c(now int64, rng *rand.Rand, tried []*Load) int {
	a := s.orOther(s.draw(rng), tried)
	if a < 0 || len(s.loads) == 1 {
		return a
	}
	b := s.second(a, rng)
	if slices.Contains(tried, s.loads[b]) {
		return a
	}
	median := s.typical(now)
	ca, cb := s.cost(a, now, median), s.cost(b, now, median)
	if ca <= cb*coin && cb <= ca*coin {
		if rng.Uint64()&1 == 0 {
			return a
		}
		return b
	}
	if ca < cb {
		return a
	}
	return b
}

// second draws another index than a.
func (s *Set) second(a int, rng *rand.Rand) int {
	if s.cum == nil {
		b := rng.IntN(len(s.loads) - 1)
		if b >= a {
			b++
		}
		return b
	}
	for range 4 {
		if b := s.draw(rng); b != a {
			return b
		}
	}
	return (a + 1) % len(s.loads)
}

// cost is (in flight + 1) x latency. Weights are in the draw: an endpoint of twice the weight is drawn twice as often, and what it
// may carry counts twice.
func (s *Set) cost(i int, now int64, median float64) float64 {
	l := s.loads[i]
	c := float64(l.InFlight()+1) * l.estimate(now, median)
	if s.cum != nil {
		c /= float64(s.weights[i])
	}
	return c
}

// typical is the median of the known latencies, at most medianEvery old.
func (s *Set) typical(now int64) float64 {
	due := s.medianAt.Load()
	if now >= due && s.busy.CompareAndSwap(false, true) {
		s.scratch = s.scratch[:0]
		for _, l := range s.loads {
			if v := l.known(); v != 0 {
				s.scratch = append(s.scratch, v)
			}
		}
		m := 1e-3 // nobody knows anything: any equal value will do
		if len(s.scratch) > 0 {
			slices.Sort(s.scratch)
			m = s.scratch[len(s.scratch)/2]
		}
		s.median.Store(math.Float64bits(m))
		s.medianAt.Store(now + medianEvery)
		s.busy.Store(false)
		return m
	}
	if m := math.Float64frombits(s.median.Load()); m != 0 {
		return m
	}
	return 1e-3
}

// sequence is the smooth weighted round robin (nginx's rule: each step every current weight grows by its own, the largest is taken and
// pays the total) up to SequenceMax endpoints, and earliest deadline first above.
func sequence(weights []int) []uint16 {
	g := 0
	for _, w := range weights {
		g = gcd(g, w)
	}
	scaled, total := make([]int, len(weights)), 0
	for i, w := range weights {
		scaled[i] = w / g
		total += scaled[i]
	}
	if total > sequenceLen {
		f := float64(sequenceLen/2) / float64(total)
		total = 0
		for i := range scaled {
			scaled[i] = max(1, int(float64(scaled[i])*f))
			total += scaled[i]
		}
	}
	if len(weights) > SequenceMax {
		return deadlines(scaled, total)
	}
	out, current := make([]uint16, 0, total), make([]int, len(scaled))
	for range total {
		best := 0
		for i, w := range scaled {
			current[i] += w
			if current[i] > current[best] {
				best = i
			}
		}
		current[best] -= total
		out = append(out, uint16(best))
	}
	return out
}

// deadlines orders each endpoint's w turns evenly over the round, with a phase of its own so that equal weights do not stand in blocks.
func deadlines(weights []int, total int) []uint16 {
	type turn struct {
		at float64
		i  int
	}
	turns := make([]turn, 0, total)
	phase := rand.New(rand.NewPCG(uint64(len(weights)), uint64(total)))
	for i, w := range weights {
		off := phase.Float64()
		for k := range w {
			turns = append(turns, turn{(float64(k) + off) / float64(w), i})
		}
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.at, b.at) })
	out := make([]uint16, len(turns))
	for k, t := range turns {
		out[k] = uint16(t.i)
	}
	return out
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
