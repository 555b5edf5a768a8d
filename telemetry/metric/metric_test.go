package metric

import (
	"net/http/httptest"
	"strings"
	"testing"

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

func TestCountingAllocatesNothing(t *testing.T) {
	c := New("v1").Cluster("pay", "dc1")
	if n := testing.AllocsPerRun(1000, func() { c.Request(200, answer.None, decision.Nearest, 0.003) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkRequest(b *testing.B) {
	c := New("v1").Cluster("pay", "dc1")
	b.ReportAllocs()
	for b.Loop() {
		c.Request(200, answer.None, decision.Nearest, 0.003)
	}
}
