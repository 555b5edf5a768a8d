package config

import (
	"strconv"

	"go.yaml.in/yaml/v3"

	"spillway/discovery"
)

// Bounds of policies. The most tries of a request stay within what the data path can tell apart.
const (
	attemptsMax      = 8
	resendsMax       = 8
	scaleMax         = 100
	factorMax        = 1000 // percent
	tierEndpointsMax = 1000
	consecutiveMax   = 1000
	checksPerSecMax  = 100_000
	bulkheadMax      = 1 << 20
)

// policyShape is a policy; the one of the whole file has keys that a service's has not.
func policyShape(p *discovery.Policy, global bool) mapping {
	checks := shape(whole(1, checksPerSecMax).at(&p.Health.ChecksPerSecMax))
	if !global {
		checks = globalOnly{}
	}
	return mapping{"policy", []entry{
		{"locality", mapping{"policy.locality", []entry{
			{"spill", spillWord.at(&p.Locality.Spill), ""},
			{"overprovisioning_factor", percent(100, factorMax).at(&p.Locality.Overprovisioning), ""},
			{"panic_threshold", percent(0, 100).at(&p.Locality.PanicThreshold), ""},
			{"tiers", tierList{list[discovery.TierLevel]{to: &p.Locality.Tiers, want: "levels out of sub_zone, zone, region", once: itself[discovery.TierLevel],
				item: func(l *discovery.TierLevel) shape { return tierWord.at(l) }}}, ""},
			{"tier_endpoints_min", whole(1, tierEndpointsMax).at(&p.Locality.TierEndpointsMin), ""},
		}}, ""},
		{"balance", balanceWord.at(&p.Balance), ""},
		{"health", mapping{"policy.health", []entry{
			{"active", activeShape(&p.Health.Active), ""},
			{"passive", passiveShape(&p.Health.Passive), ""},
			{"checks_per_second_max", checks, ""},
		}}, ""},
		{"bulkhead", mapping{"policy.bulkhead", []entry{
			{"local", bulkheadShape("policy.bulkhead.local", &p.Bulkhead.Local), ""},
			{"cross_datacenter", bulkheadShape("policy.bulkhead.cross_datacenter", &p.Bulkhead.CrossDatacenter), ""},
		}}, ""},
		{"retry", mapping{"policy.retry", []entry{
			{"attempts", whole(1, attemptsMax).at(&p.Retry.Attempts), ""},
			{"resend_max", whole(0, resendsMax).at(&p.Retry.ResendMax), ""},
			{"cross_tier", crossWord.at(&p.Retry.CrossTier), ""},
			{"on", retrySet{&p.Retry.On}, ""},
			{"budget", number(0, 1).at(&p.Retry.Budget), ""},
			{"per_try_timeout", durationOrZero.at(&p.Retry.PerTry), ""},
		}}, ""},
		{"timeout", durationOrZero.at(&p.Timeout), ""},
		{"connect_timeout", mapping{"policy.connect_timeout", []entry{
			{"local", duration.at(&p.Connect.Local), ""},
			{"cross_datacenter", duration.at(&p.Connect.CrossDatacenter), ""},
		}}, ""},
		{"idle_timeout", duration.at(&p.IdleAfter), ""},
	}}
}

func activeShape(a *discovery.ActiveCheck) shape {
	return checkShape{a, mapping{"policy.health.active", []entry{
		{"path", checkPath.at(&a.Path), ""},
		{"tcp", truth.at(&a.TCP), ""},
		{"interval", duration.at(&a.Interval), ""},
		{"timeout", duration.at(&a.Timeout), ""},
		{"unhealthy_after", whole(1, consecutiveMax).at(&a.UnhealthyAfter), ""},
		{"healthy_after", whole(1, consecutiveMax).at(&a.HealthyAfter), ""},
		{"cross_datacenter_scale", number(1, scaleMax).at(&a.CrossDatacenterTime), ""},
	}}}
}

func passiveShape(p *discovery.PassiveHealth) shape {
	return ejectionShape{p, mapping{"policy.health.passive", []entry{
		{"consecutive_failures", whole(0, consecutiveMax).at(&p.ConsecutiveFailures), ""},
		{"window", duration.at(&p.Window), ""},
		{"ejection", duration.at(&p.Ejection), ""},
		{"ejection_max", duration.at(&p.EjectionMax), ""},
		{"max_ejected_percent", percent(0, 100).at(&p.MaxEjectedPercent), ""},
	}}}
}

func bulkheadShape(at string, b *discovery.BulkheadLimits) mapping {
	return mapping{at, []entry{
		{"connections", whole(1, bulkheadMax).at(&b.Connections), ""},
		{"pending", whole(1, bulkheadMax).at(&b.Pending), ""},
		{"requests", whole(1, bulkheadMax).at(&b.Requests), ""},
		{"retries", whole(0, bulkheadMax).at(&b.Retries), ""},
	}}
}

// checkShape is an active check: HTTP or TCP, not both.
type checkShape struct {
	to *discovery.ActiveCheck
	mapping
}

func (c checkShape) read(r *reader, key string, n *yaml.Node) {
	before := *c.to
	c.mapping.read(r, key, n)
	if c.to.Path == "" || !c.to.TCP {
		return
	}
	// A service may turn the check of the base into the other sort by naming that alone.
	path, tcp := has(n, "path"), has(n, "tcp")
	switch {
	case tcp && !path && before.Path != "":
		c.to.Path = ""
	case path && !tcp && before.TCP:
		c.to.TCP = false
	default:
		r.fault(locate(n, "tcp"), join(key, "tcp"), "expected path or tcp, got both")
	}
}

// ejectionShape is passive health, whose first ejection is no longer than its longest.
type ejectionShape struct {
	to *discovery.PassiveHealth
	mapping
}

func (e ejectionShape) read(r *reader, key string, n *yaml.Node) {
	before := len(r.faults)
	e.mapping.read(r, key, n)
	if len(r.faults) > before || e.to.Ejection <= e.to.EjectionMax {
		return
	}
	at, want, other := "ejection_max", "at least ejection, ", e.to.Ejection
	if !has(n, at) {
		at, want, other = "ejection", "at most ejection_max, ", e.to.EjectionMax
	}
	r.expected(locate(n, at), join(key, at), want+durationText(other))
}

// tierList is policy.locality.tiers: at least one level, the finest first.
type tierList struct {
	list[discovery.TierLevel]
}

func (t tierList) read(r *reader, key string, n *yaml.Node) {
	before := len(r.faults)
	t.list.read(r, key, n)
	if len(r.faults) > before {
		return
	}
	levels := *t.to
	if len(levels) == 0 {
		r.fault(n, key, "expected at least one level out of sub_zone, zone, region, got none")
	}
	for i := 1; i < len(levels); i++ {
		if levels[i] >= levels[i-1] {
			r.expected(n.Content[i], key+"["+strconv.Itoa(i)+"]", "the finest level first: sub_zone, zone, region")
		}
	}
}

// retrySet is policy.retry.on: a list of conditions, kept as a set.
type retrySet struct{ to *discovery.RetryOn }

func (s retrySet) list(items *[]discovery.RetryOn) shape {
	return list[discovery.RetryOn]{to: items, want: "conditions out of " + retryWord.want, once: itself[discovery.RetryOn],
		item: func(o *discovery.RetryOn) shape { return retryWord.at(o) }}
}

func (s retrySet) read(r *reader, key string, n *yaml.Node) {
	var items []discovery.RetryOn
	s.list(&items).read(r, key, n)
	*s.to = 0
	for _, o := range items {
		*s.to |= o
	}
}

// globalOnly is a key that counts for the whole process and so may not stand in a service's policy.
type globalOnly struct{}

func (globalOnly) read(r *reader, key string, n *yaml.Node) {
	r.fault(n, key, "expected in the policy of the whole file alone: it bounds the checks of the process")
}

// has tells whether a mapping has a key.
func has(n *yaml.Node, key string) bool { return locate(n, key) != n }
