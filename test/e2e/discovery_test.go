//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// discovered is a setup whose services come from a watched file.
func discovered(more string) setup {
	return setup{files: "  - file: {path: $DIR/services.yaml}\n", more: more}
}

// put writes a discovery file the way careful tools do: under another name, then renamed.
func put(t *testing.T, s *sidecar, text string) {
	t.Helper()
	path := filepath.Join(s.dir, "services.yaml")
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// startDiscovered starts a sidecar with these services in its discovery file.
func startDiscovered(t *testing.T, services string) *sidecar {
	t.Helper()
	s := prepareSidecar(t, discovered(""), newIP())
	put(t, s, "services:\n"+services)
	s.start(t)
	s.waitReady(t)
	return s
}

// takesEffect waits until the service answers with the body; the promise is 1.2 s, the bound leaves room for a busy machine.
func takesEffect(t *testing.T, s *sidecar, service, body string) {
	t.Helper()
	c := dial(t, s.outbound())
	took := eventually(t, 4*time.Second, service+" answers "+body, func() bool { return string(c.get(service, "/").body) == body })
	t.Logf("the new list took effect after %v", took)
}

// TestEmptyList (R27): a list that becomes empty keeps the endpoints while they answer; when they are gone callers are told at once;
// a new list takes effect.
func TestEmptyList(t *testing.T) {
	t.Parallel()
	a, b := named(t, "old"), named(t, "old")
	s := startDiscovered(t, service("pay", "", at(a.addr, "dc1"), at(b.addr, "dc1")))
	c := dial(t, s.outbound())
	c.want(c.get("pay", "/"), 200, "old")
	put(t, s, "services:\n"+service("pay", ""))
	eventually(t, 4*time.Second, "the metric of kept endpoints", func() bool {
		return s.metric(t, "spillway_discovery_kept_endpoints", "pay") > 0
	})
	for range 20 {
		c.want(c.get("pay", "/"), 200, "old")
	}
	if !strings.Contains(s.output.String(), "pay") {
		t.Error("no log line says that endpoints were kept")
	}
	a.stop()
	b.stop()
	start := time.Now()
	for range 5 {
		if m := c.get("pay", "/"); m.status() != 503 || m.reason() == "" {
			t.Errorf("nobody left: %q", m.head)
		}
	}
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("five refusals took %v", d)
	}
	put(t, s, "services:\n"+service("pay", "", at(named(t, "new").addr, "dc1")))
	takesEffect(t, s, "pay", "new")
	if n := s.metric(t, "spillway_discovery_kept_endpoints", "pay"); n != 0 {
		t.Errorf("the metric still says %v kept endpoints", n)
	}
}

// TestBadFiles (R50): a file that is half, garbage, empty, of an unknown key, of an impossible port or gone changes nothing and is
// said with its line; a good one takes effect.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	e := named(t, "old")
	good := "services:\n" + service("pay", "", at(e.addr, "dc1"))
	s := startDiscovered(t, service("pay", "", at(e.addr, "dc1")))
	c := dial(t, s.outbound())
	for i, bad := range []struct{ name, text string }{
		{"half", good[:len(good)-20]},
		{"garbage", "\x00\x01\x02{{{{"},
		{"empty", ""},
		{"unknown key", good + "colour: red\n"},
		{"impossible port", strings.Replace(good, ":8080", ":808080", 1)},
		{"gone", ""},
	} {
		path := filepath.Join(s.dir, "services.yaml")
		if bad.name == "gone" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		} else {
			put(t, s, bad.text)
		}
		if bad.name != "gone" {
			eventually(t, 4*time.Second, bad.name+" is counted", func() bool {
				return s.metric(t, "spillway_discovery_rejected_total") >= float64(i+1)
			})
		} else {
			pace(600 * time.Millisecond) // more than two looks of the watcher
		}
		for range 5 {
			if m := c.get("pay", "/"); string(m.body) != "old" {
				t.Fatalf("%s: %q %q", bad.name, m.head, m.body)
			}
		}
	}
	if log := s.output.String(); !strings.Contains(log, "services.yaml:4:") && !strings.Contains(log, "services.yaml:5:") {
		t.Errorf("the log does not name file and line:\n%s", tail(log, 2000))
	}
	put(t, s, "services:\n"+service("pay", "", at(named(t, "new").addr, "dc1")))
	takesEffect(t, s, "pay", "new")
}

// TestFileSwaps: the file may be written in place, replaced by renaming, or be a link into a folder that is swapped (ConfigMaps).
func TestFileSwaps(t *testing.T) {
	t.Parallel()
	a, b, d := named(t, "a"), named(t, "b"), named(t, "d")
	s := prepareSidecar(t, discovered(""), newIP())
	list := func(e *endpoint) []byte { return []byte("services:\n" + service("pay", "", at(e.addr, "dc1"))) }
	for name, e := range map[string]*endpoint{"v1": a, "v2": b} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, name, "services.yaml"), list(e), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	swap := func(to string) {
		tmp := filepath.Join(s.dir, "..tmp")
		if err := os.Symlink(to, tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(s.dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	swap("v1")
	if err := os.Symlink("..data/services.yaml", filepath.Join(s.dir, "services.yaml")); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	s.waitReady(t)
	takesEffect(t, s, "pay", "a")
	swap("v2")
	takesEffect(t, s, "pay", "b")
	if err := os.WriteFile(filepath.Join(s.dir, "v2", "services.yaml"), list(d), 0o600); err != nil {
		t.Fatal(err)
	}
	takesEffect(t, s, "pay", "d")
}

// TestReadyNeedsSnapshot (R59): without a snapshot the sidecar is not ready and never says that a service does not exist.
func TestReadyNeedsSnapshot(t *testing.T) {
	t.Parallel()
	e := named(t, "ok")
	s := prepareSidecar(t, discovered(""), newIP())
	s.start(t)
	refusals := 0
	for range 40 {
		if code, body := get(s.ready(), "/ready"); code == 200 {
			t.Fatalf("ready without a snapshot: %s", body)
		}
		if code, body := get(s.outbound(), "/"); code == 404 || code == 200 {
			t.Fatalf("a request without a snapshot got %d %s", code, body)
		} else if code != 0 {
			refusals++
		}
		pace(15 * time.Millisecond) // a start that takes a while
	}
	select {
	case <-s.exited:
		t.Fatalf("the sidecar ended with %d instead of waiting for its file:\n%s", s.code(), s.output)
	default:
	}
	if refusals > 0 {
		c := dial(t, s.outbound())
		c.refused(c.get("pay", "/"), 503, "not_ready")
	}
	put(t, s, "services:\n"+service("pay", "", at(e.addr, "dc1")))
	s.waitReady(t)
	c := dial(t, s.outbound())
	c.want(c.get("pay", "/"), 200, "ok")
}

// TestChangeCutsNothing: a change of one service leaves the tunnel and the stream of another alone, and also those of its own
// endpoints that stay.
func TestChangeCutsNothing(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	stream := each(t, func(w *wire, _ message) bool {
		w.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range next {
			w.say("1\r\nx\r\n")
		}
		return w.say("0\r\n\r\n")
	})
	tunnel := tunnelEndpoint(t)
	other := named(t, "other")
	fixed := service("pay", "", at(tunnel.addr, "dc1")) + service("feed", "", at(stream.addr, "dc1"))
	s := startDiscovered(t, fixed)
	tc, sc := dial(t, s.outbound()), dial(t, s.outbound())
	tc.open()
	sc.send("GET / HTTP/1.1\r\nHost: feed\r\n\r\n")
	if _, err := readHead(sc.br); err != nil {
		t.Fatal(err)
	}
	alive := func(when string) {
		t.Helper()
		tc.send("ping")
		tc.expect("ping")
		select {
		case next <- struct{}{}:
		case <-time.After(waitMax):
			t.Fatalf("%s: the stream's endpoint is gone", when)
		}
		sc.expect("1\r\nx\r\n")
	}
	alive("before")
	put(t, s, "services:\n"+fixed+service("late", "", at(other.addr, "dc1")))
	takesEffect(t, s, "late", "other")
	alive("another service came")
	put(t, s, "services:\n"+service("feed", "timeout: 3s", at(stream.addr, "dc1"), at(newIP()+":8080", "dc2"))+
		service("pay", "", at(newIP()+":8080", "dc1"), at(tunnel.addr, "dc1", "weight: 7"))+service("late", "", at(named(t, "later").addr, "dc1")))
	takesEffect(t, s, "late", "later")
	alive("their own lists changed")
	close(next)
	sc.expect("0\r\n\r\n")
}

// TestWeightZero (R69): an endpoint whose weight becomes 0 gets no new requests, and its tunnel lives on.
func TestWeightZero(t *testing.T) {
	t.Parallel()
	tunnel, other := tunnelEndpoint(t), named(t, "other")
	s := startDiscovered(t, service("pay", "", at(tunnel.addr, "dc1")))
	c := dial(t, s.outbound())
	c.open()
	put(t, s, "services:\n"+service("pay", "", at(tunnel.addr, "dc1", "weight: 0"), at(other.addr, "dc1")))
	takesEffect(t, s, "pay", "other")
	n := tunnel.conns.Load()
	d := dial(t, s.outbound())
	for range 50 {
		d.want(d.get("pay", "/"), 200, "other")
	}
	if tunnel.conns.Load() != n {
		t.Error("a new connection went to an endpoint of weight 0")
	}
	c.send("still")
	c.expect("still")
}

// TestDuplicates counts an address that is listed twice once.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	a, b := named(t, "a"), named(t, "b")
	s := startSidecar(t, setup{services: service("pay", "balance: round_robin", at(a.addr, "dc1"), at(a.addr, "dc1"), at(b.addr, "dc1"))})
	c := dial(t, s.outbound())
	for range 40 {
		c.get("pay", "/")
	}
	if n := a.requests.Load(); n != 20 {
		t.Errorf("%d of 40 requests went to the address that is listed twice, want 20", n)
	}
}

// TestAddressMoves: an address that comes to belong to another service starts clean there, and one whose locality changes keeps its
// state.
func TestAddressMoves(t *testing.T) {
	t.Parallel()
	bad := each(t, func(w *wire, _ message) bool {
		return w.say("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 3\r\n\r\nbad")
	})
	good, far := named(t, "good"), named(t, "far")
	policy := "balance: round_robin, locality: {panic_threshold: 0}, health: {passive: {ejection: 1m}}"
	s := startDiscovered(t, service("pay", policy, at(bad.addr, "dc1"), at(good.addr, "dc1"))+service("other", policy, at(far.addr, "dc1")))
	c := dial(t, s.outbound())
	for range 20 {
		c.get("pay", "/")
	}
	if st := s.state(t, "pay", bad.addr); st != "ejected" {
		t.Fatalf("state %q, want ejected", st)
	}
	put(t, s, "services:\n"+service("pay", policy, at(bad.addr, "dc2"), at(good.addr, "dc1"))+service("other", policy, at(far.addr, "dc1")))
	eventually(t, 4*time.Second, "the endpoint is in dc2", func() bool {
		for _, tier := range s.view(t).Services[index(s.view(t), "pay")].Tiers {
			if tier.Datacenter == "dc2" && len(tier.Endpoints) == 1 {
				return true
			}
		}
		return false
	})
	if st := s.state(t, "pay", bad.addr); st != "ejected" {
		t.Errorf("after a change of its locality the state is %q, want ejected", st)
	}
	put(t, s, "services:\n"+service("pay", policy, at(good.addr, "dc1"))+service("other", policy, at(bad.addr, "dc1"), at(far.addr, "dc1")))
	eventually(t, 4*time.Second, "the address belongs to the other service", func() bool { return s.state(t, "other", bad.addr) != "" })
	if st := s.state(t, "other", bad.addr); st != "usable" {
		t.Errorf("in its new service the state is %q, want usable", st)
	}
	for range 10 {
		c.want(c.get("pay", "/"), 200, "good")
	}
}

func index(v view, service string) int {
	for i, s := range v.Services {
		if s.Name == service {
			return i
		}
	}
	return 0
}
