// Package decision is the record of why a request went where it went, and its replay.
//
// Its job: the reasons, the record, recomputing a record from what it holds. Not its job: deciding (locality, balance).
// It is pure and starts no goroutine. A record is as large as the service has tiers.
package decision

import (
	"fmt"

	"spillway/discovery"
	"spillway/proxy/locality"
)

// Reason is why a request went to its tier.
type Reason uint8

// The reasons.
const (
	Nearest Reason = iota
	SpillHealth
	TierDown
	Retry
	LastResort
	ReasonCount // for tables indexed by Reason
)

// String is the reason as spans, logs and metrics name it.
func (r Reason) String() string {
	return [...]string{"nearest", "spill_health", "tier_down", "retry", "last_resort", "unknown"}[min(r, ReasonCount)]
}

// Tier is one tier as it stood.
type Tier struct {
	Number     int     `json:"number"`
	Datacenter string  `json:"datacenter"`
	Total      int     `json:"total"`
	Usable     int     `json:"usable"`
	Down       bool    `json:"down"`
	Panic      bool    `json:"panic"`
	Share      float64 `json:"share"`  // of the requests, 0..1
	Merged     int     `json:"merged"` // index of the tier it was merged into, -1: none
}

// Record is one decision and everything it was made from.
type Record struct {
	Service    string                   `json:"service"`
	Host       string                   `json:"host,omitempty"`
	U          float64                  `json:"u"` // the draw in [0, 1) that chose the tier
	Policy     discovery.LocalityPolicy `json:"policy"`
	Tiers      []Tier                   `json:"tiers"`
	Tier       int                      `json:"tier"` // index into Tiers; -1: nothing can serve
	Endpoint   string                   `json:"endpoint"`
	Datacenter string                   `json:"datacenter"`
	Reason     Reason                   `json:"-"`
	ReasonText string                   `json:"reason"`
}

// Why is the reason of the first choice of a tier, or of a further try.
func Why(states []locality.State, shares []locality.Share, p discovery.LocalityPolicy, tier int, retry bool) Reason {
	if retry {
		return Retry
	}
	down := false
	for i := range tier {
		down = down || states[i].Down && states[i].Total > 0
	}
	first := true
	for i := range tier {
		first = first && (shares[i].Merged == tier || states[i].Total == 0)
	}
	switch {
	case first:
		return Nearest
	case p.Spill == discovery.SpillLastResort:
		return LastResort
	case down && nothingBefore(shares, tier):
		return TierDown
	}
	return SpillHealth
}

// nothingBefore tells whether no nearer tier gets any requests.
func nothingBefore(shares []locality.Share, tier int) bool {
	for i := range tier {
		if shares[i].Load > 0 {
			return false
		}
	}
	return true
}

// Replay recomputes shares, tier and reason from the record's own states. The error says what differs.
func Replay(r Record) error {
	states := make([]locality.State, len(r.Tiers))
	for i, t := range r.Tiers {
		states[i] = locality.State{Datacenter: t.Datacenter, Total: t.Total, Usable: t.Usable, Down: t.Down}
	}
	shares := locality.Split(r.Policy, states, nil)
	for i, t := range r.Tiers {
		if shares[i].Load != t.Share || shares[i].Panic != t.Panic || shares[i].Merged != t.Merged {
			return fmt.Errorf("tier %d: recorded share %v, panic %v, merged %d; recomputed %+v", t.Number, t.Share, t.Panic, t.Merged, shares[i])
		}
	}
	if got := locality.Pick(shares, r.U); got != r.Tier {
		return fmt.Errorf("recorded tier %d, recomputed %d", r.Tier, got)
	}
	if r.Tier >= 0 && r.Reason != Retry {
		if got := Why(states, shares, r.Policy, r.Tier, false); got != r.Reason {
			return fmt.Errorf("recorded reason %s, recomputed %s", r.Reason, got)
		}
	}
	return nil
}

// Lines is the record for people: one line for each tier, nearest first, then where the request goes.
func (r Record) Lines() []string {
	var out []string
	for i, t := range r.Tiers {
		line := fmt.Sprintf("tier %d %s: %d/%d usable, share %.1f %%", t.Number, t.Datacenter, t.Usable, t.Total, 100*t.Share)
		switch {
		case t.Down:
			line += ", down"
		case t.Merged >= 0:
			line += fmt.Sprintf(", merged into tier %d", r.Tiers[t.Merged].Number)
		}
		if t.Panic {
			line += ", panic: chosen from all its endpoints"
		}
		if i == r.Tier {
			line += " <- chosen"
		}
		out = append(out, line)
	}
	if r.Tier < 0 || r.Endpoint == "" {
		return append(out, "goes nowhere: no tier can serve")
	}
	return append(out, fmt.Sprintf("goes to %s in %s: %s", r.Endpoint, r.Datacenter, r.Reason))
}
