package balance

import (
	"math"
	"math/rand/v2"

	"spillway/discovery"
)

// Moment is everything but chance that a pick depends on. It says why an endpoint was chosen, and the choice can be made again from it.
type Moment struct {
	Method     discovery.BalanceMethod
	Cursor     uint64 // position of the round robins
	Candidates []Candidate
}

// Candidate is what a pick sees of one endpoint.
type Candidate struct {
	Weight   int
	InFlight int64
	Latency  float64 // the estimate that counts, in seconds
}

// Moment is the set as it is now. It allocates; the data path needs none unless it records.
func (s *Set) Moment(now int64) Moment {
	m := Moment{Method: s.method, Cursor: s.cursor.n.Load(), Candidates: make([]Candidate, len(s.loads))}
	median := noise
	if s.method == discovery.P2C {
		median = s.typical(now)
	}
	for i, l := range s.loads {
		m.Candidates[i] = Candidate{Weight: int(s.weight(i)), InFlight: l.InFlight(), Latency: l.estimate(now, median)}
	}
	return m
}

// Pick picks from the moment as a Set would: the same chance gives the same index. It moves nothing on. tried are indexes that are left out.
// Weighted round robin over more than SequenceMax endpoints starts with new phases.
func (m Moment) Pick(rng *rand.Rand, tried []int) int {
	loads, weights := make([]*Load, len(m.Candidates)), make([]int, len(m.Candidates))
	for i, c := range m.Candidates {
		l := new(Load)
		l.inFlight.Store(c.InFlight)
		l.latency.Store(math.Float64bits(c.Latency))
		l.answers.Store(warm)
		loads[i], weights[i] = l, c.Weight
	}
	var out []*Load
	for _, i := range tried {
		if i >= 0 && i < len(loads) {
			out = append(out, loads[i])
		}
	}
	cursor := new(Cursor)
	cursor.n.Store(m.Cursor)
	return NewSet(m.Method, loads, weights, cursor).Pick(0, rng, out)
}
