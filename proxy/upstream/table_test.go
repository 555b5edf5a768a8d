package upstream

import (
	"net/netip"
	"testing"
	"time"

	"spillway/discovery"
	"spillway/proxy/balance"
	"spillway/proxy/decision"
	"spillway/proxy/health"
	"spillway/proxy/locality"
	"spillway/telemetry/metric"
)

var (
	zoneA = discovery.Locality{Region: "dc1", Zone: "a"}
	zoneB = discovery.Locality{Region: "dc1", Zone: "b"}
	far   = discovery.Locality{Region: "dc2", Zone: "c"}
)

// world is a table with a clock that a test moves.
type world struct {
	t   *testing.T
	now int64
	*Table
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: int64(time.Second)}
	place := locality.Place{Home: zoneA, Order: []string{"dc1", "dc2"}, Levels: []discovery.TierLevel{discovery.TierZone, discovery.TierRegion}}
	w.Table = New(place, []string{"pay"}, func() int64 { return w.now }, metric.New("test"))
	return w
}

func testPolicy() *discovery.Policy {
	return &discovery.Policy{
		Locality: discovery.LocalityPolicy{Overprovisioning: 140, PanicThreshold: 50, TierEndpointsMin: 2},
		Health: discovery.HealthPolicy{Passive: discovery.PassiveHealth{ConsecutiveFailures: 3, Window: 10 * time.Second, Ejection: 5 * time.Second,
			EjectionMax: time.Minute, MaxEjectedPercent: 50}},
		Bulkhead: discovery.BulkheadPolicy{Local: discovery.BulkheadLimits{Connections: 10, Pending: 10, Requests: 10, Retries: 10},
			CrossDatacenter: discovery.BulkheadLimits{Connections: 2, Pending: 2, Requests: 2, Retries: 2}},
		Retry: discovery.RetryPolicy{Attempts: 2, ResendMax: 5},
	}
}

func at(n byte, l discovery.Locality) discovery.Endpoint {
	return discovery.Endpoint{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, n}), 80), Locality: l, Weight: 1}
}

func (w *world) apply(services ...discovery.Service) {
	var prev *discovery.Snapshot
	if v := w.View(); v != nil {
		prev = v.Snapshot
	}
	for i := range services {
		if services[i].Policy == nil {
			services[i].Policy = testPolicy()
		}
		services[i].Hosts = []string{services[i].Name}
	}
	next, _, changed := discovery.Build(prev, services)
	if changed {
		w.Apply(next)
	}
}

func (w *world) service(name string) *Service { return w.View().Service(name) }

// shares counts where n first tries go, by datacenter.
func (w *world) shares(s *Service, n int) map[string]int {
	src, out := NewSource(1, 2), map[string]int{}
	for range n {
		p := s.Choose(w.now, &src, false)
		if p.Endpoint == nil {
			out["nobody"]++
			continue
		}
		out[p.Endpoint.Cluster.Datacenter]++
	}
	return out
}

func (w *world) endpoint(s *Service, n byte) *Endpoint {
	for _, e := range s.endpoints {
		if e.Address.Addr().As4()[3] == n {
			return e
		}
	}
	w.t.Fatalf("no endpoint %d", n)
	return nil
}

func four(l discovery.Locality, first byte) []discovery.Endpoint {
	var out []discovery.Endpoint
	for i := range byte(4) {
		out = append(out, at(first+i, l))
	}
	return out
}

func TestSpillFollowsHealthWithinAFractionOfAPoint(t *testing.T) {
	w := newWorld(t)
	w.apply(discovery.Service{Name: "pay", Endpoints: append(four(zoneA, 1), four(far, 11)...)})
	s := w.service("pay")
	if got := w.shares(s, 1000); got["dc1"] != 1000 {
		t.Fatalf("all well: %v", got)
	}
	// Two refuse, with an answer of a third in between, so that the tier is not down.
	w.endpoint(s, 1).Refused(w.now)
	w.endpoint(s, 3).Succeeded(w.now + 1)
	w.endpoint(s, 2).Refused(w.now + 2)
	if got := w.shares(s, 10000); got["dc1"] < 6950 || got["dc1"] > 7050 {
		t.Fatalf("half of dc1 is gone, 70 %% expected: %v", got)
	}
}

func TestTierDownAndBack(t *testing.T) {
	w := newWorld(t)
	w.apply(discovery.Service{Name: "pay", Endpoints: append(four(zoneA, 1), four(far, 11)...)})
	s := w.service("pay")
	w.endpoint(s, 1).Refused(w.now)
	w.endpoint(s, 2).Refused(w.now + 1)
	if got := w.shares(s, 100); got["dc2"] != 100 {
		t.Fatalf("dc1 is down: %v", got)
	}
	src := NewSource(3, 4)
	if p := s.Choose(w.now, &src, false); p.Reason != decision.TierDown {
		t.Fatalf("reason %s", p.Reason)
	}
	w.OnProbe(w.endpoint(s, 3).ID, true)
	if got := w.shares(s, 1000); got["dc1"] < 690 || got["dc1"] > 710 {
		t.Fatalf("one connect ends it: %v", got)
	}
}

// Two endpoints that have been dead for long are probed in the same second: that is no news about the others.
func TestProbesOfTheDeadTakeNoTierDown(t *testing.T) {
	w := newWorld(t)
	w.apply(discovery.Service{Name: "pay", Endpoints: append(four(zoneA, 1), four(far, 11)...)})
	s := w.service("pay")
	w.endpoint(s, 1).Refused(w.now)
	w.now += int64(5 * time.Second)
	w.endpoint(s, 2).Refused(w.now)
	w.now += int64(5 * time.Second)
	w.OnProbe(w.endpoint(s, 1).ID, false)
	w.OnProbe(w.endpoint(s, 2).ID, false)
	w.OnCheck(w.endpoint(s, 1).ID, health.Refused)
	if got := w.shares(s, 1000); got["dc1"] < 690 {
		t.Fatalf("%v", got)
	}
}

// When the last tier is down, those of its endpoints that did not refuse are still tried.
func TestTheLastTierIsTriedToItsEnd(t *testing.T) {
	w := newWorld(t)
	w.apply(discovery.Service{Name: "pay", Endpoints: four(zoneA, 1)})
	s := w.service("pay")
	w.endpoint(s, 1).Refused(w.now)
	w.endpoint(s, 2).Refused(w.now + 1)
	src := NewSource(1, 2)
	if p := s.Choose(w.now, &src, false); p.Endpoint == nil || p.Endpoint == w.endpoint(s, 1) || p.Endpoint == w.endpoint(s, 2) {
		t.Fatalf("%+v", p)
	}
	w.endpoint(s, 3).Refused(w.now + 2)
	w.endpoint(s, 4).Refused(w.now + 3)
	if p := s.Choose(w.now, &src, false); p.Endpoint != nil {
		t.Fatal("all four have just refused: that is told at once")
	}
}

func TestAnotherStaysInItsTierThenLeaves(t *testing.T) {
	w := newWorld(t)
	w.apply(discovery.Service{Name: "pay", Endpoints: []discovery.Endpoint{at(1, zoneA), at(2, zoneA), at(11, far)}})
	s := w.service("pay")
	src := NewSource(1, 2)
	first := s.Choose(w.now, &src, false)
	tried := []*balance.Load{&first.Endpoint.Load}
	second := s.Another(w.now, &src, first, tried, true)
	if second.Endpoint == nil || second.Endpoint.Cluster.Datacenter != "dc1" || second.Endpoint == first.Endpoint {
		t.Fatalf("%+v", second)
	}
	tried = append(tried, &second.Endpoint.Load)
	if p := s.Another(w.now, &src, second, tried, false); p.Endpoint != nil {
		t.Fatal("a try that may not leave its tier left it")
	}
	if p := s.Another(w.now, &src, second, tried, true); p.Endpoint == nil || p.Endpoint.Cluster.Datacenter != "dc2" {
		t.Fatalf("%+v", p)
	}
}

func TestSmallTierIsMerged(t *testing.T) {
	w := newWorld(t)
	w.apply(discovery.Service{Name: "pay", Endpoints: []discovery.Endpoint{at(1, zoneA), at(2, zoneB), at(3, zoneB), at(11, far)}})
	s := w.service("pay")
	src, hits := NewSource(1, 2), map[byte]int{}
	for range 3000 {
		hits[s.Choose(w.now, &src, false).Endpoint.Address.Addr().As4()[3]]++
	}
	if hits[1] < 800 || hits[2] < 800 || hits[3] < 800 || hits[11] != 0 {
		t.Fatalf("one endpoint of the own zone shares with the rest of the datacenter: %v", hits)
	}
}

func TestStateBelongsToServiceAndAddress(t *testing.T) {
	w := newWorld(t)
	w.apply(discovery.Service{Name: "pay", Endpoints: []discovery.Endpoint{at(1, zoneA), at(2, zoneA), at(3, zoneA)}},
		discovery.Service{Name: "other", Endpoints: []discovery.Endpoint{at(9, zoneA)}})
	pay, other := w.service("pay"), w.service("other")
	w.endpoint(pay, 1).Refused(w.now)
	id := w.endpoint(pay, 1).ID
	// Its locality changes: the state stays. The other service is untouched: it keeps its compiled form.
	w.apply(discovery.Service{Name: "pay", Endpoints: []discovery.Endpoint{at(1, zoneB), at(2, zoneA), at(3, zoneA)}},
		discovery.Service{Name: "other", Endpoints: []discovery.Endpoint{at(9, zoneA)}})
	if w.service("other") != other {
		t.Fatal("a service that did not change was rebuilt")
	}
	pay = w.service("pay")
	if e := w.endpoint(pay, 1); e.ID != id || e.Condition(w.now) != "refused" {
		t.Fatalf("moved to another zone: %q", e.Condition(w.now))
	}
	// It comes to belong to another service: that one begins clean.
	w.apply(discovery.Service{Name: "pay", Endpoints: []discovery.Endpoint{at(2, zoneA), at(3, zoneA)}},
		discovery.Service{Name: "other", Endpoints: []discovery.Endpoint{at(9, zoneA), at(1, zoneA)}})
	if e := w.endpoint(w.service("other"), 1); e.ID == id || e.Condition(w.now) != "usable" {
		t.Fatalf("with another service: %q", e.Condition(w.now))
	}
	w.OnCheck(id, health.Good) // a late report about the endpoint that left
}

func TestWeightZeroGetsNothing(t *testing.T) {
	w := newWorld(t)
	zero := at(1, zoneA)
	zero.Weight = 0
	w.apply(discovery.Service{Name: "pay", Endpoints: []discovery.Endpoint{zero, at(2, zoneA), at(3, zoneA)}})
	s := w.service("pay")
	src := NewSource(1, 2)
	for range 100 {
		if s.Choose(w.now, &src, false).Endpoint.Weight == 0 {
			t.Fatal("chosen")
		}
	}
	if st := s.Describe(w.now); st[0].Total != 2 || len(st[0].Endpoints) != 3 {
		t.Fatalf("%+v", st[0].Tier)
	}
}

func TestEjectionEndsByTimeAlone(t *testing.T) {
	w := newWorld(t)
	w.apply(discovery.Service{Name: "pay", Endpoints: four(zoneA, 1)})
	s := w.service("pay")
	for n := byte(1); n <= 4; n++ {
		for range 3 {
			w.endpoint(s, n).Failed(w.now)
		}
	}
	if st := s.Describe(w.now); st[0].Usable != 2 {
		t.Fatalf("%d usable: at most half may be ejected", st[0].Usable)
	}
	w.now += int64(30 * time.Second)
	if st := s.Describe(w.now); st[0].Usable != 4 {
		t.Fatalf("%d usable after the ejections", st[0].Usable)
	}
}

func TestCheckItemsAreThoseOfCalledOrListedServices(t *testing.T) {
	w := newWorld(t)
	p := testPolicy()
	p.Health.Active = discovery.ActiveCheck{Path: "/h", Interval: time.Second, Timeout: time.Second, UnhealthyAfter: 2, HealthyAfter: 2, CrossDatacenterTime: 3}
	w.apply(discovery.Service{Name: "pay", Policy: p, Endpoints: four(zoneA, 1)}, discovery.Service{Name: "rare", Policy: p, Endpoints: four(zoneA, 11)})
	items, gen := w.CheckItems(0)
	if len(items) != 4 {
		t.Fatalf("%d items: only pay is listed", len(items))
	}
	if again, _ := w.CheckItems(gen); again != nil {
		t.Fatal("nothing changed")
	}
	src := NewSource(1, 2)
	w.service("rare").Choose(w.now, &src, false)
	if items, gen = w.CheckItems(gen); len(items) != 8 {
		t.Fatalf("%d items: rare was called", len(items))
	}
	w.now += int64(11 * time.Minute)
	w.relist()
	if items, _ = w.CheckItems(gen); len(items) != 4 {
		t.Fatalf("%d items: nobody called rare for 11 minutes", len(items))
	}
}

func TestExplainReplays(t *testing.T) {
	w := newWorld(t)
	w.apply(discovery.Service{Name: "pay", Endpoints: append(four(zoneA, 1), four(far, 11)...)})
	s := w.service("pay")
	src := NewSource(5, 6)
	for n := byte(1); n <= 4; n++ {
		for range 200 {
			r := s.Explain(w.now, &src, "")
			if err := decision.Replay(r); err != nil {
				t.Fatalf("%v\n%+v", err, r)
			}
		}
		w.now += int64(2 * time.Second)
		w.endpoint(s, n).Refused(w.now)
	}
}

func TestChooseAllocatesNothing(t *testing.T) {
	w := newWorld(t)
	w.apply(discovery.Service{Name: "pay", Endpoints: append(four(zoneA, 1), four(far, 11)...)})
	s := w.service("pay")
	src := NewSource(1, 2)
	if n := testing.AllocsPerRun(1000, func() { s.Requested(w.now); _ = s.Choose(w.now, &src, false) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkChoose(b *testing.B) {
	w := newWorld(nil)
	w.apply(discovery.Service{Name: "pay", Endpoints: append(four(zoneA, 1), four(far, 11)...)})
	s := w.service("pay")
	src := NewSource(1, 2)
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Choose(w.now, &src, false)
	}
}

// TestChooseAtHome: a request that must stay at home has the endpoints there that can serve, or none; its further tries stay too.
func TestChooseAtHome(t *testing.T) {
	w := newWorld(t)
	w.apply(discovery.Service{Name: "pay", Endpoints: append(four(zoneA, 1), four(far, 11)...)},
		discovery.Service{Name: "away", Endpoints: four(far, 11)}, discovery.Service{Name: "all", Endpoints: four(zoneB, 1)})
	src := NewSource(1, 2)
	s := w.service("pay")
	home := func(s *Service, n int) map[byte]int {
		hits := map[byte]int{}
		for range n {
			p := s.Choose(w.now, &src, true)
			if !p.Home {
				t.Fatal("a pick does not say that it was bound")
			}
			at := byte(0)
			if p.Endpoint != nil {
				at = p.Endpoint.Address.Addr().As4()[3]
			}
			hits[at]++
		}
		return hits
	}
	for n := byte(1); n <= 3; n++ { // one of four is left: it keeps 35 % of the others, and all of these; no panic, as dc2 is well
		w.endpoint(s, n).Refused(w.now)
		w.now += int64(2 * time.Second) // not two within a second: the tier is not down
	}
	if got := home(s, 100); got[4] != 100 {
		t.Errorf("with one left: %v", got)
	}
	if got := w.shares(s, 1000); got["dc2"] < 600 {
		t.Errorf("others: %v", got)
	}
	// A further try goes nowhere else, whatever the policy says of tiers.
	p := s.Choose(w.now, &src, true)
	tried := []*balance.Load{&p.Endpoint.Load}
	if next := s.Another(w.now, &src, p, tried, true); next.Endpoint != nil {
		t.Errorf("a further try went to %s", next.Endpoint.Text)
	}
	w.endpoint(s, 4).Refused(w.now)
	if got := home(s, 10); got[0] != 10 {
		t.Errorf("with none left: %v", got)
	}
	if next := s.Another(w.now, &src, p, nil, true); next.Endpoint != nil {
		t.Errorf("a further try went to %s", next.Endpoint.Text)
	}
	if got := home(w.service("away"), 10); got[0] != 10 {
		t.Errorf("a service elsewhere: %v", got)
	}
	if got := home(w.service("all"), 100); got[0] != 0 {
		t.Errorf("a service that is here alone: %v", got)
	}
	if n := testing.AllocsPerRun(1000, func() { _ = w.service("all").Choose(w.now, &src, true) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
