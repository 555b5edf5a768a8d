package proxy

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"spillway/discovery"
	"spillway/proxy/answer"
	"spillway/proxy/bulkhead"
	"spillway/proxy/head"
	"spillway/proxy/health/check"
	"spillway/proxy/hop"
	"spillway/proxy/http1"
	"spillway/proxy/http1/codec"
	"spillway/proxy/listen"
	"spillway/proxy/locality"
	"spillway/proxy/route"
	"spillway/proxy/sock"
	"spillway/proxy/tcp"
	"spillway/proxy/upstream"
	"spillway/telemetry/accesslog"
	"spillway/telemetry/metric"
)

// Config is what a proxy is made from. Durations are positive.
type Config struct {
	Place           locality.Place
	Outbound        []netip.AddrPort
	Ports           []Port
	Listed          []string // services that are checked also when nobody calls them
	Inbound         []netip.AddrPort
	InboundPorts    []InboundPort
	Gateway         []netip.AddrPort
	Gateways        map[string][]netip.AddrPort // the way into other datacenters, by name
	Application     netip.AddrPort              // where inbound delivers; zero: the address that was called
	ConcurrencyMax  int                         // inbound requests at a time; 0: unlimited
	Trusted         []netip.Prefix
	Hop             hop.Guard
	IDs             http1.IDs
	Limits          http1.Limits
	Policy          discovery.Policy // the global one
	Announce, Drain time.Duration
}

// Port is an outbound listener of its own for one service.
type Port struct {
	Listen   []netip.AddrPort
	Service  string
	Protocol discovery.Protocol
}

// InboundPort is a port of the local application that peers may name.
type InboundPort struct {
	Port     uint16
	Protocol discovery.Protocol
}

// Tools are what a proxy reports to.
type Tools struct {
	Log     *slog.Logger
	Metrics *metric.Metrics
	Access  *accesslog.Logger // nil: off
}

// Proxy is one running proxy.
type Proxy struct {
	cfg    Config
	tools  Tools
	bufs   sock.Bufs
	watch  *sock.Watcher
	table  *upstream.Table
	checks *check.Runner
	cancel context.CancelFunc
	wg     sync.WaitGroup

	inbound  *http1.Server
	servers  []*http1.Server // all HTTP servers, inbound among them
	tcpIn    *tcp.Server
	tcpOut   *tcp.Server
	tcpGate  *tcp.Server
	inL      []*listen.Listener
	outL     []*listen.Listener
	apps     applications
	draining bool
	mu       sync.Mutex // guards draining
}

// fromApplication is what an application must not say to other proxies, whoever sends it.
var fromApplication = head.SetOf(head.SpillwayHop, head.SpillwayLoad, head.SpillwayTarget, head.SpillwayReason)

// New opens all listeners, or none. Nothing is served before Start.
func New(cfg Config, tools Tools) (*Proxy, error) {
	start := time.Now()
	clock := func() int64 { return int64(time.Since(start)) + 1 }
	p := &Proxy{cfg: cfg, tools: tools}
	p.table = upstream.New(cfg.Place, cfg.Listed, clock, tools.Metrics)
	p.checks = check.New(p.table, p.table, clock, cfg.Policy.Health.ChecksPerSecMax, tools.Metrics.ChecksStretched, tools.Log)
	p.table.SetChecker(p.checks)
	p.tcpIn = &tcp.Server{Table: p.table, HalfClose: cfg.Limits.HalfClose, Log: tools.Log}
	p.tcpOut = &tcp.Server{Table: p.table, HalfClose: cfg.Limits.HalfClose, Log: tools.Log, Guard: cfg.Hop}
	p.tcpGate = &tcp.Server{Table: p.table, HalfClose: cfg.Limits.HalfClose, Log: tools.Log, Guard: cfg.Hop, Gateway: true}
	var err error
	if p.watch, err = sock.NewWatcher(); err != nil {
		return nil, err
	}
	if err := p.openAll(); err != nil {
		p.watch.Close()
		for _, l := range append(p.inL, p.outL...) {
			l.Close()
		}
		return nil, err
	}
	own := ownAddresses{}
	for _, l := range append(append([]*listen.Listener(nil), p.inL...), p.outL...) {
		own.bound = append(own.bound, l.Addrs()...)
	}
	p.table.SetSelf(upstream.Self{Listens: own.has, Gateways: cfg.Gateways, Application: cfg.Application})
	return p, nil
}

// openAll opens the listeners in the order of the configuration.
func (p *Proxy) openAll() error {
	if len(p.cfg.Outbound) > 0 {
		s := p.server("outbound", byHost{p.table})
		if err := p.add(&p.outL, "outbound.listen", p.cfg.Outbound, p.serveHTTP(s)); err != nil {
			return err
		}
	}
	for _, port := range p.cfg.Ports {
		serve := p.serveTCP(port.Service)
		if port.Protocol == discovery.HTTP {
			serve = p.serveHTTP(p.server("outbound", fixed{p.table, port.Service}))
		}
		if err := p.add(&p.outL, "outbound.ports", port.Listen, serve); err != nil {
			return err
		}
	}
	if len(p.cfg.Inbound) > 0 {
		p.inbound = p.server("inbound", (*inboundRouter)(p))
		p.inbound.Inbound = true
		p.inbound.Other = p.inboundTCP
		p.inbound.Drop = fromApplication | head.SetOf(head.SpillwayOther)
		if p.cfg.ConcurrencyMax > 0 {
			p.inbound.Max = new(bulkhead.Limit)
			p.inbound.Max.Set(p.cfg.ConcurrencyMax)
		}
		if err := p.add(&p.inL, "inbound.listen", p.cfg.Inbound, p.serveHTTP(p.inbound)); err != nil {
			return err
		}
	}
	if len(p.cfg.Gateway) > 0 {
		s := p.server("gateway", (*gatewayRouter)(p))
		s.Gateway = true
		s.Other = p.gatewayTCP
		s.Drop = fromApplication | head.SetOf(head.SpillwayOther)
		return p.add(&p.inL, "gateway.listen", p.cfg.Gateway, p.serveHTTP(s))
	}
	return nil
}

func (p *Proxy) server(name string, r http1.Router) *http1.Server {
	s := &http1.Server{Name: name, Router: r, Table: p.table, Limits: p.cfg.Limits, Bufs: &p.bufs, Log: p.tools.Access, Drop: fromApplication,
		Watcher: p.watch, IDs: p.cfg.IDs, Guard: p.cfg.Hop, Dropped: func(field head.ID, why hop.Fault) { p.tools.Metrics.RecordDropped(field.Name(), why.String()) }}
	p.servers = append(p.servers, s)
	return s
}

func (p *Proxy) add(to *[]*listen.Listener, name string, addrs []netip.AddrPort, serve listen.Serve) error {
	l, err := listen.Open(name, addrs, p.tools.Log)
	if err != nil {
		return err
	}
	l.Serve = serve
	p.tools.Metrics.Listener(name, l.Active)
	*to = append(*to, l)
	return nil
}

func (p *Proxy) serveHTTP(s *http1.Server) listen.Serve {
	return func(c *sock.Conn, remote, local netip.AddrPort) {
		s.Serve(c, http1.Peer{Remote: remote, Local: local, Trusted: (s.Inbound || s.Gateway) && p.trusted(remote.Addr())})
	}
}

func (p *Proxy) serveTCP(service string) listen.Serve {
	return func(c *sock.Conn, remote, _ netip.AddrPort) {
		var svc *upstream.Service
		if v := p.table.View(); v != nil {
			svc = v.Service(service)
		}
		if svc == nil {
			p.tools.Log.Warn("tcp: unknown service", "service", service)
			c.Close()
			return
		}
		p.tcpOut.Serve(c, remote, svc, nil, hop.Chain{})
	}
}

func (p *Proxy) trusted(a netip.Addr) bool {
	for _, n := range p.cfg.Trusted {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// Start serves. It returns at once.
func (p *Proxy) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.wg.Add(2)
	go func() { defer p.wg.Done(); p.table.Run(ctx) }()
	go func() { defer p.wg.Done(); p.checks.Run(ctx) }()
	for _, l := range append(append([]*listen.Listener(nil), p.inL...), p.outL...) {
		l.Run()
		for _, a := range l.Addrs() {
			p.tools.Log.Info("listening", "listener", l.Name(), "address", a.String())
		}
	}
}

// Apply publishes a snapshot: requests that begin from now on see it.
func (p *Proxy) Apply(s *discovery.Snapshot) { p.table.Apply(s) }

// byHost routes the requests of an application in explicit capture.
type byHost struct{ table *upstream.Table }

// Route finds the service by Host alone.
func (r byHost) Route(q *codec.Request, _ *http1.Peer) (*upstream.Service, *answer.Error) {
	v := r.table.View()
	if v == nil {
		return nil, notReady
	}
	m := route.ByHost(v.Snapshot, q.Bytes(q.Authority))
	if m == nil {
		return nil, &answer.Error{Code: answer.NoRoute, Hint: "no service has the host " + printable(q.Bytes(q.Authority))}
	}
	return v.Service(m.Name), nil
}

// fixed routes everything to one service.
type fixed struct {
	table   *upstream.Table
	service string
}

// Route gives the service of the listener.
func (r fixed) Route(*codec.Request, *http1.Peer) (*upstream.Service, *answer.Error) {
	v := r.table.View()
	if v == nil {
		return nil, notReady
	}
	if s := v.Service(r.service); s != nil {
		return s, nil
	}
	return nil, &answer.Error{Code: answer.NoRoute, Hint: "there is no service " + r.service}
}

var notReady = &answer.Error{Code: answer.NotReady, Hint: "no list of services has been read yet"}

// hostShownMax bounds what a hint shows of a host that a client sent, in bytes.
const hostShownMax = 128

// printable makes bytes of a client fit to stand in a line of text.
func printable(b []byte) string {
	b = append([]byte(nil), b[:min(len(b), hostShownMax)]...)
	for i, c := range b {
		if c < 0x21 || c > 0x7e {
			b[i] = '?'
		}
	}
	return `"` + string(b) + `"`
}
