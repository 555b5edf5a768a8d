package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// seeds adds the files of testdata and of the example.
func seeds(f *testing.F) {
	files, _ := filepath.Glob("testdata/broken/*.yaml")
	for _, file := range append(files, "testdata/full.yaml", example) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

// inside checks that faults can be shown and followed: one line each, at a place that the text has.
func inside(t *testing.T, data []byte, faults []Fault) {
	t.Helper()
	lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + strings.Count(string(data), "\u0085") + strings.Count(string(data), "\u2028") +
		strings.Count(string(data), "\u2029") + 1
	for _, f := range faults {
		if f.Line < 1 || f.Column < 1 || f.Line > lines+1 || f.Message == "" || strings.ContainsAny(f.String(), "\n\r") {
			t.Errorf("%q in %q", f.String(), data)
		}
	}
}

// FuzzParse: no text makes the reader panic, faults lie in the text, and what is accepted can be shown and read again unchanged.
func FuzzParse(f *testing.F) {
	seeds(f)
	secret := func(string) (string, error) { return "", os.ErrNotExist }
	f.Fuzz(func(t *testing.T, data []byte) {
		c, faults := parse("f", "/d", data, secret)
		if (c == nil) != (len(faults) > 0) {
			t.Fatalf("%v and %v", c, faults)
		}
		inside(t, data, faults)
		if c == nil {
			return
		}
		again, faults := parse("f", "/d", c.RedactedYAML(), secret)
		if c.Node.ID == "" && len(faults) == 1 && faults[0].Key == "node.id" {
			return // only Load fills it in
		}
		if len(faults) > 0 || !alike(c, again) {
			t.Fatalf("%s: %v", c.RedactedYAML(), faults)
		}
	})
}

// alike compares two configurations. Whether the socket was named is not shown.
func alike(a, b *Config) bool {
	x, y := *a, *b
	x.Admin.SocketSet, y.Admin.SocketSet = true, true
	return reflect.DeepEqual(x, y)
}

// FuzzParseServices: the same for discovered files; every service has a name, a policy, and its name among the hosts.
func FuzzParseServices(f *testing.F) {
	seeds(f)
	f.Add([]byte("services: [{name: a, endpoints: [{address: 10.0.0.1:80}], policy: {balance: random}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		services, faults := ParseServices("f", data, DefaultPolicy())
		inside(t, data, faults)
		if len(faults) > 0 && services != nil {
			t.Fatal("services in spite of faults")
		}
		for _, s := range services {
			named := false
			for _, h := range s.Hosts {
				named = named || h == strings.ToLower(s.Name)
			}
			if s.Name == "" || s.Policy == nil || !named {
				t.Fatalf("%+v", s)
			}
		}
	})
}
