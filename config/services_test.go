package config

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"spillway/discovery"
)

// TestParseServices: a discovered file, with everything that a service can have.
func TestParseServices(t *testing.T) {
	base := DefaultPolicy()
	base.Balance = discovery.Random
	got, faults := ParseServices("services.yaml", []byte(`
services:
  - name: Order
    hosts: [order.example, ORDER.example]
    addresses: [10.96.0.10, "::ffff:10.96.0.11"]
    ports: [{port: 80}, {port: 443, protocol: tcp}]
    endpoints:
      - {address: 10.1.0.1:8080, locality: {region: r, zone: z, sub_zone: s}, weight: 0, sidecar: 15006, health: draining, priority: 0}
      - address: "[2001:db8::1]:80"
    policy: {timeout: 0s}
  - {name: plain, endpoints: []}
`), base)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	own := base
	own.Timeout = 0
	want := []discovery.Service{
		{
			Name: "Order", Hosts: []string{"order.example", "order.example", "order"},
			Addresses: []netip.Addr{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("10.96.0.11")},
			Ports:     []discovery.Port{{Port: 80}, {Port: 443, Protocol: discovery.TCP}},
			Endpoints: []discovery.Endpoint{
				{Address: netip.MustParseAddrPort("10.1.0.1:8080"), Locality: discovery.Locality{Region: "r", Zone: "z", SubZone: "s"},
					Weight: 0, Sidecar: 15006, Health: discovery.Draining},
				{Address: netip.MustParseAddrPort("[2001:db8::1]:80"), Weight: 1},
			},
			Policy: &own,
		},
		{Name: "plain", Hosts: []string{"plain"}, Policy: &base},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestDiscoveredFaults: what is wrong with a discovered file (R50), with place.
func TestDiscoveredFaults(t *testing.T) {
	good := "services:\n  - name: order\n    endpoints:\n      - {address: 10.1.0.1:8080, locality: {region: r}}\n"
	for _, c := range []struct{ name, text, want string }{
		{"half", good[:len(good)-10], "f:4:7: expected YAML: did not find expected ',' or '}'"},
		{"garbage", "\x00\x01\x02{{{{", "f:1:1: expected text, got the control character U+0000"},
		{"empty", "", "f:1:1: expected a mapping with services, got an empty file"},
		{"white space", "\n \n", "f:1:1: expected a mapping with services, got an empty file"},
		{"null", "services:\n", "f:1:10: services: expected a list of services, got nothing"},
		{"unknown key", good + "colour: red\n", "f:5:1: colour: unknown key, expected one of services"},
		{"port", strings.Replace(good, ":8080", ":808080", 1),
			"f:4:19: services[0].endpoints[0].address: expected IP:port with a port from 1 to 65535, got \"10.1.0.1:808080\""},
		{"no services", "{}", "f:1:1: services: expected a list of services, the key is missing"},
		{"a list", "- order\n", "f:1:1: expected a mapping of services, got a list"},
		{"cut in a word", "services:\n  - name: order\n    endp", "f:3:5: expected YAML: could not find expected ':'"},
	} {
		services, faults := ParseServices("f", []byte(c.text), DefaultPolicy())
		if services != nil || len(faults) != 1 || faults[0].String() != c.want {
			t.Errorf("%s: got %v, want %s", c.name, faults, c.want)
		}
	}
	if _, faults := ParseServices("f", make([]byte, FileBytesMax+1), DefaultPolicy()); len(faults) != 1 || !strings.Contains(faults[0].Message, "larger than") {
		t.Errorf("too large: %v", faults)
	}
}

// TestOverlaps: services of different files that share something.
func TestOverlaps(t *testing.T) {
	static := ListOf("spillway.yaml", []discovery.Service{{Name: "static", Hosts: []string{"static", "s.example"}}})
	a, _ := ParseList("a.yaml", []byte("services: [{name: order, hosts: [o.example], addresses: [10.0.0.1]}]"), DefaultPolicy())
	b, _ := ParseList("b.yaml", []byte("services:\n  - {name: order}\n  - {name: pay, hosts: [o.example, s.example]}\n  - {name: free}\n  - {name: vip, addresses: [10.0.0.1]}\n"), DefaultPolicy())
	var got []string
	for _, f := range Overlaps(b, []*List{static, a}) {
		got = append(got, f.String())
	}
	want := []string{
		"b.yaml:2:12: services[0]: expected each service once, order stands in a.yaml already",
		"b.yaml:3:12: services[1]: expected a host of this service alone, o.example belongs to order in a.yaml",
		"b.yaml:3:12: services[1]: expected a host of this service alone, s.example belongs to static in spillway.yaml",
		"b.yaml:5:12: services[3]: expected an address and port of this service alone, 10.0.0.1 belongs to order in a.yaml",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if f := Overlaps(a, []*List{static}); len(f) != 0 {
		t.Error(f)
	}
}
