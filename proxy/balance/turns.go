package balance

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

const (
	// SequenceMax is how many endpoints have a precomputed weighted sequence; above, the earliest deadline is looked for at each pick.
	SequenceMax = 256
	// turnsMax bounds a precomputed sequence. Weights whose sum without their common divisor is larger are rounded to fit.
	turnsMax = 1 << 14
	// turnsTriedMax bounds the turns in a row that are passed over because their endpoint was tried.
	turnsTriedMax = 8
	// round is the length of one round of an endpoint of weight 1, in the virtual time of deadlines.
	round = 1 << 32
)

// Cursor is the position of round robin. It outlives the sets that are rebuilt around it. The zero value starts at the first element.
type Cursor struct{ n atomic.Uint64 }

// next is the position, which moves on.
func (c *Cursor) next() uint64 { return c.n.Add(1) - 1 }

// turn is whose turn it is.
func (s *Set) turn(rng *rand.Rand) int {
	switch {
	case s.queue != nil:
		return s.queue.next(rng)
	case s.seq != nil:
		return int(s.seq[s.cursor.next()%uint64(len(s.seq))])
	}
	return int(s.cursor.next() % uint64(len(s.loads)))
}

// sequence is one round of smooth weighted round robin, by the rule of nginx: at each step every candidate gains its weight, the one with
// the most is taken, the first of equals, and pays the sum of all. 5:1:1 gives A A B A C A A.
func sequence(weights []int) []uint16 {
	fitted, total := fit(weights, turnsMax)
	out, gained := make([]uint16, total), make([]int, len(fitted))
	for k := range out {
		best := 0
		for i, w := range fitted {
			gained[i] += w
			if gained[i] > gained[best] {
				best = i
			}
		}
		gained[best] -= total
		out[k] = uint16(best)
	}
	return out
}

// fit divides weights by their common divisor, and rounds them where their sum is still over most, each to at least 1.
func fit(weights []int, most int) (fitted []int, total int) {
	divisor := 0
	for _, w := range weights {
		divisor = gcd(divisor, w)
	}
	sum := 0.0
	for _, w := range weights {
		sum += float64(w / divisor)
	}
	scale := 1.0
	if sum > float64(most) {
		// What is rounded up may add one for each endpoint.
		scale = float64(most-len(weights)) / sum
	}
	fitted = make([]int, len(weights))
	for i, w := range weights {
		fitted[i] = max(1, int(float64(w/divisor)*scale+0.5))
		total += fitted[i]
	}
	return fitted, total
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// deadlines is earliest deadline first: each endpoint has a turn every round/weight of virtual time, from a random phase on. The phase keeps
// the proxies of a fleet, and the sets that follow each other when health changes, from starting with the same endpoints.
type deadlines struct {
	mu      sync.Mutex
	started bool
	heap    []deadline // heap[i] is not before heap[(i-1)/2]
}

// deadline is the next turn of one endpoint. Virtual time has room for 2^32 rounds of weight 1.
type deadline struct {
	at, every uint64
	index     int
}

func newDeadlines(weights []int) *deadlines {
	d := &deadlines{heap: make([]deadline, len(weights))}
	for i, w := range weights {
		d.heap[i] = deadline{every: max(1, round/uint64(w)), index: i}
	}
	return d
}

// next is whose turn it is.
func (d *deadlines) next(rng *rand.Rand) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.started {
		d.started = true
		for i := range d.heap {
			d.heap[i].at = rng.Uint64N(d.heap[i].every)
		}
		for i := len(d.heap)/2 - 1; i >= 0; i-- {
			d.sink(i)
		}
	}
	first := d.heap[0].index
	d.heap[0].at += d.heap[0].every
	d.sink(0)
	return first
}

// sink moves the element at i down to where the heap's order holds again.
func (d *deadlines) sink(i int) {
	h := d.heap
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].before(h[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

func (d deadline) before(o deadline) bool { return d.at < o.at || d.at == o.at && d.index < o.index }
