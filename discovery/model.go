// Package discovery is the model of what a proxy knows: one immutable Snapshot of services, endpoints and policies.
//
// Its job: the types, and building the next snapshot from the previous one and what the sources say, with structural sharing:
// a change of one service makes a new *Service for that one alone.
// Not its job: reading sources (discovery/file), run-time state of endpoints (proxy/upstream).
// It is pure. A Snapshot and everything reachable from it is never written to after it was published.
package discovery

import (
	"net/netip"
	"time"
)

// Locality says where an endpoint or this proxy stands (Envoy's and Kubernetes' topology terms). Empty means unknown.
type Locality struct{ Region, Zone, SubZone string }

// Level is the locality level whose border is a WAN link: what a datacenter is.
type Level uint8

// The levels that can be a datacenter.
const (
	LevelRegion Level = iota
	LevelZone
)

// UnknownDatacenter is the datacenter of an endpoint whose locality does not say one.
const UnknownDatacenter = "unknown"

// Datacenter is the label of l at the level, UnknownDatacenter where it is not labelled.
func (l Locality) Datacenter(level Level) string {
	name := l.Region
	if level == LevelZone {
		name = l.Zone
	}
	if name == "" {
		return UnknownDatacenter
	}
	return name
}

// Health is what a source says of an endpoint.
type Health uint8

// The states that a source can give.
const (
	Healthy Health = iota
	Unhealthy
	Draining
)

// Protocol is what a port speaks.
type Protocol uint8

// The protocols that this version serves. Auto means that the first bytes tell.
const (
	Auto Protocol = iota
	HTTP
	TCP
)

// Endpoint is one address that serves a service. Addresses are unique inside a service.
type Endpoint struct {
	Address  netip.AddrPort
	Locality Locality
	Weight   int    // 0: no new requests
	Sidecar  uint16 // port of the sidecar in front of it; 0: none
	Health   Health
}

// Port is one declared port of a service.
type Port struct {
	Port     uint16
	Protocol Protocol
}

// Service is what an application calls by name.
type Service struct {
	Name      string
	Hosts     []string // lower case, without port; the name itself is always among them
	Addresses []netip.Addr
	Ports     []Port
	Endpoints []Endpoint
	Policy    *Policy // resolved: the global policy overridden key by key
	Kept      bool    // the source's list became empty; these are the endpoints of the list before
}

// Snapshot is everything the data path routes by. One atomic load gives one; a request never sees two.
type Snapshot struct {
	Version  uint64 // grows by one with every published change
	Services map[string]*Service
	Hosts    map[string]*Service // every host of every service, lower case
}

// SpillMode says when requests leave a tier.
type SpillMode uint8

// The spill modes.
const (
	SpillHealth SpillMode = iota
	SpillLastResort
)

// BalanceMethod picks an endpoint inside a tier.
type BalanceMethod uint8

// The balance methods.
const (
	P2C BalanceMethod = iota
	RoundRobin
	WeightedRoundRobin
	Random
)

// TierLevel is a locality level that makes a tier of its own inside the datacenter, finest first.
type TierLevel uint8

// The levels of policy.locality.tiers.
const (
	TierRegion TierLevel = iota
	TierZone
	TierSubZone
)

// CrossTier says which tries may leave their tier.
type CrossTier uint8

// The values of policy.retry.cross_tier: re-sends only, re-sends and retries, neither.
const (
	CrossResend CrossTier = iota
	CrossAlways
	CrossNever
)

// RetryOn is a set of conditions under which a request that may have been taken is tried again.
type RetryOn uint8

// The conditions of policy.retry.on.
const (
	OnResetBeforeResponse RetryOn = 1 << iota // reset, end or silence before any byte of an answer
	OnGatewayError                            // 502, 503, 504 from the endpoint
)

// Policy is the resolved policy of one service. All durations are positive unless 0 is said to mean off.
type Policy struct {
	Locality  LocalityPolicy
	Balance   BalanceMethod
	Health    HealthPolicy
	Bulkhead  BulkheadPolicy
	Retry     RetryPolicy
	Timeout   time.Duration // wait for the head of the answer over all attempts; 0: none
	Connect   ConnectTimeout
	IdleAfter time.Duration // idle_timeout: bounds a body, stream or kept connection that does not move
}

// LocalityPolicy says how tiers are made and when requests spill.
type LocalityPolicy struct {
	Spill            SpillMode
	Overprovisioning int // percent, 100..
	PanicThreshold   int // percent 0..100; 0: off
	Tiers            []TierLevel
	TierEndpointsMin int
}

// HealthPolicy holds active and passive health.
type HealthPolicy struct {
	Active          ActiveCheck
	Passive         PassiveHealth
	ChecksPerSecMax int // of the whole process; only the global policy's counts
}

// ActiveCheck is on where Path is set (HTTP GET, 2xx is good) or TCP is.
type ActiveCheck struct {
	Path                string
	TCP                 bool
	Interval, Timeout   time.Duration
	UnhealthyAfter      int
	HealthyAfter        int
	CrossDatacenterTime float64 // cross_datacenter_scale: multiplies timeout and unhealthy_after for other datacenters
}

// PassiveHealth ejects endpoints by what requests meet.
type PassiveHealth struct {
	ConsecutiveFailures int           // 0: off
	Window              time.Duration // consecutive failures further apart than this start again
	Ejection            time.Duration
	EjectionMax         time.Duration
	MaxEjectedPercent   int
}

// BulkheadLimits bounds what one cluster may hold. Each is at least 1, retries may be 0.
type BulkheadLimits struct{ Connections, Pending, Requests, Retries int }

// BulkheadPolicy holds the limits of clusters of the own and of other datacenters.
type BulkheadPolicy struct{ Local, CrossDatacenter BulkheadLimits }

// RetryPolicy bounds re-sends and retries.
type RetryPolicy struct {
	Attempts  int // tries that may have been taken, in all, 1..
	ResendMax int
	CrossTier CrossTier
	On        RetryOn
	Budget    float64       // retries per request, 0..1
	PerTry    time.Duration // 0: none
}

// ConnectTimeout bounds one dial.
type ConnectTimeout struct{ Local, CrossDatacenter time.Duration }
