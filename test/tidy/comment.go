package tidy

import (
	"fmt"
	"strings"
)

// jobLettersMin is the length under which a package comment cannot have said the package's job, in bytes.
const jobLettersMin = 120

// packageComment finds packages without a comment that states their job, and what is not their job.
// Packages that hold tests alone are exempt from neither: their comment says what they prove.
func packageComment(t *Tree) []Finding {
	first := map[string]*File{} // by package folder: where to report
	said := map[string]string{}
	for _, f := range t.Go {
		key := f.Dir()
		if strings.HasSuffix(f.AST.Name.Name, "_test") {
			key += " (tests)" // an external test package shares the folder; the package itself documents it
		}
		if first[key] == nil {
			first[key] = f
		}
		if f.AST.Doc != nil {
			said[key] += f.AST.Doc.Text()
		}
	}
	var out []Finding
	for key, f := range first {
		if dir, ok := strings.CutSuffix(key, " (tests)"); ok && first[dir] != nil {
			continue
		}
		if why := commentFault(f, said[key]); why != "" {
			out = append(out, Finding{"package-comment", f.Path, 1, f.AST.Name.Name, why})
		}
	}
	return out
}

// commentFault says what a package comment lacks, empty if nothing.
func commentFault(f *File, text string) string {
	name := f.AST.Name.Name
	switch {
	case text == "":
		return fmt.Sprintf("package %s has no comment", name)
	case name != "main" && !strings.HasSuffix(name, "_test") && !strings.HasPrefix(text, "Package "+name+" "):
		return fmt.Sprintf("the comment of package %s does not begin with %q", name, "Package "+name+" ")
	case len(text) < jobLettersMin:
		return fmt.Sprintf("the comment of package %s is too short to state its job, what is not its job, its goroutines and its limits", name)
	case name != "main" && !strings.HasSuffix(name, "_test") && !strings.Contains(strings.ToLower(text), "not its job"):
		return fmt.Sprintf("the comment of package %s does not say what is not its job", name)
	}
	return ""
}
