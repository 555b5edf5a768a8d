// Package metric counts what the proxy does, for Prometheus.
//
// Its job: pre-resolved counters that the data path moves without allocating, and their exposition.
// Not its job: deciding anything, keeping history. Labels come from the configuration or from a closed list, never from a request.
// Goroutines: none of its own. Bounds: one set of counters for each cluster of the snapshot.
package metric

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"spillway/proxy/answer"
	"spillway/proxy/bulkhead"
	"spillway/proxy/decision"
)

// Metrics owns the registry. Safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	rejected, inboundRefused, refusals, kept *vec
	stretched, version                       prometheus.Gauge
	logDropped                               prometheus.Counter

	mu       sync.Mutex
	clusters map[key]*Cluster
}

type key struct{ service, datacenter string }

// vec is a counter or gauge by labels that come from closed lists or the configuration.
type vec struct {
	counter *prometheus.CounterVec
	gauge   *prometheus.GaugeVec
}

// New makes the registry with the runtime's and the process's own metrics.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), clusters: map[key]*Cluster{}}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "spillway_build_info", Help: "Always 1; the version is the label.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.stretched = prometheus.NewGauge(prometheus.GaugeOpts{Name: "spillway_checks_stretched_ratio", Help: "Factor by which check intervals are stretched to keep checks_per_second_max; 1 is none."})
	m.stretched.Set(1)
	m.version = prometheus.NewGauge(prometheus.GaugeOpts{Name: "spillway_snapshot_version", Help: "Version of the snapshot that requests see; 0 before the first."})
	m.logDropped = prometheus.NewCounter(prometheus.CounterOpts{Name: "spillway_access_log_dropped_total", Help: "Access log lines dropped because the log could not be written fast enough, or at all."})
	counter := func(name, help string, labels ...string) *vec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return &vec{counter: v}
	}
	m.rejected = counter("spillway_discovery_rejected_total", "Discovered files that were refused; the content before stayed.", "file")
	m.inboundRefused = counter("spillway_inbound_refused_total", "Connections to the inbound listener that were closed without an answer.", "reason")
	m.refusals = counter("spillway_refusals_total", "Answers of the proxy itself to requests that belong to no cluster.", "service", "code")
	m.kept = &vec{gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "spillway_discovery_kept_endpoints", Help: "Endpoints kept although the source's list became empty."}, []string{"service"})}
	m.registry.MustRegister(build, m.stretched, m.version, m.logDropped, m.kept.gauge, (*clusterCollector)(m))
	return m
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	h := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, MaxRequestsInFlight: scrapesMax})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	return mux
}

// scrapesMax bounds scrapes at a time.
const scrapesMax = 4

// DiscoveryRejected counts a discovered file that was refused.
func (m *Metrics) DiscoveryRejected(file string) { m.rejected.counter.WithLabelValues(file).Inc() }

// DiscoveryKept tells how many endpoints of a service are kept although its list became empty.
func (m *Metrics) DiscoveryKept(service string, n int) {
	if n == 0 {
		m.kept.gauge.DeleteLabelValues(service)
		return
	}
	m.kept.gauge.WithLabelValues(service).Set(float64(n))
}

// ChecksStretched tells the factor by which check intervals are stretched.
func (m *Metrics) ChecksStretched(factor float64) { m.stretched.Set(factor) }

// SnapshotVersion tells the version of the snapshot.
func (m *Metrics) SnapshotVersion(v uint64) { m.version.Set(float64(v)) }

// AccessLogDropped counts a line that was dropped.
func (m *Metrics) AccessLogDropped() { m.logDropped.Inc() }

// InboundRefused counts a connection that inbound closed; reason is from a closed list.
func (m *Metrics) InboundRefused(reason string) {
	m.inboundRefused.counter.WithLabelValues(reason).Inc()
}

// Refusal counts an answer of the proxy itself that belongs to no cluster; service is empty where none was found.
func (m *Metrics) Refusal(service string, code answer.Code) {
	m.refusals.counter.WithLabelValues(service, code.String()).Inc()
}

// bounds are the upper bounds of the duration histogram in seconds (OpenTelemetry's advice for http.client.request.duration, finer below).
var bounds = [...]float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

const classes = 6 // status class: 0 none (client gone), 1xx..5xx

// Cluster is the counters of one cluster. Moving them allocates nothing.
type Cluster struct {
	key       key
	requests  [classes][decision.ReasonCount]atomic.Uint64
	answers   [answer.CodeCount]atomic.Uint64
	buckets   [len(bounds) + 1]atomic.Uint64
	micros    atomic.Uint64 // sum of durations
	tunnels   atomic.Uint64
	tunnelMic atomic.Uint64
	resends   atomic.Uint64
	retries   atomic.Uint64
	ejections atomic.Uint64
	dials     [dialKinds]atomic.Uint64
	limits    atomic.Pointer[bulkhead.Cluster]
}

// Dial is how a dial ended.
type Dial uint8

// The ends of a dial.
const (
	DialOK Dial = iota
	DialRefused
	DialTimeout
	DialLocal
	dialKinds
)

var dialNames = [dialKinds]string{"ok", "refused", "timeout", "local"}

// Cluster gives the counters of a cluster; the same for the same names.
func (m *Metrics) Cluster(service, datacenter string) *Cluster {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := key{service, datacenter}
	c := m.clusters[k]
	if c == nil {
		c = &Cluster{key: k}
		m.clusters[k] = c
	}
	return c
}

// Forget drops the counters of a cluster that left the snapshot.
func (m *Metrics) Forget(service, datacenter string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, key{service, datacenter})
}

// Request counts one request that was answered, or whose client went away (status 0).
func (c *Cluster) Request(status int, code answer.Code, reason decision.Reason, seconds float64) {
	class := status / 100
	if class >= classes {
		class = classes - 1
	}
	c.requests[class][min(reason, decision.ReasonCount-1)].Add(1)
	if code != answer.None {
		c.answers[code].Add(1)
	}
	i := 0
	for i < len(bounds) && seconds > bounds[i] {
		i++
	}
	c.buckets[i].Add(1)
	c.micros.Add(uint64(seconds * 1e6))
}

// Resend counts a request that was sent again because the endpoint had taken nothing of it.
func (c *Cluster) Resend() { c.resends.Add(1) }

// Retry counts a retry.
func (c *Cluster) Retry() { c.retries.Add(1) }

// Ejected counts an ejection.
func (c *Cluster) Ejected() { c.ejections.Add(1) }

// Dialled counts a dial.
func (c *Cluster) Dialled(d Dial) { c.dials[d].Add(1) }

// Tunnel counts a TCP connection that ended.
func (c *Cluster) Tunnel(seconds float64) {
	c.tunnels.Add(1)
	c.tunnelMic.Add(uint64(seconds * 1e6))
}

// Watch names the bulkhead whose gauges are read at a scrape.
func (c *Cluster) Watch(b *bulkhead.Cluster) { c.limits.Store(b) }

var labels = []string{"service", "destination_datacenter"}

func desc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append(append([]string(nil), labels...), more...), nil)
}

// clusterCollector shows the counters of all clusters.
type clusterCollector Metrics

// Describe sends nothing: the collector is unchecked, its clusters come and go.
func (m *clusterCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *clusterCollector) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	list := make([]*Cluster, 0, len(m.clusters))
	for _, c := range m.clusters {
		list = append(list, c)
	}
	m.mu.Unlock()
	for _, c := range list {
		c.collect(out)
	}
}

func (c *Cluster) collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v uint64, more ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), append([]string{c.key.service, c.key.datacenter}, more...)...)
	}
	for class := range c.requests {
		for reason := range c.requests[class] {
			if v := c.requests[class][reason].Load(); v > 0 {
				name := "none"
				if class > 0 {
					name = strconv.Itoa(class) + "xx"
				}
				counter(requestsDesc, v, name, decision.Reason(reason).String())
			}
		}
	}
	for code := range c.answers {
		if v := c.answers[code].Load(); v > 0 {
			counter(answersDesc, v, answer.Code(code).String())
		}
	}
	buckets, total := make(map[float64]uint64, len(bounds)), uint64(0)
	for i := range c.buckets {
		total += c.buckets[i].Load()
		if i < len(bounds) {
			buckets[bounds[i]] = total
		}
	}
	out <- prometheus.MustNewConstHistogram(durationDesc, total, float64(c.micros.Load())/1e6, buckets, c.key.service, c.key.datacenter)
	counter(resendsDesc, c.resends.Load())
	counter(retriesDesc, c.retries.Load())
	counter(ejectionsDesc, c.ejections.Load())
	counter(tunnelsDesc, c.tunnels.Load())
	for d := range c.dials {
		counter(dialsDesc, c.dials[d].Load(), dialNames[d])
	}
	c.collectLimits(out)
}

func (c *Cluster) collectLimits(out chan<- prometheus.Metric) {
	b := c.limits.Load()
	if b == nil {
		return
	}
	for _, l := range []struct {
		what  string
		limit *bulkhead.Limit
	}{{"connections", &b.Connections}, {"pending", &b.Pending}, {"requests", &b.Requests}, {"retries", &b.Retries}} {
		gauge := func(d *prometheus.Desc, v float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, c.key.service, c.key.datacenter, l.what)
		}
		gauge(heldDesc, float64(l.limit.Held()))
		gauge(maxDesc, float64(l.limit.Max()))
		out <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(l.limit.Refused()), c.key.service, c.key.datacenter, l.what)
	}
}

// Descriptions of what a cluster shows.
var (
	requestsDesc  = desc("spillway_requests_total", "Requests, by class of the answer's status (none: the client went away) and why the endpoint was chosen.", "status_class", "reason")
	answersDesc   = desc("spillway_answers_total", "Answers of the proxy itself, by code.", "code")
	durationDesc  = desc("http_client_request_duration_seconds", "From the first byte of a request to the last of its answer.")
	resendsDesc   = desc("spillway_resends_total", "Tries after one that had provably taken nothing.")
	retriesDesc   = desc("spillway_retries_total", "Tries after one that may have been taken, drawn from the budget.")
	ejectionsDesc = desc("spillway_ejections_total", "Endpoints ejected because of their answers.")
	tunnelsDesc   = desc("spillway_tcp_connections_total", "TCP connections that ended.")
	dialsDesc     = desc("spillway_dials_total", "Connections opened to endpoints, by result.", "result")
	heldDesc      = desc("spillway_bulkhead_held", "What the cluster holds of a limit.", "limit")
	maxDesc       = desc("spillway_bulkhead_limit", "The limit.", "limit")
	refusedDesc   = desc("spillway_bulkhead_refused_total", "Refusals at the limit.", "limit")
)
