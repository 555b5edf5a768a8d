package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// try runs one command line.
func try(args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = command(args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{}, {"fly"}, {"run"}, {"check"}, {"check", "-c"}, {"run", "-c", "x.yaml", "--loud"}, {"explain"}, {"demo", "everything"},
		{"explain", "--service", "a", "--header", "x"}, {"explain", "--service", "a", "--path", "x"}, {"explain", "--service", "a", "--admin", "ftp://x"},
		{"run", "-c", filepath.Join(t.TempDir(), "missing.yaml")}, {"check", "-c", filepath.Join(t.TempDir(), "missing.yaml")},
	} {
		if code, _, stderr := try(args...); code != exitUsage || stderr == "" {
			t.Errorf("%v: exit %d, %q", args, code, stderr)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"run", "--help"}, {"demo", "--help"}} {
		code, stdout, stderr := try(args...)
		if code != exitGood || !strings.Contains(stdout, "Usage: spillway") || stderr != "" {
			t.Errorf("%v: exit %d\n%s%s", args, code, stdout, stderr)
		}
		if strings.Contains(stdout, "demo-endpoint") {
			t.Errorf("%v shows a hidden command", args)
		}
	}
	if code, stdout, _ := try("version"); code != exitGood || !strings.HasPrefix(stdout, "spillway "+version+" ") {
		t.Errorf("version: exit %d, %q", code, stdout)
	}
}

func TestExplain(t *testing.T) {
	var asked string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		if r.URL.Query().Get("service") != "pay" {
			http.Error(w, `unknown service "nobody"`, http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte("tier 0 dc1\ngoes to A in dc1: nearest\n"))
	}))
	defer s.Close()
	code, stdout, stderr := try("explain", "--admin", s.URL, "--service", "pay", "--header", "x-a=b,c", "--header", "Host=pay.example", "--path", "/x")
	if code != exitGood || !strings.HasSuffix(stdout, "goes to A in dc1: nearest\n") || stderr != "" {
		t.Errorf("exit %d, %q %q", code, stdout, stderr)
	}
	if want := "/explain?format=text&header=x-a%3Ab%2Cc&header=Host%3Apay.example&host=pay.example&path=%2Fx&service=pay"; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
	if code, _, _ := try("explain", "--admin", s.URL, "--service", "pay", "--json"); code != exitGood || asked != "/explain?service=pay" {
		t.Errorf("--json: exit %d, asked %s", code, asked)
	}
	if code, stdout, stderr := try("explain", "--admin", s.URL, "--service", "nobody"); code != exitFailed || stdout != "" || !strings.Contains(stderr, "unknown service") {
		t.Errorf("unknown service: exit %d, %q %q", code, stdout, stderr)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	if code, _, stderr := try("explain", "--admin", nobody, "--service", "pay"); code != exitFailed || !strings.Contains(stderr, "no sidecar answers") {
		t.Errorf("no sidecar: exit %d, %q", code, stderr)
	}
}

func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spillway.yaml")
	write := func(name, text string) string {
		t.Helper()
		p := filepath.Join(filepath.Dir(path), name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	const head = "node: {id: a, locality: {region: dc1}}\noutbound: {listen: 15001, capture: explicit}\ndatacenters: [{name: dc1}, {name: dc2}]\n"
	write("spillway.yaml", head+"discovery:\n  - file: {path: services.yaml}\n")
	code, stdout, stderr := try("check", "-c", path)
	if code != exitGood || strings.Count(stdout, "\n") != 1 || !strings.Contains(stderr, "warning:") {
		t.Errorf("without its discovery file: exit %d, %q %q", code, stdout, stderr)
	}
	found := write("services.yaml", "services:\n  - name: pay\n    endpoints:\n      - {address: 10.0.0.1:80, locality: {region: dc2}}\n")
	code, stdout, stderr = try("check", "-c", path)
	if code != exitGood || !strings.Contains(stdout, "1 services, 2 datacenters") || !strings.Contains(stderr, "hop.trusted_networks") {
		t.Errorf("good: exit %d, %q %q", code, stdout, stderr)
	}
	write("services.yaml", "services:\n  - name: pay\n    endpoints:\n      - {address: nowhere}\n")
	code, stdout, stderr = try("check", "-c", path)
	if code != exitUsage || stdout != "" || !strings.HasPrefix(stderr, found+":4:") {
		t.Errorf("a fault of the discovery file: exit %d, %q %q", code, stdout, stderr)
	}
	write("spillway.yaml", head+"colour: blue\n")
	code, stdout, stderr = try("check", "-c", path)
	if code != exitUsage || stdout != "" || !strings.HasPrefix(stderr, path+":4:1: colour: ") {
		t.Errorf("a fault of the configuration: exit %d, %q %q", code, stdout, stderr)
	}
}
