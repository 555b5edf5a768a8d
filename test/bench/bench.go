//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The ports of the bench, on a loopback address of its own, so that two runs do not meet. The endpoint answers on all addresses with
// a free port, so that every service has addresses of its own.
const (
	spillwayPort = 15001
	metricsPort  = 15020
	haproxyPort  = 15002
	nginxPort    = 15003
)

// services and endpoints are the size of the bench's configuration; the load goes to the first service.
const (
	services  = 50
	endpoints = 4
)

// startMax bounds the wait for a process to serve.
const startMax = 15 * time.Second

// proxyCPU is where proxies run, restCPU where the load and the endpoint do.
const (
	proxyCPU = 0
	restCPU  = 1
)

var errTooMany = errors.New("a request of the fast path allocates too much")

// proxy is one that is measured.
type proxy struct {
	*process
	addr netip.AddrPort
}

type bench struct {
	plan      plan
	dir       string
	processes processes
	proxies   []*proxy // the sidecar first
	ip        netip.Addr
	endpoint  uint16 // port
}

func (b *bench) at(port uint16) netip.AddrPort { return netip.AddrPortFrom(b.ip, port) }

// freePort is a port that nobody uses on any address.
func freePort() (uint16, error) {
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String()).Port(), nil
}

// start starts the endpoint and every proxy there is.
func (b *bench) start() error {
	binary, err := b.binaryPath()
	if err != nil {
		return err
	}
	b.ip = netip.AddrFrom4([4]byte{127, byte(16 + os.Getpid()%224), byte(os.Getpid() >> 8), 1})
	if b.endpoint, err = freePort(); err != nil {
		return err
	}
	if _, err := b.launch(restCPU, "endpoint", b.at(b.endpoint), self(), "endpoint", fmt.Sprint(b.endpoint)); err != nil {
		return err
	}
	files := map[string]string{"spillway.yaml": b.spillwayConfig(), "haproxy.cfg": b.haproxyConfig(), "nginx.conf": b.nginxConfig()}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	config := func(name string) string { return filepath.Join(b.dir, name) }
	commands := []struct {
		name string
		port uint16
		args []string
	}{
		{"spillway", spillwayPort, []string{binary, "run", "-c", config("spillway.yaml")}},
		{"haproxy", haproxyPort, []string{"haproxy", "-db", "-f", config("haproxy.cfg")}},
		{"nginx", nginxPort, []string{"nginx", "-c", config("nginx.conf"), "-p", b.dir, "-e", config("nginx.log")}},
	}
	for _, c := range commands {
		if !exists(c.args[0]) {
			fmt.Printf("%s is not installed: left out\n", c.name)
			continue
		}
		p, err := b.launch(proxyCPU, c.name, b.at(c.port), c.args...)
		if err != nil {
			return err
		}
		b.proxies = append(b.proxies, &proxy{process: p, addr: b.at(c.port)})
	}
	return nil
}

// launch starts a process and waits until it accepts connections.
func (b *bench) launch(cpu int, name string, addr netip.AddrPort, args ...string) (*process, error) {
	if c, err := net.Dial("tcp4", addr.String()); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("%s: somebody else listens on %v", name, addr)
	}
	p, err := b.processes.startOn(cpu, name, command(args[0], args[1:]...))
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(startMax); ; {
		if c, err := net.Dial("tcp4", addr.String()); err == nil {
			return p, c.Close()
		}
		if err := p.alive(); err != nil {
			return nil, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%s does not listen on %v", name, addr)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// session is a load in a process of its own, with its connections open.
type session struct {
	*process
	in  io.WriteCloser
	out *bufio.Reader
}

// open starts a load and waits until its connections are warm.
func (b *bench) open(o order) (*session, error) {
	arg, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := command(self(), "load", string(arg))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p, err := b.processes.startOn(restCPU, "load", cmd)
	if err != nil {
		return nil, err
	}
	s := &session{process: p, in: in, out: bufio.NewReader(out)}
	if line, err := s.out.ReadString('\n'); err != nil || line != "ready\n" {
		return nil, s.broken()
	}
	return s, nil
}

// run lets the load carry its order out once.
func (s *session) run() (figures, error) {
	var f figures
	if _, err := fmt.Fprintln(s.in); err != nil {
		return f, s.broken()
	}
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		return f, s.broken()
	}
	if err := json.Unmarshal(line, &f); err != nil {
		return f, err
	}
	if f.Failed > 0 {
		return f, fmt.Errorf("%d of %d answers were not 200", f.Failed, f.Done)
	}
	return f, nil
}

// close ends the load and its connections.
func (s *session) close() {
	_ = s.in.Close()
	<-s.done
}

func (s *session) broken() error {
	<-s.done
	return fmt.Errorf("the load failed: %s", s.errs.Bytes())
}

// round is one measured stretch of one proxy.
type round struct {
	perRequest time.Duration // CPU of the proxy
	rate       float64
	p50        time.Duration
}

func (b *bench) round(p *proxy, j job) (round, error) {
	load, err := b.open(order{Addr: p.addr, Host: "service-0", Path: j.path, Connections: connections, Rate: j.rate, Span: b.plan.span})
	if err != nil {
		return round{}, fmt.Errorf("%s: %w", p.name, err)
	}
	defer load.close()
	before, err := p.cpu()
	if err != nil {
		return round{}, err
	}
	f, err := load.run()
	if err != nil {
		return round{}, fmt.Errorf("%s: %w", p.name, err)
	}
	after, err := p.cpu()
	if err != nil {
		return round{}, err
	}
	return round{(after - before) / time.Duration(max(f.Done, 1)), float64(f.Done) / f.Elapsed.Seconds(), f.P50}, nil
}

// compare measures one job with every proxy in turns and prints the medians beside HAProxy's and nginx's.
func (b *bench) compare(j job) error {
	all := make([][]round, len(b.proxies))
	for n := range b.plan.rounds + 1 {
		for i, p := range b.proxies {
			r, err := b.round(p, j)
			if err != nil {
				return err
			}
			if n > 0 { // the first round warms up
				all[i] = append(all[i], r)
			}
		}
	}
	fmt.Printf("\n%s, %d connections, %d rounds of %v in turns, medians\n", j.name, connections, b.plan.rounds, b.plan.span)
	fmt.Printf("%-10s %14s %14s %10s %10s", "", "CPU us/request", "lowest..most", "req/s", "p50 us")
	for _, p := range b.proxies[1:] {
		fmt.Printf(" %10s", "/ "+p.name)
	}
	fmt.Println()
	for i, p := range b.proxies {
		m := median(all[i])
		low, most := spread(all[i])
		fmt.Printf("%-10s %14.1f %14s %10.0f %10.0f", p.name, us(m.perRequest), fmt.Sprintf("%.1f..%.1f", us(low), us(most)), m.rate, us(m.p50))
		for k := range b.proxies[1:] {
			fmt.Printf(" %10.2f", us(m.perRequest)/us(median(all[k+1]).perRequest))
		}
		fmt.Println()
	}
	return nil
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// median is the round in the middle by CPU.
func median(all []round) round {
	s := slices.Clone(all)
	slices.SortFunc(s, func(a, b round) int { return int(a.perRequest - b.perRequest) })
	return s[len(s)/2]
}

func spread(all []round) (low, most time.Duration) {
	low, most = all[0].perRequest, all[0].perRequest
	for _, r := range all {
		low, most = min(low, r.perRequest), max(most, r.perRequest)
	}
	return low, most
}

// spillwayConfig has 50 services with four endpoints each, half of them in another datacenter, active checks and metrics.
func (b *bench) spillwayConfig() string {
	var y strings.Builder
	fmt.Fprintf(&y, `node: {id: bench, locality: {region: dc1, zone: dc1-a}}
outbound: {listen: "%s", capture: explicit, services: [service-0]}
inbound: {listen: "%s"}
admin: {listen: "%s", socket: %s/admin.sock}
metrics: {listen: "%s"}
ready: {listen: "%s"}
log: {level: warn}
datacenters: [{name: dc1}, {name: dc2}]
policy:
  health: {active: {path: /healthz}}
services:
`, b.at(spillwayPort), b.at(15006), b.at(15000), b.dir, b.at(metricsPort), b.at(15021))
	for s := range services {
		fmt.Fprintf(&y, "  - name: service-%d\n    endpoints:\n", s)
		for e := range endpoints {
			fmt.Fprintf(&y, "      - {address: \"127.1.%d.%d:%d\", locality: {region: dc%d, zone: dc%d-a}}\n", s, e+1, b.endpoint, e/2+1, e/2+1)
		}
	}
	return y.String()
}

// haproxyConfig is the fair counterpart: one thread, connections used again, checks, two servers to choose from.
func (b *bench) haproxyConfig() string {
	return fmt.Sprintf(`global
  nbthread 1
  maxconn 4000
defaults
  mode http
  timeout connect 1s
  timeout client 300s
  timeout server 15s
  http-reuse always
listen bench
  bind %s
  balance random(2)
  option httpchk GET /healthz
  server a 127.1.0.1:%d check inter 1s
  server b 127.1.0.2:%d check inter 1s
`, b.at(haproxyPort), b.endpoint, b.endpoint)
}

// nginxConfig has one worker without a master, and connections kept to the same two addresses.
func (b *bench) nginxConfig() string {
	return fmt.Sprintf(`worker_processes 1;
daemon off;
master_process off;
pid %s/nginx.pid;
error_log %s/nginx.log error;
events { worker_connections 4000; }
http {
  access_log off;
  keepalive_requests 1000000000;
  upstream bench { server 127.1.0.1:%d; server 127.1.0.2:%d; keepalive 128; keepalive_requests 1000000000; }
  client_body_temp_path %s; proxy_temp_path %s; fastcgi_temp_path %s; uwsgi_temp_path %s; scgi_temp_path %s;
  server {
    listen %s;
    location / { proxy_pass http://bench; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
`, b.dir, b.dir, b.endpoint, b.endpoint, b.dir, b.dir, b.dir, b.dir, b.dir, b.at(nginxPort))
}
