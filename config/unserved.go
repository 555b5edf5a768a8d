package config

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// unserved is the one list of keys that the design of the configuration knows and this version does not serve, by place in the schema
// without indices. Each has the values that mean what this version does anyway; without any, the key must be left out.
// docs/configuration.md repeats it for people.
var unserved = map[string][]string{
	"outbound.passthrough":        {"refuse"},
	"outbound.match_host":         {"false"},
	"outbound.edge":               {"false"},
	"inbound.tproxy":              {"false"},
	"inbound.proxy_protocol_from": {"[]"},
	"dns.listen":                  {`""`},
	"dns.upstream":                {"auto"},

	"discovery.dns":        nil,
	"discovery.etcd":       nil,
	"discovery.consul":     nil,
	"discovery.nacos":      nil,
	"discovery.kubernetes": nil,
	"discovery.xds":        nil,
	"discovery.saved":      nil,

	"services.direct":             nil,
	"services.endpoints.priority": {"0"},
	"routes":                      {"[]"},

	"policy.mode":                {"act"},
	"policy.locality.distribute": {"{}"},
	"policy.hash_on":             {"{}"},
	"policy.reserve":             {"0", "0.0"},
	"policy.cell":                {"off"},

	"limits.detect_timeout":    nil,
	"limits.connections":       {"0"},
	"limits.descriptors_share": nil,
	"limits.memory_share":      nil,
	"limits.h2_buffer":         nil,

	"cells": {"{}"},

	"telemetry.otlp.endpoint":                            {`""`},
	"telemetry.otlp.protocol":                            {"grpc"},
	"telemetry.sampling.local":                           {"0", "0.0"},
	"telemetry.sampling.cross_datacenter":                {"0", "0.0"},
	"telemetry.sampling.cross_datacenter_per_second_max": {"0"},
}

// Words that later versions serve, of keys whose other words this one does.
var (
	laterProtocols = []string{"http2", "grpc", "tls"}
	laterCapture   = []string{"transparent"}
	laterSpill     = []string{"load"}
	laterBalance   = []string{"least_request", "ring_hash", "maglev"}
)

// unservedKey is a key of the list above, or a mapping of such keys; without path it is neither.
type unservedKey struct {
	path  string
	below []string // of a mapping
}

// unservedAt finds what the list says of a place.
func unservedAt(path string) unservedKey {
	if _, ok := unserved[path]; ok {
		return unservedKey{path: path}
	}
	if below := unservedBelow(path); len(below) > 0 && path != "" {
		return unservedKey{path, below}
	}
	return unservedKey{}
}

// unservedBelow gives the names of the unserved keys of a mapping, sorted.
func unservedBelow(path string) []string {
	prefix := path + "."
	if path == "" {
		prefix = ""
	}
	names := map[string]bool{}
	for p := range unserved {
		if rest, ok := strings.CutPrefix(p, prefix); ok {
			name, _, _ := strings.Cut(rest, ".")
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// read accepts the values that change nothing and says of others that they are not served. It tells whether the key is known.
func (u unservedKey) read(r *reader, key string, n *yaml.Node) (known bool) {
	switch {
	case u.path == "":
		return false
	case u.below != nil:
		mapping{name: u.path}.read(r, key, n)
		return true
	}
	values := unserved[u.path]
	if n.Style&yaml.TaggedStyle == 0 && slices.Contains(values, form(n)) {
		return true
	}
	want := "it to be left out"
	if len(values) > 0 {
		want = values[0]
	}
	r.fault(n, key, "not served by this version (expected "+want+")")
	return true
}

// form is a value the way the list above writes it.
func form(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str" && n.Value == "":
		return `""`
	case n.Kind == yaml.ScalarNode && n.Tag != "!!null":
		return n.Value
	case n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		return "[]"
	case n.Kind == yaml.MappingNode && len(n.Content) == 0:
		return "{}"
	}
	return "?"
}
