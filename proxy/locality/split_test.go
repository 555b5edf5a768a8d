package locality

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"spillway/discovery"
)

// group is a tier of the reference: the tiers that stand together, the last of which takes the requests.
type group struct {
	members       []int
	total, usable int64
	datacenter    string
	down          bool
}

// groups merges by building the list anew: the dumb way to say what merge says.
func groups(least int, tiers []State) (out []group) {
	for i, t := range tiers {
		g := group{[]int{i}, int64(t.Total), int64(t.Usable), t.Datacenter, t.Down}
		if n := len(out); n > 0 {
			before := out[n-1]
			if !before.down && !g.down && before.datacenter == g.datacenter && before.usable < int64(least) {
				g.members = append(before.members, i)
				g.total += before.total
				g.usable += before.usable
				out = out[:n-1]
			}
		}
		out = append(out, g)
	}
	return out
}

// splitReference is Split in exact fractions, from the words of the rule.
func splitReference(p discovery.LocalityPolicy, tiers []State) []Share {
	out := make([]Share, len(tiers))
	all := groups(p.TierEndpointsMin, tiers)
	loads := make([]*big.Rat, len(all))
	together, endpoints := new(big.Rat), int64(0)
	one := big.NewRat(1, 1)
	for k, g := range all {
		last := g.members[len(g.members)-1]
		for _, i := range g.members {
			out[i].Merged = last
		}
		out[last].Merged = -1
		loads[k] = new(big.Rat)
		if g.down || g.total == 0 {
			continue
		}
		endpoints += g.total
		health := big.NewRat(g.usable*int64(p.Overprovisioning), g.total*100)
		if p.Spill == discovery.SpillLastResort && g.usable > 0 {
			health.SetInt64(1)
		}
		room := new(big.Rat).Sub(one, together)
		if health.Cmp(room) > 0 {
			health = room
		}
		loads[k] = health
		together = new(big.Rat).Add(together, health)
	}
	for k, g := range all {
		s := &out[g.members[len(g.members)-1]]
		alive := !g.down && g.total > 0
		load := loads[k]
		switch {
		case together.Sign() == 0 && alive && p.PanicThreshold > 0:
			load, s.Panic = big.NewRat(g.total, endpoints), true
		case together.Sign() > 0 && together.Cmp(one) < 0:
			load = new(big.Rat).Quo(load, together)
			s.Panic = alive && big.NewRat(g.usable*100, g.total).Cmp(big.NewRat(int64(p.PanicThreshold), 1)) < 0
		}
		s.Load, _ = load.Float64()
	}
	return out
}

func policies(t *rapid.T) discovery.LocalityPolicy {
	return discovery.LocalityPolicy{
		Spill:            rapid.SampledFrom([]discovery.SpillMode{discovery.SpillHealth, discovery.SpillLastResort}).Draw(t, "spill"),
		Overprovisioning: rapid.SampledFrom([]int{100, 140, 200, 137}).Draw(t, "factor"),
		PanicThreshold:   rapid.SampledFrom([]int{0, 50, 100, 33}).Draw(t, "panic"),
		TierEndpointsMin: rapid.IntRange(0, 4).Draw(t, "min"),
	}
}

// tierStates draws tiers of one datacenter next to each other, as Arrange gives them.
func tierStates(t *rapid.T) []State {
	names := []string{"dc1", "dc2", "dc3", "other"}
	at := 0
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) State {
		at = min(len(names)-1, at+rapid.IntRange(0, 1).Draw(t, "step"))
		total := rapid.IntRange(0, 12).Draw(t, "total")
		return State{Datacenter: names[at], Total: total, Usable: rapid.IntRange(0, total).Draw(t, "usable"),
			Down: rapid.IntRange(0, 4).Draw(t, "down") == 0}
	}), 0, 6).Draw(t, "tiers")
}

func TestSplitAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, tiers := policies(t), tierStates(t)
		got, want := Split(p, tiers, nil), splitReference(p, tiers)
		for i := range want {
			if math.Abs(got[i].Load-want[i].Load) > 1e-9 || got[i].Panic != want[i].Panic || got[i].Merged != want[i].Merged ||
				(got[i].Load == 0) != (want[i].Load == 0) {
				t.Fatalf("tier %d of %+v under %+v\n got %+v\nwant %+v", i, tiers, p, got, want)
			}
		}
	})
}

// TestSplitHolds looks at what must hold whatever the rule: loads sum to 1 or are all 0; what is down or merged gets nothing; local first:
// a farther tier gets requests only when the nearer ones are full or, below 100 % in all, scaled; a tier without usable endpoints
// gets requests in panic alone.
func TestSplitHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, tiers := policies(t), tierStates(t)
		shares := Split(p, tiers, nil)
		total, anything := 0.0, false
		for i, s := range shares {
			total += s.Load
			c := sum(tiers, shares, i)
			anything = anything || c.usable > 0 || c.total > 0 && p.PanicThreshold > 0
			if s.Load < 0 || s.Load > 1 || s.Load > 0 && (tiers[i].Down || s.Merged >= 0) {
				t.Fatalf("tier %d: %+v for %+v", i, s, tiers[i])
			}
			if s.Load > 0 && c.usable == 0 && !s.Panic {
				t.Fatalf("tier %d has nobody to take %v", i, s.Load)
			}
			if s.Panic && p.PanicThreshold == 0 {
				t.Fatalf("tier %d in panic, which is off", i)
			}
			if s.Merged >= 0 && (s.Merged <= i || tiers[s.Merged].Datacenter != tiers[i].Datacenter || shares[s.Merged].Merged >= 0) {
				t.Fatalf("tier %d merged: %+v", i, shares)
			}
			if full := float64(c.usable*p.Overprovisioning) >= float64(c.total*100); c.usable > 0 && full {
				for j := i + 1; j < len(shares); j++ {
					if shares[j].Load != 0 {
						t.Fatalf("tier %d can take everything, tier %d gets %v", i, j, shares[j].Load)
					}
				}
			}
		}
		if anything && math.Abs(total-1) > 1e-9 || !anything && total != 0 {
			t.Fatalf("loads sum to %v: %+v", total, shares)
		}
	})
}

// TestPickMeetsShares draws evenly spaced numbers: the tiers come in order and each gets its share.
func TestPickMeetsShares(t *testing.T) {
	const draws = 1000
	rapid.Check(t, func(t *rapid.T) {
		shares := Split(policies(t), tierStates(t), nil)
		got := make([]int, len(shares))
		before := 0
		for k := range draws {
			at := Pick(shares, float64(k)/draws)
			if at < 0 {
				for _, s := range shares {
					if s.Load != 0 {
						t.Fatalf("nothing picked of %+v", shares)
					}
				}
				return
			}
			if at < before {
				t.Fatalf("tier %d after %d", at, before)
			}
			before = at
			got[at]++
		}
		for i, s := range shares {
			if math.Abs(float64(got[i])-s.Load*draws) > 2 {
				t.Fatalf("tier %d got %d of %d, its share is %v", i, got[i], draws, s.Load)
			}
		}
	})
}

func TestPickEdges(t *testing.T) {
	almost := math.Nextafter(1, 0)
	tenths := make([]Share, 10) // ten times 0.1 misses 1
	for i := range tenths {
		tenths[i] = Share{Load: 0.1, Merged: -1}
	}
	for _, c := range []struct {
		name   string
		shares []Share
		u      float64
		want   int
	}{
		{"no tier", nil, 0, -1},
		{"nothing can serve", []Share{{}, {}}, 0.5, -1},
		{"zero goes to the nearest", []Share{{Load: 0.7}, {Load: 0.3}}, 0, 0},
		{"the border belongs to the next", []Share{{Load: 0.5}, {Load: 0.5}}, 0.5, 1},
		{"a tier without load is passed", []Share{{}, {Load: 1}}, 0, 1},
		{"the last draw", []Share{{Load: 1}, {}}, almost, 0},
		{"rounding is the last one's", tenths, almost, 9},
	} {
		if got := Pick(c.shares, c.u); got != c.want {
			t.Errorf("%s: tier %d, want %d", c.name, got, c.want)
		}
	}
}

// TestSplitReusesOut: a split into a slice of enough room allocates nothing and leaves nothing of what was there.
func TestSplitReusesOut(t *testing.T) {
	p := discovery.LocalityPolicy{Overprovisioning: 140, PanicThreshold: 50, TierEndpointsMin: 2}
	tiers := []State{{"dc1", 4, 2, false}, {"dc2", 4, 4, false}}
	out := []Share{{1, true, 1}, {1, true, 1}, {1, true, 1}}
	if n := testing.AllocsPerRun(100, func() { out = Split(p, tiers, out) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if len(out) != 2 || out[0] != (Share{0.7, false, -1}) || math.Abs(out[1].Load-0.3) > 1e-12 || out[1].Panic || out[1].Merged != -1 {
		t.Errorf("shares %+v", out)
	}
	u := 0.0
	if n := testing.AllocsPerRun(100, func() { u += float64(Pick(out, 0.9)) }); n != 0 || u == 0 {
		t.Errorf("%v allocations to pick", n)
	}
}

func BenchmarkSplit(b *testing.B) {
	p := discovery.LocalityPolicy{Overprovisioning: 140, PanicThreshold: 50, TierEndpointsMin: 2}
	tiers := []State{{"dc1", 4, 1, false}, {"dc1", 8, 5, false}, {"dc2", 4, 4, false}, {"dc3", 4, 4, false}}
	var out []Share
	b.ReportAllocs()
	for b.Loop() {
		out = Split(p, tiers, out)
	}
}

func BenchmarkPick(b *testing.B) {
	shares := []Share{{Load: 0.7}, {Load: 0.2}, {Load: 0.1}}
	u, at := 0.0, 0
	b.ReportAllocs()
	for b.Loop() {
		if u += 0.618; u >= 1 {
			u--
		}
		at += Pick(shares, u)
	}
}
