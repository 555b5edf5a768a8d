package tidy

import (
	"fmt"
	"strings"
)

// Exception lets findings of one rule stand, with a reason.
type Exception struct {
	Rule   string
	Path   string // a file, or a folder ending in /
	Name   string // the finding's Name, or *
	Reason string
	Line   int // in exceptions.txt
	used   bool
}

// reasonLettersMin is the length under which a reason says nothing, in bytes.
const reasonLettersMin = 20

// ParseExceptions reads lines of "rule | path | name | reason"; # begins a comment.
func ParseExceptions(text string) ([]*Exception, error) {
	var out []*Exception
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, "|")
		if len(parts) != 4 {
			return nil, fmt.Errorf("exceptions.txt:%d: want rule | path | name | reason", i+1)
		}
		for j := range parts {
			parts[j] = strings.TrimSpace(parts[j])
		}
		if len(parts[3]) < reasonLettersMin {
			return nil, fmt.Errorf("exceptions.txt:%d: the reason says too little", i+1)
		}
		out = append(out, &Exception{Rule: parts[0], Path: parts[1], Name: parts[2], Reason: parts[3], Line: i + 1})
	}
	return out, nil
}

// covers tells whether the exception speaks of a finding.
func (e *Exception) covers(f Finding) bool {
	if e.Rule != f.Rule || (e.Name != "*" && e.Name != f.Name) {
		return false
	}
	if strings.HasSuffix(e.Path, "/") {
		return strings.HasPrefix(f.Path, e.Path)
	}
	return e.Path == f.Path
}

// Apply returns the findings that no exception covers, and the exceptions that cover nothing any more.
func Apply(exceptions []*Exception, findings []Finding) (left []Finding, stale []*Exception) {
	for _, f := range findings {
		covered := false
		for _, e := range exceptions {
			if e.covers(f) {
				e.used, covered = true, true
			}
		}
		if !covered {
			left = append(left, f)
		}
	}
	for _, e := range exceptions {
		if !e.used {
			stale = append(stale, e)
		}
	}
	return left, stale
}
