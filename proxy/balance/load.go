// Package balance picks an endpoint inside a tier.
//
// Its job: what is known of an endpoint's load, and the methods p2c, round_robin, weighted_round_robin and random.
// Not its job: which endpoints are candidates (proxy/upstream), which tier (proxy/locality).
// It is pure and starts no goroutine; `now` is nanoseconds of one monotonic clock. Picks allocate nothing.
// Bounds: SequenceMax elements of a precomputed sequence; TriedMax endpoints that a pick leaves out.
package balance

import (
	"math"
	"sync/atomic"
	"time"
)

// decay is the time constant with which a latency that nobody observes any more goes back to the median of its tier.
const decay = 10 * time.Second

// Load is what balancing knows of one endpoint. It lives as long as the endpoint's state. Safe for concurrent use.
type Load struct {
	inFlight atomic.Int64
	latency  atomic.Uint64 // bits of a float64 in seconds; 0: never observed
	at       atomic.Int64  // of the last observation
}

// Begin counts a request or connection in.
func (l *Load) Begin() { l.inFlight.Add(1) }

// End counts it out.
func (l *Load) End() { l.inFlight.Add(-1) }

// InFlight is the number of requests and tunnels under way.
func (l *Load) InFlight() int64 { return l.inFlight.Load() }

// Observe takes the latency of one answer: a peak EWMA, which goes up at once and comes down with the time constant of decay
// (Finagle's peak EWMA). Two observations at once may lose one.
func (l *Load) Observe(now int64, latency time.Duration) {
	seen := latency.Seconds()
	old := math.Float64frombits(l.latency.Load())
	if old != 0 && seen < old {
		w := math.Exp(-float64(max(0, now-l.at.Load())) / float64(decay))
		seen = old*w + seen*(1-w)
	}
	l.latency.Store(math.Float64bits(max(seen, 1e-9)))
	l.at.Store(now)
}

// known is the last latency in seconds; 0: none.
func (l *Load) known() float64 { return math.Float64frombits(l.latency.Load()) }

// estimate is the latency to reckon with now: what was observed, decayed by the clock towards the median.
func (l *Load) estimate(now int64, median float64) float64 {
	seen := l.known()
	if seen == 0 {
		return median
	}
	w := math.Exp(-float64(max(0, now-l.at.Load())) / float64(decay))
	return median + (seen-median)*w
}

// Cursor is the position of round robin. It outlives the sets that are rebuilt around it. The zero value starts at the first element.
type Cursor struct{ n atomic.Uint64 }
