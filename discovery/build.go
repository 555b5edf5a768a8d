package discovery

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"
)

// Build makes the next snapshot of what the sources say. It keeps the *Service of every service that did not change, so that whatever
// hangs on the pointer (connections, choices) is left alone by a change of another service.
//
// A service whose list of endpoints became empty keeps the endpoints that it had and is marked Kept; kept names those to which this
// happened in this call, sorted. changed is false when nothing differs: then next is prev, nil included.
//
// Sources are in order of precedence: of two services with one name the first counts, as it does for a host that two services name;
// before any other host a name belongs to the service that bears it. Endpoints that are listed twice in a service count once.
// The services are taken over: the caller does not write to them again.
func Build(prev *Snapshot, services []Service) (next *Snapshot, kept []string, changed bool) {
	old := map[string]*Service{}
	version := uint64(0)
	if prev != nil {
		old, version = prev.Services, prev.Version
	}
	next = &Snapshot{Version: version + 1, Services: make(map[string]*Service, len(services))}
	var order []*Service
	changed = prev == nil
	for i := range services {
		svc := services[i]
		if next.Services[svc.Name] != nil {
			continue
		}
		svc.Kept = false
		svc.Endpoints = unique(svc.Endpoints)
		before := old[svc.Name]
		if len(svc.Endpoints) == 0 && before != nil && len(before.Endpoints) > 0 {
			svc.Endpoints, svc.Kept = before.Endpoints, true
			if !before.Kept {
				kept = append(kept, svc.Name)
			}
		}
		use := before
		if before == nil || !equal(before, &svc) {
			use, changed = &svc, true
		}
		next.Services[svc.Name] = use
		order = append(order, use)
	}
	// The hosts can differ alone: when the order changed of two services that name the same one.
	next.Hosts = hostsOf(order)
	if !changed && len(next.Services) == len(old) && maps.Equal(prev.Hosts, next.Hosts) {
		return prev, nil, false
	}
	slices.Sort(kept)
	return next, kept, true
}

// hostsOf indexes services by name and host; the first of the order wins.
func hostsOf(order []*Service) map[string]*Service {
	hosts := make(map[string]*Service, 2*len(order))
	for _, svc := range order {
		if name := lower(svc.Name); hosts[name] == nil {
			hosts[name] = svc
		}
	}
	for _, svc := range order {
		for _, h := range svc.Hosts {
			if hosts[h] == nil {
				hosts[h] = svc
			}
		}
	}
	return hosts
}

// lower is the name in lower case. Names are ASCII.
func lower(name string) string {
	for i := range len(name) {
		if 'A' <= name[i] && name[i] <= 'Z' {
			b := []byte(name)
			for j, c := range b[i:] {
				if 'A' <= c && c <= 'Z' {
					b[i+j] = c + 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return name
}

// unique leaves out endpoints whose address came before. The list itself is not written to.
func unique(endpoints []Endpoint) []Endpoint {
	seen := make(map[netip.AddrPort]struct{}, len(endpoints))
	for _, e := range endpoints {
		seen[e.Address] = struct{}{}
	}
	if len(seen) == len(endpoints) {
		return endpoints
	}
	clear(seen)
	out := make([]Endpoint, 0, len(endpoints))
	for _, e := range endpoints {
		if _, again := seen[e.Address]; !again {
			seen[e.Address] = struct{}{}
			out = append(out, e)
		}
	}
	return out
}

// equal tells whether two services say the same. Nil and empty lists are the same.
func equal(a, b *Service) bool {
	return a.Name == b.Name && a.Kept == b.Kept &&
		slices.Equal(a.Hosts, b.Hosts) && slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Ports, b.Ports) &&
		slices.Equal(a.Endpoints, b.Endpoints) && (a.Policy == b.Policy || reflect.DeepEqual(a.Policy, b.Policy))
}
