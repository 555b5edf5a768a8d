// Package decision is the record of why a request went where it went, and its replay.
//
// Its job: the reasons, the record with everything a choice was made from, making the choice again from it, the record for people and as
// JSON. Not its job: the rules themselves (proxy/locality, proxy/balance), keeping or sending records (telemetry).
// It is pure and starts no goroutine. A record is as large as the service has tiers and the chosen tier has candidates. Why allocates
// nothing; the data path needs no more of this package for a request that is not recorded.
package decision

import (
	"fmt"

	"spillway/discovery"
	"spillway/proxy/balance"
	"spillway/proxy/locality"
)

// Reason is why a request went to its tier.
type Reason uint8

// The closed list of reasons; String gives the form that stands in spans, logs and metrics.
const (
	Nearest     Reason = iota // the nearest tier that has endpoints
	SpillHealth               // nearer tiers cannot take it all
	TierDown                  // nearer tiers are down
	Retry                     // a further try of a request
	LastResort                // nearer tiers have no usable endpoint, and only then is a farther one used
	ReasonCount               // number of reasons, for tables indexed by Reason
)

var reasonNames = [ReasonCount]string{"nearest", "spill_health", "tier_down", "retry", "last_resort"}

// String is the reason's name, "unknown" for a value outside the list.
func (r Reason) String() string {
	if r >= ReasonCount {
		return "unknown"
	}
	return reasonNames[r]
}

// Tier is one tier as it stood: its state and its share.
type Tier struct {
	Number     int     `json:"number"`
	Datacenter string  `json:"datacenter"`
	Total      int     `json:"total"` // endpoints with a weight over 0
	Usable     int     `json:"usable"`
	Down       bool    `json:"down"`
	Panic      bool    `json:"panic"`
	Share      float64 `json:"share"`  // of the requests, 0..1
	Merged     int     `json:"merged"` // index of the tier it was merged into, -1: none
}

// Record is one decision and everything it was made from.
type Record struct {
	Service, Host string
	Attempt       int     // 1 is the first try; 0 counts as 1
	U             float64 // the draw in [0, 1) that chose the tier of the first try
	Policy        discovery.LocalityPolicy
	Tiers         []Tier // nearest first
	Tier          int    // index into Tiers; -1: nothing can serve
	Reason        Reason

	// The pick inside the tier. Candidates are the addresses of Balance.Candidates in the same order. Without candidates the endpoint is
	// told, but cannot be recomputed.
	Balance      balance.Moment
	Candidates   []string
	Tried        []string // candidates that were left out
	Seed1, Seed2 uint64   // of the PCG that the pick drew from
	Endpoint     string   // address; empty: nothing can serve
	Datacenter   string   // the endpoint's
}

// Why is the reason for a tier: of the first try, or of a further one. tier is an index into states and shares, which go together.
//
// What is down comes before the spill mode: where a nearer tier is down and no nearer one gets requests, that is the reason.
func Why(states []locality.State, shares []locality.Share, p discovery.LocalityPolicy, tier int, retry bool) Reason {
	if retry {
		return Retry
	}
	first, down, serves := true, false, false
	for i := range tier {
		if states[i].Total == 0 || shares[i].Merged == tier {
			continue
		}
		first = false
		down = down || states[i].Down
		serves = serves || shares[i].Load > 0
	}
	switch {
	case first:
		return Nearest
	case down && !serves:
		return TierDown
	case p.Spill == discovery.SpillLastResort:
		return LastResort
	}
	return SpillHealth
}

// Lines is the record for people: one line for each tier, nearest first, then where the request goes.
func (r Record) Lines() []string {
	out := make([]string, 0, len(r.Tiers)+1)
	for i, t := range r.Tiers {
		line := fmt.Sprintf("tier %d %s: %d/%d usable, share %.1f %%", t.Number, t.Datacenter, t.Usable, t.Total, 100*t.Share)
		if t.Down {
			line += ", down: no connect succeeded since its endpoints refused"
		}
		if t.Merged >= 0 && t.Merged < len(r.Tiers) {
			line += fmt.Sprintf(", fewer than %d usable: merged into tier %d", r.Policy.TierEndpointsMin, r.Tiers[t.Merged].Number)
		}
		if t.Panic {
			line += fmt.Sprintf(", panic: under %d %% usable, so chosen from all its endpoints", r.Policy.PanicThreshold)
		}
		if i == r.Tier {
			line += ", chosen"
		}
		out = append(out, line)
	}
	if r.Tier < 0 || r.Endpoint == "" {
		return append(out, "goes nowhere: no tier can serve")
	}
	return append(out, fmt.Sprintf("goes to %s in %s: %s", r.Endpoint, r.Datacenter, r.Reason))
}
