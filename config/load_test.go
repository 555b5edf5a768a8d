package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"spillway/discovery"
)

const explicit = "outbound: {listen: 15001, capture: explicit}\n"

// loaded loads a text that must be good.
func loaded(t *testing.T, text string) *Config {
	t.Helper()
	c, faults := Load(written(t, "spillway.yaml", text))
	for _, f := range faults {
		t.Error(f)
	}
	if c == nil {
		t.FailNow()
	}
	return c
}

// TestFileFaults: what can be wrong with the file itself.
func TestFileFaults(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, FileBytesMax+1); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		filepath.Join(dir, "nobody"): "expected a configuration file: no such file or directory",
		dir:                          "expected a configuration file: it is a folder",
		fifo:                         "expected a configuration file: it is not a regular file",
		large:                        "expected a configuration file: it is larger than 16MiB",
	} {
		c, faults := Load(file)
		if c != nil || len(faults) != 1 || faults[0].String() != file+":1:1: "+want {
			t.Errorf("got %v, want %s", faults, want)
		}
	}
}

// TestModes: a configuration that others may write is refused, whatever else is wrong with it; that others may read it is fine.
func TestModes(t *testing.T) {
	for mode, want := range map[os.FileMode]int{0o600: 1, 0o644: 1, 0o444: 1, 0o755: 1, 0o664: 2, 0o666: 2, 0o602: 2, 0o620: 2} {
		file := written(t, "spillway.yaml", explicit+"colour: red\n")
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		_, faults := Load(file)
		if len(faults) != want {
			t.Errorf("%04o: %v", mode, faults)
		}
		if f := faults[0]; want == 2 && (f.Line != 1 || f.Column != 1 || !strings.Contains(f.Message, "only its owner may write")) {
			t.Errorf("%04o: %v", mode, f)
		}
	}
}

// TestDefaults: a file that says only what must be said is the documented default.
func TestDefaults(t *testing.T) {
	c := loaded(t, explicit)
	want := Default()
	want.Outbound.Capture = CaptureExplicit
	if c.Node.ID == "" {
		t.Error("no id")
	}
	want.Node.ID, want.secrets = c.Node.ID, c.secrets
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v, want %+v", c, want)
	}
	if got := len(c.Outbound.Listen); got != 2 {
		t.Errorf("a bare port is %d addresses", got)
	}
}

// TestValues: one file with something else than the default at many keys.
func TestValues(t *testing.T) {
	c := loaded(t, `
node: {id: a, service: b, locality: {region: r, zone: z, sub_zone: s}, datacenter_level: zone, threads: 3}
outbound: {listen: "[::1]:1", capture: explicit, services: [pay], ports: [{listen: 3306, service: pay}, {listen: 127.0.0.1:0, service: pay, protocol: http}]}
inbound: {listen: "", ports: [{port: 8080}, {port: 9000, protocol: tcp}], application: 127.0.0.1:80, concurrency_max: 7}
admin: {listen: "", socket: sub/admin.sock}
metrics: {listen: 127.0.0.1:0}
ready: {listen: ""}
log: {level: debug, format: json}
datacenters: [{name: y}, {name: x}]
discovery: [{file: {path: a.yaml}}, {file: {path: /b.yaml}}]
limits: {head: 32KiB, head_fields: 64, head_timeout: 1s, half_close_timeout: 1m30s}
drain: {announce: 0s, timeout: 1h}
hop: {trusted_networks: [10.0.0.0/8, "fd00::/8", 192.0.2.1/32]}
telemetry: {access_log: {path: access.log}}
`)
	loop := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	for _, v := range []struct{ got, want any }{
		{c.Node, Node{"a", "b", discovery.Locality{Region: "r", Zone: "z", SubZone: "s"}, discovery.LevelZone, 3}},
		{c.Outbound, Outbound{[]netip.AddrPort{loop("[::1]:1")}, CaptureExplicit, []string{"pay"}, []OutPort{
			{[]netip.AddrPort{loop("127.0.0.1:3306"), loop("[::1]:3306")}, "pay", discovery.TCP},
			{[]netip.AddrPort{loop("127.0.0.1:0")}, "pay", discovery.HTTP}}}},
		{c.Inbound, Inbound{nil, []InPort{{8080, discovery.Auto}, {9000, discovery.TCP}}, loop("127.0.0.1:80"), 7}},
		{c.Admin.SocketSet && len(c.Admin.Listen) == 0 && len(c.Ready.Listen) == 0, true},
		{c.Metrics.Listen, []netip.AddrPort{loop("127.0.0.1:0")}},
		{c.Log, Log{"debug", "json"}},
		{c.Datacenters, []Datacenter{{Name: "y"}, {Name: "x"}}},
		{c.Limits, Limits{32 << 10, 64, time.Second, 90 * time.Second}},
		{c.Drain, Drain{0, time.Hour}},
		{c.TrustedNetworks, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("192.0.2.1/32")}},
	} {
		if !reflect.DeepEqual(v.got, v.want) {
			t.Errorf("got %+v, want %+v", v.got, v.want)
		}
	}
	dir := filepath.Dir(c.AccessLog.Path)
	if want := []string{filepath.Join(dir, "a.yaml"), "/b.yaml"}; !reflect.DeepEqual(c.Files, want) || c.Admin.Socket != filepath.Join(dir, "sub/admin.sock") || !filepath.IsAbs(dir) {
		t.Errorf("files %v, socket %s", c.Files, c.Admin.Socket)
	}
}

// TestPolicies: the order is built in, then `policy`, then the service's own, key by key, wherever they stand in the file.
func TestPolicies(t *testing.T) {
	c := loaded(t, explicit+`
services:
  - name: plain
  - name: own
    policy:
      timeout: 3s
      health: {active: {path: /healthz}, passive: {window: 1s}}
      bulkhead: {local: {connections: 5}}
      retry: {on: [], per_try_timeout: 1s}
policy:
  timeout: 7s
  balance: random
  health: {active: {tcp: true, interval: 9s}}
  bulkhead: {local: {connections: 9, pending: 8}}
  locality: {tiers: [sub_zone, region], spill: last_resort}
`)
	global := DefaultPolicy()
	global.Timeout, global.Balance = 7*time.Second, discovery.Random
	global.Health.Active.TCP, global.Health.Active.Interval = true, 9*time.Second
	global.Bulkhead.Local.Connections, global.Bulkhead.Local.Pending = 9, 8
	global.Locality.Tiers, global.Locality.Spill = []discovery.TierLevel{discovery.TierSubZone, discovery.TierRegion}, discovery.SpillLastResort
	own := global
	own.Timeout = 3 * time.Second
	own.Health.Active.Path, own.Health.Active.TCP = "/healthz", false // naming the other sort of check replaces it
	own.Health.Passive.Window = time.Second
	own.Bulkhead.Local.Connections = 5
	own.Retry.On, own.Retry.PerTry = 0, time.Second
	if !reflect.DeepEqual(c.Policy, global) || !reflect.DeepEqual(*c.Services[0].Policy, global) {
		t.Errorf("got %+v and %+v, want %+v", c.Policy, *c.Services[0].Policy, global)
	}
	if got := *c.Services[1].Policy; !reflect.DeepEqual(got, own) {
		t.Errorf("got %+v, want %+v", got, own)
	}
}

// TestOneSide: either listener may be left out; without outbound nobody needs to say how it captures.
func TestOneSide(t *testing.T) {
	c := loaded(t, "outbound: {listen: \"\"}\ninbound: {ports: [{port: 80}]}\n")
	if len(c.Outbound.Listen) != 0 || len(c.Inbound.Listen) != 1 {
		t.Errorf("%+v %+v", c.Outbound, c.Inbound)
	}
	if c = loaded(t, explicit+"inbound: {listen: \"\"}\n"); len(c.Inbound.Listen) != 0 {
		t.Errorf("%+v", c.Inbound)
	}
}

// TestEphemeralPorts: port 0 of an address is never in another's way.
func TestEphemeralPorts(t *testing.T) {
	loaded(t, "outbound: {listen: \"127.0.0.1:0\", capture: explicit}\ninbound: {listen: 127.0.0.1:0}\nadmin: {listen: 127.0.0.1:0}\nmetrics: {listen: 127.0.0.1:0}\nready: {listen: 127.0.0.1:0}\n")
}
