package route

import (
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"spillway/discovery"
)

// snapshot indexes services as discovery does.
func snapshot(services ...*discovery.Service) *discovery.Snapshot {
	s := &discovery.Snapshot{Services: map[string]*discovery.Service{}, Hosts: map[string]*discovery.Service{}}
	for _, svc := range services {
		s.Services[svc.Name] = svc
		for _, h := range svc.Hosts {
			s.Hosts[h] = svc
		}
	}
	return s
}

// TestByHost runs testdata/hosts.txt: "service NAME hosts=A,B ports=1,2" and "HOST -> NAME".
func TestByHost(t *testing.T) {
	text, err := os.ReadFile("testdata/hosts.txt")
	if err != nil {
		t.Fatal(err)
	}
	var services []*discovery.Service
	steps := 0
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if words := strings.Fields(line); words[0] == "service" {
			services = append(services, service(t, words[1:]))
			continue
		}
		quoted, want, _ := strings.Cut(line, " -> ")
		host, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		steps++
		got := "none"
		if svc := ByHost(snapshot(services...), []byte(host)); svc != nil {
			got = svc.Name
		}
		if got != want {
			t.Errorf("line %d: %q: %s, want %s", i+1, host, got, want)
		}
	}
	if steps < 30 {
		t.Errorf("only %d steps", steps)
	}
	if svc := ByHost(snapshot(services...), []byte(strings.Repeat("a", HostMax+1))); svc != nil {
		t.Errorf("a host over HostMax names %s", svc.Name)
	}
}

func service(t *testing.T, words []string) *discovery.Service {
	svc := &discovery.Service{Name: words[0]}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		for _, v := range strings.Split(value, ",") {
			if key == "hosts" {
				svc.Hosts = append(svc.Hosts, v)
				continue
			}
			port, err := strconv.Atoi(v)
			if err != nil {
				t.Fatal(err)
			}
			svc.Ports = append(svc.Ports, discovery.Port{Port: uint16(port)})
		}
	}
	return svc
}

// reference is ByHost in strings, by the grammar.
func reference(s *discovery.Snapshot, host string) *discovery.Service {
	host = strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, host)
	name, port, found := strings.Cut(host, ":")
	if strings.HasPrefix(host, "[") {
		inner, after, closed := strings.Cut(host[1:], "]")
		a, err := netip.ParseAddr(inner)
		if !closed || err != nil || !a.Is6() {
			return nil
		}
		name = a.String()
		if after != "" && after[0] != ':' {
			return nil
		}
		_, port, found = strings.Cut(after, ":")
	} else if name = strings.TrimSuffix(name, "."); strings.Contains(port, ":") {
		return nil
	}
	svc := s.Hosts[name]
	if !found || port == "" || svc == nil {
		return svc
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return nil
	}
	for _, p := range svc.Ports {
		if uint64(p.Port) == n {
			return svc
		}
	}
	if len(svc.Ports) == 0 {
		return svc
	}
	return nil
}

// house is what properties and fuzzing look in.
func house() *discovery.Snapshot {
	return snapshot(
		&discovery.Service{Name: "pay", Hosts: []string{"pay", "pay.shop.svc"}, Ports: []discovery.Port{{Port: 80}, {Port: 8080}}},
		&discovery.Service{Name: "any", Hosts: []string{"any", "10.0.0.7", "2001:db8::1"}},
		&discovery.Service{Name: "v6", Hosts: []string{"::1"}, Ports: []discovery.Port{{Port: 80}}},
	)
}

// TestByHostAgainstReference puts hosts together from parts that matter.
func TestByHostAgainstReference(t *testing.T) {
	s := house()
	part := rapid.SampledFrom([]string{"pay", "PAY", "any", ".", "pay.shop.svc", "10.0.0.7", "[", "]", ":", "::1", "80", "8080", "0", "81", "65536",
		"2001:DB8:0::1", "2001:db8::1", "[::1]", " ", "", "99999999999999999999", "+80", "%25eth0", "x"})
	rapid.Check(t, func(t *rapid.T) {
		host := strings.Join(rapid.SliceOfN(part, 0, 6).Draw(t, "parts"), "")
		if got, want := ByHost(s, []byte(host)), reference(s, host); got != want {
			t.Fatalf("%q: %v, want %v", host, got, want)
		}
	})
}

func FuzzByHost(f *testing.F) {
	for _, host := range []string{"pay", "Pay:80", "pay.:8080", "any:", "[::1]:80", "[2001:DB8::1]", "::1", "[]", "[:", "a:b:c", ":80"} {
		f.Add([]byte(host))
	}
	s := house()
	f.Fuzz(func(t *testing.T, host []byte) {
		before := string(host)
		if got, want := ByHost(s, host), reference(s, before); got != want {
			t.Errorf("%q: %v, want %v", before, got, want)
		}
		if string(host) != before {
			t.Errorf("%q was written to", before)
		}
	})
}

func TestNoAllocations(t *testing.T) {
	s := house()
	for _, host := range []string{"pay", "PAY.shop.svc.:8080", "nobody:1", "[::1]:80", "any:9"} {
		b := []byte(host)
		if n := testing.AllocsPerRun(100, func() { ByHost(s, b) }); n != 0 {
			t.Errorf("%s: %v allocations", host, n)
		}
	}
}

func BenchmarkByHost(b *testing.B) {
	s, host := house(), []byte("Pay.shop.svc:8080")
	b.ReportAllocs()
	for b.Loop() {
		ByHost(s, host)
	}
}
