package metric

import (
	"slices"
	"sync"
	"sync/atomic"

	"spillway/proxy/answer"
	"spillway/proxy/bulkhead"
	"spillway/proxy/decision"
)

// bounds are the upper bounds of the duration histogram in seconds, inclusive (what the OpenTelemetry semantic conventions advise for
// http.client.request.duration, finer below 5 ms).
var bounds = [...]float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

const classes = 6 // status class: 0 none (client gone), 1xx..5xx

// Dial is how a dial ended.
type Dial uint8

// The ends of a dial.
const (
	DialOK Dial = iota
	DialRefused
	DialTimeout
	DialLocal // this machine was short of something
	dialKinds
)

var dialNames = [dialKinds]string{"ok", "refused", "timeout", "local"}

// Cluster is the counters of one cluster. Moving them allocates nothing and takes no lock.
type Cluster struct {
	labels      [2]string // service, datacenter
	requests    [classes][decision.ReasonCount]atomic.Uint64
	answers     [answer.CodeCount]atomic.Uint64
	buckets     [len(bounds) + 1]atomic.Uint64 // of durations, each counted in one; the last is above all bounds
	nanos       atomic.Uint64                  // sum of durations
	tunnels     atomic.Uint64
	tunnelNanos atomic.Uint64
	resends     atomic.Uint64
	retries     atomic.Uint64
	ejections   atomic.Uint64
	dials       [dialKinds]atomic.Uint64

	mu     sync.Mutex // guards limits
	limits []*bulkhead.Cluster
}

// Request counts one request that was answered (status 100..599), or whose client went away (status 0). seconds is its duration; a clock
// that went back counts as 0.
func (c *Cluster) Request(status int, code answer.Code, reason decision.Reason, seconds float64) {
	class := min(max(status, 0)/100, classes-1)
	c.requests[class][min(reason, decision.ReasonCount-1)].Add(1)
	if code != answer.None {
		c.answers[code].Add(1)
	}
	seconds = max(seconds, 0)
	i := 0
	for i < len(bounds) && seconds > bounds[i] {
		i++
	}
	c.buckets[i].Add(1)
	c.nanos.Add(uint64(seconds * 1e9))
}

// Resend counts a request that was sent again because the endpoint had taken nothing of it.
func (c *Cluster) Resend() { c.resends.Add(1) }

// Retry counts a retry.
func (c *Cluster) Retry() { c.retries.Add(1) }

// Ejected counts an ejection.
func (c *Cluster) Ejected() { c.ejections.Add(1) }

// Dialled counts a dial.
func (c *Cluster) Dialled(d Dial) { c.dials[d].Add(1) }

// Tunnel counts a TCP connection that ended after so many seconds.
func (c *Cluster) Tunnel(seconds float64) {
	c.tunnels.Add(1)
	c.tunnelNanos.Add(uint64(max(seconds, 0) * 1e9))
}

// Watch names a bulkhead whose gauges are read at a scrape. Several of one cluster (an application behind several addresses) are added up.
func (c *Cluster) Watch(b *bulkhead.Cluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.limits, b) {
		c.limits = append(c.limits, b)
	}
}

// limit is the sum of one limit over the bulkheads of a cluster.
type limit struct {
	held, max int64
	refused   uint64
}

// limitNames are the keys of the limits, in the order of watched.
var limitNames = [...]string{"connections", "pending", "requests", "retries"}

// watched reads the bulkheads; ok is false where there is none.
func (c *Cluster) watched() (sums [len(limitNames)]limit, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.limits {
		for i, l := range [...]*bulkhead.Limit{&b.Connections, &b.Pending, &b.Requests, &b.Retries} {
			sums[i].held += l.Held()
			sums[i].max += l.Max()
			sums[i].refused += l.Refused()
		}
	}
	return sums, len(c.limits) > 0
}
