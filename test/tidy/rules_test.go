package tidy

import (
	"fmt"
	"strings"
	"testing"
)

// sample is a file that breaks a rule, or keeps it in a way that looks like breaking it.
type sample struct {
	name string
	path string
	src  string
	want string // part of the finding; empty: none
}

// lines is n lines of statements.
func lines(n int) string { return strings.Repeat("\tx++\n", n) }

// table is a literal of n lines.
func table(n int) string { return "[]int{\n" + strings.Repeat("\t1,\n", n) + "}" }

const doc = "// Package p is a sample. Its job: to be read by a test of a rule, and nothing besides.\n// Not its job: to do anything. It starts no goroutine and holds nothing.\n"

var samples = map[string][]sample{
	"function-length": {
		{"70 lines", "p/a.go", "package p\nfunc f(x int) {\n" + lines(68) + "}\n", ""},
		{"71 lines", "p/a.go", "package p\nfunc f(x int) {\n" + lines(69) + "}\n", "f has 71 lines"},
		{"a method", "p/a.go", "package p\nfunc (t T) f(x int) {\n" + lines(90) + "}\n", "f has 92 lines"},
		{"a table does not count", "p/a.go", "package p\nfunc f(x int) {\n_ = " + table(90) + "\n}\n", ""},
		{"a table of functions does", "p/a.go", "package p\nfunc f(x int) {\n_ = []func(){func() {\n" + lines(90) + "}}\n}\n", "f has 94 lines"},
	},
	"file-length": {
		{"600 lines", "p/a.go", "package p\n" + strings.Repeat("\n", 599), ""},
		{"601 lines", "p/a.go", "package p\n" + strings.Repeat("\n", 600), "601 lines"},
		{"a test too", "p/a_test.go", "package p\n" + strings.Repeat("\n", 600), "601 lines"},
		{"tables aside", "p/a.go", "package p\nvar x = " + table(700) + "\n", ""},
	},
	"package-comment": {
		{"none", "p/a.go", "package p\n", "has no comment"},
		{"good", "p/a.go", doc + "package p\n", ""},
		{"of another name", "p/a.go", strings.Replace(doc, "Package p ", "Package q ", 1) + "package p\n", "does not begin with"},
		{"too short", "p/a.go", "// Package p does things. Not its job: others.\npackage p\n", "too short"},
		{"silent about others' jobs", "p/a.go", "// Package p does things" + strings.Repeat(" and things", 20) + ".\npackage p\n", "does not say what is not its job"},
		{"a command", "cmd/p/a.go", "// Command p does things" + strings.Repeat(" and things", 20) + ".\npackage main\n", ""},
	},
	"import": {
		{"a pure room imports a pure room", "proxy/route/a.go", "package route\nimport \"spillway/discovery\"\n", ""},
		{"a pure room imports the pool", "proxy/route/a.go", "package route\nimport \"spillway/proxy/pool\"\n", "may not import proxy/pool"},
		{"the proxy imports configuration", "proxy/http1/a.go", "package http1\nimport \"spillway/config\"\n", "may not import config"},
		{"the proxy imports metrics", "proxy/http1/a.go", "package http1\nimport \"spillway/telemetry/metric\"\n", ""},
		{"the proxy imports admin", "proxy/http1/a.go", "package http1\nimport \"spillway/telemetry/admin\"\n", "may not import telemetry/admin"},
		{"telemetry imports the proxy", "telemetry/admin/a.go", "package admin\nimport \"spillway/proxy/http1\"\n", "may not import proxy/http1"},
		{"telemetry imports a pure room", "telemetry/metric/a.go", "package metric\nimport \"spillway/proxy/answer\"\n", ""},
		{"configuration imports the proxy", "config/a.go", "package config\nimport \"spillway/proxy/locality\"\n", "may not import proxy/locality"},
		{"a command wires", "cmd/spillway/a.go", "package main\nimport (\n\"spillway/config\"\n\"spillway/proxy/listen\"\n\"spillway/telemetry/admin\"\n)\n", ""},
		{"nobody imports a command", "proxy/tcp/a.go", "package tcp\nimport \"spillway/cmd/spillway/demo\"\n", "may not import cmd/spillway/demo"},
		{"a room without a direction", "attic/a.go", "package attic\nimport \"spillway/config\"\n", "stands in no direction"},
		{"net/http on the data path", "proxy/http1/a.go", "package http1\nimport \"net/http\"\n", "may not import net/http"},
		{"net/http for checks", "proxy/health/check/a.go", "package check\nimport \"net/http\"\n", ""},
		{"log", "proxy/http1/a.go", "package http1\nimport \"log\"\n", "loggers are passed in"},
		{"log/slog", "proxy/http1/a.go", "package http1\nimport \"log/slog\"\n", ""},
		{"yaml outside config", "discovery/file/a.go", "package file\nimport \"go.yaml.in/yaml/v3\"\n", "may not import go.yaml.in/yaml/v3"},
		{"the old random source", "proxy/http1/a.go", "package http1\nimport \"math/rand\"\n", "may not import math/rand"},
		{"registration by import", "cmd/spillway/a.go", "package main\nimport _ \"net/http/pprof\"\n", "no registration by import"},
		{"tests import what they like", "config/a_test.go", "package config\nimport \"spillway/proxy/pool\"\n", ""},
	},
	"pure": {
		{"net", "proxy/locality/a.go", "package locality\nimport \"net\"\n", "imports net"},
		{"net/netip", "proxy/locality/a.go", "package locality\nimport \"net/netip\"\n", ""},
		{"os", "discovery/a.go", "package discovery\nimport \"os\"\n", "imports os"},
		{"log/slog", "proxy/retry/a.go", "package retry\nimport \"log/slog\"\n", "imports log/slog"},
		{"a goroutine", "proxy/retry/a.go", "package retry\nfunc f() { go f() }\n", "starts no goroutine"},
		{"the clock", "proxy/retry/a.go", "package retry\nimport \"time\"\nvar x = time.Now()\n", "time.Now reads the clock"},
		{"the clock under another name", "proxy/retry/a.go", "package retry\nimport clock \"time\"\nfunc f() { clock.Sleep(1) }\n", "clock.Sleep reads the clock"},
		{"a duration", "proxy/retry/a.go", "package retry\nimport \"time\"\nvar x = 3 * time.Second\n", ""},
		{"the global random source", "proxy/balance/a.go", "package balance\nimport \"math/rand/v2\"\nvar x = rand.IntN(3)\n", "draws from the global source"},
		{"a seeded one", "proxy/balance/a.go", "package balance\nimport \"math/rand/v2\"\nvar x = rand.New(rand.NewPCG(1, 2))\n", ""},
		{"in a test", "proxy/balance/a_test.go", "package balance\nimport \"os\"\nfunc f() { go f() }\n", ""},
		{"in a room with I/O", "proxy/pool/a.go", "package pool\nimport \"net\"\nfunc f() { go f() }\n", ""},
		{"below a pure room", "proxy/health/check/a.go", "package check\nimport \"net\"\n", ""},
	},
	"no-global": {
		{"init", "p/a.go", "package p\nfunc init() {}\n", "no init functions"},
		{"a method of that name", "p/a.go", "package p\nfunc (t T) init() {}\n", ""},
		{"exit in a room", "config/a.go", "package config\nimport \"os\"\nfunc f() { os.Exit(1) }\n", "only commands end the process"},
		{"exit in a command", "cmd/spillway/a.go", "package main\nimport \"os\"\nfunc f() { os.Exit(1) }\n", ""},
		{"the default logger", "proxy/http1/a.go", "package http1\nimport \"log/slog\"\nfunc f() { slog.Info(\"\") }\n", "loggers are passed in"},
	},
	"word": {
		{"in a comment", "p/a.go", "package p\n// f asks the backend.\nfunc f() {}\n", "comment: \"backend\""},
		{"in a name", "p/a.go", "package p\nvar upstreamHosts int\n", "name upstreamHosts: \"upstream host\""},
		{"in a short variable", "p/a.go", "package p\nfunc f() { instance := 1; _ = instance }\n", "name instance"},
		{"in a field", "p/a.go", "package p\ntype T struct{ OldSite int }\n", "name OldSite"},
		{"in a message", "p/a.go", "package p\nvar x = \"no healthy node left\"\n", "message: \"node\""},
		{"as a key", "p/a.go", "package p\nvar x = \"node\"\n", ""},
		{"in another meaning", "p/a.go", "package p\n// f is, for instance, inlined at the call site of a cross-site fetch; node.id names the proxy.\nfunc f() {}\n", ""},
		{"keys of a configuration", "p/a.go", "package p\nvar x = `node: {id: a}\npriority: 0`\n", ""},
		{"a foreign name", "p/a.go", "package p\nvar x = yaml.Node{}\n", ""},
		{"overflow as a code", "p/a.go", "package p\n// overflow is answered when the bulkhead is full.\nvar overflow int\n", ""},
		{"overflow for spill", "p/a.go", "package p\n// Requests overflow to dc2.\nvar x int\n", "\"overflow traffic\""},
		{"two words", "p/a.go", "package p\n// Every data centre has a priority.\nvar x int\n", "\"data center\""},
	},
	"mark": {
		{"later", "p/a.go", "package p\n// TO" + "DO: the rest\nvar x int\n", "finish it"},
		{"as a name in code", "p/a.go", "package p\nvar x = \"FIX" + "ME\"\n", ""},
		{"a promise", "p/a.go", "package p\n// f returns nothing for" + " now.\nfunc f() {}\n", "finish it"},
	},
	"skip": {
		{"bare", "p/a_test.go", "package p\nimport \"testing\"\nfunc TestX(t *testing.T) { t.Skip() }\n", "gives its reason"},
		{"SkipNow", "p/a_test.go", "package p\nimport \"testing\"\nfunc TestX(t *testing.T) { t.SkipNow() }\n", "gives its reason"},
		{"an empty reason", "p/a_test.go", "package p\nimport \"testing\"\nfunc TestX(t *testing.T) { t.Skip(\"\") }\n", "gives its reason"},
		{"a reason alone", "p/a_test.go", "package p\nimport \"testing\"\nfunc TestX(t *testing.T) { t.Skip(\"needs root\") }\n", "looks at SPILLWAY_REQUIRE_ALL"},
		{"good", "p/a_test.go", "package p\nimport \"testing\"\nfunc need(t testing.TB) {\nif os.Getenv(\"SPILLWAY_REQUIRE_ALL\") != \"\" { t.Fatal(\"needs root\") }\nt.Skip(\"needs root\")\n}\n", ""},
		{"a discarded draw of a property test", "p/a_test.go", "package p\nimport \"testing\"\nfunc TestX(t *testing.T) { rapid.Check(t, func(t *rapid.T) { t.Skip() }) }\n", ""},
		{"inside a fuzz function", "p/a_test.go", "package p\nimport \"testing\"\nfunc FuzzX(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { t.Skip() }) }\n", "gives its reason"},
	},
	"sleep": {
		{"bare", "p/a_test.go", "package p\nimport \"time\"\nfunc f() {\ntime.Sleep(1)\n}\n", "no synchronisation"},
		{"explained", "p/a_test.go", "package p\nimport \"time\"\nfunc f() {\ntime.Sleep(1) // the endpoint is slow\n}\n", ""},
		{"between two looks", "p/a_test.go", "package p\nimport \"time\"\nfunc f() {\nfor !there() {\ntime.Sleep(1)\n}\n}\n", ""},
		{"in a loop that looks at nothing", "p/a_test.go", "package p\nimport \"time\"\nfunc f() {\nfor range 3 {\ntime.Sleep(1)\n}\n}\n", "no synchronisation"},
		{"in a bubble", "p/a_test.go", "package p\nimport (\n\"testing/synctest\"\n\"time\"\n)\nfunc f() {\ntime.Sleep(1)\n}\n", ""},
		{"outside tests it is somebody's decision", "p/a.go", "package p\nimport \"time\"\nfunc f() {\ntime.Sleep(1)\n}\n", ""},
	},
}

// TestRulesCatch shows every rule its samples: what must be found is found, what must not is left alone.
func TestRulesCatch(t *testing.T) {
	for _, rule := range Rules() {
		if len(samples[rule.Name]) == 0 && rule.Name != "link" { // TestDocuments has the samples for links
			t.Errorf("rule %s has no sample", rule.Name)
		}
		for _, s := range samples[rule.Name] {
			t.Run(rule.Name+"/"+s.name, func(t *testing.T) {
				f, err := Parse(s.path, []byte(s.src))
				if err != nil {
					t.Fatal(err)
				}
				got := rule.Check(&Tree{Go: []*File{f}})
				text := fmt.Sprint(got)
				switch {
				case s.want == "" && len(got) > 0:
					t.Errorf("found %s, want nothing", text)
				case s.want != "" && !strings.Contains(text, s.want):
					t.Errorf("found %s, want %q", text, s.want)
				}
			})
		}
	}
}

// TestDocuments shows the rules for documents theirs.
func TestDocuments(t *testing.T) {
	tree := &Tree{Docs: map[string][]byte{
		"README.md":        []byte("A `backend` in code is fine.\n\n```\nbackend x\n```\n\nOur backend is not.\nTO" + "DO: more\n"),
		"docs/GLOSSARY.md": []byte("not: backend\n"),
		"docs/a.md":        []byte("[good](../README.md#top) [far](https://example.org/x) [lost](b.md)\n`[code](c.md)`\n"),
	}, paths: map[string]bool{"README.md": true}}
	if got := links(tree); len(got) != 1 || got[0].Name != "b.md" {
		t.Errorf("links: %v, want b.md alone", got)
	}
	got := words(tree)
	if len(got) != 1 || got[0].Path != "README.md" || got[0].Line != 7 {
		t.Errorf("words: %v, want README.md:7 alone", got)
	}
	if got := marks(tree); len(got) != 1 || got[0].Line != 8 {
		t.Errorf("marks: %v, want README.md:8 alone", got)
	}
}

func TestExceptions(t *testing.T) {
	for _, bad := range []string{"word | a.go | x", "word | a.go | x | short"} {
		if _, err := ParseExceptions(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	list, err := ParseExceptions("# why\n\nword | config/ | node | the configuration has a key of that name\nword | p/a.go | * | a reason that is long enough\n")
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	left, stale := Apply(list, []Finding{
		{Rule: "word", Path: "config/a.go", Name: "node"},
		{Rule: "word", Path: "config/a.go", Name: "site"},
		{Rule: "mark", Path: "p/a.go", Name: "x"},
	})
	if len(left) != 2 || left[0].Name != "site" || left[1].Rule != "mark" {
		t.Errorf("left %v", left)
	}
	if len(stale) != 1 || stale[0].Path != "p/a.go" {
		t.Errorf("stale %v", stale)
	}
}

func TestHumps(t *testing.T) {
	for in, want := range map[string]string{
		"upstreamHost": "upstream host", "HTTPHost": "http host", "old_site": "old site", "x": "x", "NodeID": "node id",
	} {
		if got := humps(in); got != want {
			t.Errorf("humps(%q) = %q, want %q", in, got, want)
		}
	}
}
