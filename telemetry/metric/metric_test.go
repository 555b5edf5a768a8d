package metric

import (
	"math"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"spillway/discovery"
	"spillway/proxy/answer"
	"spillway/proxy/bulkhead"
	"spillway/proxy/decision"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestExposition(t *testing.T) {
	m := New("v1")
	c := m.Cluster("pay", "dc2")
	if m.Cluster("pay", "dc2") != c {
		t.Fatal("the same cluster has the same counters")
	}
	var b bulkhead.Cluster
	b.Configure(discovery.BulkheadLimits{Connections: 2, Pending: 1, Requests: 1, Retries: 1})
	b.Connections.TryAcquire()
	c.Watch(&b)
	c.Request(200, answer.None, decision.Nearest, 0.0007)
	c.Request(503, answer.Overflow, decision.SpillHealth, 0.2)
	c.Request(0, answer.None, decision.Nearest, 99)
	c.Retry()
	c.Resend()
	c.Ejected()
	c.Dialled(DialTimeout)
	c.Tunnel(1)
	m.DiscoveryRejected("services.yaml")
	m.DiscoveryKept("pay", 3)
	m.ChecksStretched(1.5)
	m.SnapshotVersion(7)
	m.InboundRefused("untrusted")
	m.Refusal("", answer.NoRoute)
	m.AccessLogDropped()
	text := scrape(t, m)
	for _, want := range []string{
		`spillway_requests_total{destination_datacenter="dc2",reason="nearest",service="pay",status_class="2xx"} 1`,
		`spillway_requests_total{destination_datacenter="dc2",reason="nearest",service="pay",status_class="none"} 1`,
		`spillway_answers_total{code="overflow",destination_datacenter="dc2",service="pay"} 1`,
		`http_client_request_duration_seconds_bucket{destination_datacenter="dc2",service="pay",le="0.001"} 1`,
		`http_client_request_duration_seconds_bucket{destination_datacenter="dc2",service="pay",le="0.25"} 2`,
		`http_client_request_duration_seconds_bucket{destination_datacenter="dc2",service="pay",le="+Inf"} 3`,
		`spillway_retries_total{destination_datacenter="dc2",service="pay"} 1`,
		`spillway_resends_total{destination_datacenter="dc2",service="pay"} 1`,
		`spillway_ejections_total{destination_datacenter="dc2",service="pay"} 1`,
		`spillway_dials_total{destination_datacenter="dc2",result="timeout",service="pay"} 1`,
		`spillway_tcp_connection_seconds_total{destination_datacenter="dc2",service="pay"} 1`,
		`spillway_tcp_connections_total{destination_datacenter="dc2",service="pay"} 1`,
		`spillway_bulkhead_held{destination_datacenter="dc2",limit="connections",service="pay"} 1`,
		`spillway_bulkhead_limit{destination_datacenter="dc2",limit="connections",service="pay"} 2`,
		`spillway_discovery_rejected_total{file="services.yaml"} 1`,
		`spillway_discovery_kept_endpoints{service="pay"} 3`,
		`spillway_checks_stretched_ratio 1.5`,
		`spillway_snapshot_version 7`,
		`spillway_inbound_refused_total{reason="untrusted"} 1`,
		`spillway_refusals_total{code="no_route",service=""} 1`,
		`spillway_access_log_dropped_total 1`,
		`spillway_build_info{version="v1"} 1`,
		`go_memstats_mallocs_total `,
		`process_open_fds `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %s", want)
		}
	}
	m.Forget("pay", "dc2")
	m.DiscoveryKept("pay", 0)
	if text = scrape(t, m); strings.Contains(text, `service="pay"`) {
		t.Error("a cluster that was forgotten is still shown")
	}
}

// A service that left takes everything with it that was counted for it, and nothing of others.
func TestForgetService(t *testing.T) {
	m := New("v1")
	old := m.Cluster("pay", "dc1")
	m.Cluster("pay", "dc2")
	m.Cluster("ledger", "dc1")
	m.Refusal("pay", answer.NoHealthyEndpoint)
	m.Refusal("", answer.NoRoute)
	m.DiscoveryKept("pay", 2)
	m.ForgetService("pay")
	old.Request(200, answer.None, decision.Nearest, 1) // one that was under way
	text := scrape(t, m)
	if strings.Contains(text, `"pay"`) {
		t.Error("a service that was forgotten is still shown")
	}
	for _, want := range []string{`service="ledger"`, `spillway_refusals_total{code="no_route",service=""} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %s", want)
		}
	}
	if m.Cluster("pay", "dc1") == old {
		t.Error("a service that came back goes on with the old counters")
	}
}

func TestBulkheadsAndListenersOfOneNameAddUp(t *testing.T) {
	m := New("v1")
	c := m.Cluster("inbound:8080", "dc1")
	var a, b bulkhead.Cluster
	for i, x := range []*bulkhead.Cluster{&a, &b} {
		x.Configure(discovery.BulkheadLimits{Connections: 1 + i, Pending: 1, Requests: 1, Retries: 1})
		x.Connections.TryAcquire()
		c.Watch(x)
		c.Watch(x)
	}
	a.Connections.TryAcquire() // refused
	m.Listener("outbound.listen", func() int64 { return 3 })
	m.Listener("outbound.listen", func() int64 { return 4 })
	text := scrape(t, m)
	for _, want := range []string{
		`spillway_bulkhead_held{destination_datacenter="dc1",limit="connections",service="inbound:8080"} 2`,
		`spillway_bulkhead_limit{destination_datacenter="dc1",limit="connections",service="inbound:8080"} 3`,
		`spillway_bulkhead_refused_total{destination_datacenter="dc1",limit="connections",service="inbound:8080"} 1`,
		`spillway_listener_connections{listener="outbound.listen"} 7`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %s", want)
		}
	}
}

// Whatever is counted, the histogram is what a dumb one would be: each duration in every bucket whose bound it does not exceed.
func TestDurationsLikeTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		near := rapid.Custom(func(t *rapid.T) float64 {
			b := rapid.SampledFrom(bounds[:]).Draw(t, "bound")
			return rapid.SampledFrom([]float64{b, math.Nextafter(b, 0), math.Nextafter(b, 99)}).Draw(t, "near")
		})
		all := rapid.SliceOf(rapid.OneOf(near, rapid.Float64Range(-1, 100))).Draw(t, "durations")
		m := New("v1")
		c := m.Cluster("pay", "dc1")
		sum := 0.0
		for _, s := range all {
			c.Request(200, answer.None, decision.Nearest, s)
			sum += max(s, 0)
		}
		families, err := m.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for families[at].GetName() != "http_client_request_duration_seconds" {
			at++
		}
		h := families[at].GetMetric()[0].GetHistogram()
		for _, b := range h.GetBucket() {
			want := uint64(0)
			for _, s := range all {
				if s <= b.GetUpperBound() {
					want++
				}
			}
			if b.GetCumulativeCount() != want {
				t.Fatalf("le %v: %d, want %d", b.GetUpperBound(), b.GetCumulativeCount(), want)
			}
		}
		if len(h.GetBucket()) != len(bounds) || h.GetSampleCount() != uint64(len(all)) || math.Abs(h.GetSampleSum()-sum) > 1e-6 {
			t.Fatalf("%d buckets, count %d of %d, sum %v, want %v", len(h.GetBucket()), h.GetSampleCount(), len(all), h.GetSampleSum(), sum)
		}
	})
}

// Numbers from outside the lists must not end the process.
func TestOddNumbers(t *testing.T) {
	m := New("v1")
	c := m.Cluster("pay", "dc1")
	for _, status := range []int{-1 << 31, -1, 0, 99} {
		c.Request(status, answer.None, decision.Nearest, -1)
	}
	for _, status := range []int{500, 599, 600, 999, 1 << 31} {
		c.Request(status, answer.None, decision.ReasonCount+1, math.Inf(1))
	}
	text := scrape(t, m)
	last := decision.Reason(decision.ReasonCount - 1).String()
	for _, want := range []string{
		`spillway_requests_total{destination_datacenter="dc1",reason="nearest",service="pay",status_class="none"} 4`,
		`spillway_requests_total{destination_datacenter="dc1",reason="` + last + `",service="pay",status_class="5xx"} 5`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %s in\n%s", want, text)
		}
	}
}

// The exposition takes UTF-8 alone: a name that is none must cost neither the process nor the scrape.
func TestNamesThatAreNoText(t *testing.T) {
	m := New("v\xff")
	m.Cluster("pay\xff", "\xfe").Request(200, answer.None, decision.Nearest, 1)
	m.Refusal("pay\xff", answer.Draining)
	m.DiscoveryRejected("/a\xff")
	m.DiscoveryKept("pay\xff", 1)
	m.Listener("l\xff", func() int64 { return 1 })
	if text := scrape(t, m); strings.Count(text, "pay\ufffd") < 3 {
		t.Error(text)
	}
	m.ForgetService("pay\xff")
	if text := scrape(t, m); strings.Contains(text, "pay\ufffd") {
		t.Error("still shown")
	}
}

func TestOnlyMetricsAreServed(t *testing.T) {
	h := New("v1").Handler()
	for _, c := range []struct {
		method, path string
		want         int
	}{{"GET", "/metrics", 200}, {"HEAD", "/metrics", 200}, {"POST", "/metrics", 405}, {"GET", "/", 404}, {"GET", "/metrics/x", 404}} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if w.Code != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, w.Code, c.want)
		}
	}
}

// Clusters come and go while requests are counted and scraped (for the race detector; what is counted is exact).
func TestConcurrentUse(t *testing.T) {
	m := New("v1")
	kept := m.Cluster("kept", "dc1")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 300 {
				kept.Request(200, answer.None, decision.Nearest, 0.01)
				m.Refusal("", answer.NoRoute)
				m.Cluster("passing", "dc1").Request(200, answer.None, decision.Nearest, 0.01)
				if i%100 == 0 {
					m.ForgetService("passing")
					_, _ = m.registry.Gather()
				}
			}
		})
	}
	wg.Wait()
	text := scrape(t, m)
	for _, want := range []string{`reason="nearest",service="kept",status_class="2xx"} 1200`, `spillway_refusals_total{code="no_route",service=""} 1200`} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %s", want)
		}
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	m := New("v1")
	c := m.Cluster("pay", "dc1")
	m.Refusal("pay", answer.NoRoute)
	for name, count := range map[string]func(){
		"request": func() { c.Request(503, answer.Overflow, decision.Nearest, 0.003) },
		"refusal": func() { m.Refusal("pay", answer.NoRoute) },
		"tries":   func() { c.Resend(); c.Retry(); c.Dialled(DialOK); c.Ejected(); c.Tunnel(1) },
		"line":    m.AccessLogDropped,
	} {
		if n := testing.AllocsPerRun(1000, count); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	c := New("v1").Cluster("pay", "dc1")
	b.ReportAllocs()
	for b.Loop() {
		c.Request(200, answer.None, decision.Nearest, 0.003)
	}
}

func BenchmarkRefusal(b *testing.B) {
	m := New("v1")
	b.ReportAllocs()
	for b.Loop() {
		m.Refusal("pay", answer.NoRoute)
	}
}

// BenchmarkScrape is a scrape of 500 clusters.
func BenchmarkScrape(b *testing.B) {
	m := New("v1")
	for i := range 500 {
		m.Cluster("service-"+strconv.Itoa(i), "dc1").Request(200, answer.None, decision.Nearest, 0.003)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
