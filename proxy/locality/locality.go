// Package locality arranges endpoints into tiers by distance, and says what share of the requests each tier gets.
//
// Its job: the order of tiers, merging of small ones, the split by health or last resort, panic.
// Not its job: which endpoint of a tier (proxy/balance), what usable means (proxy/health).
// It is pure and starts no goroutine. Its work grows with the number of endpoints (Arrange) or tiers (Split, Pick).
package locality

import (
	"slices"

	"spillway/discovery"
)

// Place is where this proxy stands and how it orders the rest.
type Place struct {
	Home   discovery.Locality
	Level  discovery.Level
	Order  []string              // datacenters in order of spill
	Levels []discovery.TierLevel // levels that make tiers inside the own datacenter, finest first
}

// Mixed is the datacenter of the last tier when its members stand in several.
const Mixed = "other"

// Tier is endpoints at the same distance from this proxy.
type Tier struct {
	Number     int // 0 own zone, 1 own datacenter, 2.. others
	Datacenter string
	Members    []int // indexes of the localities given to Arrange, ascending
	Home       bool  // in the own datacenter
}

// Arrange sorts endpoints into tiers, nearest first. Tiers without endpoints are left out; the others keep their number. A datacenter
// that is not listed, and a label that is missing, come last, together.
func Arrange(p Place, localities []discovery.Locality) []Tier {
	byNumber := map[int]*Tier{}
	var order []int
	for i, l := range localities {
		n, home := p.distance(l)
		dc := l.Datacenter(p.Level)
		t := byNumber[n]
		if t == nil {
			t = &Tier{Number: n, Datacenter: dc, Home: home}
			byNumber[n] = t
			order = append(order, n)
		} else if t.Datacenter != dc {
			t.Datacenter = Mixed
		}
		t.Members = append(t.Members, i)
	}
	slices.Sort(order)
	out := make([]Tier, len(order))
	for i, n := range order {
		out[i] = *byNumber[n]
	}
	return out
}

// distance is the number of an endpoint's tier and whether it stands in the own datacenter.
func (p Place) distance(l discovery.Locality) (number int, home bool) {
	inside := p.inside()
	own, dc := p.Home.Datacenter(p.Level), l.Datacenter(p.Level)
	if own != discovery.UnknownDatacenter && dc == own && l.Region == p.Home.Region {
		for i, level := range inside {
			if same(p.Home, l, level) {
				return i, true
			}
		}
		return len(inside), true
	}
	number = len(inside)
	for _, name := range p.Order {
		if name == own {
			continue
		}
		if name == dc && dc != discovery.UnknownDatacenter {
			return number, false
		}
		number++
	}
	return number, false
}

// border is the level at which a datacenter ends.
func (p Place) border() discovery.TierLevel {
	if p.Level == discovery.LevelZone {
		return discovery.TierZone
	}
	return discovery.TierRegion
}

// inside is the levels that make tiers inside the own datacenter: those at its border or finer, the border always.
func (p Place) inside() []discovery.TierLevel {
	var out []discovery.TierLevel
	for _, l := range p.Levels {
		if l >= p.border() {
			out = append(out, l)
		}
	}
	if len(out) == 0 || out[len(out)-1] != p.border() {
		out = append(out, p.border())
	}
	return out
}

// same tells whether two localities agree down to the level. A label that is missing on either side agrees with nothing.
func same(a, b discovery.Locality, level discovery.TierLevel) bool {
	if a.Region != b.Region || a.Region == "" && level == discovery.TierRegion {
		return false
	}
	if level >= discovery.TierZone && (a.Zone != b.Zone || a.Zone == "") {
		return false
	}
	return level < discovery.TierSubZone || a.SubZone == b.SubZone && a.SubZone != ""
}
