package tidy

import (
	"fmt"
	"go/ast"
	"strconv"
	"strings"
)

// impureImports may not stand in a pure package: they reach outside the process, or the process itself.
// A name ending in / bans all below it.
var impureImports = []string{
	"net", "net/", "os", "os/", "log", "log/", "syscall", "golang.org/x/sys/", "io/", "context", "crypto/rand", "math/rand",
	"runtime", "runtime/", "testing", "testing/",
}

// impureCalls of packages that are otherwise welcome in pure packages. nil: every function but those of randAllowed.
var impureCalls = map[string][]string{
	"time":         {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"},
	"math/rand/v2": nil,
}

// randAllowed are the names of math/rand/v2 that do not draw from the global source.
var randAllowed = map[string]bool{
	"New": true, "NewPCG": true, "NewChaCha8": true, "NewZipf": true, "Rand": true, "PCG": true, "ChaCha8": true, "Zipf": true, "Source": true,
}

// impureImport tells whether a pure package may not import imp.
func impureImport(imp string) bool {
	if imp == "net/netip" { // addresses as values, no I/O
		return false
	}
	for _, bad := range impureImports {
		if imp == bad || (strings.HasSuffix(bad, "/") && strings.HasPrefix(imp, bad)) {
			return true
		}
	}
	return false
}

// importNames maps the names by which a file calls its imports to their paths.
func importNames(f *File) map[string]string {
	names := map[string]string{}
	for _, spec := range f.AST.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		if spec.Name != nil {
			names[spec.Name.Name] = imp
		} else {
			names[base(imp)] = imp
		}
	}
	return names
}

// impureCall says what is wrong with using pkg.name in a pure package, empty if nothing.
func impureCall(imp, name string) string {
	banned, watched := impureCalls[imp]
	switch {
	case !watched:
		return ""
	case banned == nil && !randAllowed[name]:
		return "draws from the global source: take a *rand.Rand"
	}
	for _, b := range banned {
		if b == name {
			return "reads the clock: take now as an argument"
		}
	}
	return ""
}

// purity finds I/O, goroutines, clocks and global randomness in pure packages. Their tests may do as they like.
func purity(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Go {
		if f.Test() || !pure(f.Dir()) {
			continue
		}
		names := importNames(f)
		for name, imp := range names {
			if impureImport(imp) {
				out = append(out, Finding{"pure", f.Path, 1, name, fmt.Sprintf("pure package %s imports %s", f.Dir(), imp)})
			}
		}
		out = append(out, impureNodes(f, names)...)
	}
	return out
}

// impureNodes finds go statements and impure calls.
func impureNodes(f *File, names map[string]string) []Finding {
	var out []Finding
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			out = append(out, Finding{"pure", f.Path, f.Line(n.Pos()), "go", "a pure package starts no goroutine"})
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if !ok || names[pkg.Name] == "" {
				return true
			}
			if why := impureCall(names[pkg.Name], n.Sel.Name); why != "" {
				out = append(out, Finding{"pure", f.Path, f.Line(n.Pos()), pkg.Name + "." + n.Sel.Name, pkg.Name + "." + n.Sel.Name + " " + why})
			}
		}
		return true
	})
	return out
}
