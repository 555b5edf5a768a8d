package upstream

import (
	"math/rand/v2"
	"slices"

	"spillway/discovery"
	"spillway/proxy/balance"
	"spillway/proxy/decision"
	"spillway/proxy/locality"
)

// Source is the randomness of one client connection: a seeded generator, and a low-discrepancy sequence for the choice of tier that
// meets a share within a fraction of a point where independent draws would scatter by several.
type Source struct {
	*rand.Rand
	u float64
}

// golden is the fractional part of the golden ratio: the additive sequence with the lowest discrepancy (Weyl, Kuipers and Niederreiter).
const golden = 0.6180339887498949

// NewSource starts a source from a seed.
func NewSource(seed1, seed2 uint64) Source {
	r := rand.New(rand.NewPCG(seed1, seed2))
	return Source{Rand: r, u: r.Float64()}
}

// Next is the next element of the sequence, in [0, 1).
func (s *Source) Next() float64 {
	s.u += golden
	if s.u >= 1 {
		s.u--
	}
	return s.u
}

// Pick is one choice.
type Pick struct {
	Choice   *Choice
	U        float64
	Tier     int  // index into Choice; -1 when nothing can serve
	Home     bool // only endpoints of the own datacenter were candidates
	Endpoint *Endpoint
	Reason   decision.Reason
}

// Choose picks tier and endpoint for the first try of a request. With home, endpoints of other datacenters are no candidates. A Pick
// without Endpoint means that nothing can serve.
func (s *Service) Choose(now int64, src *Source, home bool) Pick {
	s.touch(now)
	c := s.Current(now)
	p := Pick{Choice: c, U: src.Next(), Home: home}
	if home {
		if c = c.atHome(); c == nil {
			p.Tier = -1
			return p
		}
		p.Choice = c
	}
	p.Tier = locality.Pick(c.Shares, p.U)
	if p.Tier < 0 {
		return p
	}
	p.Endpoint = c.pick(p.Tier, now, src.Rand, nil)
	p.Reason = decision.Why(c.States, c.Shares, s.Policy.Locality, p.Tier, false)
	return p
}

// Another picks for a further try: another endpoint of the same tier; where that tier is down or has no other one, and the policy
// lets this try leave the tier, the next tier that can serve. What was no candidate before is none now.
func (s *Service) Another(now int64, src *Source, before Pick, tried []*balance.Load, leave bool) Pick {
	c := s.Current(now)
	p := Pick{Choice: c, U: before.U, Tier: before.Tier, Home: before.Home, Reason: decision.Retry}
	if p.Home {
		if c = c.atHome(); c != nil {
			p.Choice = c
		}
	}
	if c == nil || len(c.sets) == 0 {
		p.Tier = -1
		return p
	}
	if before.Tier >= len(c.sets) { // the snapshot changed under the request
		p.Tier = 0
	}
	// A tier that gets no requests any more is left also by a try that would otherwise stay.
	leave = leave || s.Policy.Retry.CrossTier != discovery.CrossNever && (c.States[p.Tier].Down || c.Shares[p.Tier].Load == 0)
	if !c.States[p.Tier].Down {
		if p.Endpoint = c.pick(p.Tier, now, src.Rand, tried); p.Endpoint != nil {
			return p
		}
	}
	if !leave {
		p.Tier = -1
		return p
	}
	for i := range c.sets {
		at := (p.Tier + 1 + i) % len(c.sets)
		if c.States[at].Down || !c.sets[at].usable {
			continue
		}
		if ep := c.pick(at, now, src.Rand, tried); ep != nil {
			p.Tier, p.Endpoint = at, ep
			p.Reason = decision.Why(c.States, c.Shares, s.Policy.Locality, at, false)
			if c.Shares[at].Load == 0 {
				p.Reason = decision.TierDown
			}
			return p
		}
	}
	p.Tier = -1
	return p
}

// atHome is the choice of the own datacenter alone; nil where nothing of it can serve.
func (c *Choice) atHome() *Choice {
	if c.home == nil && len(c.sets) > 0 && c.Service.homes == len(c.sets) {
		return c
	}
	return c.home
}

func (c *Choice) pick(tier int, now int64, rng *rand.Rand, tried []*balance.Load) *Endpoint {
	set := &c.sets[tier]
	if set.balance == nil {
		return nil
	}
	i := set.balance.Pick(now, rng, tried)
	if i < 0 {
		return nil
	}
	return set.members[i]
}

// Current is the choice that holds now.
func (s *Service) Current(now int64) *Choice {
	c := s.choice.Load()
	if c.until != 0 && now >= c.until {
		s.core.mu.Lock()
		if c = s.choice.Load(); c.until != 0 && now >= c.until {
			s.recompute(now)
			c = s.choice.Load()
		}
		s.core.mu.Unlock()
	}
	return c
}

// recompute makes the next Choice from the health of the endpoints. core.mu is held, or the service is not published yet.
func (s *Service) recompute(now int64) {
	c := &Choice{Service: s, policy: s.Policy.Locality, States: make([]locality.State, len(s.tiers)), sets: make([]set, len(s.tiers))}
	usable := make([][]*Endpoint, len(s.tiers))
	for i := range s.tiers {
		t := &s.tiers[i]
		for _, e := range t.members {
			if e.usable(now) {
				usable[i] = append(usable[i], e)
			}
			if at := e.health.Until(now); at != 0 && (c.until == 0 || at < c.until) {
				c.until = at
			}
		}
		c.States[i] = locality.State{Datacenter: t.Datacenter, Total: len(t.members), Usable: len(usable[i]), Down: t.down.Down()}
	}
	c.Shares = locality.Split(c.policy, c.States, nil)
	if locality.Pick(c.Shares, 0) < 0 {
		s.lastHope(c)
	}
	for i := range s.tiers {
		c.sets[i] = s.candidates(i, c.Shares, usable)
	}
	c.home = s.recomputeHome(c, usable)
	s.choice.Store(c)
}

// recomputeHome makes the choice for requests that must stay in the own datacenter. Its sets are c's where they would be the same, which is
// nearly always. Without a usable endpoint there is none: panic is a hope for those who have nowhere else to go, and such a request has
// come from elsewhere.
func (s *Service) recomputeHome(c *Choice, usable [][]*Endpoint) *Choice {
	well := 0
	for i := range s.homes {
		well += c.States[i].Usable
	}
	if well == 0 || s.homes == len(s.tiers) {
		return nil
	}
	h := &Choice{Service: s, policy: s.Policy.Locality, States: slices.Clone(c.States[:s.homes]), sets: make([]set, s.homes)}
	if !slices.ContainsFunc(c.Shares[:s.homes], func(sh locality.Share) bool { return sh.Panic }) {
		h.policy.PanicThreshold = 0 // panic is for when all tiers together are short, the others included
	}
	h.Shares = locality.Split(h.policy, h.States, nil)
	if locality.Pick(h.Shares, 0) < 0 {
		s.lastHope(h)
	}
	if slices.EqualFunc(h.Shares, c.Shares[:s.homes], func(a, b locality.Share) bool { return a.Panic == b.Panic && a.Merged == b.Merged }) {
		copy(h.sets, c.sets)
		return h
	}
	for i := range h.sets {
		h.sets[i] = s.candidates(i, h.Shares, usable)
	}
	return h
}

// lastHope is for when nothing else can serve: a tier counts as down after two of its endpoints refused, but others of it may be well.
func (s *Service) lastHope(c *Choice) {
	c.policy.PanicThreshold = 0 // what is not usable has just refused
	for i := range c.States {
		if c.States[i].Usable > 0 {
			c.States[i].Down = false
		}
	}
	c.Shares = locality.Split(c.policy, c.States, nil)
}

// candidates is the set of one tier: its usable endpoints and those of a tier that was merged into it; all of them in panic.
func (s *Service) candidates(i int, shares []locality.Share, usable [][]*Endpoint) set {
	out := set{usable: true}
	list, all := usable[i], s.tiers[i].members
	for j := range i {
		if shares[j].Merged == i {
			list = append(slices.Clone(usable[j]), list...)
			all = append(slices.Clone(s.tiers[j].members), all...)
		}
	}
	well := len(list)
	list = ranked(list)
	if shares[i].Panic {
		list = all
	}
	if len(list) == 0 {
		out.usable = false
		return out
	}
	out.usable = well > 0
	loads, weights := make([]*balance.Load, len(list)), make([]int, len(list))
	for k, e := range list {
		loads[k], weights[k] = &e.Load, e.Weight
	}
	out.members = list
	out.balance = balance.NewSet(s.Policy.Balance, loads, weights, s.tiers[i].cursor)
	return out
}

// ranked leaves endpoints whose first check has not come back out, as long as there are checked ones.
func ranked(list []*Endpoint) []*Endpoint {
	var checked []*Endpoint
	for _, e := range list {
		if e.health.Checked() {
			checked = append(checked, e)
		}
	}
	if len(checked) > 0 {
		return checked
	}
	return list
}
