package upstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"spillway/discovery"
	"spillway/proxy/balance"
	"spillway/proxy/health"
	"spillway/proxy/health/check"
	"spillway/proxy/locality"
	"spillway/proxy/pool"
	"spillway/telemetry/metric"
)

// checkedFor is how long after its last call the active checks of a service go on.
const checkedFor = 10 * time.Minute

// User timeouts of connections to endpoints (TCP_USER_TIMEOUT).
const (
	userTimeoutLocal = 3 * time.Second
	userTimeoutCross = 10 * time.Second
)

// Table owns all run-time state of endpoints and publishes views.
type Table struct {
	place    locality.Place
	listed   map[string]bool // outbound.services: checked also when nobody calls them
	clock    func() int64    // monotonic nanoseconds
	metrics  *metric.Metrics
	self     Self
	checker  atomic.Pointer[Checker]
	view     atomic.Pointer[View]
	listings atomic.Uint64 // generation of CheckItems

	mu     sync.Mutex // serialises Apply; guards the rest
	cores  map[string]*core
	lastID uint64

	ids sync.Map // uint64 -> *State
}

// New makes an empty table for a proxy at the place.
func New(place locality.Place, listed []string, clock func() int64, m *metric.Metrics) *Table {
	t := &Table{place: place, listed: map[string]bool{}, clock: clock, metrics: m, cores: map[string]*core{}}
	for _, name := range listed {
		t.listed[name] = true
	}
	return t
}

// Self is what a table knows of the proxy that it belongs to.
type Self struct {
	Listens     func(netip.AddrPort) bool   // one of its own listeners has the address
	Gateways    map[string][]netip.AddrPort // the way into other datacenters, by name; one without is called directly
	Application netip.AddrPort              // where its inbound listener delivers; zero: the address that was called
}

// SetSelf is called before the first Apply.
func (t *Table) SetSelf(s Self) { t.self = s }

func (t *Table) listens(a netip.AddrPort) bool { return t.self.Listens != nil && t.self.Listens(a) }

// View is the latest view; nil before the first snapshot.
func (t *Table) View() *View { return t.view.Load() }

// Now is the table's clock, in nanoseconds.
func (t *Table) Now() int64 { return t.clock() }

// Checker does the active checks: Kick checks one endpoint at once, Wake asks the table again what there is to check.
type Checker interface {
	Kick(id uint64)
	Wake()
}

// SetChecker says who does the active checks.
func (t *Table) SetChecker(c Checker) { t.checker.Store(&c) }

func (t *Table) kick(id uint64) {
	if c := t.checker.Load(); c != nil {
		(*c).Kick(id)
	}
}

// relist makes the checker see that what there is to check has changed.
func (t *Table) relist() {
	t.listings.Add(1)
	if c := t.checker.Load(); c != nil {
		(*c).Wake()
	}
}

func (t *Table) byID(id uint64) *Endpoint {
	s, ok := t.ids.Load(id)
	if !ok {
		return nil
	}
	return s.(*State).current.Load()
}

// Apply publishes a snapshot. Services that the snapshot shares with the one before keep their compiled form.
func (t *Table) Apply(snap *discovery.Snapshot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.view.Load()
	next := &View{Snapshot: snap, services: make(map[string]*Service, len(snap.Services))}
	for name, model := range snap.Services {
		if old != nil {
			if s := old.services[name]; s != nil && s.Model == model {
				next.services[name] = s
				continue
			}
		}
		next.services[name] = t.compile(model, model.Name)
	}
	t.view.Store(next)
	if old != nil {
		for name := range old.services {
			if next.services[name] == nil {
				t.forget(name)
			}
		}
	}
	t.relist()
}

// forget ends a service that left: its idle connections are closed, running exchanges end by themselves.
func (t *Table) forget(name string) {
	k := t.cores[name]
	delete(t.cores, name)
	for _, s := range k.states {
		t.drop(s)
	}
	t.metrics.ForgetService(k.label)
}

func (t *Table) drop(s *State) {
	s.current.Store(nil)
	t.ids.Delete(s.ID)
	s.queue.CloseIdle(true)
}

func (t *Table) compile(m *discovery.Service, label string) *Service {
	k := t.cores[m.Name]
	if k == nil {
		k = &core{table: t, label: label, states: map[netip.AddrPort]*State{}, clusters: map[string]*Cluster{}, downs: map[int]*health.TierDown{},
			cursors: map[int]*balance.Cursor{}, rng: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
		t.cores[m.Name] = k
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	list := t.reachable(m.Endpoints)
	s := &Service{Name: m.Name, Model: m, Policy: m.Policy, core: k, endpoints: make([]*Endpoint, len(list))}
	places := make([]discovery.Locality, len(list))
	seen := make(map[netip.AddrPort]bool, len(list))
	for i := range list {
		places[i] = list[i].Locality
		s.endpoints[i] = t.endpoint(k, s, &list[i])
		seen[list[i].Address] = true
	}
	place := t.place
	place.Levels = m.Policy.Locality.Tiers
	for i, lt := range locality.Arrange(place, places) {
		ct := tier{Tier: lt, down: k.downs[lt.Number], cursor: k.cursors[lt.Number]}
		if ct.down == nil {
			ct.down, ct.cursor = new(health.TierDown), new(balance.Cursor)
			k.downs[lt.Number], k.cursors[lt.Number] = ct.down, ct.cursor
		}
		for _, at := range lt.Members {
			e := s.endpoints[at]
			e.Tier, e.downs = i, ct.down
			if e.Weight > 0 && !e.Own {
				ct.members = append(ct.members, e)
			}
		}
		s.tiers = append(s.tiers, ct)
		if lt.Home {
			s.homes = i + 1
		}
	}
	for _, e := range s.endpoints {
		e.State.current.Store(e)
	}
	for addr, st := range k.states {
		if !seen[addr] {
			t.drop(st)
			delete(k.states, addr)
		}
	}
	k.current = s
	t.pruneClusters(k)
	s.recompute(t.clock())
	return s
}

// way is an endpoint, or the gateway through which endpoints are reached.
type way struct {
	discovery.Endpoint
	gateway bool
}

// reachable puts gateways in the place of endpoints whose datacenter has some: one of each, wherever the first of those endpoints stood. A
// gateway gets requests as long as one of them may have any.
func (t *Table) reachable(endpoints []discovery.Endpoint) []way {
	out := make([]way, 0, len(endpoints))
	first := map[string]int{} // datacenter -> index into out of its first gateway
	for _, e := range endpoints {
		dc := e.Locality.Datacenter(t.place.Level)
		gateways := t.self.Gateways[dc]
		if len(gateways) == 0 || t.place.Own(e.Locality) {
			out = append(out, way{Endpoint: e})
			continue
		}
		at, seen := first[dc]
		if !seen {
			at = len(out)
			first[dc] = at
			for _, g := range gateways {
				out = append(out, way{discovery.Endpoint{Address: g, Locality: e.Locality, Health: discovery.Draining}, true})
			}
		}
		for i := range gateways {
			if g := &out[at+i]; e.Weight > 0 && e.Health == discovery.Healthy {
				g.Weight, g.Health = 1, discovery.Healthy
			}
		}
	}
	return out
}

// pruneClusters forgets datacenters that left the service. One that still holds something stays until the next snapshot, so that its
// limits stay exact if it comes back. k.mu is held.
func (t *Table) pruneClusters(k *core) {
	used := map[*Cluster]bool{}
	for _, e := range k.current.endpoints {
		used[e.Cluster] = true
	}
	for dc, c := range k.clusters {
		if !used[c] && c.Limits.Requests.Held() == 0 && c.Limits.Connections.Held() == 0 {
			delete(k.clusters, dc)
			t.metrics.Forget(k.label, dc)
		}
	}
}

// endpoint describes one endpoint and finds or makes its state.
func (t *Table) endpoint(k *core, s *Service, m *way) *Endpoint {
	e := &Endpoint{Address: m.Address, Text: m.Address.String(), Dial: m.Address, Weight: m.Weight, Said: m.Health}
	e.Host = []byte(e.Text)
	e.Own = t.listens(m.Address)
	e.Gateway, e.Sidecar = m.gateway, m.gateway // it speaks as a sidecar does
	if m.Sidecar != 0 {
		e.Dial = netip.AddrPortFrom(m.Address.Addr(), m.Sidecar)
		if e.Sidecar = !t.listens(e.Dial); e.Sidecar {
			e.TargetLine = []byte("x-spillway-target: " + e.Text + "\r\n")
		} else {
			// The service calls itself: its own proxy needs no second pass.
			e.Self, e.Dial = true, m.Address
			if t.self.Application.IsValid() {
				e.Dial = t.self.Application
			}
		}
	}
	e.Cluster = t.cluster(k, s, m.Locality)
	e.ConnectMax = s.Policy.Connect.Local
	user := userTimeoutLocal
	if e.Cluster.Cross {
		e.ConnectMax, user = s.Policy.Connect.CrossDatacenter, userTimeoutCross
	}
	st := k.states[m.Address]
	if st == nil {
		t.lastID++
		st = &State{ID: t.lastID, core: k}
		k.states[m.Address] = st
		t.ids.Store(st.ID, st)
	}
	if st.queue == nil || st.queue.Group != &e.Cluster.Group || st.queue.Dial != e.Dial {
		if st.queue != nil {
			st.queue.CloseIdle(true)
		}
		st.queue = &pool.Queue{Group: &e.Cluster.Group, Dial: e.Dial, UserTimeout: user}
	}
	st.health.SetCheck(s.checks())
	e.State, e.Queue = st, st.queue
	return e
}

func (t *Table) cluster(k *core, s *Service, l discovery.Locality) *Cluster {
	dc := l.Datacenter(t.place.Level)
	c := k.clusters[dc]
	if c == nil {
		c = &Cluster{Service: k.label, Datacenter: dc, Metric: t.metrics.Cluster(k.label, dc)}
		// An unlabelled endpoint beside an unlabelled proxy is nobody's local: it gets the careful limits.
		c.Cross = !t.place.Own(l)
		c.Hop = c.Cross && dc != discovery.UnknownDatacenter && t.place.Home.Datacenter(t.place.Level) != discovery.UnknownDatacenter
		c.Group.Limits = &c.Limits
		c.Group.Opened = func(err error) { c.Metric.Dialled(dialResult(err)) }
		c.Metric.Watch(&c.Limits)
		k.clusters[dc] = c
	}
	limits := s.Policy.Bulkhead.Local
	if c.Cross {
		limits = s.Policy.Bulkhead.CrossDatacenter
	}
	c.Limits.Configure(limits)
	return c
}

func dialResult(err error) metric.Dial {
	switch {
	case err == nil:
		return metric.DialOK
	case errors.Is(err, pool.ErrTimeout):
		return metric.DialTimeout
	case errors.Is(err, pool.ErrLocal):
		return metric.DialLocal
	}
	return metric.DialRefused
}

// Run keeps the table: idle connections that ended are closed, services that nobody calls any more leave the active checks.
func (t *Table) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for beat := 0; ; beat++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := t.clock()
		t.mu.Lock()
		var groups []*pool.Group
		var idle []int64
		for _, k := range t.cores {
			k.mu.Lock()
			for _, c := range k.clusters {
				groups = append(groups, &c.Group)
				idle = append(idle, int64(k.current.Policy.IdleAfter))
			}
			k.mu.Unlock()
		}
		t.mu.Unlock()
		for i, g := range groups {
			g.Sweep(now, idle[i])
		}
		if beat%30 == 0 {
			t.relist()
		}
	}
}

// CheckItems implements check.Source: endpoints of services that were called lately or are listed, and those that wait for a connect.
func (t *Table) CheckItems(generation uint64) ([]check.Item, uint64) {
	current := t.listings.Load()
	v := t.view.Load()
	if v == nil || current == generation {
		return nil, generation
	}
	second := t.clock()/int64(time.Second) + 1
	items := []check.Item{}
	for _, s := range v.services {
		a := s.Policy.Health.Active
		called := s.core.called.Load()
		on := s.checks() && (t.listed[s.Name] || called != 0 && second-called <= int64(checkedFor/time.Second))
		if !on {
			a.Path, a.TCP = "", false // its times still hold for probes
		}
		s.core.mu.Lock()
		for _, e := range s.endpoints {
			it := check.Item{ID: e.ID, Dial: e.Dial, Host: s.Name, Check: a, Cross: e.Cluster.Cross, ProbeDue: e.health.ProbeDue()}
			// A tier that is down comes back by any of its endpoints.
			if due := e.downs.ProbeDue(); due != 0 && (it.ProbeDue == 0 || due < it.ProbeDue) {
				it.ProbeDue = due
			}
			if e.Sidecar && !e.Gateway {
				it.Target = e.Address
			}
			if (on || it.ProbeDue != 0) && !e.Own {
				items = append(items, it)
			}
		}
		s.core.mu.Unlock()
	}
	return items, current
}

// Local makes a service of one endpoint outside any snapshot: the local application behind the inbound listener. label stands for it in
// metrics and hints.
func (t *Table) Local(label string, addr netip.AddrPort, p *discovery.Policy) *Service {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := &discovery.Service{Name: label + "@" + addr.String(), Policy: p}
	m.Endpoints = []discovery.Endpoint{{Address: addr, Locality: t.place.Home, Weight: 1}}
	return t.compile(m, label)
}
