package health

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawConfig makes any sensible configuration.
func drawConfig(t *rapid.T) Config {
	c := defaults()
	c.Passive.ConsecutiveFailures = rapid.IntRange(0, 4).Draw(t, "consecutive")
	c.Passive.Window = time.Duration(rapid.IntRange(1, 20).Draw(t, "window")) * time.Second
	c.Passive.Ejection = time.Duration(rapid.IntRange(1, 10).Draw(t, "ejection")) * time.Second
	c.Passive.EjectionMax = time.Duration(rapid.IntRange(1, 60).Draw(t, "max")) * time.Second
	c.Passive.MaxEjectedPercent = rapid.IntRange(0, 100).Draw(t, "percent")
	c.Active.UnhealthyAfter = rapid.IntRange(1, 3).Draw(t, "unhealthy")
	c.Active.HealthyAfter = rapid.IntRange(1, 3).Draw(t, "healthy")
	if rapid.Bool().Draw(t, "checked") {
		c.Active.Path = "/"
	}
	return c
}

// anyStep does one operation of those that can happen, and reports what it was and what it returned.
func anyStep(t *rapid.T, s *State, now int64, c Config, rng *rand.Rand) (op string, changed bool) {
	switch op = rapid.SampledFrom([]string{"success", "failure", "failure", "failure", "refused", "connected", "check"}).Draw(t, "op"); op {
	case "success":
		s.OnSuccess(now)
	case "failure":
		changed = s.OnFailure(now, c, rng, rapid.IntRange(0, 2).Draw(t, "ejected"), 4)
	case "refused":
		changed = s.OnRefused(now, rng)
	case "connected":
		changed = s.OnConnected(now)
	case "check":
		r := Result(rapid.IntRange(int(Good), int(Draining)).Draw(t, "result"))
		op += " " + r.String()
		changed = s.OnCheck(now, c, r)
	}
	return op, changed
}

// slow is Usable without the marks.
func slow(s *State, now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usable(now)
}

// TestStateProperties takes a state through anything and holds after each step what its methods promise.
func TestStateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s := new(State)
		s.SetCheck(c.Checks())
		now := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += int64(rapid.IntRange(0, 4000).Draw(t, "ms")) * int64(time.Millisecond)
			usable, checked, out, due := slow(s, now), s.Checked(), s.Ejected(now), s.ProbeDue()
			ejectedMin := s.ejectedMin
			op, changed := anyStep(t, s, now, c, rng)
			if changed != (slow(s, now) != usable || s.Checked() != checked) {
				t.Fatalf("%s: changed = %v, usable %v -> %v, checked %v -> %v", op, changed, usable, slow(s, now), checked, s.Checked())
			}
			if !out && s.Ejected(now) {
				base := min(c.Passive.Ejection, c.Passive.EjectionMax)
				if span := time.Duration(s.ejected - now); op != "failure" || span < base || span > c.Passive.EjectionMax {
					t.Fatalf("%s: ejected for %v, base %v, maximum %v", op, span, base, c.Passive.EjectionMax)
				}
			}
			if out && !s.Ejected(now) && (op != "check good" || now < ejectedMin) {
				t.Fatalf("%s: ended an ejection %v before its minimum time", op, time.Duration(ejectedMin-now))
			}
			if was, is := due, s.ProbeDue(); is != 0 && is != was {
				if wait := time.Duration(is - now); wait < ProbeBackoffMin || wait > ProbeBackoffMax || now < was {
					t.Fatalf("%s: probe due in %v", op, wait)
				}
			}
			if s.refused != (s.ProbeDue() != 0) {
				t.Fatalf("%s: refused %v, probe due %d", op, s.refused, s.ProbeDue())
			}
			holdUntil(t, s, now)
			holdMarks(t, s, now)
		}
	})
}

// holdUntil: Usable does not change by time before Until, changes there, and then not again.
func holdUntil(t *rapid.T, s *State, now int64) {
	usable, until := slow(s, now), s.Until(now)
	later := []int64{now, now + 1, now + int64(time.Second), now + int64(time.Hour)}
	if until != 0 {
		if until <= now {
			t.Fatalf("until %d is not after now %d", until, now)
		}
		later = append(later, until-1, until)
	}
	for _, at := range later {
		want := usable != (until != 0 && at >= until)
		if slow(s, at) != want || s.Usable(at) != want {
			t.Fatalf("usable now %v, until %d: usable(%d) = %v, fast %v", usable, until-now, at-now, slow(s, at), s.Usable(at))
		}
	}
}

// holdMarks: where the marks say that a success changes nothing, it would not.
func holdMarks(t *rapid.T, s *State, now int64) {
	if s.marks.Load()&markSuccess != 0 {
		return
	}
	if s.failures != 0 || s.ejections > 0 && !s.well {
		t.Fatalf("a success would change %d failures, %d ejections, well %v", s.failures, s.ejections, s.well)
	}
}

// TestMaxEjected: whatever answers come, verdicts never keep out more than the share of the tier, rounded down (R26).
func TestMaxEjected(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		tier := make([]State, rapid.IntRange(1, 9).Draw(t, "endpoints"))
		most := len(tier) * c.Passive.MaxEjectedPercent / 100
		count := func(now int64) (n int) {
			for i := range tier {
				if tier[i].Ejected(now) {
					n++
				}
			}
			return n
		}
		now, reached := int64(0), 0
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now += int64(rapid.IntRange(0, 500).Draw(t, "ms")) * int64(time.Millisecond)
			s := &tier[rapid.IntRange(0, len(tier)-1).Draw(t, "endpoint")]
			if rapid.IntRange(0, 9).Draw(t, "luck") == 0 {
				s.OnSuccess(now)
			} else {
				s.OnFailure(now, c, rng, count(now), len(tier))
			}
			reached = max(reached, count(now))
			if reached > most {
				t.Fatalf("%d of %d are ejected, allowed %d", reached, len(tier), most)
			}
		}
	})
}

// TestAllFail is R26 itself: one and four endpoints that answer 500 all the time, then well.
func TestAllFail(t *testing.T) {
	c := defaults()
	c.Passive.Ejection = 30 * time.Second
	for _, row := range []struct{ endpoints, ejected int }{{1, 0}, {2, 1}, {3, 1}, {4, 2}, {5, 2}} {
		tier := make([]State, row.endpoints)
		ejected := 0
		for now := int64(0); now < int64(10*time.Second); now += int64(10 * time.Millisecond) {
			ejected = 0
			for i := range tier {
				if tier[i].Ejected(now) {
					ejected++
				}
			}
			for i := range tier {
				if tier[i].Usable(now) && tier[i].OnFailure(now, c, still(), ejected, len(tier)) {
					ejected++
				}
			}
		}
		if ejected != row.ejected {
			t.Errorf("%d endpoints: %d ejected, want %d", row.endpoints, ejected, row.ejected)
		}
		for i := range tier {
			if tier[i].OnSuccess(int64(11 * time.Second)); tier[i].failures != 0 {
				t.Errorf("%d endpoints: a success left %d failures", row.endpoints, tier[i].failures)
			}
		}
	}
}

// TestEjectionJitter: with chance, equal ejections end apart, each within a tenth.
func TestEjectionJitter(t *testing.T) {
	c := defaults()
	c.Passive.ConsecutiveFailures = 1
	rng := rand.New(rand.NewPCG(1, 2))
	ends := map[int64]bool{}
	for range 100 {
		s := new(State)
		s.OnFailure(0, c, rng, 0, 4)
		if d := time.Duration(s.Until(0)); d < 5*time.Second || d > 5500*time.Millisecond {
			t.Fatalf("ejected for %v", d)
		}
		ends[s.Until(0)] = true
	}
	if len(ends) < 90 {
		t.Errorf("100 ejections end at %d instants", len(ends))
	}
}

// TestConcurrent: every method from many goroutines; the race detector and the invariants at the end judge.
func TestConcurrent(t *testing.T) {
	c := defaults()
	c.Active.Path = "/"
	s := new(State)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 3))
			for i := range int64(2000) {
				now := i * int64(time.Millisecond)
				switch rng.IntN(9) {
				case 0:
					s.OnFailure(now, c, rng, 0, 4)
				case 1:
					s.OnRefused(now, rng)
				case 2:
					s.OnConnected(now)
				case 3:
					s.OnCheck(now, c, Result(rng.IntN(5)))
				case 4:
					s.SetDraining(i%2 == 0)
				case 5:
					_ = s.Describe(now) + fmt.Sprint(s.ProbeDue(), s.Until(now), s.Ejected(now), s.Checked())
				case 6:
					s.SetCheck(i%3 != 0)
				default:
					s.Usable(now)
					s.OnSuccess(now)
				}
			}
		})
	}
	wg.Wait()
	now := int64(time.Hour)
	s.SetCheck(true)
	s.SetDraining(false)
	s.OnSuccess(now)
	for range 4 {
		s.OnCheck(now, c, Good)
	}
	if !s.Usable(now) || !s.Checked() || s.Describe(now) != "usable" {
		t.Errorf("after good checks: %s", s.Describe(now))
	}
}

func TestHealthyPathAllocatesNothing(t *testing.T) {
	s, td := new(State), new(TierDown)
	c := defaults()
	rng := still()
	if n := testing.AllocsPerRun(1000, func() {
		s.Usable(1)
		s.OnSuccess(1)
		s.OnConnected(1)
		td.OnAnswer(1)
		td.OnConnected(1)
		td.Down()
	}); n != 0 {
		t.Errorf("healthy path: %v allocations", n)
	}
	if n := testing.AllocsPerRun(1000, func() {
		s.OnFailure(1, c, rng, 2, 4)
		s.OnRefused(1, rng)
		s.OnSuccess(1)
		s.OnConnected(1)
		td.OnRefused(1, 1)
		td.OnRefused(1, 2)
	}); n != 0 {
		t.Errorf("unhealthy path: %v allocations", n)
	}
}

func BenchmarkSuccess(b *testing.B) {
	s, td := new(State), new(TierDown)
	for i := range b.N {
		s.OnSuccess(int64(i))
		td.OnAnswer(int64(i))
	}
}
