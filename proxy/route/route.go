// Package route finds the service that a request is for.
//
// Its job: the service of a Host value. Not its job: where the service is (proxy/upstream).
// It is pure, starts no goroutine and allocates nothing. Bound: HostMax bytes of a host name.
package route

import (
	"bytes"

	"spillway/discovery"
)

// HostMax is the longest host that can name a service, in bytes (RFC 1035 2.3.4, and a final dot).
const HostMax = 255

// ByHost finds the service of a Host value, in any case, with or without a declared port. A service that declares no ports takes any.
// An IPv6 literal stands in brackets. It returns nil where there is none.
func ByHost(s *discovery.Snapshot, host []byte) *discovery.Service {
	name, port, ok := split(host)
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
	key := lower[:len(name)]
	svc := s.Hosts[string(key)]
	if svc == nil && key[len(key)-1] == '.' { // a rooted name is the same name
		svc = s.Hosts[string(key[:len(key)-1])]
	}
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

// split takes a Host value apart; port 0: none.
func split(host []byte) (name []byte, port int, ok bool) {
	name = host
	at := bytes.LastIndexByte(host, ':')
	if len(host) > 0 && host[0] == '[' {
		end := bytes.IndexByte(host, ']')
		if end < 0 {
			return nil, 0, false
		}
		name = host[1:end]
		if end == len(host)-1 {
			return name, 0, true
		}
		if at != end+1 {
			return nil, 0, false
		}
	} else if at >= 0 {
		name = host[:at]
	} else {
		return name, 0, true
	}
	digits := host[at+1:]
	if len(digits) == 0 { // RFC 3986 3.2.3: an empty port is none
		return name, 0, true
	}
	for _, c := range digits {
		if c < '0' || c > '9' || port > 65535 {
			return nil, 0, false
		}
		port = port*10 + int(c-'0')
	}
	return name, port, port > 0 && port <= 65535
}
