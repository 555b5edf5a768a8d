package config

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// secretBytesMax bounds what a reference may bring in.
const secretBytesMax = 64 << 10

// Secret is a value that came from a reference such as ${file:/run/secrets/id}. Whatever prints, logs or marshals it shows the
// reference; only Reveal gives the value.
type Secret struct{ value, reference string }

// Reveal is the value itself.
func (s Secret) Reveal() string { return s.value }

// String is the reference.
func (s Secret) String() string {
	if s.reference == "" {
		return "***"
	}
	return s.reference
}

// Format implements fmt.Formatter, for every verb: %#v and %x would go past String.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText implements encoding.TextMarshaler, which JSON uses too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML implements yaml.Marshaler.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// referenced tells whether text is a reference, and the path in it.
func referenced(text string) (path string, ok bool) {
	path, ok = strings.CutPrefix(text, "${file:")
	if !ok || !strings.HasSuffix(path, "}") {
		return "", false
	}
	return strings.TrimSuffix(path, "}"), true
}

// trimLineEnd removes the one line end that editors and echo leave at the end of a file.
func trimLineEnd(s string) string {
	return strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r")
}
