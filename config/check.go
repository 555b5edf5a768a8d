package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"spillway/discovery"
)

// check looks at what single keys cannot tell: whether they go together.
func (r *reader) check(c *Config, root *yaml.Node) {
	r.checkCapture(c, root)
	r.checkListeners(c, root)
	r.checkServices(c.Services, root)
	r.checkGateways(c, root)
	if len(c.Files) > 0 {
		return // a file may bring the service
	}
	known := map[string]bool{}
	for _, s := range c.Services {
		known[s.Name] = true
	}
	for i, name := range c.Outbound.Services {
		if name != "" && !known[name] {
			r.expected(locate(root, "outbound", "services", i), "outbound.services["+strconv.Itoa(i)+"]", "a service of services")
		}
	}
	for i, p := range c.Outbound.Ports {
		if p.Service != "" && !known[p.Service] {
			r.expected(locate(root, "outbound", "ports", i, "service"), "outbound.ports["+strconv.Itoa(i)+"].service", "a service of services")
		}
	}
}

// checkCapture: the default of the design is transparent, so a file that does not say explicit would be taken for something else.
func (r *reader) checkCapture(c *Config, root *yaml.Node) {
	var at *yaml.Node // the key
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value != "outbound" {
			continue
		}
		if at = root.Content[i]; root.Content[i+1].Kind != yaml.MappingNode || has(root.Content[i+1], "capture") {
			return
		}
		break
	}
	if len(c.Outbound.Listen) == 0 {
		return
	}
	r.fault(at, "outbound", "expected capture: explicit; transparent capture is not served by this version")
}

// listener is one address that the configuration wants to listen on.
type listener struct {
	key  string
	at   *yaml.Node
	addr netip.AddrPort
}

// checkListeners finds listeners that take each other's address. What stands in the file is the later one of a pair.
func (r *reader) checkListeners(c *Config, root *yaml.Node) {
	var all []listener
	add := func(addrs []netip.AddrPort, key string, path ...any) {
		at := locate(root, path...)
		if !has(locate(root, path[:len(path)-1]...), "listen") {
			at = nil // a default
		}
		for _, a := range addrs {
			all = append(all, listener{key, at, a})
		}
	}
	add(c.Outbound.Listen, "outbound.listen", "outbound", "listen")
	for i, p := range c.Outbound.Ports {
		add(p.Listen, "outbound.ports["+strconv.Itoa(i)+"].listen", "outbound", "ports", i, "listen")
	}
	add(c.Inbound.Listen, "inbound.listen", "inbound", "listen")
	add(c.Gateway.Listen, "gateway.listen", "gateway", "listen")
	add(c.Admin.Listen, "admin.listen", "admin", "listen")
	add(c.Metrics.Listen, "metrics.listen", "metrics", "listen")
	add(c.Ready.Listen, "ready.listen", "ready", "listen")
	slices.SortStableFunc(all, func(a, b listener) int { return before(a.at, b.at) })
	said := map[string]bool{}
	byPort := map[uint16][]listener{}
	for _, l := range all {
		for _, o := range byPort[l.addr.Port()] {
			if o.key != l.key && !said[l.key] && overlap(o.addr.Addr(), l.addr.Addr()) {
				said[l.key] = true
				r.fault(l.at, l.key, fmt.Sprintf("expected an address of its own, %s is taken by %s", l.addr, o.key))
			}
		}
		if l.addr.Port() != 0 && !said[l.key] {
			byPort[l.addr.Port()] = append(byPort[l.addr.Port()], l)
		}
	}
}

// checkGateways: an address is the way into one datacenter.
func (r *reader) checkGateways(c *Config, root *yaml.Node) {
	if len(c.Gateway.Listen) > 0 && c.Node.Locality.Datacenter(c.Node.Level) == discovery.UnknownDatacenter {
		r.expected(locate(root, "gateway", "listen"), "gateway.listen", "node.locality to say the datacenter that it is the gateway of")
	}
	of := map[netip.AddrPort]string{}
	for i, d := range c.Datacenters {
		for j, g := range d.Gateways {
			if other, taken := of[g]; taken && other != d.Name && g.IsValid() {
				r.fault(locate(root, "datacenters", i, "gateways", j), fmt.Sprintf("datacenters[%d].gateways[%d]", i, j),
					fmt.Sprintf("expected an address of its own, %s is a gateway of %s", g, other))
			}
			of[g] = d.Name
		}
	}
}

// before orders places in a file; defaults come first.
func before(a, b *yaml.Node) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	case a.Line != b.Line:
		return a.Line - b.Line
	}
	return a.Column - b.Column
}

// overlap tells whether two listeners of one port are in each other's way.
func overlap(a, b netip.Addr) bool {
	if a == b {
		return true
	}
	return a.Is4() == b.Is4() && (a.IsUnspecified() || b.IsUnspecified())
}

// checkServices finds services that cannot be told apart: by name, host, or address and port. root holds `services:`.
func (r *reader) checkServices(services []discovery.Service, root *yaml.Node) {
	x := newIndex()
	for i := range services {
		for _, clash := range x.add(&services[i], r.file) {
			path := append([]any{"services", i}, clash.path...)
			r.fault(locate(root, path...), keyOf(path), clash.message)
		}
	}
}

// keyBelow writes a path below an item of a list.
func keyBelow(path []any) string {
	if len(path) == 0 {
		return ""
	}
	return "." + keyOf(path)
}

// keyOf writes a path the way faults do.
func keyOf(path []any) string {
	var b strings.Builder
	for _, p := range path {
		switch p := p.(type) {
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(p)
		case int:
			fmt.Fprintf(&b, "[%d]", p)
		}
	}
	return b.String()
}

// index knows which service has which name, host, and address and port.
type index struct {
	names     map[string]string
	hosts     map[string]owner
	addresses map[netip.Addr]map[int]owner // by port; 0: any port
}

type owner struct{ service, file string }

// clash is what a service has that another one has already; path is where below the service.
type clash struct {
	path    []any
	message string
}

func newIndex() *index {
	return &index{names: map[string]string{}, hosts: map[string]owner{}, addresses: map[netip.Addr]map[int]owner{}}
}

// add takes a service in, and says what it shares with those before.
func (x *index) add(s *discovery.Service, file string) []clash {
	if s.Name == "" {
		return nil // a fault already
	}
	me := owner{s.Name, file}
	if other, ok := x.names[s.Name]; ok {
		return []clash{{[]any{"name"}, fmt.Sprintf("expected each service once, %s stands %s already", s.Name, where(other, file))}}
	}
	x.names[s.Name] = file
	var out []clash
	host := func(h string, path ...any) {
		if o, ok := x.hosts[h]; ok && o != me {
			out = append(out, clash{path, fmt.Sprintf("expected a host of this service alone, %s belongs to %s%s", h, o.service, away(o.file, file))})
			return
		}
		x.hosts[h] = me
	}
	host(strings.ToLower(s.Name), "name")
	for i, h := range s.Hosts {
		if h != "" {
			host(h, "hosts", i)
		}
	}
	for i, a := range s.Addresses {
		if a.IsValid() {
			out = append(out, x.address(s, me, i, a)...)
		}
	}
	return out
}

// address takes one virtual address in, with every port of its service.
func (x *index) address(s *discovery.Service, me owner, i int, a netip.Addr) []clash {
	taken := x.addresses[a]
	if taken == nil {
		taken = map[int]owner{}
		x.addresses[a] = taken
	}
	ports := []int{0}
	if len(s.Ports) > 0 {
		ports = nil
		for _, p := range s.Ports {
			ports = append(ports, int(p.Port))
		}
	}
	var out []clash
	for _, p := range ports {
		o, ok := taken[p]
		if !ok && p != 0 {
			o, ok = taken[0]
		}
		if !ok && p == 0 && len(taken) > 0 {
			lowest := slices.Min(keysOf(taken))
			o, ok = taken[lowest], true
		}
		if ok && o != me {
			out = append(out, clash{[]any{"addresses", i}, fmt.Sprintf("expected an address and port of this service alone, %s belongs to %s%s",
				withPort(a, p), o.service, away(o.file, me.file))})
			continue
		}
		taken[p] = me
	}
	return out
}

func keysOf(m map[int]owner) []int {
	var out []int
	for k := range m {
		out = append(out, k)
	}
	return out
}

func withPort(a netip.Addr, port int) string {
	if port == 0 {
		return a.String()
	}
	return netip.AddrPortFrom(a, uint16(port)).String()
}

func where(file, here string) string {
	if file == here {
		return "above"
	}
	return "in " + file
}

func away(file, here string) string {
	if file == here {
		return ""
	}
	return " in " + file
}
