package health

import (
	"sync"
	"sync/atomic"
	"time"
)

// RefusedWithin is how close together two different endpoints of a tier must refuse for the tier to be down.
const RefusedWithin = time.Second

// TierDown tells whether a tier is down for this proxy: two different endpoints refused within RefusedWithin and none of the tier
// answered, or took a connection, between the two. It ends with one connect that succeeds.
//
// The zero value is up. Safe for concurrent use; OnAnswer and Down cost one atomic load in the usual case.
type TierDown struct {
	down atomic.Bool
	last atomic.Int64 // instant of the last refusal + 1 while no answer has come since; 0: none

	mu       sync.Mutex
	endpoint uint64 // which one refused last; counts only while last is not 0
	probes   int
	probeDue atomic.Int64
}

// Down tells whether the tier is down.
func (t *TierDown) Down() bool { return t.down.Load() }

// OnRefused takes note that a dial of the endpoint, told apart by any number of its own, was refused or timed out.
// It reports whether the tier became down by it.
func (t *TierDown) OnRefused(now int64, endpoint uint64) (down bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down.Load() {
		if now >= t.probeDue.Load() {
			t.probeDue.Store(now + backoff(t.probes, spread(now)))
			t.probes = min(t.probes+1, probeStepsMax)
		}
		return false
	}
	// The last refusal is enough to remember: had an earlier one of another endpoint been close enough, the tier would be down.
	last := t.last.Load()
	if last == 0 || t.endpoint == endpoint || now-(last-1) > int64(RefusedWithin) {
		t.endpoint = endpoint
		t.last.Store(now + 1)
		return false
	}
	t.last.Store(0)
	t.probes = 0
	t.probeDue.Store(max(now, 1)) // 0 says that none is wanted
	t.down.Store(true)
	return true
}

// OnConnected takes note of a connect to any endpoint of the tier that succeeded, be it a request's, a probe's or a check's.
// It reports whether the tier was down.
func (t *TierDown) OnConnected(now int64) (up bool) {
	t.OnAnswer(now)
	if !t.down.Load() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.down.Load() {
		return false
	}
	t.probeDue.Store(0)
	t.down.Store(false)
	return true
}

// OnAnswer takes note of an answer of any endpoint of the tier.
func (t *TierDown) OnAnswer(now int64) {
	if last := t.last.Load(); last != 0 && now >= last-1 {
		t.last.CompareAndSwap(last, 0)
	}
}

// ProbeDue is when the endpoints of the tier that do not refuse themselves want a probe connect, so that a tier whose two refused
// endpoints stay dead comes back by the others: at once when it becomes down, then with the backoff of State. 0: none wanted.
func (t *TierDown) ProbeDue() int64 { return t.probeDue.Load() }
