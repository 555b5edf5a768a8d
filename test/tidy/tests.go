package tidy

import (
	"go/ast"
	"go/token"
	"strings"
)

// requireAll is the variable that turns skips into failures where everything must run.
const requireAll = "SPILLWAY_REQUIRE_ALL"

// skips finds skips without a reason, and skips in functions that do not ask first whether everything is required.
func skips(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Go {
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			asks := strings.Contains(string(f.Src[offset(f, fn.Pos()):offset(f, fn.End())]), requireAll)
			testingNames(fn, func(call *ast.CallExpr, method string) {
				why := skipFault(call, method, asks)
				if why != "" {
					out = append(out, Finding{"skip", f.Path, f.Line(call.Pos()), fn.Name.Name, fn.Name.Name + ": " + why})
				}
			})
		}
	}
	return out
}

// offset is the byte offset of a position in its file.
func offset(f *File, p token.Pos) int { return f.Set.Position(p).Offset }

// skipFault says what is wrong with one call of a skipping method, empty if nothing.
func skipFault(call *ast.CallExpr, method string, asks bool) string {
	switch {
	case method == "SkipNow" || len(call.Args) == 0:
		return "a skip gives its reason (return instead where an input is of no interest)"
	case isEmptyString(call.Args[0]):
		return "a skip gives its reason"
	case !asks:
		return "a function that skips looks at " + requireAll + " first and fails where it is set"
	}
	return ""
}

// isEmptyString tells whether e is a literal without letters.
func isEmptyString(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && strings.Trim(lit.Value, "\"` ") == ""
}

// testingNames calls found for every call of Skip, Skipf or SkipNow on a parameter of one of testing's types. Parameters of inner
// functions hide outer ones of the same name, so that a property test's own t is told apart.
func testingNames(fn *ast.FuncDecl, found func(call *ast.CallExpr, method string)) {
	var walk func(n ast.Node, names map[string]bool)
	walk = func(n ast.Node, names map[string]bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				walk(n.Body, withParams(names, n.Type))
				return false
			case *ast.CallExpr:
				sel, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || !strings.HasPrefix(sel.Sel.Name, "Skip") {
					return true
				}
				if id, ok := sel.X.(*ast.Ident); ok && names[id.Name] {
					found(n, sel.Sel.Name)
				}
			}
			return true
		})
	}
	walk(fn.Body, withParams(nil, fn.Type))
}

// withParams is names with the parameters of a function: true for those of testing's types.
func withParams(names map[string]bool, typ *ast.FuncType) map[string]bool {
	out := map[string]bool{}
	for k, v := range names {
		out[k] = v
	}
	for _, field := range typ.Params.List {
		e := field.Type
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		sel, ok := e.(*ast.SelectorExpr)
		isTesting := false
		if ok {
			pkg, ok := sel.X.(*ast.Ident)
			isTesting = ok && pkg.Name == "testing"
		}
		for _, n := range field.Names {
			out[n.Name] = isTesting
		}
	}
	return out
}

// sleeps finds sleeps in tests that do not say what they stand for. A loop with a condition waits for an event by looking, and in a
// bubble of testing/synctest sleeping takes no time.
func sleeps(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Go {
		if !f.Test() || importNames(f)["synctest"] != "" {
			continue
		}
		said := map[int]bool{}
		for _, group := range f.AST.Comments {
			said[f.Line(group.End())] = true
		}
		polls := pollLines(f)
		ast.Inspect(f.AST, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok || pkg.Name != "time" || sel.Sel.Name != "Sleep" {
				return true
			}
			line := f.Line(sel.Pos())
			if !said[line] && !said[line-1] && !polls[line] {
				out = append(out, Finding{"sleep", f.Path, line, "time.Sleep",
					"a sleep is no synchronisation: wait for the event, or say beside it what the time stands for (a slow endpoint, a stated bound)"})
			}
			return true
		})
	}
	return out
}

// pollLines are the lines of loops that go on until a condition holds: for cond { ... }, without a counter.
func pollLines(f *File) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		loop, ok := n.(*ast.ForStmt)
		if !ok || loop.Cond == nil {
			return true
		}
		if _, counts := loop.Post.(*ast.IncDecStmt); counts {
			return true
		}
		for i := f.Line(loop.Pos()); i <= f.Line(loop.End()); i++ {
			lines[i] = true
		}
		return true
	})
	return lines
}
