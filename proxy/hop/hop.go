// Package hop is the loop guard: what a request carries of its call chain, and what follows from that for the next hop.
//
// Its job: reading and writing the record that proxies hand each other (x-spillway-hop) and the member that stands in tracestate while a
// request passes through applications; counting hops, depth and proxies passed.
// Not its job: whom to believe (proxy), which endpoints are left when a chain may not hop any more (proxy/upstream), any field of a
// request but these two.
// It is pure, starts no goroutine and allocates nothing. Bounds: RecordMax and MemberMax bytes, however long the chain is.
package hop

import "bytes"

// Bounds of the texts, in bytes. What is longer when it comes in is dropped; what would be longer when it goes out loses its oldest hops.
const (
	RecordMax = 512
	MemberMax = 256
	nameMax   = 253 // of a service, a datacenter or a proxy, as in the configuration
)

// Fault is why a record does not count.
type Fault uint8

// The closed list of faults; String gives the form that stands in the metric.
const (
	None Fault = iota
	Malformed
	Oversized
	Duplicate
	Untrusted // not for this package to find: the peer may not say such things
	FaultCount
)

var faults = [FaultCount]string{"", "malformed", "oversized", "duplicate", "untrusted"}

// String is the fault as metrics show it; empty for None.
func (f Fault) String() string { return faults[f] }

// Chain is the call chain of a request as far as it has come. The zero value is one that begins here. The slices alias what they were
// read from and are well-formed: lists of names.
type Chain struct {
	Hops   []byte // service@datacenter it went to, oldest first, separated by ',' or ';'
	IDs    []byte // proxies passed without an application in between, separated by ','
	Depth  int    // outbound passes
	Epoch  uint64 // of the cell table of the proxy that sent it; 0 when it has none
	Forced bool   // the hop is exported as a pair of spans of its own
}

// Count is how many hops for the service the chain holds.
func (c *Chain) Count(service string) int {
	n := 0
	for list := c.Hops; len(list) > 0; {
		var one []byte
		one, list = next(list)
		if at := bytes.IndexByte(one, '@'); at == len(service) && string(one[:at]) == service {
			n++
		}
	}
	return n
}

// Last is the latest hop of the chain; empty where there is none.
func (c *Chain) Last() (service, datacenter []byte) {
	one := c.Hops[bytes.LastIndexAny(c.Hops, ",;")+1:]
	at := bytes.IndexByte(one, '@')
	if at < 0 {
		return nil, nil
	}
	return one[:at], one[at+1:]
}

// Passed tells whether the proxy with the id stands among those that the request has passed since the last application.
func (c *Chain) Passed(id string) bool {
	for list := c.IDs; len(list) > 0; {
		var one []byte
		if one, list = next(list); string(one) == id {
			return true
		}
	}
	return false
}

// next cuts the first element off a list.
func next(list []byte) (one, rest []byte) {
	for i, b := range list {
		if b == ',' || b == ';' {
			return list[:i], list[i+1:]
		}
	}
	return list, nil
}

// Guard is what this proxy holds chains against.
type Guard struct {
	ID         string // of this proxy
	Datacenter string // where it stands; empty where that is not known: then nothing is a hop
	Limit      int    // hops of one service that a chain may make
	DepthMax   int    // outbound passes that a chain may make
}

// HomeOnly tells whether a request of the chain has to be served in the own datacenter: it has made all the hops for the service that it
// may make.
func (g *Guard) HomeOnly(c *Chain, service string) bool {
	return g.Datacenter != "" && c.Count(service) >= g.Limit
}

// TooDeep tells whether one outbound pass more would make the chain deeper than it may be. That holds without any hop too: services of
// one datacenter that call each other in a ring end here.
func (g *Guard) TooDeep(c *Chain) bool { return c.Depth >= g.DepthMax }
