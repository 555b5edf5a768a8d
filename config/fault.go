package config

import (
	"cmp"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// faultsMax bounds how many faults of one file are listed, faultsKeptMax how many are collected to find the first ones.
const (
	faultsMax     = 200
	faultsKeptMax = 50 * faultsMax
)

// Fault is one thing that is wrong with a file: where, which key, and what was expected there.
type Fault struct {
	File    string
	Line    int    // from 1
	Column  int    // from 1, in characters: of the value, or of the key where that is unknown or doubled
	Key     string // path of the key, such as services[0].endpoints[1].address; empty where the file as a whole is meant
	Message string
}

// String is FILE:LINE:COLUMN: KEY: MESSAGE.
func (f Fault) String() string {
	if f.Key == "" {
		return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", f.File, f.Line, f.Column, f.Key, f.Message)
}

// Error implements error.
func (f Fault) Error() string { return f.String() }

// sorted puts faults in the order of the file and cuts the list at faultsMax.
func sorted(faults []Fault) []Fault {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if len(faults) > faultsMax {
		last := faults[faultsMax]
		last.Key, last.Message = "", fmt.Sprintf("%d or more further faults from here on are not listed", len(faults)-faultsMax)
		faults = append(faults[:faultsMax:faultsMax], last)
	}
	return faults
}

// place is where a piece of YAML stands; 1:1 without one.
func place(n *yaml.Node) (line, column int) {
	if n == nil || n.Line == 0 {
		return 1, 1
	}
	return n.Line, max(n.Column, 1)
}
