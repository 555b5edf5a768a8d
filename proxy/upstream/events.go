package upstream

import (
	"time"

	"spillway/discovery"
	"spillway/proxy/health"
)

func (e *Endpoint) usable(now int64) bool {
	return e.Said == discovery.Healthy && e.health.Usable(now)
}

func (e *Endpoint) healthConfig() health.Config {
	p := &e.core.current.Policy.Health
	c := health.Config{Passive: p.Passive, CrossDatacenter: e.Cluster.Cross}
	if p.Active.Path != "" || p.Active.TCP {
		c.Active = p.Active
	}
	return c
}

// Succeeded tells of an answer that is no failure. It costs a few atomic operations.
func (e *Endpoint) Succeeded(now int64) {
	e.health.OnSuccess(now)
	e.downs.OnAnswer(now)
}

// Failed tells of an answer or an end that counts against the endpoint.
func (e *Endpoint) Failed(now int64) {
	k := e.core
	k.mu.Lock()
	ejected, total := 0, 0
	if cur := e.current.Load(); cur != nil { // its place in the latest snapshot, which may not be the one this request saw
		for _, m := range k.current.tiers[cur.Tier].members {
			total++
			if m.health.Ejected(now) {
				ejected++
			}
		}
	}
	changed := e.health.OnFailure(now, e.healthConfig(), k.rng, ejected, total)
	if changed {
		k.current.recompute(now)
	}
	k.mu.Unlock()
	if changed {
		e.Cluster.Metric.Ejected()
	}
	k.table.kick(e.ID)
}

// Refused tells that a dial was refused or timed out, or that the path to the endpoint went silent: it is out at once, and so may be its tier.
func (e *Endpoint) Refused(now int64) {
	k := e.core
	k.mu.Lock()
	due := e.health.ProbeDue()
	changed := e.refusedNow(now)
	changed = e.health.OnRefused(now, k.rng) || changed
	if changed {
		k.current.recompute(now)
	}
	due -= e.health.ProbeDue()
	k.mu.Unlock()
	if changed || due != 0 {
		k.table.relist()
	}
	if changed {
		e.Queue.CloseIdle(false)
	}
}

// refusedNow tells the tier. An endpoint that has long been refused says nothing new about it: the probes of two dead endpoints that
// happen to fall into one second must not take the others with them. core.mu is held.
func (e *Endpoint) refusedNow(now int64) bool {
	if was := e.refused.Swap(true); was && !e.downs.Down() {
		return false
	}
	return e.downs.OnRefused(now, e.ID)
}

// Leaving tells that the sidecar in front of the endpoint said that it is draining: it is out until a check finds it well or the
// time that such an answer counts is over.
func (e *Endpoint) Leaving(now int64) {
	k := e.core
	k.mu.Lock()
	if e.health.OnCheck(now, e.healthConfig(), health.Draining) {
		k.current.recompute(now)
	}
	k.mu.Unlock()
	e.Queue.CloseIdle(false)
}

// Connected tells of a dial that succeeded.
func (e *Endpoint) Connected(now int64) {
	if !e.refused.Load() && !e.downs.Down() {
		return
	}
	k := e.core
	k.mu.Lock()
	e.refused.Store(false)
	changed := e.health.OnConnected(now)
	if e.downs.OnConnected(now) {
		changed = true
	}
	if changed {
		k.current.recompute(now)
	}
	k.mu.Unlock()
	if changed {
		k.table.relist()
	}
}

// OnCheck implements check.Sink.
func (t *Table) OnCheck(id uint64, r health.Result) {
	e := t.byID(id)
	if e == nil {
		return
	}
	now := t.clock()
	k := e.core
	k.mu.Lock()
	changed := e.health.OnCheck(now, e.healthConfig(), r)
	switch r {
	case health.Refused:
		changed = e.refusedNow(now) || changed
	case health.Good:
		if e.refused.Swap(false) {
			changed = e.health.OnConnected(now) || changed
		}
		changed = e.downs.OnConnected(now) || changed
	case health.Draining: // it answered
		changed = e.downs.OnConnected(now) || changed
	}
	if changed {
		k.current.recompute(now)
	}
	k.mu.Unlock()
	if changed {
		t.relist()
		if r != health.Good {
			e.Queue.CloseIdle(false)
		}
	}
}

// OnProbe implements check.Sink: the end of a plain connect to an endpoint that had refused.
func (t *Table) OnProbe(id uint64, connected bool) {
	e := t.byID(id)
	if e == nil {
		return
	}
	now := t.clock()
	if connected {
		e.Connected(now)
		return
	}
	e.Refused(now)
	t.relist()
}

// touch notes that the service is called: its active checks run for checkedFor after that.
func (s *Service) touch(now int64) {
	second := now/int64(time.Second) + 1
	if last := s.core.called.Load(); last != second {
		s.core.called.Store(second)
		if last == 0 || second-last > int64(checkedFor/time.Second) {
			s.checkAgain(now)
		}
	}
}

// checkAgain takes up the active checks of a service that nobody had called for a while: what they said before is forgotten.
func (s *Service) checkAgain(now int64) {
	k := s.core
	k.mu.Lock()
	if k.current.checks() && !k.table.listed[s.Name] {
		for _, e := range k.current.endpoints {
			e.health.SetCheck(false)
			e.health.SetCheck(true)
		}
		k.current.recompute(now)
	}
	k.mu.Unlock()
	k.table.relist()
}

// checks tells whether active checks are configured.
func (s *Service) checks() bool {
	a := &s.Policy.Health.Active
	return a.Path != "" || a.TCP
}
