package demo

import (
	"errors"
	"testing"
	"time"
)

// TestBulkheadVerdict walks through what can become of both services.
func TestBulkheadVerdict(t *testing.T) {
	start := time.Unix(1000, 0)
	// shots makes one shot each 50 ms over all windows; took and answer may depend on the window.
	shots := func(took func(n int) time.Duration, a func(n int) answer) []shot {
		var out []shot
		for at := time.Duration(0); at < bulkheadWindow*bulkheadWindows; at += 50 * time.Millisecond {
			n := int(at / bulkheadWindow)
			s := shot{due: start.Add(at), answer: a(n)}
			if s.answer.status == 0 {
				s.err = errors.New("timeout")
			}
			s.done = s.due.Add(took(n))
			out = append(out, s)
		}
		return out
	}
	sick := func(n int) bool { return n%2 == 1 }
	ms := func(well, ill float64) func(int) time.Duration {
		return func(n int) time.Duration {
			if sick(n) {
				return time.Duration(ill * float64(time.Millisecond))
			}
			return time.Duration(well * float64(time.Millisecond))
		}
	}
	always := func(int) answer { return answer{status: 200, datacenter: nearby} }
	gone := func(n int) answer {
		if sick(n) {
			return answer{status: 503, reason: "overflow"}
		}
		return answer{status: 200, datacenter: faraway}
	}
	for name, v := range map[string]struct {
		order, stock []shot
		ok           bool
	}{
		"untouched":       {shots(ms(1, 1.1), always), shots(ms(1, 1), gone), true},
		"slower":          {shots(ms(1, 1.3), always), shots(ms(1, 1), gone), false},
		"failed":          {shots(ms(1, 1), gone), shots(ms(1, 1), gone), false},
		"no fault at all": {shots(ms(1, 1), always), shots(ms(1, 1), always), false},
		"hung":            {shots(ms(1, 1), func(int) answer { return answer{} }), shots(ms(1, 1), gone), false},
		"one noisy pair": {shots(func(n int) time.Duration {
			if n == 3 {
				return 20 * time.Millisecond
			}
			return time.Millisecond
		}, always), shots(ms(1, 1), gone), true},
	} {
		rows := bulkheadRows(share(start, v.order, v.stock))
		last := rows[len(rows)-1]
		if last.ok != v.ok || len(rows) != bulkheadWindows/2+1 || len(last.cells) != len(bulkheadColumns()) {
			t.Errorf("%s: ok=%v (%s), want %v", name, last.ok, last.why, v.ok)
		}
	}
	tail := shots(ms(1, 1), always)
	for i := range tail { // every tenth is slow while stock is gone, in all pairs
		if n := int(tail[i].due.Sub(start) / bulkheadWindow); sick(n) && i%10 == 0 {
			tail[i].done = tail[i].due.Add(50 * time.Millisecond)
		}
	}
	if rows := bulkheadRows(share(start, tail, shots(ms(1, 1), gone))); rows[len(rows)-1].ok {
		t.Error("a slow tail passes")
	}
	if p := share(start, nil, nil); len(p) != bulkheadWindows/2 || bulkheadRows(p)[bulkheadWindows/2].ok {
		t.Error("nothing measured passes")
	}
}
