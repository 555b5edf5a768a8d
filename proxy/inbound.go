package proxy

import (
	"bytes"
	"errors"
	"net/netip"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"spillway/discovery"
	"spillway/proxy/answer"
	"spillway/proxy/head"
	"spillway/proxy/hop"
	"spillway/proxy/http1"
	"spillway/proxy/http1/codec"
	"spillway/proxy/listen/proxyproto"
	"spillway/proxy/sock"
	"spillway/proxy/upstream"
)

// applicationsMax bounds the local addresses that inbound delivers to: declared ports times addresses of this machine.
const applicationsMax = 256

// applications are the local applications that inbound has delivered to.
type applications struct {
	mu   sync.RWMutex
	byTo map[netip.AddrPort]*upstream.Service
}

// inboundRouter delivers to the local application that a trusted peer names.
type inboundRouter Proxy

// Route checks who asks and for what. A peer that may not ask is told nothing.
func (r *inboundRouter) Route(q *codec.Request, peer *http1.Peer) (*upstream.Service, *answer.Error) {
	p := (*Proxy)(r)
	if !peer.Trusted {
		p.tools.Metrics.InboundRefused("untrusted")
		return nil, http1.ErrClose
	}
	named, count := []byte(nil), 0
	for i := range q.Fields {
		if q.Fields[i].ID == head.SpillwayTarget {
			named = q.Bytes(q.Fields[i].Value)
			count++
		}
	}
	if count != 1 {
		p.tools.Metrics.InboundRefused("no_target")
		return nil, http1.ErrClose
	}
	target, err := parseTarget(named)
	if err != nil {
		p.tools.Metrics.InboundRefused("bad_target")
		return nil, http1.ErrClose
	}
	svc, why := p.application(target, peer.Local.Addr(), discovery.HTTP)
	if svc == nil {
		p.tools.Metrics.InboundRefused(why)
		return nil, http1.ErrClose
	}
	return svc, nil
}

// targetMax bounds the text of a target: an IPv6 address in brackets with a zone-free port.
const targetMax = 64

// parseTarget reads IP:PORT without allocating.
func parseTarget(b []byte) (netip.AddrPort, error) {
	if len(b) > targetMax {
		return netip.AddrPort{}, strconv.ErrRange
	}
	return parseAddrPort(b)
}

// application is the service in front of a local address. The target must be the address on which the peer reached us, so that
// inbound never becomes a way to other machines, and its port must be declared for the protocol.
func (p *Proxy) application(target netip.AddrPort, local netip.Addr, proto discovery.Protocol) (*upstream.Service, string) {
	if target.Addr() != local {
		return nil, "foreign_target"
	}
	declared := false
	for _, d := range p.cfg.InboundPorts {
		declared = declared || d.Port == target.Port() && (d.Protocol == discovery.Auto || d.Protocol == proto)
	}
	if !declared {
		return nil, "undeclared_port"
	}
	p.apps.mu.RLock()
	svc := p.apps.byTo[target]
	p.apps.mu.RUnlock()
	if svc != nil {
		return svc, ""
	}
	to := target
	if p.cfg.Application.IsValid() {
		to = p.cfg.Application
	}
	p.apps.mu.Lock()
	defer p.apps.mu.Unlock()
	if svc = p.apps.byTo[target]; svc != nil {
		return svc, ""
	}
	if len(p.apps.byTo) >= applicationsMax {
		return nil, "too_many_targets"
	}
	if p.apps.byTo == nil {
		p.apps.byTo = make(map[netip.AddrPort]*upstream.Service)
	}
	svc = p.table.Local("inbound:"+strconv.Itoa(int(target.Port())), to, localPolicy(&p.cfg.Policy))
	p.apps.byTo[target] = svc
	return svc, ""
}

// localConnections is the connections limit towards the local application: what bounds it is inbound.concurrency_max.
const localConnections = 1 << 20

// localPolicy is how inbound treats the application beside it: it has no other one to go to, so it judges nothing; times belong to the caller.
func localPolicy(global *discovery.Policy) *discovery.Policy {
	p := *global
	p.Timeout = 0
	p.Locality = discovery.LocalityPolicy{Spill: discovery.SpillHealth, Overprovisioning: 100, PanicThreshold: 100, Tiers: global.Locality.Tiers, TierEndpointsMin: 1}
	p.Health = discovery.HealthPolicy{}
	limits := discovery.BulkheadLimits{Connections: localConnections, Pending: localConnections, Requests: localConnections, Retries: localConnections}
	p.Bulkhead = discovery.BulkheadPolicy{Local: limits, CrossDatacenter: limits}
	p.Retry.On = discovery.OnResetBeforeResponse
	p.Retry.PerTry = 0
	return &p
}

// inboundTCP serves a connection whose first bytes are not HTTP: a trusted peer's TCP connection with the address it was for in front.
func (p *Proxy) inboundTCP(c *sock.Conn, peer http1.Peer, first []byte) {
	if !peer.Trusted {
		p.tools.Metrics.InboundRefused("untrusted")
		c.Close()
		return
	}
	h, rest, err := p.proxyHeader(c, first)
	if err != nil {
		p.tools.Metrics.InboundRefused("bad_target")
		c.Close()
		return
	}
	svc, why := p.application(h.Target, peer.Local.Addr(), discovery.TCP)
	if svc != nil && p.goesRound(h) {
		svc, why = nil, "loop"
	}
	if svc == nil {
		p.tools.Metrics.InboundRefused(why)
		c.Close()
		return
	}
	p.tcpIn.Serve(c, peer.Remote, svc, rest, hop.Chain{})
}

// goesRound tells whether a connection has passed this proxy already, or whether its chain is too deep. A record that does not count is
// dropped.
func (p *Proxy) goesRound(h proxyproto.Header) bool {
	chain, fault := hop.Chain{}, hop.None
	switch h.Hops {
	case 0:
		return false
	case 1:
		chain, fault = hop.ParseRecord([]byte(h.Hop))
	default:
		fault = hop.Duplicate
	}
	if fault != hop.None {
		p.tools.Metrics.RecordDropped(hopTLV, fault.String())
	}
	return chain.Passed(p.cfg.Hop.ID) || chain.Depth > p.cfg.Hop.DepthMax
}

// hopTLV is the name of the record of a TCP connection in metrics.
const hopTLV = "proxy_protocol"

// proxyHeader reads a PROXY v2 header that begins with first, and gives what came behind it.
func (p *Proxy) proxyHeader(c *sock.Conn, first []byte) (h proxyproto.Header, rest []byte, err error) {
	c.SetReadDeadline(time.Now().Add(p.cfg.Limits.HeadTimeout))
	for {
		h, n, err := proxyproto.Parse(first)
		if err != nil || n > 0 {
			return h, first[n:], err
		}
		if len(first) >= proxyproto.HeaderMax {
			return h, nil, errHeaderTooLong
		}
		b := make([]byte, proxyproto.HeaderMax)
		m, err := c.Read(b)
		if m == 0 {
			return h, nil, err
		}
		first = append(first, b[:m]...)
	}
}

var errHeaderTooLong = errors.New("the PROXY header is too long")

// parseAddrPort reads the text in place: netip keeps nothing of it unless there is an IPv6 zone, which is refused.
func parseAddrPort(b []byte) (netip.AddrPort, error) {
	if bytes.IndexByte(b, '%') >= 0 {
		return netip.AddrPort{}, strconv.ErrSyntax
	}
	return netip.ParseAddrPort(unsafe.String(unsafe.SliceData(b), len(b)))
}
