package head

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// reference is Lookup without tricks.
func reference(name []byte) ID {
	s := strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, string(name))
	for id := Unknown + 1; id < IDCount; id++ {
		if names[id] == s && s != "" {
			return id
		}
	}
	if len(s) > len("x-spillway-") && strings.HasPrefix(s, "x-spillway-") {
		return SpillwayOther
	}
	return Unknown
}

func TestLookup(t *testing.T) {
	for id := Unknown + 1; id < IDCount; id++ {
		if id == SpillwayOther {
			continue
		}
		name := id.Name()
		if name == "" || name != strings.ToLower(name) {
			t.Fatalf("ID %d has the name %q", id, name)
		}
		for _, spelled := range []string{name, strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:]} {
			if got := Lookup([]byte(spelled)); got != id {
				t.Errorf("Lookup(%q) = %d, want %d", spelled, got, id)
			}
		}
		for _, near := range []string{name + "s", name[1:], strings.ReplaceAll(name, "-", "_") + "_", " " + name} {
			if got, want := Lookup([]byte(near)), reference([]byte(near)); got != want {
				t.Errorf("Lookup(%q) = %d, want %d", near, got, want)
			}
		}
	}
	for name, want := range map[string]ID{"": Unknown, "X-Spillway-Epoch": SpillwayOther, "x-spillway-": Unknown, "x-spillway": Unknown, "accept": Unknown} {
		if got := Lookup([]byte(name)); got != want {
			t.Errorf("Lookup(%q) = %d, want %d", name, got, want)
		}
	}
}

// TestLookupReference compares with the dumb one, on names made by changing a byte or the case of known ones.
func TestLookupReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := []byte(names[rapid.IntRange(1, int(IDCount)-1).Draw(t, "id")])
		if len(name) == 0 {
			name = []byte("x-spillway-shard")
		}
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			i := rapid.IntRange(0, len(name)-1).Draw(t, "at")
			if rapid.Bool().Draw(t, "case") {
				copy(name[i:], bytes.ToUpper(name[i:i+1]))
			} else {
				name[i] = rapid.Byte().Draw(t, "byte")
			}
		}
		if got, want := Lookup(name), reference(name); got != want {
			t.Fatalf("Lookup(%q) = %d, want %d", name, got, want)
		}
	})
}

func TestSet(t *testing.T) {
	s := SetOf(Host, Range, Connection)
	for id := Unknown; id < IDCount; id++ {
		if want := id == Host || id == Range || id == Connection; s.Has(id) != want {
			t.Errorf("Has(%d) = %v", id, !want)
		}
		name := id.Name()
		if want := id == SpillwayOther || strings.HasPrefix(name, "x-spillway-"); SpillwaySet.Has(id) != want {
			t.Errorf("SpillwaySet has %q: %v", name, !want)
		}
	}
	if SetOf() != 0 || Set(0).Has(Unknown) {
		t.Error("the empty set is not empty")
	}
}

func TestHead(t *testing.T) {
	h := Head{Arena: []byte("Host: a\r\nDate: x\r\nhost: b\r\n")}
	h.Fields = []Field{{Span{0, 4}, Span{6, 1}, Host, false}, {Span{9, 4}, Span{15, 1}, Date, false}, {Span{18, 4}, Span{24, 1}, Host, true}}
	if v, ok := h.Get(Host); !ok || string(v) != "a" {
		t.Errorf("Get(Host) = %q, %v", v, ok)
	}
	if v, ok := h.Get(Expect); ok || v != nil {
		t.Errorf("Get(Expect) = %q, %v", v, ok)
	}
	if h.Count(Host) != 2 || h.Count(Expect) != 0 {
		t.Error("Count is wrong")
	}
	v := h.Bytes(h.Fields[0].Value)
	if _ = append(v, '!'); h.Arena[7] != '\r' {
		t.Error("appending to a value overwrites the arena")
	}
}

func TestNoAllocation(t *testing.T) {
	name := []byte("Content-Length")
	if n := testing.AllocsPerRun(100, func() { Lookup(name) }); n != 0 {
		t.Errorf("Lookup allocates %v times", n)
	}
}

func BenchmarkLookup(b *testing.B) {
	for _, name := range []string{"Content-Length", "Accept-Language", "X-Spillway-Shard"} {
		b.Run(name, func(b *testing.B) {
			n := []byte(name)
			for b.Loop() {
				Lookup(n)
			}
		})
	}
}
