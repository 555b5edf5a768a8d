package check

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"spillway/discovery"
	"spillway/proxy/health"
)

// judge is a sink that keeps the state of one endpoint and when it went out.
type judge struct {
	mu    sync.Mutex
	now   func() time.Duration
	c     health.Config
	state health.State
	out   time.Duration // when it was first seen unusable; 0: not yet
}

func (j *judge) OnCheck(_ uint64, r health.Result) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.now()
	j.state.OnCheck(int64(now), j.c, r)
	if !j.state.Usable(int64(now)) && j.out == 0 {
		j.out = now
	}
}

func (j *judge) OnProbe(uint64, bool) {}

// one is a source of one item.
type one struct{ item Item }

func (o one) CheckItems(generation uint64) ([]Item, uint64) {
	if generation == 1 {
		return nil, 1
	}
	return []Item{o.item}, 1
}

// TestDeadIdleEndpointIsOutInTime: an endpoint that nobody calls and that dies at any phase of its checks is out within 3 intervals
// where it refuses, and within 2 x (interval + timeout) + interval where it is a black hole.
func TestDeadIdleEndpointIsOutInTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for round := range 60 {
		interval := time.Duration(100+rng.IntN(3000)) * time.Millisecond
		limit := time.Duration(100+rng.IntN(2000)) * time.Millisecond
		dies := 2*interval + time.Duration(rng.Int64N(int64(2*interval)))
		refuses := round%2 == 0
		within := 3 * interval
		if !refuses {
			within = 2*(interval+limit) + interval
		}
		synctest.Test(t, func(t *testing.T) {
			t0 := time.Now()
			now := func() time.Duration { return time.Since(t0) }
			item := httpItem(1)
			item.Check.Interval, item.Check.Timeout = interval, limit
			j := &judge{now: now, c: health.Config{Active: item.Check}}
			r := New(one{item}, j, func() int64 { return int64(now()) }, 200, nil, nil)
			r.do = func(ctx context.Context, i Item, _ job) outcome {
				switch {
				case now() < dies:
					return good
				case refuses:
					return outcome{result: health.Refused, ok: true}
				}
				select {
				case <-time.After(timeout(&i)):
				case <-ctx.Done():
				}
				return outcome{result: health.Timeout, ok: true}
			}
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { r.Run(ctx) })
			time.Sleep(dies + within)
			cancel()
			wg.Wait()
			if j.out == 0 || j.out < dies {
				t.Errorf("interval %v, timeout %v, refuses %v: out at %v, died at %v, want within %v", interval, limit, refuses, j.out, dies, within)
			}
		})
	}
}

// TestTimeout: of other datacenters it is scaled; a probe without a check has its own.
func TestTimeout(t *testing.T) {
	for _, row := range []struct {
		check discovery.ActiveCheck
		cross bool
		want  time.Duration
	}{
		{discovery.ActiveCheck{Timeout: 2 * time.Second, CrossDatacenterTime: 3}, false, 2 * time.Second},
		{discovery.ActiveCheck{Timeout: 2 * time.Second, CrossDatacenterTime: 3}, true, 6 * time.Second},
		{discovery.ActiveCheck{Timeout: 2 * time.Second, CrossDatacenterTime: 0.5}, true, 2 * time.Second},
		{discovery.ActiveCheck{}, true, ProbeTimeout},
		{discovery.ActiveCheck{CrossDatacenterTime: 3}, true, 3 * ProbeTimeout},
	} {
		if got := timeout(&Item{Check: row.check, Cross: row.cross}); got != row.want {
			t.Errorf("%+v: %v, want %v", row, got, row.want)
		}
	}
}

// TestGrace: it is scaled like the timeout and leaves half of it to the connect.
func TestGrace(t *testing.T) {
	for _, row := range []struct {
		limit time.Duration
		cross bool
		want  time.Duration
	}{
		{time.Second, false, targetGraceMax},
		{3 * time.Second, true, 3 * targetGraceMax},
		{100 * time.Millisecond, false, 50 * time.Millisecond},
	} {
		if got := grace(&Item{Check: discovery.ActiveCheck{CrossDatacenterTime: 3}, Cross: row.cross}, row.limit); got != row.want {
			t.Errorf("%+v: %v", row, got)
		}
	}
}
