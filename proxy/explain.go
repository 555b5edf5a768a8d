package proxy

import (
	"fmt"
	"math/rand/v2"

	"spillway/proxy/decision"
	"spillway/proxy/upstream"
)

// EndpointView is what /services shows of an endpoint.
type EndpointView struct {
	Address  string `json:"address"`
	State    string `json:"state"`
	InFlight int64  `json:"in_flight"`
	Weight   int    `json:"weight"`
	Sidecar  bool   `json:"sidecar,omitempty"`
}

// TierView is what /services shows of a tier. Share is the part of the requests that it gets now, 0..1.
type TierView struct {
	Number     int            `json:"number"`
	Datacenter string         `json:"datacenter"`
	Share      float64        `json:"share"`
	Usable     int            `json:"usable"`
	Total      int            `json:"total"`
	Down       bool           `json:"down"`
	Panic      bool           `json:"panic"`
	Endpoints  []EndpointView `json:"endpoints"`
}

// ServiceView is what /services shows of a service.
type ServiceView struct {
	Name  string     `json:"name"`
	Hosts []string   `json:"hosts"`
	Kept  bool       `json:"kept,omitempty"` // the source's list became empty, the old one is kept
	Tiers []TierView `json:"tiers"`
}

// Services describes all services as they stand now, by name.
func (p *Proxy) Services() any {
	out := struct {
		Version  uint64        `json:"version"`
		Services []ServiceView `json:"services"`
	}{Services: []ServiceView{}}
	v := p.table.View()
	if v == nil {
		return out
	}
	out.Version = v.Snapshot.Version
	for _, s := range v.Sorted() {
		sv := ServiceView{Name: s.Name, Hosts: s.Model.Hosts, Kept: s.Model.Kept, Tiers: []TierView{}}
		for _, t := range s.Describe(p.table.Now()) {
			tv := TierView{Number: t.Number, Datacenter: t.Datacenter, Share: t.Share, Usable: t.Usable, Total: t.Total, Down: t.Down, Panic: t.Panic, Endpoints: []EndpointView{}}
			for _, e := range t.Endpoints {
				tv.Endpoints = append(tv.Endpoints, EndpointView{Address: e.Text, State: e.Condition(p.table.Now()), InFlight: e.Load.InFlight(), Weight: e.Weight, Sidecar: e.Sidecar})
			}
			sv.Tiers = append(sv.Tiers, tv)
		}
		out.Services = append(out.Services, sv)
	}
	return out
}

// Explain says where a request for the service, or for the host, would go now and why. It chooses like the data path and counts nothing.
func (p *Proxy) Explain(service, host string) (decision.Record, error) {
	v := p.table.View()
	if v == nil {
		return decision.Record{}, notReady
	}
	s := v.Service(service)
	if s == nil && host != "" {
		s = v.Host(host)
	}
	if s == nil {
		return decision.Record{}, fmt.Errorf("unknown service %q", service)
	}
	src := upstream.NewSource(rand.Uint64(), rand.Uint64())
	return s.Explain(p.table.Now(), &src, host), nil
}
