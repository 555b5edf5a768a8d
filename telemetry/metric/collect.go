package metric

import (
	"maps"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"spillway/proxy/answer"
	"spillway/proxy/decision"
)

func desc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"service", "destination_datacenter"}, more...), nil)
}

// Descriptions of what is made at a scrape.
var (
	requestsDesc  = desc("spillway_requests_total", "Requests, by class of the answer's status (none: the client went away) and why the endpoint was chosen.", "status_class", "reason")
	answersDesc   = desc("spillway_answers_total", "Answers of the proxy itself, by code.", "code")
	durationDesc  = desc("http_client_request_duration_seconds", "From the first byte of a request to the last of its answer.")
	resendsDesc   = desc("spillway_resends_total", "Tries after one that had provably taken nothing.")
	retriesDesc   = desc("spillway_retries_total", "Tries after one that may have been taken, drawn from the budget.")
	ejectionsDesc = desc("spillway_ejections_total", "Endpoints ejected because of their answers.")
	tunnelsDesc   = desc("spillway_tcp_connections_total", "TCP connections that ended.")
	openDesc      = desc("spillway_tcp_connection_seconds_total", "How long the TCP connections that ended were open, added up.")
	dialsDesc     = desc("spillway_dials_total", "Connections opened to endpoints, by result.", "result")
	heldDesc      = desc("spillway_bulkhead_held", "What the cluster holds of a limit.", "limit")
	maxDesc       = desc("spillway_bulkhead_limit", "The limit.", "limit")
	refusedDesc   = desc("spillway_bulkhead_refused_total", "Refusals at the limit.", "limit")

	refusalsDesc  = prometheus.NewDesc("spillway_refusals_total", "Answers of the proxy itself to requests that belong to no cluster.", []string{"service", "code"}, nil)
	listenersDesc = prometheus.NewDesc("spillway_listener_connections", "Connections of clients that are open.", []string{"listener"}, nil)
)

// collector shows what comes and goes: clusters, refusals, listeners.
type collector Metrics

// Describe sends nothing: the collector is unchecked, its series come and go.
func (m *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *collector) Collect(out chan<- prometheus.Metric) {
	// Copied first: nobody who counts waits for a scrape.
	m.mu.RLock()
	clusters := slices.Collect(maps.Values(m.clusters))
	refused, listeners := maps.Clone(m.refusals), maps.Clone(m.listeners)
	m.mu.RUnlock()
	for _, c := range clusters {
		c.collect(out)
	}
	for service, r := range refused {
		for code := range r {
			if v := r[code].Load(); v > 0 {
				out <- prometheus.MustNewConstMetric(refusalsDesc, prometheus.CounterValue, float64(v), valid(service), answer.Code(code).String())
			}
		}
	}
	for name, gauges := range listeners {
		sum := int64(0)
		for _, active := range gauges {
			sum += active()
		}
		out <- prometheus.MustNewConstMetric(listenersDesc, prometheus.GaugeValue, float64(sum), name)
	}
}

func (c *Cluster) collect(out chan<- prometheus.Metric) {
	show := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, more ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, append(c.labels[:], more...)...)
	}
	for class := range c.requests {
		for reason := range c.requests[class] {
			if v := c.requests[class][reason].Load(); v > 0 {
				name := "none"
				if class > 0 {
					name = strconv.Itoa(class) + "xx"
				}
				show(requestsDesc, prometheus.CounterValue, float64(v), name, decision.Reason(reason).String())
			}
		}
	}
	for code := range c.answers {
		if v := c.answers[code].Load(); v > 0 {
			show(answersDesc, prometheus.CounterValue, float64(v), answer.Code(code).String())
		}
	}
	buckets, total := make(map[float64]uint64, len(bounds)), uint64(0)
	for i := range c.buckets {
		total += c.buckets[i].Load()
		if i < len(bounds) {
			buckets[bounds[i]] = total
		}
	}
	out <- prometheus.MustNewConstHistogram(durationDesc, total, float64(c.nanos.Load())/1e9, buckets, c.labels[:]...)
	show(resendsDesc, prometheus.CounterValue, float64(c.resends.Load()))
	show(retriesDesc, prometheus.CounterValue, float64(c.retries.Load()))
	show(ejectionsDesc, prometheus.CounterValue, float64(c.ejections.Load()))
	show(tunnelsDesc, prometheus.CounterValue, float64(c.tunnels.Load()))
	show(openDesc, prometheus.CounterValue, float64(c.tunnelNanos.Load())/1e9)
	for d := range c.dials {
		show(dialsDesc, prometheus.CounterValue, float64(c.dials[d].Load()), dialNames[d])
	}
	sums, ok := c.watched()
	for i, l := range sums {
		if ok {
			show(heldDesc, prometheus.GaugeValue, float64(l.held), limitNames[i])
			show(maxDesc, prometheus.GaugeValue, float64(l.max), limitNames[i])
			show(refusedDesc, prometheus.CounterValue, float64(l.refused), limitNames[i])
		}
	}
}
