package config

import (
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"spillway/discovery"
)

// shower renders a configuration along its schema.
type shower struct {
	secrets map[string]Secret // by key
	values  map[string]Secret // by value in lower case: a name stands among the hosts too
}

// hidden is what stands for a text that came from a reference.
func (s *shower) hidden(key, text string) (reference string, ok bool) {
	secret, ok := s.secrets[key]
	if !ok {
		secret, ok = s.values[strings.ToLower(text)]
	}
	return secret.String(), ok
}

// Redacted is the configuration as it is in effect, for people: mappings, lists and single values. What came from a reference is
// shown as the reference.
func (c *Config) Redacted() any {
	var v any
	if err := c.shown().Decode(&v); err != nil {
		panic("config: own rendering does not decode: " + err.Error()) // it is made of plain mappings, lists and scalars
	}
	return v
}

// RedactedYAML is Redacted in YAML. Reading it gives the same configuration, as long as it holds no reference.
func (c *Config) RedactedYAML() []byte {
	b, err := yaml.Marshal(c.shown())
	if err != nil {
		panic("config: own rendering does not marshal: " + err.Error())
	}
	return b
}

func (c *Config) shown() *yaml.Node {
	s := &shower{secrets: c.secrets, values: map[string]Secret{}}
	for _, secret := range c.secrets {
		s.values[strings.ToLower(secret.Reveal())] = secret
	}
	return schema(c, "").show(s, "")
}

func (m mapping) show(s *shower, key string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, e := range m.entries {
		if v := e.shape.show(s, join(key, e.name)); v != nil {
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: e.name}, v)
		}
	}
	return n
}

func (l list[T]) show(s *shower, key string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range *l.to {
		if v := l.item(&(*l.to)[i]).show(s, key+"["+strconv.Itoa(i)+"]"); v != nil {
			n.Content = append(n.Content, v)
		}
	}
	return n
}

func (k scalar[T]) show(s *shower, key string) *yaml.Node {
	text := k.kind.text(*k.to)
	if reference, ok := s.hidden(key, text); ok {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: reference}
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if k.kind.quoted {
		n.Tag = "!!str" // the marshaller adds quotes where the text would be read as something else
	}
	return n
}

func (o override) show(s *shower, key string) *yaml.Node {
	if *o.to == nil || reflect.DeepEqual(**o.to, *o.base) {
		return nil
	}
	policy := **o.to
	return policyShape(&policy, false).show(s, key)
}

func (s retrySet) show(w *shower, key string) *yaml.Node {
	items := []discovery.RetryOn{}
	for _, o := range []discovery.RetryOn{discovery.OnResetBeforeResponse, discovery.OnGatewayError} {
		if *s.to&o != 0 {
			items = append(items, o)
		}
	}
	return s.list(&items).show(w, key)
}

func (globalOnly) show(*shower, string) *yaml.Node { return nil }
