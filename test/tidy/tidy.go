// Package tidy holds the rules of the house as functions over the source tree; its tests run them over the whole module.
//
// Its job: lengths of functions and files, package comments, import directions, the purity of pure packages, the words of the
// glossary, and a few marks that a finished tree does not contain. Every rule has a test that shows it a bad sample.
// Not its job: what gofmt, go vet and staticcheck find, and spillway.example.yaml, which package config compares with its schema.
// It starts no goroutine. It reads Go and Markdown files below the module's root, and exceptions.txt beside this file.
package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
)

// Module is the module's path; packages below it are the house's own.
const Module = "spillway"

// File is one Go file of the tree.
type File struct {
	Path string // relative to the module's root, with slashes
	Src  []byte
	AST  *ast.File
	Set  *token.FileSet
}

// Dir is the file's folder, which is also the package's path below the module.
func (f *File) Dir() string { return path.Dir(f.Path) }

// Test tells whether the file belongs to tests alone.
func (f *File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Line is the line of a position.
func (f *File) Line(p token.Pos) int { return f.Set.Position(p).Line }

// Tree is the source of the module.
type Tree struct {
	Root string
	Go   []*File
	Docs map[string][]byte // Markdown files by path

	paths map[string]bool // every file and folder, of any kind
}

// Finding is one broken rule. Name tells what the finding is about where the line would change too often to name an exception by.
type Finding struct {
	Rule string
	Path string
	Line int
	Name string
	Text string
}

// String gives FILE:LINE: rule: text.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.Path, f.Line, f.Rule, f.Text)
}

// Rule is one rule of the house.
type Rule struct {
	Name  string
	Check func(t *Tree) []Finding
}

// Rules is every rule, in the order in which findings are shown.
func Rules() []Rule {
	return []Rule{
		{"function-length", functionLength},
		{"file-length", fileLength},
		{"package-comment", packageComment},
		{"import", imports},
		{"pure", purity},
		{"no-global", noGlobal},
		{"word", words},
		{"mark", marks},
		{"link", links},
		{"skip", skips},
		{"sleep", sleeps},
	}
}

// Parse makes a File of source text.
func Parse(name string, src []byte) (*File, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	return &File{Path: name, Src: src, AST: tree, Set: set}, nil
}

// skipDir tells which folders hold nothing that people wrote as source of this module.
func skipDir(name string) bool {
	switch name {
	case "bin", "dist", "testdata", "vendor":
		return true
	}
	return strings.HasPrefix(name, ".") && name != "."
}

// Load reads the tree below root.
func Load(root string) (*Tree, error) {
	t := &Tree{Root: root, Docs: map[string][]byte{}, paths: map[string]bool{}}
	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		t.paths[filepath.ToSlash(rel)] = true
		if d.IsDir() {
			if full != root && skipDir(d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		return t.add(full, filepath.ToSlash(rel))
	})
	if err != nil {
		return nil, fmt.Errorf("read the source tree: %w", err)
	}
	sort.Slice(t.Go, func(i, j int) bool { return t.Go[i].Path < t.Go[j].Path })
	return t, nil
}

// add takes one file into the tree if it is of a kind that has rules.
func (t *Tree) add(full, rel string) error {
	ext := path.Ext(rel)
	if ext != ".go" && ext != ".md" {
		return nil
	}
	src, err := os.ReadFile(full)
	if err != nil {
		return err
	}
	if ext == ".md" {
		t.Docs[rel] = src
		return nil
	}
	f, err := Parse(rel, src)
	if err != nil {
		return err
	}
	if !ast.IsGenerated(f.AST) {
		t.Go = append(t.Go, f)
	}
	return nil
}

// Root finds the folder of go.mod, going up from dir.
func Root(dir string) (string, error) {
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module "+Module+"\n")) {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod of module %s above", Module)
		}
		dir = up
	}
}
