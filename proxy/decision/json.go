package decision

import (
	"encoding/json"
	"fmt"
	"slices"

	"spillway/discovery"
	"spillway/proxy/balance"
)

// The names of modes and methods are those of the configuration.
var (
	spillNames  = []string{discovery.SpillHealth: "health", discovery.SpillLastResort: "last_resort"}
	methodNames = []string{discovery.P2C: "p2c", discovery.RoundRobin: "round_robin", discovery.WeightedRoundRobin: "weighted_round_robin",
		discovery.Random: "random"}
)

// document is a Record as JSON has it. Seeds and the cursor are text, since not every reader has whole numbers of 64 bits.
type document struct {
	Service    string      `json:"service"`
	Host       string      `json:"host,omitempty"`
	Attempt    int         `json:"attempt,omitempty"`
	U          float64     `json:"u"`
	Policy     policy      `json:"policy"`
	Tiers      []Tier      `json:"tiers"`
	Tier       int         `json:"tier"` // index into tiers; -1: nothing can serve
	Reason     string      `json:"reason"`
	Balance    string      `json:"balance"`
	Cursor     uint64      `json:"cursor,string"`
	Candidates []candidate `json:"candidates"`
	Tried      []string    `json:"tried,omitempty"`
	Seed1      uint64      `json:"seed1,string"`
	Seed2      uint64      `json:"seed2,string"`
	Endpoint   string      `json:"endpoint"`
	Datacenter string      `json:"datacenter"`
}

type policy struct {
	Spill            string `json:"spill"`
	Overprovisioning int    `json:"overprovisioning_factor"`
	PanicThreshold   int    `json:"panic_threshold"`
	TierEndpointsMin int    `json:"tier_endpoints_min"`
}

type candidate struct {
	Address  string  `json:"address"`
	Weight   int     `json:"weight"`
	InFlight int64   `json:"in_flight"`
	Latency  float64 `json:"latency_seconds"`
}

// MarshalJSON writes the record with the names of the configuration. The tier levels of the policy are left out: the tiers are there.
func (r Record) MarshalJSON() ([]byte, error) {
	if len(r.Candidates) != len(r.Balance.Candidates) {
		return nil, fmt.Errorf("%d candidates, numbers of %d", len(r.Candidates), len(r.Balance.Candidates))
	}
	d := document{Service: r.Service, Host: r.Host, Attempt: r.Attempt, U: r.U, Tiers: r.Tiers, Tier: r.Tier, Tried: r.Tried,
		Cursor: r.Balance.Cursor, Seed1: r.Seed1, Seed2: r.Seed2, Endpoint: r.Endpoint, Datacenter: r.Datacenter,
		Candidates: make([]candidate, len(r.Candidates)),
		Policy: policy{Overprovisioning: r.Policy.Overprovisioning, PanicThreshold: r.Policy.PanicThreshold,
			TierEndpointsMin: r.Policy.TierEndpointsMin}}
	if d.Tiers == nil {
		d.Tiers = []Tier{}
	}
	for i, c := range r.Balance.Candidates {
		d.Candidates[i] = candidate{r.Candidates[i], c.Weight, c.InFlight, c.Latency}
	}
	var err error
	if d.Policy.Spill, err = name("spill mode", spillNames, int(r.Policy.Spill)); err != nil {
		return nil, err
	}
	if d.Balance, err = name("balance method", methodNames, int(r.Balance.Method)); err != nil {
		return nil, err
	}
	if d.Reason, err = name("reason", reasonNames[:], int(r.Reason)); err != nil {
		return nil, err
	}
	return json.Marshal(d)
}

// UnmarshalJSON reads what MarshalJSON wrote. It takes any states and numbers; Replay judges them.
func (r *Record) UnmarshalJSON(data []byte) error {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	spill, err := number("spill mode", spillNames, d.Policy.Spill)
	if err != nil {
		return err
	}
	method, err := number("balance method", methodNames, d.Balance)
	if err != nil {
		return err
	}
	reason, err := number("reason", reasonNames[:], d.Reason)
	if err != nil {
		return err
	}
	*r = Record{Service: d.Service, Host: d.Host, Attempt: d.Attempt, U: d.U, Tiers: d.Tiers, Tier: d.Tier, Reason: Reason(reason),
		Tried: d.Tried, Seed1: d.Seed1, Seed2: d.Seed2, Endpoint: d.Endpoint, Datacenter: d.Datacenter,
		Balance: balance.Moment{Method: discovery.BalanceMethod(method), Cursor: d.Cursor},
		Policy: discovery.LocalityPolicy{Spill: discovery.SpillMode(spill), Overprovisioning: d.Policy.Overprovisioning,
			PanicThreshold: d.Policy.PanicThreshold, TierEndpointsMin: d.Policy.TierEndpointsMin}}
	for _, c := range d.Candidates {
		r.Candidates = append(r.Candidates, c.Address)
		r.Balance.Candidates = append(r.Balance.Candidates, balance.Candidate{Weight: c.Weight, InFlight: c.InFlight, Latency: c.Latency})
	}
	return nil
}

func name(what string, names []string, i int) (string, error) {
	if i >= len(names) {
		return "", fmt.Errorf("%s %d has no name", what, i)
	}
	return names[i], nil
}

func number(what string, names []string, s string) (int, error) {
	i := slices.Index(names, s)
	if i < 0 {
		return 0, fmt.Errorf("unknown %s %q", what, s)
	}
	return i, nil
}
