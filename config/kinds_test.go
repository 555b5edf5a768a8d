package config

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/discovery"
)

// accepts checks which texts a kind takes.
func accepts[T any](t *testing.T, k kind[T], good, bad []string) {
	t.Helper()
	for _, s := range good {
		v, ok := k.parse(s)
		if !ok {
			t.Errorf("%q is not %s", s, k.want)
			continue
		}
		if _, ok := k.parse(k.text(v)); !ok {
			t.Errorf("%q is shown as %q, which is not %s", s, k.text(v), k.want)
		}
	}
	for _, s := range bad {
		if _, ok := k.parse(s); ok {
			t.Errorf("%q passes as %s", s, k.want)
		}
	}
}

func TestKinds(t *testing.T) {
	accepts(t, listen(true), []string{"", "1", "65535", "127.0.0.1:0", "0.0.0.0:15006", "[::]:1", "[fe80::1%lo]:1"},
		[]string{"0", "65536", "-1", "+1", "1.0", ":1", "a:1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "::1:1", "[::1]", " 1", "0x10", "127.1:80", "010.0.0.1:1"})
	accepts(t, listen(false), []string{"1"}, []string{""})
	accepts(t, endpointAddress, []string{"10.0.0.1:1", "[::1]:65535", "[::ffff:10.0.0.1]:80"},
		[]string{"", "10.0.0.1", "10.0.0.1:0", "0.0.0.0:1", "[::]:1", "a:80", "224.0.0.1:80", "10.0.0.1:80 ", "[fe80::1%a b]:80"})
	accepts(t, address, []string{"10.0.0.1", "::1"}, []string{"", "10.0.0.1:80", "0.0.0.0", "fe80::1%lo", "a"})
	accepts(t, network, []string{"10.0.0.0/8", "0.0.0.0/0", "::/0", "10.0.0.1/32"}, []string{"", "10.0.0.1/8", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/-1", "a/8"})
	accepts(t, duration, []string{"1ms", "1s", "1h30m", "8760h", "0.5s"}, []string{"", "1", "0s", "0", "-1s", "1us", "8761h", "1 s", "s", "9999999999999h", "1d"})
	accepts(t, durationOrZero, []string{"0s", "0", "0h", "1ms"}, []string{"", "1ns", "-0.5s", "5"})
	accepts(t, size(1024, 1<<20), []string{"1024", "1KiB", "1MiB", "64KiB", "1025B"},
		[]string{"", "1023", "0", "2MiB", "1GiB", "1KB", "1kib", "-1KiB", "1.5KiB", "4611686018427387904KiB", "KiB", "1 KiB", "1KiBB"})
	accepts(t, whole(0, 10), []string{"0", "10", "7"}, []string{"", "11", "-1", "+1", "1.0", "1e1", "0x1", "1_0", "99999999999999999999", " 1"})
	accepts(t, port("p", 1), []string{"1", "65535"}, []string{"0", "65536", "80/tcp"})
	accepts(t, number(0, 1), []string{"0", "0.2", "1", "1.0", ".5"}, []string{"", ".", "1.1", "-0.1", "NaN", "nan", ".inf", "1e-1", "0x1p-1", "0.00000000000000000001", "1,0"})
	accepts(t, truth, []string{"true", "false"}, []string{"", "yes", "True", "1", "on"})
	accepts(t, name("n"), []string{"a", "a.b-c_D9", strings.Repeat("a", nameBytesMax)}, []string{"", "a b", "a,b", "a:1", "a@b", "é", strings.Repeat("a", nameBytesMax+1)})
	accepts(t, optionalName("n"), []string{"", "a"}, []string{"a;b"})
	accepts(t, host, []string{"a", "A.B", "a.", "::1", "[::1]", "10.0.0.1"}, []string{"", ".", "a:80", "*.a", "[::1", "[::1]:80", "fe80::1%lo", "a b"})
	accepts(t, checkPath, []string{"", "/", "/healthz?a=b%20"}, []string{"healthz", "http://a/", "/a b", "/a\tb", "/\x7f", "/é", "/a#b", "/a\r\nX: y", "/" + strings.Repeat("x", pathBytesMax)})
	accepts(t, path("/d", "p", 20, "stdout"), []string{"stdout", "a", "/a", "../a"}, []string{"", "a\x00b", strings.Repeat("a", 20)})
	accepts(t, balanceWord, []string{"p2c", "round_robin", "weighted_round_robin", "random"}, []string{"", "P2C", "p2c ", "maglev"})
}

// TestCanonical: what means the same becomes the same.
func TestCanonical(t *testing.T) {
	if a, _ := endpointAddress.parse("[::ffff:10.0.0.1]:80"); a != netip.MustParseAddrPort("10.0.0.1:80") {
		t.Error(a)
	}
	for in, want := range map[string]string{"Shop.Example.": "shop.example", "[2001:DB8:0::1]": "2001:db8::1", "::1": "::1"} {
		if got, _ := host.parse(in); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
	if p, _ := path("/d/e", "p", 20).parse("../f"); p != "/d/f" {
		t.Error(p)
	}
}

// TestTextIsParsed: what a kind shows it reads again as the same value.
func TestTextIsParsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(int64(durationMin), int64(durationMax)).Draw(t, "duration"))
		if got, ok := duration.parse(durationText(d)); !ok || got != d {
			t.Errorf("%v is shown as %s, read as %v", d, durationText(d), got)
		}
		n := rapid.IntRange(0, 1<<30).Draw(t, "size")
		if got, ok := size(0, 1<<30).parse(sizeText(n)); !ok || got != n {
			t.Errorf("%d is shown as %s, read as %d", n, sizeText(n), got)
		}
		f := float64(rapid.IntRange(0, 1000).Draw(t, "number")) / 1000
		if got, ok := number(0, 1).parse(number(0, 1).text(f)); !ok || got != f {
			t.Errorf("%v is read as %v", f, got)
		}
	})
}

// TestNearest: typing errors that people make, and words that are too far from any.
func TestNearest(t *testing.T) {
	words := []string{"listen", "capture", "services", "ports", "policy", "tcp"}
	for typed, want := range map[string]string{
		"lisen": "listen", "listne": "listen", "listens": "listen", "Listen": "listen", "service": "services", "polcy": "policy",
		"port": "ports", "ports_": "ports", "tpc": "tcp", "tc": "", "colour": "", "": "", "x": "", strings.Repeat("listen", 100): "",
	} {
		if got := nearest(typed, words); got != want {
			t.Errorf("%s: got %q, want %q", typed, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 5, -1)
		a, b, c := letters.Draw(t, "a"), letters.Draw(t, "b"), letters.Draw(t, "c")
		d := distanceOf(a, b)
		if d != distanceOf(b, a) || (d == 0) != (a == b) || d > max(len(a), len(b)) || distanceOf(a+c, b+c) > d {
			t.Errorf("%s %s: %d", a, b, d)
		}
	})
}

// TestSharedNothing compares the index of names, hosts and addresses with one that compares every pair of services.
func TestSharedNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := func(label string, n int) []int { return rapid.SliceOfN(rapid.IntRange(0, 3), 0, n).Draw(t, label) }
		x := newIndex()
		var taken []discovery.Service
		for range rapid.IntRange(1, 5).Draw(t, "services") {
			s := discovery.Service{Name: string(rune('a' + rapid.IntRange(0, 7).Draw(t, "name")))}
			for _, h := range few("hosts", 2) {
				s.Hosts = append(s.Hosts, string(rune('a'+2*h)))
			}
			for _, a := range few("addresses", 2) {
				s.Addresses = append(s.Addresses, netip.AddrFrom4([4]byte{10, 0, 0, byte(a)}))
			}
			for _, p := range few("ports", 2) {
				s.Ports = append(s.Ports, discovery.Port{Port: uint16(80 + p)})
			}
			clashes := len(x.add(&s, "f")) > 0
			if want := shares(taken, s); clashes != want {
				t.Fatalf("%+v after %+v: clash %v, want %v", s, taken, clashes, want)
			}
			if clashes {
				return // what of a clashing service was taken in does not matter: the file is refused
			}
			taken = append(taken, s)
		}
	})
}

// shares is the dumb way to find what two services have in common.
func shares(taken []discovery.Service, s discovery.Service) bool {
	for _, o := range taken {
		for _, a := range append([]string{o.Name}, o.Hosts...) {
			for _, b := range append([]string{s.Name}, s.Hosts...) {
				if a == b {
					return true
				}
			}
		}
		for _, a := range o.Addresses {
			for _, b := range s.Addresses {
				if a == b && portsMeet(o.Ports, s.Ports) {
					return true
				}
			}
		}
	}
	return false
}

func portsMeet(a, b []discovery.Port) bool {
	if len(a) == 0 || len(b) == 0 {
		return true
	}
	for _, p := range a {
		for _, q := range b {
			if p.Port == q.Port {
				return true
			}
		}
	}
	return false
}
