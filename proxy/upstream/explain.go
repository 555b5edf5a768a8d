package upstream

import (
	"slices"
	"strings"

	"spillway/discovery"
	"spillway/proxy/decision"
	"spillway/proxy/locality"
	"spillway/proxy/route"
)

// TierState is one tier as it stands.
type TierState struct {
	decision.Tier
	Endpoints []*Endpoint // also those of weight 0
}

// Sorted gives the services by name.
func (v *View) Sorted() []*Service {
	out := make([]*Service, 0, len(v.services))
	for _, s := range v.services {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Service) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Host finds a service by a Host value.
func (v *View) Host(host string) *Service {
	if m := route.ByHost(v.Snapshot, []byte(host)); m != nil {
		return v.services[m.Name]
	}
	return nil
}

// Condition is the health of an endpoint in a word or two; "usable" is good.
func (e *Endpoint) Condition(now int64) string {
	switch {
	case e.Own:
		return "a listener of this proxy: never dialled"
	case e.Said == discovery.Draining:
		return "draining"
	case e.Said == discovery.Unhealthy:
		return "unhealthy by its source"
	}
	e.core.mu.Lock()
	defer e.core.mu.Unlock()
	return e.health.Describe(now)
}

// Describe gives the tiers as they stand now.
func (s *Service) Describe(now int64) []TierState {
	c := s.Current(now)
	out := make([]TierState, len(s.tiers))
	for i := range s.tiers {
		out[i].Tier = record(s.tiers[i].Tier, c.States[i], c.Shares[i])
		for _, at := range s.tiers[i].Members {
			out[i].Endpoints = append(out[i].Endpoints, s.endpoints[at])
		}
	}
	return out
}

func record(t locality.Tier, st locality.State, sh locality.Share) decision.Tier {
	return decision.Tier{Number: t.Number, Datacenter: t.Datacenter, Total: st.Total, Usable: st.Usable, Down: st.Down,
		Panic: sh.Panic, Share: sh.Load, Merged: sh.Merged}
}

// Explain makes the record of a choice as the data path would make it now. It counts nothing and moves no cursor, and it replays.
func (s *Service) Explain(now int64, src *Source, host string) decision.Record {
	c := s.Current(now)
	r := decision.Record{Service: s.Name, Host: host, U: src.Next(), Policy: c.policy, Seed1: src.Uint64(), Seed2: src.Uint64()}
	for i := range s.tiers {
		r.Tiers = append(r.Tiers, record(s.tiers[i].Tier, c.States[i], c.Shares[i]))
	}
	r.Tier = locality.Pick(c.Shares, r.U)
	if r.Tier < 0 || c.sets[r.Tier].balance == nil {
		return r
	}
	set := &c.sets[r.Tier]
	r.Balance = set.balance.Moment(now)
	for _, e := range set.members {
		r.Candidates = append(r.Candidates, e.Text)
	}
	if i := r.Pick(); i >= 0 {
		e := set.members[i]
		r.Endpoint, r.Datacenter = e.Text, e.Cluster.Datacenter
		r.Reason = decision.Why(c.States, c.Shares, c.policy, r.Tier, false)
	}
	return r
}
