package http1

import (
	"fmt"

	"spillway/proxy/answer"
	"spillway/proxy/head"
	"spillway/proxy/hop"
)

// guard reads what the request carries of its call chain, and refuses one that has gone round or too deep. A trusted peer's record counts
// before what an application handed on in tracestate, which can only restrict the request. What does not count is dropped; the request
// goes on.
func (x *conn) guard() *answer.Error {
	var record, member []byte
	records, members := 0, 0
	for i := range x.req.Fields {
		switch f := &x.req.Fields[i]; f.ID {
		case head.SpillwayHop:
			record = x.req.Bytes(f.Value)
			records++
		case head.TraceState:
			value, n := hop.Find(x.req.Bytes(f.Value))
			if n > 0 {
				member = value
			}
			members += n
		}
	}
	if records == 0 && members == 0 {
		return nil
	}
	believed := x.s.peers() && x.peer.Trusted
	fault := hop.None
	switch {
	case records == 0:
	case !believed:
		fault = hop.Untrusted
	case records > 1:
		fault = hop.Duplicate
	default:
		x.ex.chain, fault = hop.ParseRecord(record)
	}
	if fault != hop.None {
		x.s.Dropped(head.SpillwayHop, fault)
	}
	if records == 0 || fault != hop.None {
		x.chainOf(member, members)
	}
	return x.tooFar()
}

// chainOf takes the chain from the members that stand in tracestate.
func (x *conn) chainOf(member []byte, members int) {
	fault := hop.None
	switch members {
	case 0:
	case 1:
		x.ex.chain, fault = hop.ParseMember(member)
	default:
		fault = hop.Duplicate
	}
	if fault != hop.None {
		x.s.Dropped(head.TraceState, fault)
	}
}

// tooFar refuses a request that this proxy has passed already without an application in between, or whose chain would become too deep.
func (x *conn) tooFar() *answer.Error {
	g, c := &x.s.Guard, &x.ex.chain
	switch {
	case x.s.peers() && !x.peer.Trusted:
		return nil // such a peer is not answered at all
	case c.Passed(g.ID):
		return &answer.Error{Code: answer.Loop, Hint: "the request has passed this proxy already (node.id: " + g.ID + "; every proxy has one of its own)"}
	case c.Depth > g.DepthMax, !x.s.peers() && g.TooDeep(c):
		return &answer.Error{Code: answer.Loop, Hint: fmt.Sprintf("the call chain is %d calls deep, %d are allowed (hop.depth_max)", c.Depth, g.DepthMax)}
	}
	return nil
}

// toSidecar adds the record for the sidecar of the chosen endpoint.
func (x *conn) toSidecar() {
	cluster := x.ex.pick.Endpoint.Cluster
	datacenter := ""
	if cluster.Hop {
		datacenter = cluster.Datacenter
	}
	b := append(x.extra, "x-spillway-hop: "...)
	if x.s.Gateway {
		b = x.ex.chain.AppendPassed(b, x.s.Guard.ID)
	} else {
		b = x.ex.chain.AppendRecord(b, x.s.Guard.ID, x.ex.svc.Name, datacenter)
	}
	x.extra = append(b, "\r\n"...)
}

// toApplication adds the tracestate for the local application: the chain in front, then the members of others, in their order, in one line.
func (x *conn) toApplication() {
	b := append(x.extra, "tracestate: "...)
	chain := x.ex.chain
	if !x.s.Inbound {
		chain.Depth++ // the service calls itself
	}
	b = chain.AppendMember(b)
	n := 1
	for i := range x.req.Fields {
		if f := &x.req.Fields[i]; f.ID == head.TraceState && !f.Hop {
			b, n = hop.AppendOthers(b, x.req.Bytes(f.Value), n)
		}
	}
	x.extra = append(b, "\r\n"...)
}
