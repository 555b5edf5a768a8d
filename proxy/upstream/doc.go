// Package upstream is the run-time side of a snapshot: the state of every endpoint, the clusters with their bulkheads and
// connections, and the compiled tiers that a request chooses from.
//
// Its job: keeping state over snapshots (it belongs to service and address), turning a change of health into the next immutable Choice
// of a service, and picking tier and endpoint by asking the pure rooms locality and balance. A request reads one View by one atomic
// load and one Choice by another; nothing on that way takes a lock.
// Not its job: any rule (they are in locality, balance, health, retry, bulkhead), any request byte.
//
// Goroutine: Table.Run, one second beat (idle connections, listings of checks). State of a service changes under that service's mutex.
// Bounds: what the snapshot holds; TriedMax tries a request.
package upstream

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"spillway/discovery"
	"spillway/proxy/balance"
	"spillway/proxy/bulkhead"
	"spillway/proxy/health"
	"spillway/proxy/locality"
	"spillway/proxy/pool"
	"spillway/proxy/retry"
	"spillway/telemetry/metric"
)

// TriedMax bounds the endpoints that one request can be told to leave out.
const TriedMax = 8

// State is what lives as long as an endpoint belongs to its service, over snapshots.
type State struct {
	ID      uint64
	Load    balance.Load
	health  health.State // calls that change it are serialised by core.mu
	queue   *pool.Queue  // replaced when the endpoint moves to another cluster or address to dial
	core    *core
	refused atomic.Bool              // a dial was refused and none has succeeded since
	current atomic.Pointer[Endpoint] // its latest description; nil once it left the service
}

// Cluster is the endpoints of one service in one datacenter: bulkhead, connections and metrics of their own.
type Cluster struct {
	Service, Datacenter string
	Cross               bool // another datacenter than this proxy's, or nobody knows
	Hop                 bool // another datacenter than this proxy's, and both are known: a request that goes there makes a hop
	Limits              bulkhead.Cluster
	Group               pool.Group
	Metric              *metric.Cluster
}

// Endpoint is one endpoint as one snapshot describes it. It is immutable; what changes is in State.
type Endpoint struct {
	*State
	Address    netip.AddrPort
	Text       string         // Address as text
	Host       []byte         // the same, for a request without a Host
	Dial       netip.AddrPort // where connections go: the sidecar where there is one
	Sidecar    bool
	Gateway    bool   // a gateway of another datacenter, in place of the endpoints there
	Self       bool   // the application of this proxy, called past its own inbound listener
	TargetLine []byte // "x-spillway-target: IP:PORT\r\n" for a sidecar, else nil
	Weight     int
	Said       discovery.Health
	Cluster    *Cluster
	Queue      *pool.Queue
	Own        bool // a listener of this proxy: never dialled
	Tier       int  // index into Service.tiers
	ConnectMax time.Duration
	downs      *health.TierDown // of its tier
}

// core is what lives as long as a service's name.
type core struct {
	mu       sync.Mutex
	table    *Table
	label    string   // the service in metrics and hints
	current  *Service // the latest snapshot's; guarded by mu
	states   map[netip.AddrPort]*State
	clusters map[string]*Cluster
	downs    map[int]*health.TierDown // by tier number
	cursors  map[int]*balance.Cursor
	budget   retry.Budget
	called   atomic.Int64 // second of the last request, 0 never
	rng      *rand.Rand   // jitter of ejections and probes; guarded by mu
}

// Service is one service as one snapshot describes it, compiled for this proxy's place.
type Service struct {
	Name   string
	Model  *discovery.Service
	Policy *discovery.Policy
	core   *core

	endpoints []*Endpoint
	tiers     []tier
	homes     int // tiers of the own datacenter: the first ones
	choice    atomic.Pointer[Choice]
}

type tier struct {
	locality.Tier
	down    *health.TierDown
	cursor  *balance.Cursor
	members []*Endpoint // weight over 0
}

// Choice is what requests of a service choose from until health changes. It is immutable.
type Choice struct {
	Service *Service
	States  []locality.State
	Shares  []locality.Share
	policy  discovery.LocalityPolicy // the service's; without panic in the last hope
	sets    []set
	home    *Choice // of the tiers of the own datacenter alone; nil where those cannot serve, or are all there is
	until   int64   // the instant at which time alone changes it; 0 never
}

type set struct {
	members []*Endpoint
	balance *balance.Set
	usable  bool // false: there is none, or the set is all endpoints because none is usable (panic)
}

// View is the services of one snapshot. It is immutable.
type View struct {
	Snapshot *discovery.Snapshot
	services map[string]*Service
}

// Service finds the run-time side of a service of this view's snapshot.
func (v *View) Service(name string) *Service { return v.services[name] }
