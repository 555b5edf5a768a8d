package upstream

import (
	"fmt"
	"strings"

	"spillway/proxy/answer"
)

// Requested notes a request for the retry budget. It is one or two atomic operations.
func (s *Service) Requested(now int64) { s.core.budget.OnRequest(now) }

// TakeRetry draws one retry from the service's budget.
func (s *Service) TakeRetry(now int64) bool {
	return s.core.budget.Take(now, s.Policy.Retry.Budget)
}

// TierNumber is the number of the tier that was chosen (0 own zone, 1 own datacenter, 2.. others), -1 for none.
func (p *Pick) TierNumber() int {
	if p.Endpoint == nil || p.Tier < 0 || p.Tier >= len(p.Choice.Service.tiers) {
		return -1
	}
	return p.Choice.Service.tiers[p.Tier].Number
}

// NobodyAtHome is the refusal of a request whose call chain may not hop any more, when no tier of the own datacenter can serve it.
func (s *Service) NobodyAtHome(c *Choice, limit int) *answer.Error {
	return refusal(answer.Loop, fmt.Sprintf("%s: the call chain has made its %d/%d hops for it (hop.limit), and %s", s.core.label, limit, limit, s.home(c)))
}

// NobodyBehind is a gateway's refusal: it hands requests to its own datacenter alone.
func (s *Service) NobodyBehind(c *Choice) *answer.Error {
	return refusal(answer.NoHealthyEndpoint, s.core.label+": behind this gateway "+s.home(c))
}

// home says what the own datacenter has for the service.
func (s *Service) home(c *Choice) string {
	usable, total := 0, 0
	for _, st := range c.States[:min(s.homes, len(c.States))] {
		usable, total = usable+st.Usable, total+st.Total
	}
	datacenter := s.core.table.place.Home.Datacenter(s.core.table.place.Level)
	if total == 0 {
		return datacenter + " has no endpoint"
	}
	return fmt.Sprintf("%s has %d/%d usable", datacenter, usable, total)
}

func refusal(code answer.Code, hint string) *answer.Error {
	return &answer.Error{Code: code, Hint: hint[:min(len(hint), answer.HintMax)]}
}

// NobodyServes is the refusal when no tier can serve: it says tier by tier why.
func (s *Service) NobodyServes(c *Choice) *answer.Error {
	if len(c.States) == 0 {
		return &answer.Error{Code: answer.NoHealthyEndpoint, Hint: s.Name + " has no endpoints"}
	}
	parts := make([]string, len(c.States))
	for i, st := range c.States {
		parts[i] = fmt.Sprintf("%s %d/%d usable", st.Datacenter, st.Usable, st.Total)
		if st.Down {
			parts[i] = st.Datacenter + " down"
		}
	}
	for _, e := range s.endpoints {
		if e.Own {
			parts = append(parts, e.Text+" is a listener of this proxy and never dialled")
			break
		}
	}
	hint := s.Name + ": " + strings.Join(parts, ", ")
	return &answer.Error{Code: answer.NoHealthyEndpoint, Hint: hint[:min(len(hint), answer.HintMax)]}
}

// Refusal counts an answer of the proxy itself that belongs to no cluster. svc is nil where no service was found.
func (t *Table) Refusal(svc *Service, code answer.Code) {
	name := ""
	if svc != nil {
		name = svc.core.label
	}
	t.metrics.Refusal(name, code)
}
