package locality

import "spillway/discovery"

// State is what a split needs to know of one tier.
type State struct {
	Datacenter string
	Total      int // endpoints that take new requests when they are well
	Usable     int // 0 <= Usable <= Total
	Down       bool
}

// Share is what one tier gets.
type Share struct {
	Load   float64 // part of the requests, 0..1; the loads of all tiers sum to 1, or all are 0: nothing can serve
	Panic  bool    // it is chosen from all its endpoints, usable or not
	Merged int     // the tier into which this one was merged, -1: none
}

// full is the rounding that sums of shares may miss 1 by.
const full = 1 - 1e-9

// Split divides the requests over tiers, nearest first, into out where it is large enough.
//
// health: each tier in turn takes min(100 %, usable share x overprovisioning factor) of what is left. When all together stay under
// 100 %, the shares are scaled up and a tier under the panic threshold is chosen from all its endpoints (Envoy's published rule).
// last_resort: the first tier with a usable endpoint takes everything.
func Split(p discovery.LocalityPolicy, tiers []State, out []Share) []Share {
	out = append(out[:0], make([]Share, len(tiers))...)
	for i := range out {
		out[i].Merged = -1
	}
	total, usable := merge(p, tiers, out)
	if p.Spill == discovery.SpillLastResort {
		for i := range tiers {
			if out[i].Merged < 0 && usable(i) > 0 && !tiers[i].Down {
				out[i].Load = 1
				return out
			}
		}
		panicAll(p, tiers, out, total)
		return out
	}
	left := 1.0
	for i := range tiers {
		if out[i].Merged >= 0 || tiers[i].Down || total(i) == 0 {
			continue
		}
		health := min(1, float64(usable(i))/float64(total(i))*float64(p.Overprovisioning)/100)
		out[i].Load = min(left, health)
		left -= out[i].Load
	}
	have := 1 - left
	switch {
	case have >= full:
	case have <= 0:
		panicAll(p, tiers, out, total)
	default:
		for i := range tiers {
			out[i].Load /= have
			if out[i].Merged < 0 && !tiers[i].Down && total(i) > 0 {
				out[i].Panic = usable(i)*100 < p.PanicThreshold*total(i)
			}
		}
	}
	return out
}

// merge joins each tier with too few usable endpoints to the next one of its datacenter. The functions give the numbers of a tier with
// those that were merged into it.
func merge(p discovery.LocalityPolicy, tiers []State, out []Share) (total, usable func(int) int) {
	for i := 0; i+1 < len(tiers); i++ {
		sum := tiers[i].Usable
		for j := range i {
			if out[j].Merged == i {
				sum += tiers[j].Usable
			}
		}
		if sum >= p.TierEndpointsMin || tiers[i].Datacenter != tiers[i+1].Datacenter || tiers[i].Down || tiers[i+1].Down {
			continue
		}
		for j := range i {
			if out[j].Merged == i {
				out[j].Merged = i + 1
			}
		}
		out[i].Merged = i + 1
	}
	add := func(i int, of func(State) int) int {
		n := of(tiers[i])
		for j := range i {
			if out[j].Merged == i {
				n += of(tiers[j])
			}
		}
		return n
	}
	return func(i int) int { return add(i, func(s State) int { return s.Total }) },
		func(i int) int { return add(i, func(s State) int { return s.Usable }) }
}

// panicAll shares by the number of endpoints when none is usable, unless panic is off.
func panicAll(p discovery.LocalityPolicy, tiers []State, out []Share, total func(int) int) {
	if p.PanicThreshold <= 0 {
		return
	}
	sum := 0
	for i := range tiers {
		if out[i].Merged < 0 && !tiers[i].Down {
			sum += total(i)
		}
	}
	for i := range tiers {
		if out[i].Merged < 0 && !tiers[i].Down && sum > 0 && total(i) > 0 {
			out[i].Load = float64(total(i)) / float64(sum)
			out[i].Panic = true
		}
	}
}

// Pick is the tier for u in [0, 1); -1 when nothing can serve.
func Pick(shares []Share, u float64) int {
	last := -1
	for i := range shares {
		if shares[i].Load <= 0 {
			continue
		}
		if u < shares[i].Load {
			return i
		}
		u -= shares[i].Load
		last = i // the sum may miss 1 by rounding
	}
	return last
}
