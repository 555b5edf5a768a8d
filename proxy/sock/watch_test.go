package sock

import (
	"sync/atomic"
	"testing"
)

type told struct{ n atomic.Int64 }

func (t *told) Gone() { t.n.Add(1) }

// TestWatcher: a reset is told once, at any time, whatever else has come before; bytes and the end of input are not; what was removed is
// told nothing.
func TestWatcher(t *testing.T) {
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if w == nil {
		if _, ok := w.Add(nil, nil); ok {
			t.Fatal("no watcher watches")
		}
		w.Remove(0)
		return // this build has none
	}
	var quiet, reset, late, removed told
	watch := func(g Gone) (*Conn, func(), uint64) {
		c, peer := pair(t)
		id, ok := w.Add(c, g)
		if !ok {
			t.Fatal("not watched")
		}
		if _, err := peer.Write([]byte("bytes that nobody reads")); err != nil {
			t.Fatal(err)
		}
		return c, func() { _ = peer.SetLinger(0); peer.Close() }, id
	}
	c, peer := pair(t)
	if _, ok := w.Add(c, &quiet); !ok {
		t.Fatal("not watched")
	}
	_ = peer.CloseWrite() // half closed: an answer is still due
	until(t, "the end of input", func() bool { return c.Peek() == Ended })

	_, resetIt, _ := watch(&reset)
	resetIt()
	until(t, "a reset is told", func() bool { return reset.n.Load() == 1 })

	_, resetRemoved, id := watch(&removed)
	w.Remove(id)
	resetRemoved()

	// A reset after the end of input.
	c2, peer2 := pair(t)
	if _, ok := w.Add(c2, &late); !ok {
		t.Fatal("not watched")
	}
	_ = peer2.CloseWrite()
	until(t, "the end of input", func() bool { return c2.Peek() == Ended })
	_ = peer2.SetLinger(0)
	peer2.Close()
	until(t, "a reset after the end of input is told", func() bool { return late.n.Load() == 1 })

	if quiet.n.Load() != 0 || removed.n.Load() != 0 || reset.n.Load() != 1 {
		t.Errorf("told: half closed %d, removed %d, reset %d times", quiet.n.Load(), removed.n.Load(), reset.n.Load())
	}
	c3, _ := pair(t)
	c3.Close()
	if _, ok := w.Add(c3, &quiet); ok {
		t.Error("a closed connection is watched")
	}
}

// TestWatcherMany: more resets at a time than are fetched at once, and none is lost.
func TestWatcherMany(t *testing.T) {
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	if w == nil {
		return // this build has none
	}
	defer w.Close()
	var g told
	const n = 3 * 64
	var resets []func()
	for range n {
		c, peer := pair(t)
		if _, ok := w.Add(c, &g); !ok {
			t.Fatal("not watched")
		}
		resets = append(resets, func() { _ = peer.SetLinger(0); peer.Close() })
	}
	for _, r := range resets {
		r()
	}
	until(t, "all are told", func() bool { return g.n.Load() == n })
}
