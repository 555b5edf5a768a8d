package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
)

// Lengths in lines. Tables (composite literals of at least tableLinesMin lines that hold one element per line) count as one line.
const (
	functionLinesMax = 70
	fileLinesMax     = 600
	tableLinesMin    = 12
)

// tableLines is the number of lines below n that belong to tables.
func tableLines(f *File, n ast.Node) int {
	total := 0
	ast.Inspect(n, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		lines := f.Line(lit.Rbrace) - f.Line(lit.Lbrace)
		if lines < tableLinesMin || hasCode(lit) {
			return true
		}
		total += lines
		return false
	})
	return total
}

// hasCode tells whether a literal holds functions: those are code with a table around them.
func hasCode(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			found = true
		}
		return !found
	})
	return found
}

// functionLength finds functions longer than functionLinesMax lines, from the line of func to the closing brace.
func functionLength(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Go {
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			lines := f.Line(fn.Body.Rbrace) - f.Line(fn.Pos()) + 1 - tableLines(f, fn.Body)
			if lines > functionLinesMax {
				out = append(out, Finding{"function-length", f.Path, f.Line(fn.Pos()), fn.Name.Name,
					fmt.Sprintf("%s has %d lines, the most is %d", fn.Name.Name, lines, functionLinesMax)})
			}
		}
	}
	return out
}

// fileLength finds files longer than fileLinesMax lines.
func fileLength(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Go {
		lines := bytes.Count(f.Src, []byte("\n")) - tableLines(f, f.AST)
		if lines > fileLinesMax {
			out = append(out, Finding{"file-length", f.Path, lines, "",
				fmt.Sprintf("%d lines, the most is %d", lines, fileLinesMax)})
		}
	}
	return out
}
