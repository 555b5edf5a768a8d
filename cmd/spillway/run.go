package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"spillway/config"
	"spillway/discovery"
	"spillway/discovery/file"
	"spillway/proxy"
	"spillway/proxy/hop"
	"spillway/proxy/http1"
	"spillway/proxy/http1/codec"
	"spillway/proxy/locality"
	"spillway/telemetry/accesslog"
	"spillway/telemetry/admin"
	"spillway/telemetry/metric"
)

// sidecar is one running sidecar: the proxy, its sources and what it shows of itself.
type sidecar struct {
	cfg     *config.Config
	log     *slog.Logger
	metrics *metric.Metrics
	access  *accesslog.Logger
	proxy   *proxy.Proxy
	drain   chan struct{} // closed when somebody asks for a drain
	once    sync.Once
	servers []*http.Server

	mu   sync.Mutex // serialises publish
	snap *discovery.Snapshot
}

// runSidecar runs until it is told to end. It returns the exit code: 0 after a drain, 1 after a failure or a second signal.
func runSidecar(ctx context.Context, cfg *config.Config, stderr io.Writer) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	s := &sidecar{cfg: cfg, log: logger(cfg, stderr), metrics: metric.New(version), drain: make(chan struct{})}
	setThreads(cfg.Node.Threads)
	if err := s.start(ctx); err != nil {
		s.log.Error("could not start", "error", err.Error())
		s.stop()
		return 1
	}
	defer s.stop()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer func() { signal.Stop(hangups); close(hangups) }()
	go s.reopen(hangups)
	select {
	case sig := <-signals:
		s.log.Info("told to end", "signal", sig.String())
	case <-s.drain:
		s.log.Info("told to drain")
	case <-ctx.Done():
	}
	draining, cancel := context.WithCancel(context.Background())
	defer cancel()
	code := make(chan int, 1)
	go func() {
		s.proxy.Drain(draining)
		code <- 0
	}()
	select {
	case c := <-code:
		return c
	case sig := <-signals:
		s.log.Warn("told again: ending at once", "signal", sig.String())
		return 1
	}
}

// reopen opens the access log again at each SIGHUP: somebody has moved the file away.
func (s *sidecar) reopen(hangups <-chan os.Signal) {
	for range hangups {
		if err := s.access.Reopen(); err != nil {
			s.log.Warn("access log", "error", err.Error())
			continue
		}
		s.log.Info("access log opened again")
	}
}

func logger(cfg *config.Config, w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{}
	switch cfg.Log.Level {
	case "debug":
		o.Level = slog.LevelDebug
	case "warn":
		o.Level = slog.LevelWarn
	case "error":
		o.Level = slog.LevelError
	}
	if cfg.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// threadsDefault is how many threads a sidecar takes at most when it is not told: it runs beside a service, not instead of it.
const threadsDefault = 2

// setThreads bounds the threads that run at a time. The runtime's own value follows the CPU quota of the cgroup.
func setThreads(n int) {
	if n == 0 {
		n = min(runtime.GOMAXPROCS(0), threadsDefault)
	}
	runtime.GOMAXPROCS(n)
}

func (s *sidecar) start(ctx context.Context) error {
	setMemoryLimit(s.log)
	access, err := accesslog.Open(s.cfg.AccessLog.Path, s.metrics.AccessLogDropped)
	if err != nil {
		return fmt.Errorf("telemetry.access_log.path: %w", err)
	}
	s.access = access
	s.proxy, err = proxy.New(proxyConfig(s.cfg), proxy.Tools{Log: s.log, Metrics: s.metrics, Access: access})
	if err != nil {
		return err
	}
	if err := s.openPages(); err != nil {
		return err
	}
	s.watch(ctx)
	s.proxy.Start()
	return nil
}

// watch starts the sources. Without a file the configuration's own services are the snapshot.
func (s *sidecar) watch(ctx context.Context) {
	if len(s.cfg.Files) == 0 {
		s.publish(nil)
		return
	}
	w := file.New(s.cfg.Files, s.cfg.Policy, s.log, s.metrics.DiscoveryRejected, s.publish)
	w.Beside("the configuration", s.cfg.Services)
	for _, f := range w.Load() {
		s.log.Error("discovery: file refused", "fault", f.String())
	}
	go w.Run(ctx)
}

// publish makes the next snapshot of what the files say and what the configuration says.
func (s *sidecar) publish(found []discovery.Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, kept, changed := discovery.Build(s.snap, append(append([]discovery.Service(nil), s.cfg.Services...), found...))
	if !changed {
		return
	}
	for _, name := range kept {
		s.log.Warn("discovery: the list became empty, its old endpoints are kept", "service", name)
	}
	for name, svc := range next.Services {
		n := 0
		if svc.Kept {
			n = len(svc.Endpoints)
		}
		s.metrics.DiscoveryKept(name, n)
	}
	s.snap = next
	s.proxy.Apply(next)
	s.metrics.SnapshotVersion(next.Version)
	s.log.Info("discovery: snapshot", "version", next.Version, "services", len(next.Services))
	s.warnTrust(next)
}

// warnTrust says that endpoints stand in other datacenters while no peer would be trusted.
func (s *sidecar) warnTrust(snap *discovery.Snapshot) {
	all := make([]discovery.Service, 0, len(snap.Services))
	for _, svc := range snap.Services {
		all = append(all, *svc)
	}
	if untrusting(s.cfg, all) {
		s.log.Warn("there are endpoints in other datacenters and no peer would be trusted: inbound serves nobody", "key", "hop.trusted_networks")
	}
}

func proxyConfig(c *config.Config) proxy.Config {
	out := proxy.Config{
		Place:       locality.Place{Home: c.Node.Locality, Level: c.Node.Level, Levels: c.Policy.Locality.Tiers},
		Gateways:    map[string][]netip.AddrPort{},
		Gateway:     c.Gateway.Listen,
		Outbound:    c.Outbound.Listen,
		Listed:      c.Outbound.Services,
		Inbound:     c.Inbound.Listen,
		Application: c.Inbound.Application, ConcurrencyMax: c.Inbound.ConcurrencyMax,
		Trusted: c.TrustedNetworks,
		Limits: http1.Limits{Head: codec.Limits{HeadMax: c.Limits.Head, FieldsMax: c.Limits.HeadFields},
			HeadTimeout: c.Limits.HeadTimeout, Idle: c.Policy.IdleAfter, HalfClose: c.Limits.HalfCloseTimeout},
		Hop:      hop.Guard{ID: c.Node.ID, Limit: c.Hop.Limit, DepthMax: c.Hop.DepthMax},
		Policy:   c.Policy,
		Announce: c.Drain.Announce, Drain: c.Drain.Timeout,
	}
	for _, d := range c.Datacenters {
		out.Place.Order = append(out.Place.Order, d.Name)
		if len(d.Gateways) > 0 {
			out.Gateways[d.Name] = d.Gateways
		}
	}
	switch c.RequestID {
	case "pass":
		out.IDs = http1.IDsPass
	case "off":
		out.IDs = http1.IDsOff
	}
	if dc := c.Node.Locality.Datacenter(c.Node.Level); dc != discovery.UnknownDatacenter {
		out.Hop.Datacenter = dc
	}
	for _, p := range c.Outbound.Ports {
		out.Ports = append(out.Ports, proxy.Port{Listen: p.Listen, Service: p.Service, Protocol: p.Protocol})
	}
	for _, p := range c.Inbound.Ports {
		out.InboundPorts = append(out.InboundPorts, proxy.InboundPort{Port: p.Port, Protocol: p.Protocol})
	}
	return out
}

// openPages opens the admin, metrics and readiness listeners and the control socket.
func (s *sidecar) openPages() error {
	pages := []struct {
		name  string
		addrs []netip.AddrPort
		h     func(bound []netip.AddrPort) http.Handler
	}{
		{"admin.listen", s.cfg.Admin.Listen, func(b []netip.AddrPort) http.Handler { return admin.Admin(view{s.proxy}, s.cfg.RedactedYAML, b) }},
		{"metrics.listen", s.cfg.Metrics.Listen, func([]netip.AddrPort) http.Handler { return s.metrics.Handler() }},
		{"ready.listen", s.cfg.Ready.Listen, func([]netip.AddrPort) http.Handler { return admin.Ready(s.proxy.Ready) }},
	}
	for _, p := range pages {
		var open []net.Listener
		var bound []netip.AddrPort
		for _, a := range p.addrs {
			l, err := net.Listen("tcp", a.String())
			if err != nil {
				return fmt.Errorf("%s: listen on %s: %w", p.name, a, err)
			}
			open = append(open, l)
			bound = append(bound, l.Addr().(*net.TCPAddr).AddrPort())
			s.log.Info("listening", "listener", p.name, "address", l.Addr().String())
		}
		s.page(p.h(bound), open...)
	}
	return s.openSocket()
}

func (s *sidecar) page(h http.Handler, listeners ...net.Listener) {
	srv := admin.Server(h)
	s.servers = append(s.servers, srv)
	for _, l := range listeners {
		go func() {
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				s.log.Error("page ended", "address", l.Addr().String(), "error", err.Error())
			}
		}()
	}
}

// openSocket opens the control socket. Where the default path cannot be used, because the sidecar does not run as root, it goes on
// without one and says so; a path that was asked for must work.
func (s *sidecar) openSocket() error {
	path := s.cfg.Admin.Socket
	if path == "" {
		return nil
	}
	l, err := admin.ListenSocket(path)
	if err != nil {
		if s.cfg.Admin.SocketSet {
			return fmt.Errorf("admin.socket: %w", err)
		}
		s.log.Warn("no control socket", "path", path, "error", err.Error())
		return nil
	}
	s.page(admin.Socket(func() { s.once.Do(func() { close(s.drain) }) }), l)
	return nil
}

// stopWait bounds how long pages may finish what they are answering.
const stopWait = time.Second

func (s *sidecar) stop() {
	if s.proxy != nil {
		s.proxy.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	for _, srv := range s.servers {
		_ = srv.Shutdown(ctx)
	}
	if err := s.access.Close(); err != nil {
		s.log.Warn("access log", "error", err.Error())
	}
}

// view shows the proxy on the admin pages.
type view struct{ p *proxy.Proxy }

// Services implements admin.View.
func (v view) Services() any { return v.p.Services() }

// Explain implements admin.View.
func (v view) Explain(q admin.ExplainQuery) (any, []string, error) {
	r, err := v.p.Explain(q.Service, q.Host)
	if err != nil {
		return nil, nil, err
	}
	return r, r.Lines(), nil
}
