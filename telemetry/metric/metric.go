// Package metric counts what the proxy does, for Prometheus.
//
// Its job: pre-resolved counters that the data path moves without allocating (metric.go, cluster.go), and their exposition (collect.go).
// Not its job: deciding anything, keeping history. Labels come from the configuration, the discovered services or a closed list, never
// from a request. docs/metrics.md lists every metric.
// Goroutines: none of its own. Bounds: one set of counters for each cluster and each service of the snapshot, scrapesMax scrapes at a time.
package metric

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"spillway/proxy/answer"
)

// scrapesMax bounds scrapes at a time.
const scrapesMax = 4

// Metrics owns the registry. Safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	rejected, inboundRefused *prometheus.CounterVec
	recordsDropped           *prometheus.CounterVec
	kept                     *prometheus.GaugeVec
	stretched, version       prometheus.Gauge
	logDropped               prometheus.Counter

	mu        sync.RWMutex // guards the maps, not what they hold
	clusters  map[key]*Cluster
	refusals  map[string]*refusals      // by service; "" where none was found
	listeners map[string][]func() int64 // by name, the gauges of open connections
}

type key struct{ service, datacenter string }

// refusals is the answers of the proxy itself to requests that belong to no cluster, for one service.
type refusals [answer.CodeCount]atomic.Uint64

// New makes the registry with the runtime's and the process's own metrics.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), clusters: map[key]*Cluster{}, refusals: map[string]*refusals{}, listeners: map[string][]func() int64{}}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "spillway_build_info", Help: "Always 1; the version is the label.", ConstLabels: prometheus.Labels{"version": valid(version)}})
	build.Set(1)
	m.stretched = prometheus.NewGauge(prometheus.GaugeOpts{Name: "spillway_checks_stretched_ratio", Help: "Factor by which check intervals are stretched to keep checks_per_second_max; 1 is none."})
	m.stretched.Set(1)
	m.version = prometheus.NewGauge(prometheus.GaugeOpts{Name: "spillway_snapshot_version", Help: "Version of the snapshot that requests see; 0 before the first."})
	m.logDropped = prometheus.NewCounter(prometheus.CounterOpts{Name: "spillway_access_log_dropped_total", Help: "Access log lines dropped because the log could not be written fast enough, or at all."})
	m.rejected = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "spillway_discovery_rejected_total", Help: "Discovered files that were refused; the content before stayed."}, []string{"file"})
	m.inboundRefused = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "spillway_inbound_refused_total", Help: "Connections to the inbound or gateway listener that were closed without an answer."}, []string{"reason"})
	m.recordsDropped = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "spillway_records_dropped_total", Help: "Records of call chains that did not count; the requests went on."}, []string{"field", "reason"})
	m.kept = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "spillway_discovery_kept_endpoints", Help: "Endpoints kept although the source's list became empty."}, []string{"service"})
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build, m.stretched, m.version, m.logDropped, m.rejected, m.inboundRefused, m.recordsDropped, m.kept, (*collector)(m))
	return m
}

// valid makes a label value of any text: the exposition takes UTF-8 alone.
func valid(label string) string { return strings.ToValidUTF8(label, "\ufffd") }

// Handler serves GET /metrics. What cannot be shown is left out and counted (promhttp_metric_handler_errors_total); the rest is served.
func (m *Metrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		Registry: m.registry, MaxRequestsInFlight: scrapesMax, ErrorHandling: promhttp.ContinueOnError}))
	return mux
}

// DiscoveryRejected counts a discovered file that was refused.
func (m *Metrics) DiscoveryRejected(file string) { m.rejected.WithLabelValues(valid(file)).Inc() }

// DiscoveryKept tells how many endpoints of a service are kept although its list became empty.
func (m *Metrics) DiscoveryKept(service string, n int) {
	if n == 0 {
		m.kept.DeleteLabelValues(valid(service))
		return
	}
	m.kept.WithLabelValues(valid(service)).Set(float64(n))
}

// ChecksStretched tells the factor by which check intervals are stretched.
func (m *Metrics) ChecksStretched(factor float64) { m.stretched.Set(factor) }

// SnapshotVersion tells the version of the snapshot.
func (m *Metrics) SnapshotVersion(v uint64) { m.version.Set(float64(v)) }

// AccessLogDropped counts a line that was dropped.
func (m *Metrics) AccessLogDropped() { m.logDropped.Inc() }

// InboundRefused counts a connection that inbound closed; reason is from a closed list.
func (m *Metrics) InboundRefused(reason string) { m.inboundRefused.WithLabelValues(reason).Inc() }

// RecordDropped counts a record of a call chain that did not count; field and reason are from closed lists.
func (m *Metrics) RecordDropped(field, reason string) {
	m.recordsDropped.WithLabelValues(field, reason).Inc()
}

// Listener names a gauge of a listener's open connections, read at a scrape; name is its key in the configuration. Several of one name
// are added up.
func (m *Metrics) Listener(name string, active func() int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = valid(name)
	m.listeners[name] = append(m.listeners[name], active)
}

// Refusal counts an answer of the proxy itself that belongs to no cluster; service is empty where none was found. It allocates for the
// first refusal of a service alone.
func (m *Metrics) Refusal(service string, code answer.Code) {
	m.mu.RLock()
	r := m.refusals[service]
	m.mu.RUnlock()
	if r == nil {
		m.mu.Lock()
		if r = m.refusals[service]; r == nil {
			r = new(refusals)
			m.refusals[service] = r
		}
		m.mu.Unlock()
	}
	r[code].Add(1)
}

// Cluster gives the counters of a cluster; the same for the same names.
func (m *Metrics) Cluster(service, datacenter string) *Cluster {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := key{service, datacenter}
	c := m.clusters[k]
	if c == nil {
		c = &Cluster{labels: [2]string{valid(service), valid(datacenter)}}
		m.clusters[k] = c
	}
	return c
}

// Forget drops the counters of a cluster that left the snapshot. Requests that are still under way go on counting, unseen.
func (m *Metrics) Forget(service, datacenter string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, key{service, datacenter})
}

// ForgetService drops what is counted for a service that left the snapshot, its clusters included.
func (m *Metrics) ForgetService(service string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.clusters {
		if k.service == service {
			delete(m.clusters, k)
		}
	}
	delete(m.refusals, service)
	m.kept.DeleteLabelValues(valid(service))
}
