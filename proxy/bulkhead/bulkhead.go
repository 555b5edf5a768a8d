// Package bulkhead bounds what one cluster may hold: connections, pending requests, requests and retries.
//
// Its job: exact counters over the whole process, one atomic operation for each, and the line that says which limit was hit.
// Not its job: waiting for room, knowing which clusters there are, answering the caller.
// It is pure and starts no goroutine. Names in a hint are cut at NameMax bytes.
package bulkhead

import (
	"strconv"
	"sync/atomic"

	"spillway/discovery"
)

// NameMax bounds each name in a hint, in bytes: RFC 1035 names are at most 253 long, and a hint is one readable line.
const NameMax = 128

// Limit is one bound. The zero value refuses everything until Set. Safe for concurrent use, no allocation.
type Limit struct {
	held    atomic.Int64 // 0 <= held; held <= max but for a max lowered later
	max     atomic.Int64
	refused atomic.Uint64
	_       [40]byte // a cache line of its own: the limits of a cluster are taken by different cores
}

// Set makes max the bound. Who holds more than a lowered bound keeps it; there is no room until held falls below.
func (l *Limit) Set(max int) { l.max.Store(int64(max)) }

// TryAcquire takes one place; false, counted as refused, when there is none. A place taken must be released once.
func (l *Limit) TryAcquire() bool {
	for {
		held := l.held.Load()
		if held >= l.max.Load() {
			l.refused.Add(1)
			return false
		}
		if l.held.CompareAndSwap(held, held+1) {
			return true
		}
	}
}

// Release gives a place back. It panics when there is none to give: a place would be handed out twice from then on.
func (l *Limit) Release() {
	if l.held.Add(-1) < 0 {
		panic("bulkhead: release of a place that was not taken")
	}
}

// Held is the number of places taken.
func (l *Limit) Held() int64 { return l.held.Load() }

// Max is the bound.
func (l *Limit) Max() int64 { return l.max.Load() }

// Refused counts the places that were asked for in vain.
func (l *Limit) Refused() uint64 { return l.refused.Load() }

// Cluster holds the limits of one cluster.
type Cluster struct{ Connections, Pending, Requests, Retries Limit }

// Configure sets all four bounds; what is held stays.
func (c *Cluster) Configure(l discovery.BulkheadLimits) {
	c.Connections.Set(l.Connections)
	c.Pending.Set(l.Pending)
	c.Requests.Set(l.Requests)
	c.Retries.Set(l.Retries)
}

// Hint is the line that tells a caller which limit was hit, its value and the key to change:
// "pay@dc2 64/64 connections (policy.bulkhead.cross_datacenter.connections)". what is the limit's key: connections, pending, requests or retries.
func Hint(service, datacenter string, l *Limit, what string, cross bool) string {
	which := "local"
	if cross {
		which = "cross_datacenter"
	}
	most := l.Max()
	held := max(l.Held(), most) // it was full when it refused; it may have room again by now
	return cut(service) + "@" + cut(datacenter) + " " + strconv.FormatInt(held, 10) + "/" + strconv.FormatInt(most, 10) +
		" " + what + " (policy.bulkhead." + which + "." + what + ")"
}

func cut(name string) string {
	if len(name) > NameMax {
		return name[:NameMax]
	}
	return name
}
