package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// shape is what the value of a key has to look like, and where it goes. A tree of shapes over one Config is its schema.
type shape interface {
	// read takes the value over, or says what is wrong with it. key is the path of the key.
	read(r *reader, key string, n *yaml.Node)
	// show is the value as YAML; nil leaves the key out.
	show(s *shower, key string) *yaml.Node
}

// reader walks a file along a schema and collects faults.
type reader struct {
	file    string
	faults  []Fault
	secret  func(path string) (string, error) // reads a reference; nil: references are refused
	secrets map[string]Secret
}

// fault notes one fault at n. A file of nothing but faults costs no more memory than faultsKeptMax of them.
func (r *reader) fault(n *yaml.Node, key, message string) {
	if len(r.faults) >= faultsKeptMax {
		return
	}
	line, column := place(n)
	r.faults = append(r.faults, Fault{File: r.file, Line: line, Column: column, Key: key, Message: message})
}

// expected notes that n is something else than what was wanted.
func (r *reader) expected(n *yaml.Node, key, want string) {
	r.fault(n, key, "expected "+want+", got "+got(n))
}

// gotBytesMax bounds how much of a wrong value a message repeats.
const gotBytesMax = 60

// got describes a value in a message. What a reference brought in is never shown.
func got(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.Tag == "!!null" {
		return "nothing"
	}
	if _, ok := referenced(n.Value); ok {
		return "the contents of " + n.Value
	}
	v := n.Value
	if len(v) > gotBytesMax {
		v = strings.ToValidUTF8(v[:gotBytesMax], "") + "..."
	}
	if n.Tag == "!!str" {
		return strconv.Quote(v)
	}
	return v
}

// kindOf checks that n is a plain value of the kind, without tag and alias. want is what the message says.
func (r *reader) kindOf(n *yaml.Node, kind yaml.Kind, key, want string) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		r.fault(n, key, "expected "+want+" written out, got an alias; aliases are refused")
	case n.Style&yaml.TaggedStyle != 0:
		r.fault(n, key, "expected "+want+" without a tag, got "+n.Tag)
	case n.Kind != kind:
		r.expected(n, key, want)
	default:
		return true
	}
	return false
}

// entry is one key of a mapping.
type entry struct {
	name     string
	shape    shape
	required string // what the message says when the key is missing; empty: it may be
}

// keysMax is the most keys that a mapping of the schema has.
const keysMax = 32

// mapping is a YAML mapping with known keys. name is its place in the schema without indices, by which unserved.go knows it.
type mapping struct {
	name    string
	entries []entry
}

func (m mapping) read(r *reader, key string, n *yaml.Node) {
	if !r.kindOf(n, yaml.MappingNode, key, "a mapping of "+m.keys()) {
		return
	}
	var values [keysMax]*yaml.Node
	var others []string // unserved and unknown keys met
	refused := false    // one of them is of a part that is not served: what is missing then means nothing
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if !r.kindOf(k, yaml.ScalarNode, key, "a key") {
			continue
		}
		at := slices.IndexFunc(m.entries, func(e entry) bool { return e.name == k.Value })
		switch {
		case at >= 0 && values[at] == nil:
			values[at] = v
		case at >= 0 || slices.Contains(others, k.Value):
			r.fault(k, join(key, k.Value), "expected the key once, it is here again")
		default:
			if len(others) < keysMax {
				others = append(others, k.Value)
			}
			refused = m.other(r, key, k, v) || refused
		}
	}
	for i, e := range m.entries {
		switch {
		case values[i] != nil:
			e.shape.read(r, join(key, e.name), values[i])
		case e.required != "" && !refused:
			r.fault(n, join(key, e.name), "expected "+e.required+", the key is missing")
		}
	}
}

// other deals with a key that is not served: known to the design and then perhaps refused, or unknown.
func (m mapping) other(r *reader, key string, k, v *yaml.Node) (refused bool) {
	path, before := join(key, k.Value), len(r.faults)
	if unservedAt(join(m.name, k.Value)).read(r, path, v) {
		return len(r.faults) > before
	}
	if near := nearest(k.Value, append(unservedBelow(m.name), m.names()...)); near != "" {
		r.fault(k, path, "unknown key, did you mean "+near+"?")
		return false
	}
	r.fault(k, path, "unknown key, expected one of "+m.keys())
	return false
}

func (m mapping) names() []string {
	names := make([]string, len(m.entries))
	for i, e := range m.entries {
		names[i] = e.name
	}
	return names
}

// keys names the keys that are served, or the known ones where none is.
func (m mapping) keys() string {
	if len(m.entries) == 0 {
		return strings.Join(unservedBelow(m.name), ", ")
	}
	return strings.Join(m.names(), ", ")
}

// join makes the path of a key below another.
func join(key, name string) string {
	if len(name) > gotBytesMax {
		name = strings.ToValidUTF8(name[:gotBytesMax], "") + "..."
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		name = strconv.Quote(name)
	}
	if key == "" {
		return name
	}
	return key + "." + name
}

// list is a YAML sequence of one shape.
type list[T any] struct {
	to   *[]T
	want string         // what the list holds, plural
	item func(*T) shape // the shape of one item
	from func() T       // an item before it is read; nil: the zero value
	once func(T) any    // what must not repeat; nil: items may
	key  []any          // where that stands below an item
}

func (l list[T]) read(r *reader, key string, n *yaml.Node) {
	if !r.kindOf(n, yaml.SequenceNode, key, "a list of "+l.want) {
		return
	}
	items := make([]T, len(n.Content))
	seen := map[any]int{}
	for i, c := range n.Content {
		if l.from != nil {
			items[i] = l.from()
		}
		faults := len(r.faults)
		at := key + "[" + strconv.Itoa(i) + "]"
		l.item(&items[i]).read(r, at, c)
		if l.once == nil || len(r.faults) > faults {
			continue
		}
		if j, again := seen[l.once(items[i])]; again {
			r.fault(locate(c, l.key...), at+keyBelow(l.key), fmt.Sprintf("expected each once, this one stands in [%d] already", j))
			continue
		}
		seen[l.once(items[i])] = i
	}
	if *l.to = items; len(items) == 0 {
		*l.to = nil // an empty list and none are one thing
	}
}

// inner is the shape of an item, for whoever walks the schema.
func (l list[T]) inner() shape { return l.item(new(T)) }

// scalar is a single value.
type scalar[T any] struct {
	to   *T
	kind kind[T]
}

// kind is a sort of single values.
type kind[T any] struct {
	want   string                      // "a duration such as 15s"
	parse  func(text string) (T, bool) // false: it is not what was wanted
	text   func(T) string
	quoted bool     // may be written in quotes; numbers and truth values may not
	later  []string // words that later versions serve
}

func (s scalar[T]) read(r *reader, key string, n *yaml.Node) {
	text, quoted, ok := r.text(n, key, s.kind.want)
	if !ok {
		return
	}
	v, ok := s.kind.parse(text)
	if _, truth := any(v).(bool); n.Tag == "!!bool" && !truth {
		ok = false // name: true is more often a mistake than a name
	}
	switch {
	case slices.Contains(s.kind.later, text):
		r.fault(n, key, "not served by this version (expected "+s.kind.want+")")
	case !ok || quoted && !s.kind.quoted:
		r.expected(n, key, s.kind.want)
	default:
		*s.to = v
	}
}

// text is the text of a single value; a reference is followed. quoted tells that YAML took the value for text.
func (r *reader) text(n *yaml.Node, key, want string) (text string, quoted, ok bool) {
	if !r.kindOf(n, yaml.ScalarNode, key, want) {
		return "", false, false
	}
	if n.Tag == "!!null" {
		r.expected(n, key, want)
		return "", false, false
	}
	path, ok := referenced(n.Value)
	if !ok {
		return n.Value, n.Tag == "!!str" && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0, true
	}
	if r.secret == nil {
		r.fault(n, key, "expected "+want+", got a reference; references are followed in the configuration file alone")
		return "", false, false
	}
	value, err := r.secret(path)
	if err != nil {
		r.fault(n, key, "expected "+want+" in the file of the reference: "+err.Error())
		return "", false, false
	}
	r.secrets[key] = Secret{value: value, reference: n.Value}
	return value, false, true
}

// locate finds a value below n by keys and indices, as deep as it goes.
func locate(n *yaml.Node, path ...any) *yaml.Node {
	for _, p := range path {
		next := (*yaml.Node)(nil)
		switch p := p.(type) {
		case string:
			for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == p {
					next = n.Content[i+1]
					break
				}
			}
		case int:
			if n.Kind == yaml.SequenceNode && p < len(n.Content) {
				next = n.Content[p]
			}
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}
