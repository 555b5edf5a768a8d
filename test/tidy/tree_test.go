package tidy

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// exceptionsMax is the length of exceptions.txt. It is lowered when a line goes and not raised when a rule is in the way.
const exceptionsMax = 3

func load(t *testing.T) *Tree {
	t.Helper()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root, err := Root(wd)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestTree runs every rule over the module.
func TestTree(t *testing.T) {
	text, err := os.ReadFile("exceptions.txt")
	if err != nil {
		t.Fatal(err)
	}
	exceptions, err := ParseExceptions(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(exceptions) != exceptionsMax {
		t.Errorf("exceptions.txt has %d lines, exceptionsMax says %d: the list only shrinks", len(exceptions), exceptionsMax)
	}
	tree := load(t)
	var all []Finding
	for _, r := range Rules() {
		all = append(all, r.Check(tree)...)
	}
	left, stale := Apply(exceptions, all)
	for _, f := range left {
		t.Error(f)
	}
	for _, e := range stale {
		t.Errorf("exceptions.txt:%d: needed no more: take it out and lower exceptionsMax", e.Line)
	}
}

// TestPurePackagesExist keeps the list of pure packages from naming rooms that went away.
func TestPurePackagesExist(t *testing.T) {
	dirs := map[string]bool{}
	for _, f := range load(t).Go {
		dirs[f.Dir()] = true
	}
	for _, p := range purePackages {
		if !dirs[p] {
			t.Errorf("pure package %s is not there", p)
		}
	}
}

// TestGlossaryWords keeps the words looked for and the last column of the glossary the same.
func TestGlossaryWords(t *testing.T) {
	known := map[string]bool{}
	for _, w := range wrongWords {
		known[w.Word] = false
	}
	for w := range uncheckedWords {
		known[w] = false
	}
	for _, w := range glossaryWords(string(load(t).Docs["docs/GLOSSARY.md"])) {
		if _, ok := known[w]; !ok {
			t.Errorf("docs/GLOSSARY.md does not want %q: add it to wrongWords, or to uncheckedWords with a reason", w)
		}
		known[w] = true
	}
	for w, seen := range known {
		if !seen {
			t.Errorf("%q stands in words.go but not in the last column of docs/GLOSSARY.md", w)
		}
	}
}

// glossaryWords are the words of the last column of the glossary's table.
func glossaryWords(text string) []string {
	row := regexp.MustCompile(`(?m)^\| \*\*[^|]+\|[^|]+\|([^|]*)\|$`)
	var out []string
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		for _, w := range strings.Split(m[1], ",") {
			if w = strings.TrimSpace(w); w != "" {
				out = append(out, w)
			}
		}
	}
	return out
}
