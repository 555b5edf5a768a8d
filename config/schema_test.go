package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"spillway/discovery"
)

const example = "../spillway.example.yaml"

// keysOfSchema gives every key that holds something, without indices: the leaves.
func keysOfSchema(s shape, key string) []string {
	switch s := s.(type) {
	case mapping:
		var out []string
		for _, e := range s.entries {
			out = append(out, keysOfSchema(e.shape, join(key, e.name))...)
		}
		return out
	case checkShape:
		return keysOfSchema(s.mapping, key)
	case ejectionShape:
		return keysOfSchema(s.mapping, key)
	case interface{ inner() shape }:
		if m, ok := s.inner().(mapping); ok {
			return keysOfSchema(m, key)
		}
	}
	return []string{key}
}

// keysOfFile gives the leaves of a file.
func keysOfFile(n *yaml.Node, key string) []string {
	var out []string
	switch {
	case n.Kind == yaml.MappingNode && len(n.Content) > 0:
		for i := 0; i < len(n.Content); i += 2 {
			out = append(out, keysOfFile(n.Content[i+1], join(key, n.Content[i].Value))...)
		}
		return out
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0 && n.Content[0].Kind == yaml.MappingNode:
		for _, c := range n.Content {
			out = append(out, keysOfFile(c, key)...)
		}
		return out
	}
	return []string{key}
}

func exampleRoot(t *testing.T) (root *yaml.Node, lines []string) {
	t.Helper()
	data, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	root, fault := document(example, data, "")
	if fault != nil {
		t.Fatal(fault)
	}
	return root, strings.Split(string(data), "\n")
}

// TestExampleKeys: the example has every key of the schema, and no other.
func TestExampleKeys(t *testing.T) {
	root, _ := exampleRoot(t)
	file, served := keysOfFile(root, ""), keysOfSchema(schema(Default(), ""), "")
	for _, k := range served {
		if !slices.Contains(file, k) {
			t.Errorf("%s has no key %s", example, k)
		}
	}
	for _, k := range file {
		if !slices.Contains(served, k) {
			t.Errorf("%s has the key %s, which is not served", example, k)
		}
	}
}

// TestExampleValues: every value of the example is the default, or its line says example, and then it is none; every key has a
// comment, on its line or on that of the mapping that it stands in.
func TestExampleValues(t *testing.T) {
	root, lines := exampleRoot(t)
	want := Default()
	want.Outbound.Capture = CaptureExplicit
	// Defaults of items of lists.
	want.Outbound.Ports = []OutPort{{Protocol: discovery.TCP}}
	want.Inbound.Ports = []InPort{{}}
	want.Services = []discovery.Service{{Ports: []discovery.Port{{}}, Endpoints: []discovery.Endpoint{{Weight: 1}}}}
	defaults := want.shown()
	var walk func(n, d *yaml.Node, key string, said bool)
	walk = func(n, d *yaml.Node, key string, said bool) {
		for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			line := lines[k.Line-1]
			at, comment := join(key, k.Value), strings.Contains(line, "#")
			if v.Kind == yaml.MappingNode && len(v.Content) > 0 {
				walk(v, locate(d, k.Value), at, said || comment)
				continue
			}
			if v.Kind == yaml.SequenceNode && len(v.Content) > 0 && v.Content[0].Kind == yaml.MappingNode {
				if !strings.Contains(line, "# example") {
					t.Errorf("%s: a list that is no default does not say example", at)
				}
				items := locate(d, k.Value)
				for j, c := range v.Content {
					walk(c, locate(items, min(j, max(len(items.Content)-1, 0))), at, true)
				}
				continue
			}
			checkExample(t, at, line, v, locate(d, k.Value), said || comment || explained[k.Value])
		}
	}
	walk(root, defaults, "", false)
}

// explained are keys whose name says everything.
var explained = map[string]bool{"interval": true, "timeout": true, "format": true}

// checkExample checks one value of the example against the default.
func checkExample(t *testing.T, key, line string, v, d *yaml.Node, said bool) {
	t.Helper()
	var got, want any
	if err := v.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if d.Kind == yaml.ScalarNode && strings.Trim(d.Value, "0123456789") == "" && d.Value != "" {
		d = &yaml.Node{Kind: yaml.ScalarNode, Value: d.Value} // a port is shown as text
	}
	if err := d.Decode(&want); err != nil {
		t.Fatal(err)
	}
	isExample := strings.Contains(line, "# example")
	same := reflect.DeepEqual(got, want)
	switch {
	case !said:
		t.Errorf("%s: no comment says what it means", key)
	case key == "services.policy":
	case isExample && same:
		t.Errorf("%s: the default is marked as an example: %s", key, line)
	case !isExample && !same:
		t.Errorf("%s: the default is %v, the example says %v and does not say that it is an example", key, want, got)
	}
}

// TestExampleLoads: the example is a good configuration.
func TestExampleLoads(t *testing.T) {
	if _, faults := Load(private(t, example)); len(faults) > 0 {
		t.Error(faults)
	}
}

var documented = regexp.MustCompile("(?m)^\\| `([a-z0-9_.\\[\\]]+)` \\| ([^|]*) \\|")

// TestDocumented: docs/configuration.md has a row for every served key, with the default, and for every key that is refused, and no other.
func TestDocumented(t *testing.T) {
	data, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	served, refused, ok := strings.Cut(string(data), "\n## Known and refused")
	if !ok {
		t.Fatal("no section of refused keys")
	}
	rows := map[string]string{}
	for _, m := range documented.FindAllStringSubmatch(served, -1) {
		key := strings.ReplaceAll(m[1], "[]", "")
		if _, again := rows[key]; again {
			t.Errorf("%s has two rows", key)
		}
		rows[key] = m[2]
	}
	defaults := Default().shown()
	for _, k := range keysOfSchema(schema(Default(), ""), "") {
		text, ok := rows[k]
		if !ok {
			t.Errorf("no row for %s", k)
		}
		delete(rows, k)
		path := []any{}
		for _, p := range strings.Split(k, ".") {
			path = append(path, p)
		}
		d := locate(defaults, path...)
		if d.Kind == yaml.ScalarNode && d.Value != "" && k != "outbound.capture" && strings.Trim(text, "`") != d.Value {
			t.Errorf("%s: the default is %s, the row says %s", k, d.Value, text)
		}
	}
	for k := range rows {
		t.Errorf("a row for %s, which is not served", k)
	}
	for _, m := range documented.FindAllStringSubmatch(refused, -1) {
		rows[strings.ReplaceAll(m[1], "[]", "")] = m[2]
	}
	for k, values := range unserved {
		text, ok := rows[k]
		if !ok {
			t.Errorf("no row for the refused key %s", k)
		}
		delete(rows, k)
		if want := strings.ReplaceAll("`"+strings.Join(values, "`, `")+"`", "``", "none"); text != want {
			t.Errorf("%s: accepted is %s, the row says %s", k, want, text)
		}
	}
	for k := range rows {
		t.Errorf("a row for %s, which is not known", k)
	}
}

// TestShownIsRead: what is shown, read again, is the same configuration.
func TestShownIsRead(t *testing.T) {
	for _, file := range []string{example, "testdata/full.yaml"} {
		c, faults := Load(private(t, file))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		again, faults := Load(written(t, "again.yaml", string(c.RedactedYAML())))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		if !reflect.DeepEqual(c, again) {
			t.Errorf("%s: %+v, read again: %+v", file, c, again)
		}
	}
}
