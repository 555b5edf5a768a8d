package decision

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"spillway/proxy/locality"
)

// Fill puts states and shares of tiers into the record; the caller gives the numbers of the tiers in the same order.
func (r *Record) Fill(numbers []int, states []locality.State, shares []locality.Share) {
	r.Tiers = make([]Tier, len(states))
	for i, s := range states {
		r.Tiers[i] = Tier{Number: numbers[i], Datacenter: s.Datacenter, Total: s.Total, Usable: s.Usable, Down: s.Down,
			Panic: shares[i].Panic, Share: shares[i].Load, Merged: shares[i].Merged}
	}
}

// Pick makes the pick inside the tier from what the record holds: an index into Candidates, -1 when all were tried. It is how a recorded
// choice is made, and how it is made again.
func (r *Record) Pick() int {
	var tried []int
	for _, address := range r.Tried {
		if i := slices.Index(r.Candidates, address); i >= 0 {
			tried = append(tried, i)
		}
	}
	return r.Balance.Pick(rand.New(rand.NewPCG(r.Seed1, r.Seed2)), tried)
}

// Replay makes the decision again from the record's own states: shares, tier, reason and, where the record has candidates, the endpoint. The
// error says what differs; nil means that the record explains itself. Any record may be given, also one that came from outside.
func Replay(r Record) error {
	if r.Tier < -1 || r.Tier >= len(r.Tiers) {
		return fmt.Errorf("tier index %d of %d", r.Tier, len(r.Tiers))
	}
	states := make([]locality.State, len(r.Tiers))
	for i, t := range r.Tiers {
		if t.Usable < 0 || t.Usable > t.Total {
			return fmt.Errorf("tier %d: %d of %d usable", t.Number, t.Usable, t.Total)
		}
		states[i] = locality.State{Datacenter: t.Datacenter, Total: t.Total, Usable: t.Usable, Down: t.Down}
	}
	shares := locality.Split(r.Policy, states, nil)
	for i, t := range r.Tiers {
		if got := (locality.Share{Load: t.Share, Panic: t.Panic, Merged: t.Merged}); got != shares[i] {
			return fmt.Errorf("tier %d: recorded %+v, recomputed %+v", t.Number, got, shares[i])
		}
	}
	if err := replayTier(r, states, shares); err != nil {
		return err
	}
	return replayEndpoint(r)
}

// replayTier looks at tier and reason. The tier of a further try follows from what the tries before met, which the record of one try does
// not hold: such a try may stay where it was, or leave a tier by the rule of the retry policy.
func replayTier(r Record, states []locality.State, shares []locality.Share) error {
	further := r.Attempt > 1 || r.Reason == Retry
	if !further {
		if got := locality.Pick(shares, r.U); got != r.Tier {
			return fmt.Errorf("recorded tier index %d, recomputed %d", r.Tier, got)
		}
	}
	if r.Tier < 0 {
		return nil
	}
	why := Why(states, shares, r.Policy, r.Tier, false)
	if r.Reason == why || further && (r.Reason == Retry || r.Reason == TierDown) {
		return nil
	}
	return fmt.Errorf("recorded reason %s, recomputed %s", r.Reason, why)
}

// replayEndpoint looks at the pick inside the tier.
func replayEndpoint(r Record) error {
	if r.Tier < 0 {
		if r.Endpoint != "" {
			return fmt.Errorf("recorded endpoint %s, but nothing can serve", r.Endpoint)
		}
		return nil
	}
	if dc := r.Tiers[r.Tier].Datacenter; r.Endpoint != "" && dc != locality.Mixed && dc != r.Datacenter {
		return fmt.Errorf("recorded datacenter %s, its tier is %s", r.Datacenter, dc)
	}
	if len(r.Candidates) != len(r.Balance.Candidates) {
		return fmt.Errorf("%d candidates, numbers of %d", len(r.Candidates), len(r.Balance.Candidates))
	}
	if len(r.Candidates) == 0 {
		return nil
	}
	got := ""
	if i := r.Pick(); i >= 0 {
		got = r.Candidates[i]
	}
	if got != r.Endpoint {
		return fmt.Errorf("recorded endpoint %q, recomputed %q", r.Endpoint, got)
	}
	return nil
}
