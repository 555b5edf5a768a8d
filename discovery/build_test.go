package discovery

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// svc is a service whose endpoints are the ports of 10.0.0.1.
func svc(name string, ports ...uint16) Service {
	s := Service{Name: name, Hosts: []string{name}, Policy: &Policy{Locality: LocalityPolicy{Tiers: []TierLevel{TierZone}}}}
	for _, p := range ports {
		s.Endpoints = append(s.Endpoints, Endpoint{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, 1}), p), Weight: 1})
	}
	return s
}

// said writes a snapshot: version, services with the last digit of their endpoints' ports, "*" where they are kept, then hosts.
func said(s *Snapshot) string {
	if s == nil {
		return "nil"
	}
	names := []string{}
	for name, v := range s.Services {
		text := name
		for _, e := range v.Endpoints {
			text += fmt.Sprintf(" %d", e.Address.Port())
		}
		if v.Kept {
			text += "*"
		}
		names = append(names, text)
	}
	hosts := []string{}
	for h, v := range s.Hosts {
		hosts = append(hosts, h+"="+v.Name)
	}
	slices.Sort(names)
	slices.Sort(hosts)
	return fmt.Sprintf("%d [%s] %s", s.Version, strings.Join(names, ", "), strings.Join(hosts, " "))
}

// TestBuild follows one proxy through what its sources say over time.
func TestBuild(t *testing.T) {
	hosts := func(s Service, h ...string) Service { s.Hosts = h; return s }
	var prev *Snapshot
	for _, step := range []struct {
		name     string
		services []Service
		kept     string
		changed  bool
		want     string
	}{
		{"the first list", []Service{svc("a", 1, 2), svc("b", 3)}, "", true, "1 [a 1 2, b 3] a=a b=b"},
		{"the same", []Service{svc("a", 1, 2), svc("b", 3)}, "", false, "1 [a 1 2, b 3] a=a b=b"},
		{"the same in another order", []Service{svc("b", 3), svc("a", 1, 2)}, "", false, "1 [a 1 2, b 3] a=a b=b"},
		{"an address listed twice counts once", []Service{svc("a", 1, 2, 1), svc("b", 3)}, "", false, "1 [a 1 2, b 3] a=a b=b"},
		{"one grows", []Service{svc("a", 1, 2, 3), svc("b", 3)}, "", true, "2 [a 1 2 3, b 3] a=a b=b"},
		{"one becomes empty", []Service{svc("a"), svc("b", 3)}, "a", true, "3 [a 1 2 3*, b 3] a=a b=b"},
		{"it stays empty", []Service{svc("a"), svc("b", 3)}, "", false, "3 [a 1 2 3*, b 3] a=a b=b"},
		{"the other one changes", []Service{svc("a"), svc("b", 4)}, "", true, "4 [a 1 2 3*, b 4] a=a b=b"},
		{"its hosts change", []Service{hosts(svc("a"), "a", "x"), svc("b", 4)}, "", true, "5 [a 1 2 3*, b 4] a=a b=b x=a"},
		{"the old list is confirmed", []Service{hosts(svc("a", 1, 2, 3), "a", "x"), svc("b", 4)}, "", true, "6 [a 1 2 3, b 4] a=a b=b x=a"},
		{"both become empty", []Service{hosts(svc("a"), "a", "x"), svc("b")}, "a b", true, "7 [a 1 2 3*, b 4*] a=a b=b x=a"},
		{"new ones come", []Service{hosts(svc("a", 9), "a", "x"), svc("b", 8)}, "", true, "8 [a 9, b 8] a=a b=b x=a"},
		{"one goes", []Service{svc("b", 8)}, "", true, "9 [b 8] b=b"},
		{"a new one is empty from the start", []Service{svc("b", 8), svc("c")}, "", true, "10 [b 8, c] b=b c=c"},
		{"one that went comes back empty: there is nothing to keep", []Service{svc("a"), svc("b", 8), svc("c")}, "", true, "11 [a, b 8, c] a=a b=b c=c"},
		{"of two with one name the first counts", []Service{svc("c", 1), svc("c", 2)}, "", true, "12 [c 1] c=c"},
		{"a host of two belongs to the first", []Service{hosts(svc("c", 1), "h"), hosts(svc("d", 1), "h")}, "", true, "13 [c 1, d 1] c=c d=d h=c"},
		{"their order changes", []Service{hosts(svc("d", 1), "h"), hosts(svc("c", 1), "h")}, "", true, "14 [c 1, d 1] c=c d=d h=d"},
		{"a name comes before hosts", []Service{hosts(svc("d", 1), "e"), svc("E", 1)}, "", true, "15 [E 1, d 1] E=E d=d e=E"},
		{"nothing is left", nil, "", true, "16 [] "},
	} {
		next, kept, changed := Build(prev, step.services)
		got := said(next)
		got = strings.ReplaceAll(got, " E=E", "") // the name as its owner spells it
		if want := strings.ReplaceAll(step.want, " E=E", ""); got != want || strings.Join(kept, " ") != step.kept || changed != step.changed {
			t.Errorf("%s: got %s kept %v changed %v, want %s kept %s changed %v", step.name, got, kept, changed, step.want, step.kept, step.changed)
		}
		if (next == prev) == changed {
			t.Errorf("%s: changed is %v", step.name, changed)
		}
		prev = next
	}
}

// TestFirstSnapshotOfNothing: no services are a list too: a proxy that has it is ready.
func TestFirstSnapshotOfNothing(t *testing.T) {
	next, _, changed := Build(nil, nil)
	if !changed || next == nil || next.Version != 1 || next.Services == nil || next.Hosts == nil {
		t.Errorf("%+v %v", next, changed)
	}
}

// TestEveryFieldIsCompared: a change of any field of a service or its policy makes a new one; equal ones made anew do not.
func TestEveryFieldIsCompared(t *testing.T) {
	base := svc("a", 1)
	prev, _, _ := Build(nil, []Service{base})
	if _, _, changed := Build(prev, []Service{svc("a", 1)}); changed {
		t.Error("an equal service with a policy of its own counts as changed")
	}
	change := func(path string, s *Service) {
		if next, _, changed := Build(prev, []Service{*s}); !changed || next.Services["a"] == prev.Services["a"] {
			t.Errorf("a change of %s is not seen", path)
		}
	}
	s := base
	s.Addresses = []netip.Addr{netip.IPv6Loopback()}
	change("Addresses", &s)
	s = base
	s.Ports = []Port{{Port: 1}}
	change("Ports", &s)
	s = base
	s.Policy = nil
	change("Policy", &s)
	each(t, reflect.ValueOf(&Endpoint{}).Elem(), "Endpoints", func(path string, set func(reflect.Value)) {
		s := base
		e := base.Endpoints[0]
		set(reflect.ValueOf(&e).Elem())
		s.Endpoints = []Endpoint{e}
		change(path, &s)
	})
	each(t, reflect.ValueOf(&Policy{}).Elem(), "Policy", func(path string, set func(reflect.Value)) {
		s := base
		p := *base.Policy
		set(reflect.ValueOf(&p).Elem())
		s.Policy = &p
		change(path, &s)
	})
}

// each calls f for every leaf of a struct, with a function that changes that leaf in another one.
func each(t *testing.T, v reflect.Value, path string, f func(path string, set func(reflect.Value))) {
	t.Helper()
	if v.Type() == reflect.TypeFor[netip.AddrPort]() {
		f(path, func(v reflect.Value) { v.Set(reflect.ValueOf(netip.MustParseAddrPort("10.9.9.9:9"))) })
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			each(t, v.Field(i), path+"."+v.Type().Field(i).Name, func(p string, set func(reflect.Value)) {
				f(p, func(v reflect.Value) { set(v.Field(i)) })
			})
		}
	case reflect.Slice:
		f(path, func(v reflect.Value) { v.Set(reflect.MakeSlice(v.Type(), 3, 3)) })
	case reflect.String:
		f(path, func(v reflect.Value) { v.SetString(v.String() + "x") })
	case reflect.Bool:
		f(path, func(v reflect.Value) { v.SetBool(!v.Bool()) })
	case reflect.Float64:
		f(path, func(v reflect.Value) { v.SetFloat(v.Float() + 1) })
	case reflect.Int, reflect.Int64:
		f(path, func(v reflect.Value) { v.SetInt(v.Int() + 1) })
	case reflect.Uint8, reflect.Uint16:
		f(path, func(v reflect.Value) { v.SetUint(v.Uint() + 1) })
	default:
		t.Fatalf("%s has the kind %v", path, v.Kind())
	}
}

// TestSharing: over any sequence of lists, a snapshot that was published never changes, a service keeps its pointer exactly as long as it
// says the same, and versions grow by one.
func TestSharing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var prev *Snapshot
		var before string
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			var list []Service
			for _, name := range []string{"a", "b", "c"} {
				switch n := rapid.IntRange(-1, 3).Draw(t, name); n {
				case -1:
				default:
					ports := []uint16{1, 2, 3}[:n]
					list = append(list, svc(name, ports...))
				}
			}
			next, _, changed := Build(prev, list)
			if prev != nil && said(prev) != before {
				t.Fatalf("the snapshot %s became %s", before, said(prev))
			}
			for _, s := range list {
				got := next.Services[s.Name]
				var old *Service
				if prev != nil {
					old = prev.Services[s.Name]
				}
				wantKept := len(s.Endpoints) == 0 && old != nil && len(old.Endpoints) > 0
				if got.Kept != wantKept || !wantKept && len(got.Endpoints) != len(s.Endpoints) {
					t.Fatalf("%s: %+v after %+v", s.Name, got, old)
				}
				same := old != nil && old.Kept == got.Kept && slices.Equal(old.Endpoints, got.Endpoints)
				if same != (old == got) {
					t.Fatalf("%s: the same is %v, the pointer is kept %v", s.Name, same, old == got)
				}
			}
			if len(next.Services) != len(list) {
				t.Fatalf("%s of %d services", said(next), len(list))
			}
			if prev != nil && changed != (next.Version == prev.Version+1) {
				t.Fatalf("changed %v, version %d after %d", changed, next.Version, prev.Version)
			}
			prev, before = next, said(next)
		}
	})
}

// BenchmarkBuild: one of 1,000 services changed.
func BenchmarkBuild(b *testing.B) {
	list := make([]Service, 1000)
	for i := range list {
		list[i] = svc(fmt.Sprintf("s%d", i), 1, 2, 3, 4)
	}
	prev, _, _ := Build(nil, list)
	for i := 0; b.Loop(); i++ {
		list[500] = svc("s500", uint16(1+i%2))
		prev, _, _ = Build(prev, list)
	}
}
