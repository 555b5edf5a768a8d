//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// wellConfig is a configuration without a fault.
const wellConfig = `node:
  id: a
  locality: {region: dc1, zone: z1}
outbound: {listen: 15001, capture: explicit}
inbound:
  listen: 0.0.0.0:15006
  ports:
    - {port: 8080, protocol: http}
datacenters:
  - {name: dc1}
  - {name: dc2}
services:
  - name: pay
    hosts: [pay]
    endpoints:
      - {address: 10.0.0.1:8080, locality: {region: dc1}, weight: 1}
    policy:
      timeout: 5s
policy:
  balance: p2c
  retry: {attempts: 2, budget: 0.2}
limits:
  head: 64KiB
`

// faults are changes of wellConfig that break it, and where: line:column of the value, or of the key where that is unknown or doubled.
var faults = []struct {
	name, old, new, at string
}{
	{"unknown key", "  head: 64KiB", "  haed: 64KiB", "23:3"},
	{"unknown key at the top", "limits:", "limit:", "22:1"},
	{"doubled key", "  id: a\n", "  id: a\n  id: b\n", "3:3"},
	{"no duration", "timeout: 5s", "timeout: soon", "18:16"},
	{"duration without a measure", "timeout: 5s", "timeout: 5", "18:16"},
	{"negative duration", "timeout: 5s", "timeout: -5s", "18:16"},
	{"unknown word", "balance: p2c", "balance: best", "20:12"},
	{"unknown protocol", "protocol: http}", "protocol: ftp}", "8:30"},
	{"port too large", "port: 8080,", "port: 80800,", "8:14"},
	{"port of an address", "10.0.0.1:8080", "10.0.0.1:0", "16:19"},
	{"no port", "10.0.0.1:8080", "10.0.0.1", "16:19"},
	{"no address", "10.0.0.1:8080", "somewhere:8080", "16:19"},
	{"negative weight", "weight: 1}", "weight: -1}", "16:67"},
	{"weight that is text", "weight: 1}", "weight: much}", "16:67"},
	{"budget over 1", "budget: 0.2", "budget: 1.2", "21:32"},
	{"no attempts", "attempts: 2", "attempts: 0", "21:21"},
	{"no size", "head: 64KiB", "head: large", "23:9"},
	{"mapping where a list belongs", "    - {port: 8080, protocol: http}", "    {port: 8080, protocol: http}", "8:5"},
	{"listen address", "listen: 0.0.0.0:15006", "listen: 0.0.0.0:99999", "6:11"},
	{"service without a name", "  - name: pay\n    hosts: [pay]", "  - hosts: [pay]", ""},
	{"doubled service", "policy:\n  balance", "  - name: pay\n    endpoints: []\npolicy:\n  balance", ""},
	{"broken YAML", "  - {name: dc2}", "  - {name: dc2", ""},
	{"capture", "capture: explicit", "capture: magic", "4:36"},
}

// TestCheck finds every fault and says where it is and what was expected.
func TestCheck(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "spillway.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(wellConfig)
	if code, out := tool(t, "check", "-c", path); code != 0 {
		t.Fatalf("the configuration without a fault: exit %d\n%s", code, out)
	}
	form := regexp.MustCompile(`^` + regexp.QuoteMeta(path) + `:[1-9][0-9]*:[1-9][0-9]*: .{10,}`)
	for _, f := range faults {
		if !strings.Contains(wellConfig, f.old) {
			t.Fatalf("%s changes nothing", f.name)
		}
		write(strings.Replace(wellConfig, f.old, f.new, 1))
		code, out := tool(t, "check", "-c", path)
		line, _, _ := strings.Cut(out, "\n")
		if code != 2 || !form.MatchString(line) {
			t.Errorf("%s: exit %d, %q; want 2 and FILE:LINE:COL: key: what was expected", f.name, code, out)
			continue
		}
		if f.at != "" && !strings.HasPrefix(line, path+":"+f.at+": ") {
			t.Errorf("%s: %q, want it at %s", f.name, line, f.at)
		}
	}
	write(strings.NewReplacer("p2c", "best", "64KiB", "large", "timeout: 5s", "timeout: soon").Replace(wellConfig))
	if code, out := tool(t, "check", "-c", path); code != 2 || strings.Count(out, path+":") < 3 {
		t.Errorf("three faults: exit %d\n%s", code, out)
	}
	write(wellConfig)
	if err := os.Chmod(path, 0o622); err != nil {
		t.Fatal(err)
	}
	if code, out := tool(t, "check", "-c", path); code != 2 {
		t.Errorf("a configuration that others may write: exit %d\n%s", code, out)
	}
	if code, _ := tool(t, "check", "-c", path+".missing"); code != 2 {
		t.Errorf("no such file: exit %d", code)
	}
	for _, wrong := range [][]string{{"check"}, {"fly"}, {"run"}, {"run", "-c", path, "--loud"}} {
		if code, out := tool(t, wrong...); code != 2 {
			t.Errorf("%v: exit %d\n%s", wrong, code, out)
		}
	}
}

// TestRunRefusesFaults: run says the same as check and ends with 2.
func TestRunRefusesFaults(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "spillway.yaml")
	if err := os.WriteFile(path, []byte(strings.Replace(wellConfig, "p2c", "best", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := tool(t, "run", "-c", path); code != 2 || !strings.Contains(out, path+":20:12: ") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// TestExplain asks the running sidecar tier by tier.
func TestExplain(t *testing.T) {
	t.Parallel()
	near, far := named(t, "near"), named(t, "far")
	dead := newIP() + ":8080"
	s := startSidecar(t, setup{services: service("pay", "", at(near.addr, "dc1"), at(far.addr, "dc2")) + service("lost", "", at(dead, "dc1"))})
	code, out := tool(t, "explain", "--admin", "http://"+s.admin(), "--service", "pay", "--header", "x-a=b", "--path", "/x")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	last := lines[len(lines)-1]
	if code != 0 || last != fmt.Sprintf("goes to %s in dc1: nearest", near.addr) {
		t.Errorf("exit %d\n%s", code, out)
	}
	for i, want := range []string{"tier 0 dc1", "tier 2 dc2"} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d is not that of %q:\n%s", i, want, out)
		}
	}
	code, out = tool(t, "explain", "--admin", "http://"+s.admin(), "--service", "pay", "--json")
	var doc any
	if err := json.Unmarshal([]byte(out), &doc); code != 0 || err != nil || !strings.Contains(out, near.addr) {
		t.Errorf("--json: exit %d, %v\n%s", code, err, out)
	}
	if code, out := tool(t, "explain", "--admin", "http://"+s.admin(), "--service", "nobody"); code != 1 || out == "" {
		t.Errorf("unknown service: exit %d\n%s", code, out)
	}
	if code, out := tool(t, "explain", "--admin", "http://"+newIP()+":15000", "--service", "pay"); code != 1 || out == "" {
		t.Errorf("no sidecar: exit %d\n%s", code, out)
	}
	near.stop()
	c := dial(t, s.outbound())
	c.want(c.get("pay", "/"), 200, "far")
	code, out = tool(t, "explain", "--admin", "http://"+s.admin(), "--service", "pay")
	if code != 0 || !strings.Contains(out, fmt.Sprintf("goes to %s in dc2: ", far.addr)) {
		t.Errorf("after the near one is gone: exit %d\n%s", code, out)
	}
}

// TestAdminGuards (R36): a web page can neither read the configuration nor drain the proxy.
func TestAdminGuards(t *testing.T) {
	t.Parallel()
	s := startSidecar(t, setup{services: service("pay", "", at(named(t, "ok").addr, "dc1"))})
	ask := func(addr, method, path string, fields ...string) int {
		c := dial(t, addr)
		c.send(method, " ", path, " HTTP/1.1\r\n", strings.Join(fields, "\r\n"), "\r\nConnection: close\r\n\r\n")
		return c.answer(method).status()
	}
	own := "Host: " + s.admin()
	for _, path := range []string{"/healthz", "/services", "/config"} {
		if code := ask(s.admin(), "GET", path, own); code != 200 {
			t.Errorf("GET %s: %d", path, code)
		}
		for _, bad := range [][]string{
			{"Host: evil.example"}, {"Host: 127.0.0.1.evil.example:15000"}, {"Host: " + s.ip + ".evil.example"}, {own, "Origin: http://evil.example"},
			{own, "Origin: null"},
		} {
			if code := ask(s.admin(), "GET", path, bad...); code/100 != 4 {
				t.Errorf("GET %s with %q: %d", path, bad, code)
			}
		}
		if code := ask(s.admin(), "POST", path, own, "Content-Length: 0"); code/100 != 4 {
			t.Errorf("POST %s: %d", path, code)
		}
	}
	for _, method := range []string{"GET", "POST"} {
		if code := ask(s.admin(), method, "/drain", own, "Content-Length: 0"); code/100 != 4 {
			t.Errorf("%s /drain on the admin port: %d", method, code)
		}
	}
	info, err := os.Stat(s.socket())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the unix socket: %v %v", info, err)
	}
	u, err := net.Dial("unix", s.socket())
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(u, 0)
	w.say("GET /drain HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	if m, err := readMessage(w.br, "GET"); err != nil || m.status()/100 != 4 {
		t.Errorf("GET /drain on the socket: %q %v", m.head, err)
	}
	_ = w.Close()
	if code, _ := get(s.ready(), "/ready"); code != 200 {
		t.Errorf("something was drained: ready says %d", code)
	}
}

// TestAccessLog writes one JSON line per request, with the reason of the proxy's own answers.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	e := named(t, "ok")
	log := filepath.Join(t.TempDir(), "access.json")
	s := startSidecar(t, setup{
		services: service("pay", "", at(e.addr, "dc1")), more: fmt.Sprintf("telemetry: {access_log: {path: %s, format: json}}\n", log),
	})
	c := dial(t, s.outbound())
	c.get("pay", "/a?\"b\\\xff"[:6])
	c.get("nobody", "/")
	var lines []string
	eventually(t, waitMax, "two lines are written", func() bool {
		b, _ := os.ReadFile(log)
		lines = strings.Split(strings.TrimSpace(string(b)), "\n")
		return len(lines) == 2
	})
	for i, want := range []string{e.addr, "no_route"} {
		var doc map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &doc); err != nil || !strings.Contains(lines[i], want) {
			t.Errorf("line %d: %v\n%s", i, err, lines[i])
		}
	}
}

// TestMetrics counts by service, datacenter and reason, with labels from a closed list only.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := startSidecar(t, setup{services: service("pay", "", at(named(t, "ok").addr, "dc1"))})
	c := dial(t, s.outbound())
	for range 7 {
		c.get("pay", "/")
	}
	for i := range 50 {
		c.get(fmt.Sprint("made-up-", i), "/")
	}
	if n := s.metric(t, "spillway_requests_total", `service="pay"`, `datacenter="dc1"`, `reason="nearest"`); n != 7 {
		t.Errorf("spillway_requests_total is %v, want 7", n)
	}
	if n := s.metric(t, "http_client_request_duration_seconds_count"); n < 7 {
		t.Errorf("http_client_request_duration_seconds_count is %v", n)
	}
	_, text := get(s.metrics(), "/metrics")
	if strings.Contains(text, "made-up") {
		t.Error("what a caller makes up became a label")
	}
	for _, name := range []string{"go_memstats_mallocs_total", "go_goroutines", "process_open_fds"} {
		if s.metric(t, name) <= 0 {
			t.Errorf("%s is missing", name)
		}
	}
}
