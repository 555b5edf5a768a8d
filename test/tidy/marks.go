package tidy

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
)

// unfinished are marks of work that was left for later. They are spelled apart so that this file does not contain them.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b|(?i)\bfor` + ` now\b|\bnot` + ` implemented\b`)

// marks finds notes of unfinished work in comments, and in documents.
func marks(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Go {
		for _, group := range f.AST.Comments {
			for _, c := range group.List {
				if m := unfinished.FindString(c.Text); m != "" {
					out = append(out, Finding{"mark", f.Path, f.Line(c.Pos()), m, fmt.Sprintf("%q: finish it, or file an issue", m)})
				}
			}
		}
	}
	for name, text := range t.Docs {
		for i, line := range strings.Split(string(text), "\n") {
			if m := unfinished.FindString(line); m != "" {
				out = append(out, Finding{"mark", name, i + 1, m, fmt.Sprintf("%q: say what is true today", m)})
			}
		}
	}
	return out
}

var markdownLink = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

// links finds links of documents that lead to no file of the tree. Addresses with a scheme are not followed.
func links(t *Tree) []Finding {
	var out []Finding
	for name, text := range t.Docs {
		for i, line := range strings.Split(prose(string(text)), "\n") {
			for _, m := range markdownLink.FindAllStringSubmatch(line, -1) {
				to := m[1]
				if strings.Contains(to, "://") || t.paths[path.Join(path.Dir(name), to)] {
					continue
				}
				out = append(out, Finding{"link", name, i + 1, to, to + " is not there"})
			}
		}
	}
	return out
}

// globalCalls are functions that act on state of the whole process, and where they are at home.
var globalCalls = map[string]string{
	"os.Exit":                 "only commands end the process",
	"slog.Default":            "loggers are passed in",
	"slog.SetDefault":         "loggers are passed in",
	"slog.Debug":              "loggers are passed in",
	"slog.Info":               "loggers are passed in",
	"slog.Warn":               "loggers are passed in",
	"slog.Error":              "loggers are passed in",
	"os.Setenv":               "settings are passed in",
	"http.Handle":             "no global state: make a ServeMux",
	"http.HandleFunc":         "no global state: make a ServeMux",
	"signal.Notify":           "only commands listen to signals",
	"prometheus.MustRegister": "metrics have their own registry",
}

// noGlobal finds init functions, and calls that act on state of the whole process outside commands and tests.
func noGlobal(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Go {
		for _, d := range f.AST.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				out = append(out, Finding{"no-global", f.Path, f.Line(fn.Pos()), "init", "no init functions: do it where it is needed, with arguments"})
			}
		}
		if f.Test() || f.AST.Name.Name == "main" || strings.HasPrefix(f.Dir(), "cmd/") {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			call := pkg.Name + "." + sel.Sel.Name
			if why := globalCalls[call]; why != "" {
				out = append(out, Finding{"no-global", f.Path, f.Line(sel.Pos()), call, call + ": " + why})
			}
			return true
		})
	}
	return out
}
