// Package route finds the service that a request is for.
//
// Its job: the service of a Host value. Not its job: where the service is and which endpoint serves (proxy/upstream, proxy/locality).
// It is pure, keeps nothing and starts no goroutine. Limit: HostMax bytes of a host name.
package route

import (
	"bytes"
	"net/netip"

	"spillway/discovery"
)

// HostMax is the longest host that can name a service, in bytes: a name of 253 (RFC 1035 2.3.4) with a final dot, and an address in brackets.
const HostMax = 255

// ByHost finds the service of a Host value, nil where there is none. The name matches in any case (RFC 9110 4.2.3) and with a final dot. A
// port must be one that the service declares; a service that declares none takes any. An IPv6 literal stands in brackets (RFC 3986
// 3.2.2) and matches in any spelling. It allocates nothing but for such a literal that is not spelled as RFC 5952 has it.
func ByHost(s *discovery.Snapshot, host []byte) *discovery.Service {
	name, port, literal, ok := split(host)
	if !ok || len(name) == 0 || len(name) > HostMax {
		return nil
	}
	var lower [HostMax]byte
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	svc := find(s.Hosts, lower[:len(name)], literal)
	if svc == nil || port == 0 || len(svc.Ports) == 0 {
		return svc
	}
	for _, p := range svc.Ports {
		if int(p.Port) == port {
			return svc
		}
	}
	return nil
}

// find looks a lower-case name up as it is, and then in the spelling that the index has.
func find(hosts map[string]*discovery.Service, name []byte, literal bool) *discovery.Service {
	if svc := hosts[string(name)]; svc != nil {
		return svc
	}
	switch last := len(name) - 1; {
	case literal:
		if a, err := netip.ParseAddr(string(name)); err == nil {
			return hosts[a.String()]
		}
	case name[last] == '.': // a rooted name is the same name
		return hosts[string(name[:last])]
	}
	return nil
}

// split takes a Host value apart: uri-host [ ":" port ] (RFC 9110 7.2). port 0: there is none, or an empty one (RFC 3986 3.2.3). literal: the
// name stood in brackets, which are left out.
func split(host []byte) (name []byte, port int, literal, ok bool) {
	rest := []byte(nil)
	if len(host) > 0 && host[0] == '[' {
		end := bytes.IndexByte(host, ']')
		if end < 0 || bytes.IndexByte(host[:end], ':') < 0 {
			return nil, 0, false, false
		}
		name, rest, literal = host[1:end], host[end+1:], true
	} else if at := bytes.IndexByte(host, ':'); at >= 0 {
		name, rest = host[:at], host[at:]
	} else {
		return host, 0, false, true
	}
	if len(rest) == 0 {
		return name, 0, literal, true
	}
	if rest[0] != ':' {
		return nil, 0, false, false
	}
	for _, c := range rest[1:] {
		if c < '0' || c > '9' {
			return nil, 0, false, false
		}
		if port = port*10 + int(c-'0'); port > 65535 {
			return nil, 0, false, false
		}
	}
	return name, port, literal, port > 0 || len(rest) == 1
}
