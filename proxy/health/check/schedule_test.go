package check

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spillway/discovery"
	"spillway/proxy/health"
)

// world is source, sink and network of a runner in a bubble of virtual time.
type world struct {
	t  *testing.T
	t0 time.Time
	r  *Runner

	mu       sync.Mutex
	items    []Item
	version  uint64
	starts   []start
	told     []told
	factors  []float64
	underWay map[uint64]int
	most     int // under way together
	handed   int // times that items were handed out
	behave   func(ctx context.Context, i Item, j job) outcome
	onProbe  func(id uint64, connected bool)
}

type start struct {
	at   time.Duration
	item Item
	job  job
}

type told struct {
	at        time.Duration
	id        uint64
	probe     bool
	result    health.Result
	connected bool
}

// inBubble runs f beside a runner; the runner is stopped at its end and must leave nothing behind.
func inBubble(t *testing.T, perSecond int, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, t0: time.Now(), underWay: map[uint64]int{}, version: 1, items: []Item{}}
		w.behave = func(context.Context, Item, job) outcome { return outcome{result: health.Good, ok: true} }
		w.r = New(w, w, func() int64 { return int64(w.now()) }, perSecond, func(f float64) {
			w.mu.Lock()
			w.factors = append(w.factors, f)
			w.mu.Unlock()
		}, nil)
		w.r.rng = rand.New(rand.NewPCG(1, 2))
		w.r.do = w.do
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { w.r.Run(ctx) })
		f(w)
		cancel()
		wg.Wait()
		if n := w.count(); n != 0 {
			t.Errorf("%d workers left after Run", n)
		}
	})
}

func (w *world) now() time.Duration { return time.Since(w.t0) }

// set publishes items.
func (w *world) set(items ...Item) {
	w.mu.Lock()
	w.items = append([]Item{}, items...)
	w.version++
	w.mu.Unlock()
	w.r.Wake()
	synctest.Wait()
}

// pass lets virtual time pass.
func (w *world) pass(d time.Duration) {
	time.Sleep(d) // virtual
	synctest.Wait()
}

func (w *world) CheckItems(generation uint64) ([]Item, uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if generation == w.version {
		return nil, w.version
	}
	w.handed++
	return append([]Item{}, w.items...), w.version
}

func (w *world) OnCheck(id uint64, r health.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, told{at: w.now(), id: id, result: r})
}

func (w *world) OnProbe(id uint64, connected bool) {
	w.mu.Lock()
	w.told = append(w.told, told{at: w.now(), id: id, probe: true, connected: connected})
	f := w.onProbe
	w.mu.Unlock()
	if f != nil {
		f(id, connected)
	}
}

func (w *world) do(ctx context.Context, i Item, j job) outcome {
	w.mu.Lock()
	w.starts = append(w.starts, start{w.now(), i, j})
	w.underWay[i.ID]++
	if w.underWay[i.ID] > 2 || w.underWay[i.ID] == 2 && i.ProbeDue == 0 {
		w.t.Errorf("item %d is looked at %d times at once", i.ID, w.underWay[i.ID])
	}
	behave := w.behave
	w.mu.Unlock()
	n := w.count()
	w.mu.Lock()
	w.most = max(w.most, n)
	w.mu.Unlock()
	o := behave(ctx, i, j)
	w.mu.Lock()
	w.underWay[i.ID]--
	w.mu.Unlock()
	return o
}

func (w *world) count() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.underWay {
		n += c
	}
	return n
}

// take gives what has been started since the last time.
func (w *world) take() []start {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.starts
	w.starts = nil
	return out
}

func (w *world) heard() []told {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.told
	w.told = nil
	return out
}

// answers makes every check end so after a time, or at its end of ctx.
func (w *world) answers(o outcome, after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.behave = func(ctx context.Context, _ Item, _ job) outcome {
		select {
		case <-time.After(after):
			return o
		case <-ctx.Done():
			return outcome{}
		}
	}
}

var good = outcome{result: health.Good, ok: true}

// httpItem is an item with the default check.
func httpItem(id uint64) Item {
	return Item{ID: id, Dial: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, byte(id >> 8), byte(id)}), 80),
		Check: discovery.ActiveCheck{Path: "/health", Interval: time.Second, Timeout: time.Second, UnhealthyAfter: 2, HealthyAfter: 2, CrossDatacenterTime: 3}}
}

func httpItems(n int) (items []Item) {
	for i := range n {
		items = append(items, httpItem(uint64(i)+1))
	}
	return items
}

// mostInASecond is the largest number of starts in any second.
func mostInASecond(starts []start) (most int) {
	for i, j := 0, 0; i < len(starts); i++ {
		for starts[i].at-starts[j].at >= time.Second {
			j++
		}
		most = max(most, i-j+1)
	}
	return most
}

// TestFirstAtOnceThenEveryInterval: a new item is checked at once, then every interval give or take a tenth, not in step.
func TestFirstAtOnceThenEveryInterval(t *testing.T) {
	inBubble(t, 200, func(w *world) {
		w.pass(300 * time.Millisecond)
		w.set(httpItems(4)...)
		w.pass(20 * time.Millisecond)
		if n := len(w.take()); n != 4 {
			t.Fatalf("%d first checks within 20 ms, want 4", n)
		}
		w.pass(60 * time.Second)
		last, spans := map[uint64]time.Duration{}, map[time.Duration]bool{}
		for _, s := range w.take() {
			if before, ok := last[s.item.ID]; ok {
				if span := s.at - before; span < 900*time.Millisecond || span > 1101*time.Millisecond {
					t.Fatalf("item %d: %v between two checks", s.item.ID, span)
				}
				spans[s.at-before] = true
			}
			last[s.item.ID] = s.at
		}
		if len(last) != 4 || len(spans) < 100 {
			t.Errorf("%d items checked, %d different spans", len(last), len(spans))
		}
		if n := len(w.heard()); n < 4*50 {
			t.Errorf("the sink was told %d results", n)
		}
	})
}

// TestIntervalCountsFromStart: an answer that takes long does not lengthen the interval, one that takes longer than it does, and
// checks of one item never overlap (world.do).
func TestIntervalCountsFromStart(t *testing.T) {
	inBubble(t, 200, func(w *world) {
		w.answers(good, 800*time.Millisecond)
		w.set(httpItem(1))
		w.pass(60 * time.Second)
		if n := len(w.take()); n < 55 || n > 66 {
			t.Errorf("answers of 0.8 s: %d checks in a minute", n)
		}
		w.answers(good, 3*time.Second)
		w.pass(time.Second)
		w.take()
		w.pass(60 * time.Second)
		if n := len(w.take()); n < 19 || n > 21 {
			t.Errorf("answers of 3 s: %d checks in a minute", n)
		}
	})
}

// TestBudget: over the budget intervals stretch, equally for all, and somebody is told; under it they are as they were.
func TestBudget(t *testing.T) {
	inBubble(t, 200, func(w *world) {
		w.set(httpItems(1000)...)
		w.pass(30 * time.Second)
		starts := w.take()
		if most := mostInASecond(starts); most > 200 {
			t.Errorf("%d starts in a second", most)
		}
		if len(starts) < 30*180 {
			t.Errorf("%d starts in 30 s: the budget is not used", len(starts))
		}
		per := map[uint64]int{}
		for _, s := range starts {
			per[s.item.ID]++
		}
		for id, n := range per {
			if n < 4 || n > 8 {
				t.Fatalf("item %d was checked %d times in 30 s with intervals stretched to 5 s", id, n)
			}
		}
		if len(per) != 1000 {
			t.Errorf("%d of 1000 items checked", len(per))
		}
		w.set(httpItems(100)...)
		w.pass(6 * time.Second)
		w.take()
		w.pass(10 * time.Second)
		if n := len(w.take()); n < 900 || n > 1120 {
			t.Errorf("100 items: %d checks in 10 s", n)
		}
		if len(w.factors) != 2 || w.factors[0] != 5 || w.factors[1] != 1 {
			t.Errorf("stretched was told %v, want 5 then 1", w.factors)
		}
	})
}

// TestInFlightMax: black holes everywhere do not make more workers than the bound, and leave room for nobody else no longer than a timeout.
func TestInFlightMax(t *testing.T) {
	inBubble(t, 5000, func(w *world) {
		w.answers(outcome{result: health.Timeout, ok: true}, 3*time.Second)
		w.set(httpItems(3000)...)
		w.pass(20 * time.Second)
		if w.most != InFlightMax {
			t.Errorf("%d under way at most, want %d", w.most, InFlightMax)
		}
		seen := map[uint64]bool{}
		for _, s := range w.take() {
			seen[s.item.ID] = true
		}
		if len(seen) != 3000 {
			t.Errorf("%d of 3000 items had their turn", len(seen))
		}
	})
}

// TestKick: a kick checks at once; one that comes while a check is under way checks again after it; a flood of them is no busy loop.
func TestKick(t *testing.T) {
	inBubble(t, 200, func(w *world) {
		w.set(httpItem(1), Item{ID: 2, Dial: httpItem(2).Dial})
		w.pass(500 * time.Millisecond)
		w.take()
		w.r.Kick(1)
		w.r.Kick(2)  // has no check
		w.r.Kick(99) // nobody
		synctest.Wait()
		if s := w.take(); len(s) != 1 || s[0].item.ID != 1 || s[0].at != 500*time.Millisecond {
			t.Fatalf("after the kick: %v", s)
		}
		w.answers(good, 400*time.Millisecond)
		w.pass(700 * time.Millisecond)
		w.r.Kick(1)
		synctest.Wait()
		if s := w.take(); len(s) != 1 {
			t.Fatalf("%d checks, want the kicked one alone", len(s))
		}
		w.pass(100 * time.Millisecond)
		w.r.Kick(1) // under way
		w.pass(310 * time.Millisecond)
		if s := w.take(); len(s) != 1 {
			t.Fatalf("%d checks after the one that was under way, want 1", len(s))
		}
		w.answers(good, time.Millisecond)
		w.pass(time.Second)
		w.take()
		for range 1000 {
			w.r.Kick(1)
			w.pass(time.Millisecond)
		}
		if n := len(w.take()); n < 4 || n > 6 {
			t.Errorf("%d checks in a second of kicks, want one each fifth of the interval", n)
		}
	})
}

// TestKickNeverBlocks: also when nobody runs the runner.
func TestKickNeverBlocks(t *testing.T) {
	r := New(nil, nil, func() int64 { return 0 }, 0, nil, nil)
	for range 2 * KicksMax {
		r.Kick(1)
		r.Wake()
	}
}

// TestProbes: each instant that is asked for is probed once, at that instant; a probe is a probe for items without a check too.
func TestProbes(t *testing.T) {
	inBubble(t, 200, func(w *world) {
		item := Item{ID: 7, Dial: httpItem(7).Dial, ProbeDue: int64(250 * time.Millisecond)}
		w.answers(outcome{result: health.Refused, ok: true}, time.Millisecond)
		dues := []time.Duration{650 * time.Millisecond, 1450 * time.Millisecond, 0}
		w.onProbe = func(id uint64, connected bool) {
			w.mu.Lock()
			item.ProbeDue, dues = int64(dues[0]), dues[1:]
			w.items, w.version = []Item{item}, w.version+1
			w.mu.Unlock()
		}
		w.set(item)
		w.pass(10 * time.Second)
		var at []time.Duration
		for _, s := range w.take() {
			if s.job != jobProbe {
				t.Fatalf("a check without a check: %v", s)
			}
			at = append(at, s.at)
		}
		if len(at) != 3 || at[0] != 250*time.Millisecond || at[1] != 650*time.Millisecond || at[2] != 1450*time.Millisecond {
			t.Errorf("probes at %v", at)
		}
		for _, h := range w.heard() {
			if !h.probe || h.connected || h.id != 7 {
				t.Errorf("told %+v", h)
			}
		}
		// One that is past is due at once; a Good outcome is a connect; the same instant is not probed twice.
		w.answers(good, 0)
		w.onProbe = nil
		item.ProbeDue = int64(2 * time.Second)
		w.set(item)
		w.set(item)
		w.pass(10 * time.Second)
		if h := w.heard(); len(h) != 1 || !h[0].connected || h[0].at != 10*time.Second {
			t.Errorf("told %+v", h)
		}
		// One that is called off does not happen.
		item.ProbeDue = int64(25 * time.Second)
		w.set(item)
		item.ProbeDue = 0
		w.set(item)
		w.pass(time.Minute)
		if s := w.take(); len(s) != 1 {
			t.Errorf("%d probes, want the one from before", len(s))
		}
	})
}

// TestOwnShortage: what failed for want of our own means says nothing of the endpoint, and is tried again after a second.
func TestOwnShortage(t *testing.T) {
	inBubble(t, 200, func(w *world) {
		w.answers(outcome{cause: errors.New("no descriptors")}, 0)
		item := httpItem(1)
		item.Check.Interval = 100 * time.Millisecond
		item.ProbeDue = 1
		w.set(item)
		w.pass(10*time.Second + 50*time.Millisecond)
		if h := w.heard(); len(h) != 0 {
			t.Errorf("told %+v", h)
		}
		n := map[job]int{}
		for _, s := range w.take() {
			n[s.job]++
		}
		if n[jobCheck] != 11 || n[jobProbe] != 11 {
			t.Errorf("%d checks and %d probes in 10 s, want 11 each", n[jobCheck], n[jobProbe])
		}
	})
}

// TestShutdown: Run waits for what is under way, which ends with its context; nothing is told after that.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, t0: time.Now(), underWay: map[uint64]int{}, version: 1, items: httpItems(50)}
		w.r = New(w, w, func() int64 { return int64(w.now()) }, 1000, nil, nil)
		w.r.do = w.do
		var ended atomic.Int64
		w.behave = func(ctx context.Context, _ Item, _ job) outcome {
			<-ctx.Done()
			time.Sleep(5 * time.Millisecond)
			ended.Add(1)
			return outcome{}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.r.Run(ctx) }()
		w.pass(time.Second)
		cancel()
		<-done
		if ended.Load() != 50 || len(w.heard()) != 0 {
			t.Errorf("%d of 50 workers ended, told %v", ended.Load(), w.heard())
		}
	})
}
