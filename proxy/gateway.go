package proxy

import (
	"net/netip"

	"spillway/proxy/answer"
	"spillway/proxy/head"
	"spillway/proxy/hop"
	"spillway/proxy/http1"
	"spillway/proxy/http1/codec"
	"spillway/proxy/route"
	"spillway/proxy/sock"
	"spillway/proxy/upstream"
)

// gatewayRouter hands the requests of other datacenters to this one. It never sends one across again: the server that it stands for
// chooses among the endpoints of the own datacenter alone.
type gatewayRouter Proxy

// Route finds the service by the hop that brought the request here; a trusted peer that records none, such as a check, names it by Host.
func (r *gatewayRouter) Route(q *codec.Request, peer *http1.Peer) (*upstream.Service, *answer.Error) {
	p := (*Proxy)(r)
	if !peer.Trusted {
		p.tools.Metrics.InboundRefused("untrusted")
		return nil, http1.ErrClose
	}
	v := p.table.View()
	if v == nil {
		return nil, notReady
	}
	if q.Count(head.SpillwayHop) == 1 {
		record, _ := q.Get(head.SpillwayHop)
		if chain, fault := hop.ParseRecord(record); fault == hop.None && len(chain.Hops) > 0 {
			return p.behind(v, &chain)
		}
	}
	m := route.ByHost(v.Snapshot, q.Bytes(q.Authority))
	if m == nil {
		return nil, &answer.Error{Code: answer.NoRoute, Hint: "gateway: no service has the host " + printable(q.Bytes(q.Authority))}
	}
	return v.Service(m.Name), nil
}

// behind is the service that the latest hop of a chain was for.
func (p *Proxy) behind(v *upstream.View, chain *hop.Chain) (*upstream.Service, *answer.Error) {
	name, datacenter := chain.Last()
	if string(datacenter) != p.cfg.Hop.Datacenter {
		return nil, &answer.Error{Code: answer.NoRoute, Hint: "gateway of " + p.cfg.Hop.Datacenter + ": a request to " + printable(datacenter) + " does not belong here"}
	}
	if svc := v.Service(string(name)); svc != nil {
		return svc, nil
	}
	return nil, &answer.Error{Code: answer.NoRoute, Hint: "gateway: there is no service " + printable(name)}
}

// gatewayTCP serves a connection that begins with a PROXY header: its hop record says for which service it is.
func (p *Proxy) gatewayTCP(c *sock.Conn, peer http1.Peer, first []byte) {
	why := "untrusted"
	if peer.Trusted {
		why = p.gatewayRelay(c, peer.Remote, first)
	}
	if why != "" {
		p.tools.Metrics.InboundRefused(why)
		c.Close()
	}
}

// gatewayRelay serves the connection, or says why not.
func (p *Proxy) gatewayRelay(c *sock.Conn, remote netip.AddrPort, first []byte) (why string) {
	h, rest, err := p.proxyHeader(c, first)
	if err != nil {
		return "bad_target"
	}
	if p.goesRound(h) {
		return "loop"
	}
	v := p.table.View()
	chain, fault := hop.ParseRecord([]byte(h.Hop))
	if v == nil || h.Hops != 1 || fault != hop.None {
		return "no_target"
	}
	svc, refusal := p.behind(v, &chain)
	if refusal != nil {
		return "foreign_target"
	}
	if h.Source.IsValid() {
		remote = h.Source
	}
	p.tcpGate.Serve(c, remote, svc, rest, chain)
	return ""
}
