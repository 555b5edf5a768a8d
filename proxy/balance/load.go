// Package balance picks an endpoint inside a tier.
//
// Its job: what is known of an endpoint's load, and the methods p2c, round_robin, weighted_round_robin and random.
// Not its job: which endpoints are candidates (proxy/upstream), which tier (proxy/locality), health (proxy/health).
// It is pure and starts no goroutine; now is nanoseconds of one monotonic clock. Picks and observations allocate nothing and wait for
// nobody, but for weighted round robin over more than SequenceMax endpoints, which takes a mutex for a few steps of a heap.
// Limits: SequenceMax endpoints and turnsMax turns of a precomputed sequence, medianMax latencies looked at for a median.
package balance

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	// decay is the time constant with which a latency that nobody observes any more goes back to the median of its tier, and with which
	// an older one counts less beside a new one.
	decay = 10 * time.Second
	// warm is how many answers it takes until a latency counts. The first ones pay for the connect, cold caches and lazy start.
	warm = 4
	// stepUp and stepDown are how far one answer moves the latency beside what the clock allows, in natural logarithms: 6 % up, 2 % down.
	// Three steps down balance one up, so that the latency settles at the upper quartile.
	stepUp, stepDown = 0.06, 0.02
	// latencyMin stands in for anything shorter: nothing takes no time. In seconds.
	latencyMin = 1e-6
)

// Load is what balancing knows of one endpoint. It lives as long as the endpoint's state. Safe for concurrent use. The zero value knows
// nothing.
//
// The latency is an average in the logarithmic domain that leans to the slow side. Each answer moves it by the time that passed since the
// one before (weight 1 - e^(-t/decay)) and by one bounded step. A peak that takes over at once would do for endpoints that differ, but not for
// equal ones: one stray answer of a hundred times the median, or the first one with its connect, would leave an endpoint without requests
// for a minute, since only requests can show that it is well. Bounded, a stray answer moves 6 %, and an endpoint that is slow is left
// after some ten answers, or after the first few where answers are seconds apart.
type Load struct {
	inFlight atomic.Int64
	latency  atomic.Uint64 // bits of a float64, in seconds
	at       atomic.Int64  // instant of the last observation
	answers  atomic.Uint32 // observations, counted up to warm
}

// Begin counts a request or connection in.
func (l *Load) Begin() { l.inFlight.Add(1) }

// End counts it out.
func (l *Load) End() { l.inFlight.Add(-1) }

// InFlight is the number of requests, connections and tunnels under way.
func (l *Load) InFlight() int64 { return l.inFlight.Load() }

// Observe takes the latency of one answer. Of two observations at the same moment one may be lost.
func (l *Load) Observe(now int64, latency time.Duration) {
	seen := max(latency.Seconds(), latencyMin)
	before := math.Float64frombits(l.latency.Load())
	if n := l.answers.Load(); n < warm {
		// The least of the first answers: too low rights itself with the next requests, too high keeps them away.
		if n > 0 {
			seen = min(seen, before)
		}
		l.latency.Store(math.Float64bits(seen))
		l.at.Store(now)
		l.answers.Store(n + 1)
		return
	}
	kept := keep(now - l.at.Load())
	far := math.Log(seen / before)
	step := min(stepUp, max(-stepDown, far*kept))
	l.latency.Store(math.Float64bits(before * math.Exp(far*(1-kept)+step)))
	l.at.Store(now)
}

// known is the latency as of the last observation, in seconds; 0: not enough is known.
func (l *Load) known() float64 {
	if l.answers.Load() < warm {
		return 0
	}
	return math.Float64frombits(l.latency.Load())
}

// estimate is the latency to reckon with now, in seconds: what was observed, decayed by the clock towards the median.
func (l *Load) estimate(now int64, median float64) float64 {
	seen := l.known()
	if seen == 0 {
		return median
	}
	age := now - l.at.Load()
	if age <= 0 {
		return seen
	}
	return median + (seen-median)*keep(age)
}

// keep is e^(-age/decay): what is left of a value of that age in nanoseconds.
func keep(age int64) float64 {
	x := float64(age) / float64(decay)
	switch {
	case x <= 0:
		return 1
	case x < 1e-2: // most answers of a busy endpoint: a parabola is right to 2e-7
		return 1 - x + x*x/2
	}
	return math.Exp(-x)
}
