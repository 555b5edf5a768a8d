package check

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"spillway/discovery"
	"spillway/proxy/health"
)

// TestItemsGoAndCome: what was under way for an item that went or moved is not told, also when it is back.
func TestItemsGoAndCome(t *testing.T) {
	inBubble(t, 200, func(w *world) {
		w.answers(outcome{result: health.Timeout, ok: true}, time.Second)
		w.set(httpItem(1), httpItem(2), httpItem(3), httpItem(4))
		w.pass(500 * time.Millisecond)
		w.answers(good, 0)
		moved, off := httpItem(2), httpItem(4)
		moved.Dial = netip.MustParseAddrPort("127.0.0.9:9")
		off.Check = discovery.ActiveCheck{}
		w.set(moved, off)
		w.mu.Lock()
		w.underWay[3] = 0 // the old and the new item 3 may overlap
		w.mu.Unlock()
		w.set(moved, off, httpItem(3))
		w.pass(590 * time.Millisecond)
		var ids []uint64
		for _, h := range w.heard() {
			if h.result == health.Timeout {
				t.Errorf("told of the old item %d", h.id)
			}
			ids = append(ids, h.id)
		}
		if len(ids) != 2 {
			t.Errorf("told of %v, want the new 3 at once and the moved 2 after its old check", ids)
		}
		w.mu.Lock()
		w.underWay[3] = 0
		w.mu.Unlock()
		w.take()
		w.set()
		w.pass(10 * time.Second)
		if s := w.take(); len(s) != 0 {
			t.Errorf("%d checks of nothing", len(s))
		}
	})
}

// TestNewInterval: a shorter interval does not wait for the end of the longer one.
func TestNewInterval(t *testing.T) {
	inBubble(t, 200, func(w *world) {
		slow := httpItem(1)
		slow.Check.Interval = time.Hour
		w.set(slow)
		w.pass(time.Minute)
		w.take()
		w.set(httpItem(1))
		w.pass(10 * time.Second)
		if n := len(w.take()); n < 9 || n > 13 {
			t.Errorf("%d checks in 10 s", n)
		}
	})
}

// rare is an item whose next checks are far away.
func rare(id uint64) Item {
	i := httpItem(id)
	i.Check.Interval = time.Hour
	return i
}

// TestSpread: the first checks of many new items keep to the budget's pace instead of using up a second of it at once.
func TestSpread(t *testing.T) {
	inBubble(t, 200, func(w *world) {
		w.set(httpItems(400)...)
		w.pass(99 * time.Millisecond)
		if n := len(w.take()); n != 20 {
			t.Errorf("%d first checks in 0.1 s, want 20 of 200 a second", n)
		}
		w.pass(2 * time.Second)
		seen := map[uint64]bool{}
		for _, s := range w.take() {
			seen[s.item.ID] = true
		}
		if len(seen) < 380 {
			t.Errorf("%d others after 2 s more", len(seen))
		}
	})
}

// TestSourceIsReadOnChange: what is current is not handed out again.
func TestSourceIsReadOnChange(t *testing.T) {
	inBubble(t, 200, func(w *world) {
		w.pass(time.Second)
		w.set(httpItems(3)...)
		w.pass(time.Minute)
		w.set(httpItems(2)...)
		w.pass(time.Minute)
		if w.handed != 3 { // the empty list at the start, and two changes
			t.Errorf("items were handed out %d times, want 3", w.handed)
		}
	})
}

// TestSourceIsPolled: a change is seen without Wake.
func TestSourceIsPolled(t *testing.T) {
	inBubble(t, 200, func(w *world) {
		w.pass(10 * time.Second)
		w.mu.Lock()
		w.items, w.version = httpItems(1), w.version+1
		w.mu.Unlock()
		w.pass(SourcePollMax)
		if n := len(w.take()); n != 1 {
			t.Errorf("%d checks %v after the change", n, SourcePollMax)
		}
	})
}

// TestKickAmongMany: the kicked one goes before all that are queued.
func TestKickAmongMany(t *testing.T) {
	inBubble(t, 200, func(w *world) {
		var items []Item
		for id := range uint64(50) {
			items = append(items, rare(id+1))
		}
		w.set(items...)
		w.pass(time.Hour / 2)
		w.take()
		for _, id := range []uint64{50, 17, 1} {
			w.r.Kick(id)
			synctest.Wait()
			if s := w.take(); len(s) != 1 || s[0].item.ID != id {
				t.Errorf("kicked %d, started %v", id, s)
			}
		}
	})
}

// TestCalledOff: what is queued for an item that went or lost its check does not happen.
func TestCalledOff(t *testing.T) {
	inBubble(t, 200, func(w *world) {
		gone, off, stays := rare(1), rare(2), rare(3)
		gone.ProbeDue = int64(time.Minute)
		w.set(gone, off, stays)
		w.pass(time.Second)
		off.Check = discovery.ActiveCheck{}
		w.set(off, stays)
		w.take()
		w.pass(3 * time.Hour)
		for _, s := range w.take() {
			if s.item.ID != 3 {
				t.Errorf("started %+v", s)
			}
		}
	})
}

// TestMoved: another address, target or check is looked at at once, also where a check of the old one is under way.
func TestMoved(t *testing.T) {
	other := netip.MustParseAddrPort("127.0.0.9:9")
	for name, change := range map[string]func(*Item){
		"dial":   func(i *Item) { i.Dial = other },
		"host":   func(i *Item) { i.Host = "other" },
		"target": func(i *Item) { i.Target = other },
		"check":  func(i *Item) { i.Check.Path = "/other" },
	} {
		for _, busy := range []bool{false, true} {
			inBubble(t, 200, func(w *world) {
				if busy {
					w.answers(outcome{result: health.Bad, ok: true}, 3*time.Second)
				}
				item := rare(1)
				w.set(item)
				w.pass(time.Second)
				w.take()
				w.heard()
				w.answers(good, 0)
				change(&item)
				w.set(item)
				w.pass(4 * time.Second)
				if s := w.take(); len(s) != 1 || s[0].item != item {
					t.Errorf("%s, busy %v: started %v", name, busy, s)
				}
				if h := w.heard(); len(h) != 1 || h[0].result != health.Good {
					t.Errorf("%s, busy %v: told %v", name, busy, h)
				}
			})
		}
	}
}

// TestProbeChangesUnderWay: another instant, or another address, that comes while a probe is under way is probed after it; the result of
// a probe of the old address is not told.
func TestProbeChangesUnderWay(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Item)
		starts int
		told   int
	}{
		{"nothing", func(*Item) {}, 1, 1},
		{"instant", func(i *Item) { i.ProbeDue = int64(2 * time.Second) }, 2, 2},
		{"called off", func(i *Item) { i.ProbeDue = 0 }, 1, 1},
		{"address", func(i *Item) { i.Dial = netip.MustParseAddrPort("127.0.0.9:9") }, 2, 1},
	} {
		inBubble(t, 200, func(w *world) {
			w.answers(outcome{result: health.Timeout, ok: true}, 3*time.Second)
			item := Item{ID: 1, Dial: httpItem(1).Dial, ProbeDue: 1}
			w.set(item)
			w.pass(time.Second)
			row.change(&item)
			w.set(item)
			w.pass(time.Minute)
			if s, h := w.take(), w.heard(); len(s) != row.starts || len(h) != row.told {
				t.Errorf("%s: %d probes, told of %d, want %d and %d", row.name, len(s), len(h), row.starts, row.told)
			}
		})
	}
}

// TestProbesCountForTheBudget: a dead datacenter's probes leave the checks their share.
func TestProbesCountForTheBudget(t *testing.T) {
	inBubble(t, 10, func(w *world) {
		items := httpItems(9)
		for id := range uint64(10) {
			items = append(items, Item{ID: 100 + id, Dial: httpItem(id).Dial, ProbeDue: int64(time.Hour)})
		}
		w.set(items...) // 9 checks and 10 x 0.2 probes a second
		if len(w.factors) != 1 || w.factors[0] != 1.1 {
			t.Errorf("stretched was told %v, want 1.1", w.factors)
		}
	})
}

// TestLog: stretched intervals and shortages of our own are warnings, at most one a second; failed checks are not more than debug.
func TestLog(t *testing.T) {
	for _, row := range []struct {
		name  string
		o     outcome
		items int
		level slog.Level
		want  map[string]int
	}{
		{"good", good, 3, slog.LevelDebug, map[string]int{"level=": 0}},
		{"bad", outcome{result: health.Bad, ok: true, cause: errors.New("no luck")}, 3, slog.LevelDebug,
			map[string]int{"level=DEBUG": 33, "level=WARN": 0, "result=bad": 33, `error="no luck"`: 33}},
		{"shortage", outcome{cause: errors.New("no descriptors")}, 3, slog.LevelInfo,
			map[string]int{"level=WARN": 11, "want of our own means": 11, `error="no descriptors"`: 11}},
		{"stretched", good, 2000, slog.LevelInfo, map[string]int{"level=WARN": 1, "checks_per_second_max=1000": 1, "factor=2": 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			w := &world{t: t, t0: time.Now(), underWay: map[uint64]int{}, version: 1, items: httpItems(row.items)}
			w.r = New(w, w, func() int64 { return int64(w.now()) }, 1000, nil, slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: row.level})))
			w.r.do = func(context.Context, Item, job) outcome { return row.o }
			ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
			defer cancel()
			w.r.Run(ctx)
			for text, want := range row.want {
				// Intervals have their jitter: about so many.
				if got := strings.Count(out.String(), text); got < want-want/10 || got > want+want/10 {
					t.Errorf("%s: %q stands %d times in the log, want %d", row.name, text, got, want)
				}
			}
		})
	}
}
