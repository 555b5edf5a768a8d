package config

import (
	"math"
	"net/netip"

	"go.yaml.in/yaml/v3"

	"spillway/discovery"
)

// Bounds of served keys.
const (
	threadsMax    = 1024
	headBytesMin  = 1 << 10
	headBytesMax  = 1 << 20
	headFieldsMin = 16
	headFieldsMax = 4096
	hopLimitMax   = 32
	hopDepthMax   = 1024
)

// schema is what a configuration file looks like, bound to where its values go. dir is the folder that relative paths start from.
// The policy stands before the services: they start from it.
func schema(c *Config, dir string) mapping {
	return mapping{"", []entry{
		{"node", nodeShape(&c.Node), ""},
		{"outbound", outboundShape(&c.Outbound), ""},
		{"inbound", inboundShape(&c.Inbound), ""},
		{"admin", mapping{"admin", []entry{
			{"listen", scalar[[]netip.AddrPort]{&c.Admin.Listen, listen(true)}, ""},
			{"socket", flagged{&c.Admin.SocketSet, scalar[string]{&c.Admin.Socket, path(dir, "a path or \"\"", socketBytesMax, "")}}, ""},
		}}, ""},
		{"metrics", pageShape("metrics", &c.Metrics), ""},
		{"ready", pageShape("ready", &c.Ready), ""},
		{"log", mapping{"log", []entry{
			{"level", scalar[string]{&c.Log.Level, oneOf("debug", "info", "warn", "error")}, ""},
			{"format", scalar[string]{&c.Log.Format, oneOf("text", "json")}, ""},
		}}, ""},
		{"datacenters", list[Datacenter]{to: &c.Datacenters, want: "datacenters, each a mapping of name, gateways", key: []any{"name"},
			once: func(d Datacenter) any { return d.Name }, item: func(d *Datacenter) shape {
				return mapping{"datacenters", []entry{
					{"name", name("the name of a datacenter").at(&d.Name), "the name of a datacenter"},
					{"gateways", list[netip.AddrPort]{to: &d.Gateways, want: "gateways, each IP:port", once: itself[netip.AddrPort],
						item: func(a *netip.AddrPort) shape { return endpointAddress.at(a) }}, ""},
				}}
			}}, ""},
		{"gateway", pageShape("gateway", &c.Gateway), ""},
		{"discovery", list[string]{to: &c.Files, want: "sources, each a mapping with file", once: itself[string], key: []any{"file", "path"}, item: func(s *string) shape {
			return mapping{"discovery", []entry{{"file", mapping{"discovery.file", []entry{
				{"path", scalar[string]{s, path(dir, "the path of a file", pathBytesMax)}, "the path of a file"},
			}}, "a file"}}}
		}}, ""},
		{"policy", policyShape(&c.Policy, true), ""},
		{"services", servicesShape(&c.Services, &c.Policy), ""},
		{"limits", mapping{"limits", []entry{
			{"head", scalar[int]{&c.Limits.Head, size(headBytesMin, headBytesMax)}, ""},
			{"head_fields", scalar[int]{&c.Limits.HeadFields, whole(headFieldsMin, headFieldsMax)}, ""},
			{"head_timeout", duration.at(&c.Limits.HeadTimeout), ""},
			{"half_close_timeout", duration.at(&c.Limits.HalfCloseTimeout), ""},
		}}, ""},
		{"drain", mapping{"drain", []entry{
			{"announce", durationOrZero.at(&c.Drain.Announce), ""},
			{"timeout", durationOrZero.at(&c.Drain.Timeout), ""},
		}}, ""},
		{"hop", mapping{"hop", []entry{
			{"limit", whole(0, hopLimitMax).at(&c.Hop.Limit), ""},
			{"depth_max", whole(1, hopDepthMax).at(&c.Hop.DepthMax), ""},
			{"trusted_networks", list[netip.Prefix]{to: &c.TrustedNetworks, want: "networks", once: itself[netip.Prefix],
				item: func(p *netip.Prefix) shape { return network.at(p) }}, ""},
		}}, ""},
		{"telemetry", mapping{"telemetry", []entry{
			{"request_id", scalar[string]{&c.RequestID, oneOf("generate", "pass", "off")}, ""},
			{"access_log", mapping{"telemetry.access_log", []entry{
				{"path", scalar[string]{&c.AccessLog.Path, path(dir, "stdout, the path of a file, or \"\"", pathBytesMax, "stdout", "")}, ""},
				{"format", scalar[string]{&c.AccessLog.Format, oneOf("json")}, ""},
			}}, ""},
		}}, ""},
	}}
}

// at binds a kind to where its value goes.
func (k kind[T]) at(to *T) scalar[T] { return scalar[T]{to, k} }

func itself[T comparable](v T) any { return v }

func nodeShape(n *Node) mapping {
	return mapping{"node", []entry{
		{"id", name("the id of this proxy").at(&n.ID), ""},
		{"service", optionalName("the name of a service").at(&n.Service), ""},
		{"locality", localityShape("node.locality", &n.Locality), ""},
		{"datacenter_level", levelWord.at(&n.Level), ""},
		{"threads", whole(0, threadsMax).at(&n.Threads), ""},
	}}
}

func localityShape(at string, l *discovery.Locality) mapping {
	return mapping{at, []entry{
		{"region", optionalName("the name of a region").at(&l.Region), ""},
		{"zone", optionalName("the name of a zone").at(&l.Zone), ""},
		{"sub_zone", optionalName("the name of a part of a zone").at(&l.SubZone), ""},
	}}
}

func outboundShape(o *Outbound) mapping {
	return mapping{"outbound", []entry{
		{"listen", listen(true).at(&o.Listen), ""},
		{"capture", captureWord.at(&o.Capture), ""},
		{"services", list[string]{to: &o.Services, want: "names of services", once: itself[string],
			item: func(s *string) shape { return name("the name of a service").at(s) }}, ""},
		{"ports", list[OutPort]{to: &o.Ports, want: "listeners, each a mapping of listen, service, protocol",
			from: func() OutPort { return OutPort{Protocol: discovery.TCP} },
			item: func(p *OutPort) shape {
				return mapping{"outbound.ports", []entry{
					{"listen", listen(false).at(&p.Listen), "a port or address:port"},
					{"service", name("the name of a service").at(&p.Service), "the name of a service"},
					{"protocol", ownProtocol.at(&p.Protocol), ""},
				}}
			}}, ""},
	}}
}

func inboundShape(in *Inbound) mapping {
	return mapping{"inbound", []entry{
		{"listen", listen(true).at(&in.Listen), ""},
		{"ports", list[InPort]{to: &in.Ports, want: "ports, each a mapping of port, protocol",
			once: func(p InPort) any { return p.Port }, key: []any{"port"},
			item: func(p *InPort) shape {
				return mapping{"inbound.ports", []entry{
					{"port", port("a port", 1).at(&p.Port), "a port"},
					{"protocol", portProtocol.at(&p.Protocol), ""},
				}}
			}}, ""},
		{"application", optionalAddress.at(&in.Application), ""},
		{"concurrency_max", whole(0, wholeNumberMax).at(&in.ConcurrencyMax), ""},
	}}
}

func pageShape(at string, p *Page) mapping {
	return mapping{at, []entry{{"listen", listen(true).at(&p.Listen), ""}}}
}

// servicesShape is a list of services whose policies start from base.
func servicesShape(to *[]discovery.Service, base *discovery.Policy) shape {
	return list[discovery.Service]{to: to, want: "services", item: func(s *discovery.Service) shape {
		return mapping{"services", []entry{
			{"name", name("the name of a service").at(&s.Name), "the name of a service"},
			{"hosts", list[string]{to: &s.Hosts, want: "hosts", item: func(h *string) shape { return host.at(h) }}, ""},
			{"addresses", list[netip.Addr]{to: &s.Addresses, want: "IP addresses",
				item: func(a *netip.Addr) shape { return address.at(a) }}, ""},
			{"ports", list[discovery.Port]{to: &s.Ports, want: "ports, each a mapping of port, protocol",
				once: func(p discovery.Port) any { return p.Port }, key: []any{"port"}, item: servicePortShape}, ""},
			{"endpoints", list[discovery.Endpoint]{to: &s.Endpoints, want: "endpoints", from: func() discovery.Endpoint { return discovery.Endpoint{Weight: 1} },
				item: endpointShape}, ""},
			{"policy", override{&s.Policy, base}, ""},
		}}
	}}
}

func servicePortShape(p *discovery.Port) shape {
	return mapping{"services.ports", []entry{
		{"port", port("a port", 1).at(&p.Port), "a port"},
		{"protocol", portProtocol.at(&p.Protocol), ""},
	}}
}

// weightMax bounds a weight: Nacos and Consul stay below.
const weightMax = math.MaxUint16

func endpointShape(e *discovery.Endpoint) shape {
	return mapping{"services.endpoints", []entry{
		{"address", endpointAddress.at(&e.Address), "IP:port"},
		{"locality", localityShape("services.endpoints.locality", &e.Locality), ""},
		{"weight", whole(0, weightMax).at(&e.Weight), ""},
		{"sidecar", port("the port of a sidecar, or 0", 0).at(&e.Sidecar), ""},
		{"health", healthWord.at(&e.Health), ""},
	}}
}

// flagged notes that a key was there.
type flagged struct {
	set *bool
	shape
}

func (f flagged) read(r *reader, key string, n *yaml.Node) {
	*f.set = true
	f.shape.read(r, key, n)
}

// override is a policy that starts from another one, key by key. Services without one share the base.
type override struct {
	to   **discovery.Policy
	base *discovery.Policy
}

func (o override) read(r *reader, key string, n *yaml.Node) {
	policy := *o.base
	policyShape(&policy, false).read(r, key, n)
	*o.to = &policy
}
