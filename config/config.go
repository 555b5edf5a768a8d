package config

import (
	"net/netip"
	"time"

	"spillway/discovery"
)

// Config is a whole configuration, defaults filled in. Paths are absolute.
type Config struct {
	Node            Node
	Outbound        Outbound
	Inbound         Inbound
	Admin           Admin
	Metrics         Page
	Ready           Page
	Log             Log
	Datacenters     []Datacenter        // in the order of spill
	Files           []string            // discovery files
	Services        []discovery.Service // policies resolved
	Policy          discovery.Policy
	Limits          Limits
	Drain           Drain
	Gateway         Page
	Hop             Hop
	TrustedNetworks []netip.Prefix
	AccessLog       AccessLog
	RequestID       string // generate, pass, off

	secrets map[string]Secret // values that came from references, by path of the key
}

// Node is what this proxy is and where it stands.
type Node struct {
	ID       string // default: the host name
	Service  string // what the local application serves; may be empty
	Locality discovery.Locality
	Level    discovery.Level
	Threads  int // 0: min(CPU quota, 2)
}

// Outbound is the listener that the local application calls, and the listeners that belong to one service each.
type Outbound struct {
	Listen   []netip.AddrPort // empty: no listener. A bare port means 127.0.0.1 and [::1]
	Capture  Capture
	Services []string // services that are kept warm and checked without having been called
	Ports    []OutPort
}

// Capture is how calls of the application reach the proxy.
type Capture uint8

// CaptureExplicit: applications call the listener and name the service by Host. CaptureNone: nobody said.
const (
	CaptureNone Capture = iota
	CaptureExplicit
)

// OutPort is a listener of one service.
type OutPort struct {
	Listen   []netip.AddrPort
	Service  string
	Protocol discovery.Protocol // HTTP or TCP
}

// Inbound is the listener that other proxies call.
type Inbound struct {
	Listen         []netip.AddrPort // empty: no listener
	Ports          []InPort
	Application    netip.AddrPort // where requests go; zero: the address that was called
	ConcurrencyMax int            // requests in flight; 0: no limit
}

// InPort is a port of the local application.
type InPort struct {
	Port     uint16
	Protocol discovery.Protocol
}

// Admin is the page for people, and the socket for what changes anything.
type Admin struct {
	Listen    []netip.AddrPort
	Socket    string // path of a unix socket; empty: none
	SocketSet bool   // the file names the socket itself
}

// Page is one HTTP listener; empty: none.
type Page struct{ Listen []netip.AddrPort }

// Log is how the process logs.
type Log struct {
	Level  string // debug, info, warn, error
	Format string // text, json
}

// Limits bounds what a client may take.
type Limits struct {
	Head             int // bytes of a head
	HeadFields       int
	HeadTimeout      time.Duration // from the first byte of a head, or the accept, to its end
	HalfCloseTimeout time.Duration // how long the other direction of a TCP connection lives on
}

// Datacenter is one datacenter and how to reach it.
type Datacenter struct {
	Name     string
	Gateways []netip.AddrPort // empty: its endpoints are called directly
}

// Hop bounds call chains.
type Hop struct {
	Limit    int // hops of one service
	DepthMax int // outbound passes
}

// Drain is how a process ends.
type Drain struct {
	Announce time.Duration // serving on after readiness said draining
	Timeout  time.Duration // from the signal to the cut of what is left
}

// AccessLog is where requests are logged; an empty path: nowhere.
type AccessLog struct {
	Path   string // stdout or a file
	Format string // json
}

// Default is the configuration of an empty file: every value is the documented default. The id, which defaults to the host name, is
// empty.
func Default() *Config {
	return &Config{
		Outbound: Outbound{Listen: loopback(15001)},
		Inbound:  Inbound{Listen: wildcard(15006)},
		Admin:    Admin{Listen: loopback(15000)[:1], Socket: "/run/spillway/admin.sock"},
		Metrics:  Page{Listen: wildcard(15020)},
		Ready:    Page{Listen: wildcard(15021)},
		Log:      Log{Level: "info", Format: "text"},
		Policy:   DefaultPolicy(),
		Limits:   Limits{Head: 64 << 10, HeadFields: 256, HeadTimeout: 10 * time.Second, HalfCloseTimeout: 5 * time.Minute},
		Hop:      Hop{Limit: 1, DepthMax: 32},
		Drain:    Drain{Announce: 5 * time.Second, Timeout: 30 * time.Second},
		AccessLog: AccessLog{
			Format: "json",
		},
		RequestID: "generate",
	}
}

// DefaultPolicy is the policy of a service when nothing says otherwise.
func DefaultPolicy() discovery.Policy {
	return discovery.Policy{
		Locality: discovery.LocalityPolicy{
			Spill: discovery.SpillHealth, Overprovisioning: 140, PanicThreshold: 50,
			Tiers: []discovery.TierLevel{discovery.TierZone, discovery.TierRegion}, TierEndpointsMin: 2,
		},
		Balance: discovery.P2C,
		Health: discovery.HealthPolicy{
			Active: discovery.ActiveCheck{Interval: time.Second, Timeout: time.Second, UnhealthyAfter: 2, HealthyAfter: 2, CrossDatacenterTime: 3},
			Passive: discovery.PassiveHealth{ConsecutiveFailures: 3, Window: 10 * time.Second, Ejection: 5 * time.Second,
				EjectionMax: 5 * time.Minute, MaxEjectedPercent: 50},
			ChecksPerSecMax: 200,
		},
		Bulkhead: discovery.BulkheadPolicy{
			Local:           discovery.BulkheadLimits{Connections: 1024, Pending: 1024, Requests: 4096, Retries: 64},
			CrossDatacenter: discovery.BulkheadLimits{Connections: 64, Pending: 128, Requests: 512, Retries: 32},
		},
		Retry: discovery.RetryPolicy{Attempts: 2, ResendMax: 5, CrossTier: discovery.CrossResend,
			On: discovery.OnResetBeforeResponse | discovery.OnGatewayError, Budget: 0.2},
		Timeout:   15 * time.Second,
		Connect:   discovery.ConnectTimeout{Local: time.Second, CrossDatacenter: 3 * time.Second},
		IdleAfter: 5 * time.Minute,
	}
}

// loopback is what a bare port means.
func loopback(port uint16) []netip.AddrPort {
	return []netip.AddrPort{
		netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port),
		netip.AddrPortFrom(netip.IPv6Loopback(), port),
	}
}

func wildcard(port uint16) []netip.AddrPort {
	return []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), port)}
}
