package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// wrong is a word that the glossary does not want, the way it is found, and the word to use.
type wrong struct {
	Word  string // as it stands in the last column of docs/GLOSSARY.md
	Match *regexp.Regexp
	Use   string
}

// wrongWords are looked for in comments, sentences in literals, declared names (split at their humps) and documents.
var wrongWords = []wrong{
	{"backend", regexp.MustCompile(`(?i)\bback-?ends?\b`), "service or endpoint"},
	{"upstream host", regexp.MustCompile(`(?i)\b(upstream|healthy|unhealthy|dead|remote|target|local) hosts?\b`), "endpoint"},
	{"instance", regexp.MustCompile(`(?i)\binstances?\b`), "endpoint"},
	{"node", regexp.MustCompile(`(?i)\bnodes?\b`), "endpoint, or proxy"},
	{"site", regexp.MustCompile(`(?i)\bsites?\b`), "datacenter"},
	{"IDC", regexp.MustCompile(`(?i)\bidcs?\b`), "datacenter"},
	{"data center", regexp.MustCompile(`(?i)\bdata cent(er|re)s?\b`), "datacenter"},
	{"priority", regexp.MustCompile(`(?i)\bpriorit(y|ies)\b`), "tier"},
	{"overflow traffic", regexp.MustCompile(`(?i)\boverflow(s|ed|ing)? (to|into|from|traffic|tiers?)\b`), "spill"},
	{"crossing", regexp.MustCompile(`(?i)\bcrossings?\b`), "hop"},
	{"pool limits", regexp.MustCompile(`(?i)\bpool limits?\b`), "bulkhead"},
}

// uncheckedWords stand in the last column too, but a program cannot tell their wrong use from a right one.
var uncheckedWords = map[string]string{
	"cluster": "a word of its own: the endpoints of one service in one datacenter",
	"host":    "the HTTP field Host and the key hosts; together with a word that makes it an endpoint it is looked for",
	"unit":    "what a number is measured in",
}

// harmless phrases hold one of the words in another meaning, or are keys of the configuration.
var harmless = regexp.MustCompile(`(?i)\bfor instance\b|\bcall sites?\b|\b(cross|same)-site\b|\b(node|priority):|\bnode\.(id|service|locality|threads|datacenter_level)\b`)

// wordFaults says which unwanted words a text holds, each with what to use.
func wordFaults(text string) []wrong {
	text = harmless.ReplaceAllString(text, "")
	var out []wrong
	for _, w := range wrongWords {
		if w.Match.MatchString(text) {
			out = append(out, w)
		}
	}
	return out
}

// humps splits a name at its capitals and underscores: upstreamHost becomes "upstream host".
func humps(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case r == '_':
			b.WriteByte(' ')
			continue
		case i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || (i+1 < len(runes) && unicode.IsLower(runes[i+1]))):
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// words checks the glossary over the tree. This package is left out: it names the words.
func words(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Go {
		if f.Dir() == "test/tidy" {
			continue
		}
		out = append(out, commentWords(f)...)
		out = append(out, nodeWords(f)...)
	}
	for name, text := range t.Docs {
		if name == "docs/GLOSSARY.md" {
			continue
		}
		for i, line := range strings.Split(prose(string(text)), "\n") {
			for _, w := range wordFaults(line) {
				out = append(out, wordFinding(name, i+1, w, "text"))
			}
		}
	}
	return out
}

// wordFinding is a finding of the rule; the word is its name.
func wordFinding(file string, line int, w wrong, where string) Finding {
	return Finding{"word", file, line, w.Word, fmt.Sprintf("%s: %q is not a word for this, use %s", where, w.Word, w.Use)}
}

// commentWords checks the comments of a file, line by line.
func commentWords(f *File) []Finding {
	var out []Finding
	for _, group := range f.AST.Comments {
		for _, c := range group.List {
			for i, line := range strings.Split(c.Text, "\n") {
				for _, w := range wordFaults(line) {
					out = append(out, wordFinding(f.Path, f.Line(c.Pos())+i, w, "comment"))
				}
			}
		}
	}
	return out
}

// nodeWords checks declared names and sentences in literals. Names that other modules declared are theirs.
func nodeWords(f *File) []Finding {
	var out []Finding
	name := func(ids ...*ast.Ident) {
		for _, id := range ids {
			for _, w := range wordFaults(humps(id.Name)) {
				out = append(out, wordFinding(f.Path, f.Line(id.Pos()), w, "name "+id.Name))
			}
		}
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			name(n.Name)
		case *ast.TypeSpec:
			name(n.Name)
		case *ast.ValueSpec:
			name(n.Names...)
		case *ast.Field:
			name(n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					if id, ok := e.(*ast.Ident); ok {
						name(id)
					}
				}
			}
		case *ast.BasicLit:
			for _, w := range wordFaults(sentence(n)) {
				out = append(out, wordFinding(f.Path, f.Line(n.Pos()), w, "message"))
			}
		}
		return true
	})
	return out
}

// sentence is the text of a string literal of more than one word, else empty: single words are keys and labels.
func sentence(n *ast.BasicLit) string {
	if n.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(n.Value)
	if err != nil || !strings.Contains(strings.TrimSpace(s), " ") {
		return ""
	}
	return s
}

// prose is a Markdown text with its code blanked, line for line.
func prose(text string) string {
	var out []string
	code := false
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
			line = ""
		}
		if code {
			line = ""
		}
		out = append(out, inlineCode.ReplaceAllString(line, ""))
	}
	return strings.Join(out, "\n")
}

var inlineCode = regexp.MustCompile("`[^`]*`")
