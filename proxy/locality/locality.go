// Package locality arranges endpoints into tiers by distance, and says what part of the requests each tier gets.
//
// Its job: the order of tiers, merging of small ones, the split by health or last resort, panic.
// Not its job: which endpoint of a tier (proxy/balance), what usable means (proxy/health), why in words (proxy/decision).
// It is pure and starts no goroutine. It keeps nothing: work and memory grow with the endpoints (Arrange) or the tiers (Split, Pick) that
// it is given, and a snapshot bounds those.
package locality

import (
	"cmp"
	"slices"

	"spillway/discovery"
)

// Place is where this proxy stands and how it orders the rest.
type Place struct {
	Home   discovery.Locality
	Level  discovery.Level
	Order  []string              // datacenters in order of spill; the own one may stand anywhere or not at all
	Levels []discovery.TierLevel // levels that make tiers inside the own datacenter, in any order
}

// Mixed is the datacenter of the last tier when its members stand in several, or when their label is the own datacenter's although
// they stand elsewhere (zones of two regions may bear one name).
const Mixed = "other"

// Tier is endpoints at the same distance from this proxy.
type Tier struct {
	Number     int    // 0 nearest; by default 0 own zone, 1 own datacenter, 2.. others
	Datacenter string // label, or Mixed
	Members    []int  // indexes of the localities given to Arrange, ascending
	Home       bool   // in the own datacenter
}

// Arrange sorts endpoints into tiers, nearest first. Inside the own datacenter each of p.Levels makes a tier, and the datacenter itself
// always does; then each datacenter of p.Order is a tier. Datacenters that are not listed and endpoints without a label share one tier
// behind them all. Tiers without endpoints are left out; the others keep their number.
func Arrange(p Place, localities []discovery.Locality) []Tier {
	inside := p.inside()
	after := p.outside(len(inside))
	last := len(inside) + len(after)
	own := p.Home.Datacenter(p.Level)
	at := map[int]int{} // number -> index into out
	var out []Tier
	for i, l := range localities {
		dc, home := l.Datacenter(p.Level), p.Own(l)
		n := last
		switch listed, ok := after[dc]; {
		case home:
			n = p.depth(inside, l)
		case ok:
			n = listed
		}
		k, seen := at[n]
		if !seen {
			k = len(out)
			at[n] = k
			out = append(out, Tier{Number: n, Datacenter: dc, Home: home})
		}
		if t := &out[k]; t.Datacenter != dc || !home && dc == own && dc != discovery.UnknownDatacenter {
			t.Datacenter = Mixed
		}
		out[k].Members = append(out[k].Members, i)
	}
	slices.SortFunc(out, func(a, b Tier) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

// Own tells whether a locality is in the own datacenter. Where zones are datacenters their regions must not contradict each other. A
// proxy that does not know where it stands has no own datacenter.
func (p Place) Own(l discovery.Locality) bool {
	dc := l.Datacenter(p.Level)
	if dc == discovery.UnknownDatacenter || dc != p.Home.Datacenter(p.Level) {
		return false
	}
	return l.Region == p.Home.Region || l.Region == "" || p.Home.Region == ""
}

// border is the level at which a datacenter ends.
func (p Place) border() discovery.TierLevel {
	if p.Level == discovery.LevelZone {
		return discovery.TierZone
	}
	return discovery.TierRegion
}

// inside is the levels that make tiers inside the own datacenter, finest first, the border itself last.
func (p Place) inside() []discovery.TierLevel {
	border := p.border()
	out := []discovery.TierLevel{border}
	for _, l := range p.Levels {
		if l > border { // finer levels have greater numbers
			out = append(out, l)
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return slices.Compact(out)
}

// depth is the first of the levels down to which l agrees with the home; the last one, the border, always does for the own datacenter.
func (p Place) depth(inside []discovery.TierLevel, l discovery.Locality) int {
	for i, level := range inside[:len(inside)-1] {
		if agree(p.Home, l, level) {
			return i
		}
	}
	return len(inside) - 1
}

// outside is the numbers of the listed datacenters but the own one, from first on. UnknownDatacenter is no datacenter that can be listed.
func (p Place) outside(first int) map[string]int {
	own := p.Home.Datacenter(p.Level)
	out := make(map[string]int, len(p.Order))
	for _, name := range p.Order {
		if _, again := out[name]; again || name == own || name == discovery.UnknownDatacenter {
			continue
		}
		out[name] = first + len(out)
	}
	return out
}

// agree tells whether two localities of one datacenter agree down to a level finer than the region. A label that is missing agrees with
// nothing: nobody knows how near that is.
func agree(a, b discovery.Locality, level discovery.TierLevel) bool {
	if a.Zone != b.Zone || a.Zone == "" {
		return false
	}
	return level == discovery.TierZone || a.SubZone == b.SubZone && a.SubZone != ""
}
