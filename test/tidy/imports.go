package tidy

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// purePackages take time and randomness as arguments and return decisions. They are what a simulator can run.
var purePackages = []string{
	"discovery",
	"proxy/answer",
	"proxy/balance",
	"proxy/bulkhead",
	"proxy/decision",
	"proxy/detect",
	"proxy/head",
	"proxy/health",
	"proxy/hop",
	"proxy/http1/codec",
	"proxy/listen/proxyproto",
	"proxy/locality",
	"proxy/retry",
	"proxy/route",
}

// pure tells whether the package in dir is a pure one.
func pure(dir string) bool {
	for _, p := range purePackages {
		if dir == p {
			return true
		}
	}
	return false
}

// direction says which of the house's own packages those at and below a folder may import. The longest Below that fits counts.
// A pattern ending in /... means the folder and all below; "pure" means every pure package.
type direction struct {
	Below string
	May   []string
}

// directions is the plan of the house: arrows go from commands to the proxy to its pure rooms, and nothing points back.
var directions = []direction{
	{"cmd", []string{"cmd/...", "config", "discovery/...", "proxy/...", "telemetry/..."}},
	{"config", []string{"discovery"}},
	{"discovery/file", []string{"discovery", "config"}},
	{"proxy", []string{"pure", "proxy/...", "telemetry/metric", "telemetry/accesslog"}},
	{"proxy/health/check", []string{"pure"}},
	{"proxy/sock", []string{"pure"}},
	{"proxy/pool", []string{"pure", "proxy/sock", "telemetry/metric"}},
	{"telemetry", []string{"pure"}},
	{"test", []string{"cmd/...", "config", "discovery/...", "proxy/...", "telemetry/...", "test/..."}},
}

// matches tells whether a package of the house fits a pattern of a direction.
func matches(pattern, pkg string) bool {
	if pattern == "pure" {
		return pure(pkg)
	}
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == below || strings.HasPrefix(pkg, below+"/")
	}
	return pkg == pattern
}

// allowed tells whether the package in dir may import pkg; known is false when no direction speaks of dir.
func allowed(dir, pkg string) (ok, known bool) {
	if pure(dir) {
		return pure(pkg), true
	}
	var best *direction
	for i := range directions {
		d := &directions[i]
		if (dir == d.Below || strings.HasPrefix(dir, d.Below+"/")) && (best == nil || len(d.Below) > len(best.Below)) {
			best = d
		}
	}
	if best == nil {
		return false, false
	}
	for _, p := range best.May {
		if matches(p, pkg) {
			return true, true
		}
	}
	return false, true
}

// keeper names the packages that may import something from outside the standard library, and why it stays there.
type keeper struct {
	Import string // path or path prefix
	By     []string
	Why    string
}

// keepers bounds what outside code each room depends on.
var keepers = []keeper{
	{"github.com/alecthomas/kong", []string{"cmd"}, "only commands read flags"},
	{"github.com/prometheus", []string{"telemetry/metric"}, "rooms hold handles of telemetry/metric, not of a library"},
	{"go.yaml.in/yaml", []string{"config"}, "configuration is read in one place, with line and column"},
	{"golang.org/x/sys", []string{"proxy/sock", "proxy/listen", "proxy/tcp", "cmd", "test"}, "raw calls stay behind proxy/sock"},
	{"net/http", []string{"proxy/health/check", "telemetry", "cmd", "test"}, "the data path has its own codec"},
	{"log", []string{}, "loggers are passed in, as *slog.Logger"},
	{"math/rand", []string{}, "math/rand/v2 has sources that can be seeded and passed"},
}

// kept says why dir may not import imp, empty if it may.
func kept(dir, imp string) string {
	for _, k := range keepers {
		exact := k.Import == "log" || k.Import == "math/rand" // log/slog and math/rand/v2 are other packages
		if imp != k.Import && (exact || !strings.HasPrefix(imp, k.Import+"/")) {
			continue
		}
		for _, by := range k.By {
			if dir == by || strings.HasPrefix(dir, by+"/") {
				return ""
			}
		}
		return k.Why
	}
	return ""
}

// imports checks directions between rooms, and who may use what from outside. Tests may import what they like of the house,
// and outside libraries are theirs to choose; a command is never imported by anything but commands and tests.
func imports(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Go {
		if f.Test() {
			continue
		}
		for _, spec := range f.AST.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue
			}
			if why := importFault(f.Dir(), imp); why != "" {
				out = append(out, Finding{"import", f.Path, f.Line(spec.Pos()), imp, why})
			}
			if spec.Name != nil && spec.Name.Name == "_" && imp != "embed" {
				out = append(out, Finding{"import", f.Path, f.Line(spec.Pos()), imp, "no registration by import: " + imp})
			}
		}
	}
	return out
}

// importFault says why dir may not import imp, empty if it may.
func importFault(dir, imp string) string {
	pkg, own := strings.CutPrefix(imp, Module+"/")
	if !own {
		if why := kept(dir, imp); why != "" {
			return fmt.Sprintf("%s may not import %s: %s", dir, imp, why)
		}
		return ""
	}
	ok, known := allowed(dir, pkg)
	switch {
	case !known:
		return fmt.Sprintf("%s stands in no direction of the house: add one to test/tidy/imports.go", dir)
	case !ok:
		return fmt.Sprintf("%s may not import %s (test/tidy/imports.go has the directions)", dir, pkg)
	}
	return ""
}

// base is the name by which a file calls an import that it did not rename.
func base(imp string) string {
	last := path.Base(imp)
	if len(last) > 1 && last[0] == 'v' && strings.Trim(last[1:], "0123456789") == "" {
		last = path.Base(path.Dir(imp)) // math/rand/v2 is rand
	}
	return last
}
