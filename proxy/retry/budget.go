package retry

import (
	"sync"
	"sync/atomic"
	"time"
)

// The shape of a Budget.
const (
	Window         = 10 * time.Second // requests and retries older than this count no more
	FloorPerSecMax = 10               // retries in any second that need no request behind them

	slotSpan = time.Second
	slotsMax = int(Window / slotSpan)
)

// Budget bounds retries: in the window at most a share of the requests, and FloorPerSecMax in any second besides, so that a service with
// few requests has retries at all. Over any run of whole seconds T with N requests it gives at most share x N + FloorPerSecMax x T.
//
// The zero value is ready. Safe for concurrent use; OnRequest is a load and an add, Take holds a mutex.
type Budget struct {
	slots [slotsMax]slot

	mu    sync.Mutex
	floor [FloorPerSecMax]int64 // instants of the last retries given by the floor, a ring
	given int                   // how many the floor has given, bounded by its use modulo the ring
}

// slot counts what began in one slotSpan.
type slot struct {
	number   atomic.Int64 // of the slotSpan since the clock's zero, + 1; 0: never used
	requests atomic.Int64
	retries  int64 // under Budget.mu
}

// OnRequest takes note of a request; not of its further tries.
func (b *Budget) OnRequest(now int64) {
	number := now/int64(slotSpan) + 1
	s := &b.slots[uint64(number)%uint64(slotsMax)]
	if s.number.Load() != number && !b.turn(s, number) {
		return
	}
	s.requests.Add(1)
}

// turn makes the slot the one of number; false when it is a later one's already.
func (b *Budget) turn(s *slot, number int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return s.turn(number)
}

func (s *slot) turn(number int64) bool {
	if old := s.number.Load(); old >= number {
		return old == number
	}
	s.requests.Store(0)
	s.retries = 0
	s.number.Store(number)
	return true
}

// Take takes one retry, where share (0..1) of the requests of the window or the floor allows it.
func (b *Budget) Take(now int64, share float64) bool {
	number := now/int64(slotSpan) + 1
	b.mu.Lock()
	defer b.mu.Unlock()
	var requests, retries int64
	for i := range b.slots {
		s := &b.slots[i]
		if s.number.Load() > number-int64(slotsMax) {
			requests += s.requests.Load()
			retries += s.retries
		}
	}
	s := &b.slots[uint64(number)%uint64(slotsMax)]
	if float64(retries+1) <= share*float64(requests)+1e-9 && s.turn(number) {
		s.retries++
		return true
	}
	oldest := &b.floor[b.given%FloorPerSecMax]
	if b.given >= FloorPerSecMax && now-*oldest < int64(time.Second) {
		return false
	}
	*oldest = now
	if b.given++; b.given == 2*FloorPerSecMax {
		b.given = FloorPerSecMax
	}
	return true
}
