package locality

import "spillway/discovery"

// State is what a split needs to know of one tier.
type State struct {
	Datacenter string
	Total      int // endpoints with a weight over 0
	Usable     int // 0 <= Usable <= Total
	Down       bool
}

// Share is what one tier gets. The loads of all tiers sum to 1 but for rounding, or all are 0: nothing can serve.
type Share struct {
	Load   float64 // part of the requests, 0..1
	Panic  bool    // its endpoints are taken whether usable or not
	Merged int     // index of the tier it was merged into, always a later one; -1: none. A merged tier's own Load is 0
}

// rounding is how much of 1 a sum of shares may miss.
const rounding = 1e-9

// counts is the numbers of a tier together with those merged into it.
type counts struct{ total, usable int }

// Split divides the requests over tiers, nearest first. It writes into out where that is large enough, and allocates otherwise.
//
// spill health: each tier in turn takes min(100 %, usable share x overprovisioning factor) of all requests until none are left. Where
// all tiers together stay under 100 %, the shares are scaled up to 100 %, and a tier whose usable share is under the panic threshold is
// chosen from all its endpoints (the rule that Envoy publishes for its load distribution).
// spill last_resort: the first tier with a usable endpoint takes everything (nginx's `backup`).
// In both: a tier that is down takes nothing. Where no endpoint is usable at all, tiers that are not down share by their number of
// endpoints, in panic; with a threshold of 0 nothing can serve.
func Split(p discovery.LocalityPolicy, tiers []State, out []Share) []Share {
	out = out[:0]
	for range tiers {
		out = append(out, Share{Merged: -1})
	}
	merge(p.TierEndpointsMin, tiers, out)
	left := 1.0
	for i := range tiers {
		c := sum(tiers, out, i)
		if c.usable == 0 || left == 0 {
			continue
		}
		take := left
		if p.Spill == discovery.SpillHealth {
			take = min(left, float64(c.usable*p.Overprovisioning)/float64(c.total*100))
		}
		out[i].Load = take
		if left -= take; left < rounding {
			left = 0
		}
	}
	switch {
	case left == 0:
	case left == 1:
		byNumber(p, tiers, out)
	default:
		scale(p, tiers, out)
	}
	return out
}

// merge joins each tier with fewer than least usable endpoints to the next one of the same datacenter. A tier that is down is left
// alone: it takes nothing, and must not draw another one into that.
func merge(least int, tiers []State, out []Share) {
	for i := 0; i+1 < len(tiers); i++ {
		next := &tiers[i+1]
		if tiers[i].Down || next.Down || tiers[i].Datacenter != next.Datacenter || sum(tiers, out, i).usable >= least {
			continue
		}
		out[i].Merged = i + 1
		for j := range i {
			if out[j].Merged == i {
				out[j].Merged = i + 1
			}
		}
	}
}

// sum is the numbers of a tier with those that were merged into it; nothing for a tier that takes no requests of its own.
func sum(tiers []State, out []Share, i int) (c counts) {
	if tiers[i].Down || out[i].Merged >= 0 {
		return c
	}
	c = counts{tiers[i].Total, tiers[i].Usable}
	for j := range i {
		if out[j].Merged == i {
			c.total += tiers[j].Total
			c.usable += tiers[j].Usable
		}
	}
	return c
}

// scale brings shares up to a sum of 1, and tells who is in panic.
func scale(p discovery.LocalityPolicy, tiers []State, out []Share) {
	have := 0.0 // added up, so that a tier alone gets exactly 1
	for i := range out {
		have += out[i].Load
	}
	for i := range tiers {
		c := sum(tiers, out, i)
		out[i].Load /= have
		out[i].Panic = c.usable*100 < p.PanicThreshold*c.total
	}
}

// byNumber shares by the number of endpoints when none is usable.
func byNumber(p discovery.LocalityPolicy, tiers []State, out []Share) {
	if p.PanicThreshold <= 0 {
		return
	}
	all := 0
	for i := range tiers {
		all += sum(tiers, out, i).total
	}
	for i := range tiers {
		if n := sum(tiers, out, i).total; n > 0 {
			out[i].Load, out[i].Panic = float64(n)/float64(all), true
		}
	}
}

// Pick is the index of the tier for u in [0, 1); -1 when nothing can serve.
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
		last = i // the sum may miss 1 by rounding: the rest is the last one's
	}
	return last
}
