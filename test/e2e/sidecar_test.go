//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// setup is what differs between the configurations of the tests. Each value is YAML in flow style without the outer braces, but
// services, which is the block that service makes.
type setup struct {
	region   string // of this proxy; dc1
	outbound string // more keys of outbound
	inbound  string
	policy   string
	services string
	files    string // discovery files, whole sequence
	limits   string
	drain    string
	hop      string

	datacenters string // items of the sequence
	trusted     bool   // trust 127.0.0.0/8
	more        string
}

// sidecar is one running spillway. Its listeners have the documented ports on an address of its own.
type sidecar struct {
	ip, dir, config string
	cmd             *exec.Cmd
	output          *logbook
	exited          chan struct{}
}

func (s *sidecar) outbound() string { return s.ip + ":15001" }
func (s *sidecar) inbound() string  { return s.ip + ":15006" }
func (s *sidecar) gateway() string  { return s.ip + ":15443" }
func (s *sidecar) admin() string    { return s.ip + ":15000" }
func (s *sidecar) ready() string    { return s.ip + ":15021" }
func (s *sidecar) metrics() string  { return s.ip + ":15020" }
func (s *sidecar) socket() string   { return filepath.Join(s.dir, "admin.sock") }

// logbook collects what a process writes.
type logbook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// service is one service in YAML; policy may be empty.
func service(name, policy string, endpoints ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  - name: %s\n", name)
	if policy != "" {
		fmt.Fprintf(&b, "    policy: {%s}\n", policy)
	}
	if len(endpoints) == 0 {
		b.WriteString("    endpoints: []\n")
		return b.String()
	}
	b.WriteString("    endpoints:\n")
	for _, e := range endpoints {
		fmt.Fprintf(&b, "      - %s\n", e)
	}
	return b.String()
}

// at is one endpoint in YAML, in zone "-a" of the datacenter; more are further keys, such as "weight: 0".
func at(addr, datacenter string, more ...string) string {
	s := fmt.Sprintf("{address: %q, locality: {region: %s, zone: %s-a}", addr, datacenter, datacenter)
	for _, m := range more {
		s += ", " + m
	}
	return s + "}"
}

func (c setup) yaml(ip, dir string) string {
	region := c.region
	if region == "" {
		region = "dc1"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "node: {id: n-%s, locality: {region: %s, zone: %s-a}}\n", ip, region, region)
	more := ""
	if c.outbound != "" {
		more = ", " + strings.ReplaceAll(c.outbound, "$IP", ip)
	}
	fmt.Fprintf(&b, "outbound: {listen: \"%s:15001\", capture: explicit%s}\n", ip, more)
	inbound := c.inbound
	if inbound == "" {
		inbound = "ports: []"
	}
	fmt.Fprintf(&b, "inbound: {listen: \"%s:15006\", %s}\n", ip, inbound)
	fmt.Fprintf(&b, "admin: {listen: \"%s:15000\", socket: %s/admin.sock}\n", ip, dir)
	fmt.Fprintf(&b, "metrics: {listen: \"%s:15020\"}\nready: {listen: \"%s:15021\"}\n", ip, ip)
	if c.datacenters == "" {
		c.datacenters = "{name: dc1}, {name: dc2}, {name: dc3}"
	}
	b.WriteString("datacenters: [" + c.datacenters + "]\n")
	if c.trusted {
		c.hop = strings.TrimPrefix(c.hop+", trusted_networks: [127.0.0.0/8]", ", ")
	}
	for _, part := range []struct{ key, value string }{{"policy", c.policy}, {"limits", c.limits}, {"drain", c.drain}, {"hop", c.hop}} {
		if part.value != "" {
			fmt.Fprintf(&b, "%s: {%s}\n", part.key, part.value)
		}
	}
	b.WriteString(c.more)
	if c.files != "" {
		b.WriteString("discovery:\n" + strings.ReplaceAll(c.files, "$DIR", dir))
	}
	if c.services != "" {
		b.WriteString("services:\n" + c.services)
	}
	return b.String()
}

// startSidecar runs spillway with the configuration and waits until it is ready.
func startSidecar(t *testing.T, c setup) *sidecar {
	t.Helper()
	s := prepareSidecar(t, c, newIP())
	s.start(t)
	s.waitReady(t)
	return s
}

// prepareSidecar writes the configuration of a sidecar on address ip.
func prepareSidecar(t *testing.T, c setup, ip string) *sidecar {
	t.Helper()
	dir := t.TempDir()
	s := &sidecar{ip: ip, dir: dir, config: filepath.Join(dir, "spillway.yaml")}
	if err := os.WriteFile(s.config, []byte(c.yaml(ip, dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// start starts the process; it ends with the test at the latest, and a panic or a data race fails the test.
func (s *sidecar) start(t *testing.T) {
	t.Helper()
	s.output, s.exited = &logbook{}, make(chan struct{})
	cmd := exec.Command(binary, "run", "-c", s.config)
	cmd.Stdout, cmd.Stderr = s.output, s.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.cmd = cmd
	exited, output := s.exited, s.output
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
		text := output.String()
		for _, bad := range []string{"panic:", "DATA RACE", "fatal error:"} {
			if strings.Contains(text, bad) {
				t.Errorf("the sidecar said %q:\n%s", bad, text)
				return
			}
		}
		if t.Failed() {
			t.Logf("the sidecar at %s said:\n%s", s.ip, tail(text, 4000))
		}
	})
}

func tail(s string, n int) string {
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}

func (s *sidecar) waitReady(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(waitMax)
	for {
		if code, _ := get(s.ready(), "/ready"); code == 200 {
			return
		}
		select {
		case <-s.exited:
			t.Fatalf("the sidecar ended with %d before it was ready:\n%s", s.code(), s.output)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("the sidecar was not ready in %v:\n%s", waitMax, s.output)
		}
		pace(5 * time.Millisecond)
	}
}

func (s *sidecar) signal(sig os.Signal) { _ = s.cmd.Process.Signal(sig) }

// code is the exit code of an ended process.
func (s *sidecar) code() int { return s.cmd.ProcessState.ExitCode() }

// waitExit waits for the end of the process and gives its exit code.
func (s *sidecar) waitExit(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-s.exited:
		return s.code()
	case <-time.After(within):
		t.Fatalf("the sidecar did not end within %v:\n%s", within, s.output)
		return -1
	}
}

// get is one GET on a connection of its own; code 0 when there was no answer.
func get(addr, path string) (code int, body string) {
	tr := &http.Transport{DisableKeepAlives: true}
	c := http.Client{Timeout: 5 * time.Second, Transport: tr}
	res, err := c.Get("http://" + addr + path)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(res.Body, 8<<20))
	return res.StatusCode, string(b)
}

// metric is the value of a metric without labels, or the sum over the series whose labels hold every one of with.
func (s *sidecar) metric(t *testing.T, name string, with ...string) float64 {
	t.Helper()
	code, text := get(s.metrics(), "/metrics")
	if code != 200 {
		t.Fatalf("GET /metrics: %d %s", code, text)
	}
	sum := 0.0
lines:
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || (rest[0] != ' ' && rest[0] != '{') {
			continue
		}
		for _, w := range with {
			if !strings.Contains(rest, w) {
				continue lines
			}
		}
		f := strings.Fields(rest)
		v, err := strconv.ParseFloat(f[len(f)-1], 64)
		if err != nil {
			t.Fatalf("metric line %q: %v", line, err)
		}
		sum += v
	}
	return sum
}

// view is what /services shows.
type view struct {
	Services []struct {
		Name  string
		Tiers []struct {
			Number     int
			Datacenter string
			Share      float64
			Endpoints  []struct {
				Address string
				State   string
				Weight  int
			}
		}
	}
}

func (s *sidecar) view(t *testing.T) view {
	t.Helper()
	code, text := get(s.admin(), "/services")
	if code != 200 {
		t.Fatalf("GET /services: %d %s", code, text)
	}
	var v view
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("/services: %v\n%s", err, text)
	}
	return v
}

// state is what /services says of an endpoint; empty when it is not listed.
func (s *sidecar) state(t *testing.T, service, address string) string {
	t.Helper()
	for _, svc := range s.view(t).Services {
		if svc.Name != service {
			continue
		}
		for _, tier := range svc.Tiers {
			for _, e := range tier.Endpoints {
				if e.Address == address {
					return e.State
				}
			}
		}
	}
	return ""
}

// tool runs a command of the binary and gives its exit code and all that it printed.
func tool(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	cmd := exec.Command(binary, args...)
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%v: %v", args, err)
	}
	return cmd.ProcessState.ExitCode(), string(b)
}
