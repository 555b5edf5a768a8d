package balance

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"spillway/discovery"
)

// smooth is the rule of smooth weighted round robin one turn at a time, with fractions and without a common divisor: the dumb reference.
func smooth(weights []int, turns int) []int {
	gained := make([]float64, len(weights))
	total := 0.0
	for _, w := range weights {
		total += float64(w)
	}
	var out []int
	for range turns {
		for i, w := range weights {
			gained[i] += float64(w)
		}
		best := slices.Index(gained, slices.Max(gained))
		gained[best] -= total
		out = append(out, best)
	}
	return out
}

func TestSequenceAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 40), 2, 12).Draw(t, "weights")
		set := NewSet(discovery.WeightedRoundRobin, fresh(len(weights)), weights, new(Cursor))
		sum := 0
		for _, w := range weights {
			sum += w
		}
		counts := make([]int, len(weights))
		for k, want := range smooth(weights, 2*sum) {
			got := set.Pick(0, nil, nil)
			if set.weights == nil { // equal weights: in order
				want = k % len(weights)
			}
			if got != want {
				t.Fatalf("turn %d of %v: %d, want %d", k, weights, got, want)
			}
			counts[got]++
		}
		for i, w := range weights {
			if counts[i] != 2*w {
				t.Fatalf("%v got %v in two rounds", weights, counts)
			}
		}
	})
}

// TestSequenceFits: any weights give a bounded sequence in which everybody has a turn and large shares are kept.
func TestSequenceFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 1_000_000), 2, 64).Draw(t, "weights")
		seq := sequence(weights)
		if len(seq) > turnsMax {
			t.Fatalf("%d turns", len(seq))
		}
		counts, sum := make([]float64, len(weights)), 0.0
		for _, i := range seq {
			counts[i]++
		}
		for _, w := range weights {
			sum += float64(w)
		}
		for i, w := range weights {
			want := float64(w) / sum * float64(len(seq))
			if counts[i] < 1 || math.Abs(counts[i]-want) > 1.5+0.02*want {
				t.Fatalf("endpoint %d has %v of %d turns, want %.1f", i, counts[i], len(seq), want)
			}
		}
	})
}

// TestSequenceLargest: at the border between the two ways both give everybody its share.
func TestSequenceLargest(t *testing.T) {
	for _, n := range []int{SequenceMax, SequenceMax + 1} {
		weights := make([]int, n)
		sum := 0
		for i := range weights {
			weights[i] = 1 + i%4
			sum += weights[i]
		}
		set := NewSet(discovery.WeightedRoundRobin, fresh(n), weights, new(Cursor))
		if (set.seq != nil) != (n <= SequenceMax) || (set.queue != nil) != (n > SequenceMax) {
			t.Fatalf("%d endpoints: the wrong way", n)
		}
		counts, rng := make([]int, n), seeded(1)
		for range 3 * sum {
			counts[set.Pick(0, rng, nil)]++
		}
		for i, w := range weights {
			if math.Abs(float64(counts[i]-3*w)) > 1 {
				t.Errorf("%d endpoints: %d of weight %d has %d turns in three rounds", n, i, w, counts[i])
			}
		}
	}
}

// TestDeadlinesAgainstReference: the heap gives what a search through all gives.
func TestDeadlinesAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 100), 2, 30).Draw(t, "weights")
		d := newDeadlines(weights)
		rng := seeded(rapid.Uint64().Draw(t, "seed"))
		d.next(rng) // phases are drawn
		list := slices.Clone(d.heap)
		for range 200 {
			first := 0
			for i := range list {
				if list[i].before(list[first]) {
					first = i
				}
			}
			want := list[first].index
			list[first].at += list[first].every
			if got := d.next(rng); got != want {
				t.Fatalf("%d, want %d", got, want)
			}
		}
	})
}

// TestDeadlinesHavePhases: another seed starts with another endpoint, also of equal weight, so that a fleet does not move in step.
func TestDeadlinesHavePhases(t *testing.T) {
	weights := make([]int, 300)
	for i := range weights {
		weights[i] = 1 + i%2
	}
	first := map[int]bool{}
	for seed := range uint64(20) {
		first[newDeadlines(weights).next(seeded(seed))] = true
	}
	if len(first) < 10 {
		t.Errorf("20 sets began with only %d endpoints", len(first))
	}
}

// TestMomentPicksAlike: a moment gives what the set gives at that moment with the same chance, and moves nothing on.
func TestMomentPicksAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "endpoints")
		now := int64(1_000_000_000_000)
		loads, weights := make([]*Load, n), make([]int, n)
		for i := range loads {
			weights[i] = rapid.IntRange(1, 4).Draw(t, "weight")
			loads[i] = new(Load)
			for range rapid.IntRange(0, 6).Draw(t, "answers") {
				now += rapid.Int64Range(0, 3_000_000_000).Draw(t, "gap")
				loads[i].Observe(now, 1_000_000*1<<rapid.IntRange(0, 6).Draw(t, "latency"))
			}
			for range rapid.IntRange(0, 3).Draw(t, "in flight") {
				loads[i].Begin()
			}
		}
		cursor := new(Cursor)
		cursor.n.Store(rapid.Uint64().Draw(t, "cursor"))
		set := NewSet(rapid.SampledFrom(methods).Draw(t, "method"), loads, weights, cursor)
		seed := rapid.Uint64().Draw(t, "seed")
		var tried []int
		var out []*Load
		for range 3 {
			m := set.Moment(now)
			again := m.Pick(seeded(seed), tried)
			if twice := m.Pick(seeded(seed), tried); twice != again {
				t.Fatalf("the moment gives %d, then %d", again, twice)
			}
			if got := set.Pick(now, seeded(seed), out); got != again {
				t.Fatalf("the set gives %d, the moment %d: %+v", got, again, m)
			}
			if again >= 0 {
				tried, out = append(tried, again), append(out, loads[again])
			}
		}
	})
}
