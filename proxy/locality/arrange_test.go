package locality

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"spillway/discovery"
)

// localities draws from few labels, so that they agree often.
func localities(t *rapid.T) discovery.Locality {
	return discovery.Locality{
		Region:  rapid.SampledFrom([]string{"", "r1", "r2", "r3"}).Draw(t, "region"),
		Zone:    rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone"),
		SubZone: rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "sub_zone"),
	}
}

func places(t *rapid.T) Place {
	return Place{
		Home:  localities(t),
		Level: rapid.SampledFrom([]discovery.Level{discovery.LevelRegion, discovery.LevelZone}).Draw(t, "level"),
		Order: rapid.SliceOfN(rapid.SampledFrom([]string{"r1", "r2", "a", "b", "unknown"}), 0, 4).Draw(t, "order"),
		Levels: rapid.SampledFrom([][]discovery.TierLevel{nil, {discovery.TierZone, discovery.TierRegion}, {discovery.TierRegion},
			{discovery.TierSubZone, discovery.TierZone, discovery.TierRegion}, {discovery.TierZone}}).Draw(t, "tiers"),
	}
}

// key is the distance of one endpoint as a text that sorts: own ones by how much of the label agrees, others by their place in the
// order. It is the dumb reference of Arrange's order.
func key(p Place, l discovery.Locality) string {
	own, dc := p.Home.Datacenter(p.Level), l.Datacenter(p.Level)
	contradicts := l.Region != p.Home.Region && l.Region != "" && p.Home.Region != ""
	if dc == own && dc != discovery.UnknownDatacenter && !contradicts {
		zone := l.Zone != "" && l.Zone == p.Home.Zone
		sub := zone && l.SubZone != "" && l.SubZone == p.Home.SubZone
		switch {
		case sub && slices.Contains(p.Levels, discovery.TierSubZone):
			return "A0"
		case zone && p.Level == discovery.LevelRegion && slices.Contains(p.Levels, discovery.TierZone):
			return "A1"
		}
		return "A2"
	}
	if at := slices.Index(p.Order, dc); at >= 0 && dc != discovery.UnknownDatacenter && dc != own {
		return fmt.Sprintf("B%d", at)
	}
	return "C"
}

func TestArrangeAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := places(t)
		all := rapid.SliceOfN(rapid.Custom(localities), 0, 12).Draw(t, "localities")
		byKey := map[string][]int{}
		for i, l := range all {
			byKey[key(p, l)] = append(byKey[key(p, l)], i)
		}
		keys := make([]string, 0, len(byKey))
		for k := range byKey {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		tiers := Arrange(p, all)
		if len(tiers) != len(keys) {
			t.Fatalf("%d tiers, want %d: %+v", len(tiers), len(keys), tiers)
		}
		for i, tier := range tiers {
			if !slices.Equal(tier.Members, byKey[keys[i]]) {
				t.Fatalf("tier %d has %v, want %v", i, tier.Members, byKey[keys[i]])
			}
			if i > 0 && tier.Number <= tiers[i-1].Number {
				t.Fatalf("numbers %d, %d", tiers[i-1].Number, tier.Number)
			}
			checkTier(t, p, all, tier, strings.HasPrefix(keys[i], "A"))
		}
	})
}

// checkTier looks at the label of a tier. Tiers with the own name are own tiers: nothing else may be merged with them.
func checkTier(t *rapid.T, p Place, all []discovery.Locality, tier Tier, home bool) {
	own := p.Home.Datacenter(p.Level)
	if tier.Home != home {
		t.Fatalf("home of %+v, want %v", tier, home)
	}
	if !tier.Home && tier.Datacenter == own && own != discovery.UnknownDatacenter {
		t.Fatalf("a tier of elsewhere bears the own name: %+v", tier)
	}
	if tier.Datacenter == Mixed {
		return
	}
	for _, m := range tier.Members {
		if dc := all[m].Datacenter(p.Level); dc != tier.Datacenter {
			t.Fatalf("member %d of %s is in %s", m, tier.Datacenter, dc)
		}
	}
}

// TestNumbersStay: the number of an endpoint's tier does not depend on which other endpoints there are.
func TestNumbersStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := places(t)
		all := rapid.SliceOfN(rapid.Custom(localities), 1, 12).Draw(t, "localities")
		for _, tier := range Arrange(p, all) {
			for _, m := range tier.Members {
				if alone := Arrange(p, all[m:m+1]); alone[0].Number != tier.Number || alone[0].Home != tier.Home {
					t.Fatalf("endpoint %d: tier %d among others, %d alone", m, tier.Number, alone[0].Number)
				}
			}
		}
	})
}

func BenchmarkArrange(b *testing.B) {
	p := Place{Home: discovery.Locality{Region: "r0", Zone: "a"}, Order: []string{"r0", "r1", "r2"},
		Levels: []discovery.TierLevel{discovery.TierZone, discovery.TierRegion}}
	var all []discovery.Locality
	for i := range 1000 {
		all = append(all, discovery.Locality{Region: fmt.Sprint("r", i%4), Zone: string(rune('a' + i%3))})
	}
	b.ReportAllocs()
	for b.Loop() {
		Arrange(p, all)
	}
}
