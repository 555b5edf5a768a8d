package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const hidden = "Tell-Nobody-15"

// reference writes a secret and gives the reference to it.
func reference(t *testing.T, contents string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(contents), 0o600); err != nil {
		t.Fatal(err)
	}
	return "${file:" + file + "}"
}

// TestSecretMasksItself: every way to print or marshal shows the reference.
func TestSecretMasksItself(t *testing.T) {
	s := Secret{hidden, "${file:/x}"}
	holder := struct {
		S Secret            `yaml:"s"`
		M map[string]Secret `yaml:"m"`
	}{s, map[string]Secret{"k": s}}
	var out strings.Builder
	for _, v := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10s"} {
		fmt.Fprintf(&out, v, s)
		fmt.Fprintf(&out, v, &s)
		fmt.Fprintf(&out, v, holder)
	}
	fmt.Fprint(&out, s, &s, holder)
	j, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	y, err := yaml.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "s", s, "h", holder)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "s", s, "h", holder)
	all := out.String() + string(j) + string(y) + log.String()
	if strings.Contains(all, hidden) || strings.Contains(all, fmt.Sprintf("%x", hidden)) || !strings.Contains(all, "${file:/x}") {
		t.Errorf("shown: %s", all)
	}
	if s.Reveal() != hidden || (Secret{value: hidden}).String() != "***" {
		t.Error("the value, or a secret without reference")
	}
}

// TestReferences: a reference is followed for values of any sort; what is shown of the configuration is the reference, also where the
// value was changed on its way or stands at another place too.
func TestReferences(t *testing.T) {
	name, number, addr := reference(t, hidden+"\n"), reference(t, "17\r\n"), reference(t, "[2001:db8:0::7]:80")
	text := fmt.Sprintf("%snode: {id: %q}\ninbound: {concurrency_max: %q}\nservices:\n  - name: %q\n    hosts: [a, b, %q]\n    endpoints: [{address: %q}]\n",
		explicit, name, number, name, name, addr)
	c := loaded(t, text)
	if c.Node.ID != hidden || c.Inbound.ConcurrencyMax != 17 || c.Services[0].Name != hidden || c.Services[0].Endpoints[0].Address.Port() != 80 {
		t.Errorf("%q %d %+v", c.Node.ID, c.Inbound.ConcurrencyMax, c.Services)
	}
	shown := string(c.RedactedYAML()) + fmt.Sprint(c.Redacted())
	if strings.Contains(strings.ToLower(shown), strings.ToLower(hidden)) || strings.Contains(shown, "2001:db8") {
		t.Errorf("shown:\n%s", shown)
	}
	for _, r := range []string{name, number, addr} {
		if !strings.Contains(shown, r) {
			t.Errorf("the reference %s is not shown:\n%s", r, shown)
		}
	}
}

// TestFaultsHideContents: a message about what a reference brought in does not repeat it.
func TestFaultsHideContents(t *testing.T) {
	r := reference(t, hidden)
	file := written(t, "f.yaml", fmt.Sprintf("outbound: {listen: %q, capture: %q}\nlimits: {head: %q}\nhop: {trusted_networks: [%q]}\n", r, r, r, r))
	_, faults := Load(file)
	if len(faults) != 4 {
		t.Errorf("%d faults", len(faults))
	}
	for _, f := range faults {
		if strings.Contains(f.String(), hidden) || !strings.Contains(f.Message, "got the contents of "+r) {
			t.Error(f)
		}
	}
}

// TestReferenceFaults: a discovered file may come from anybody, so it names no files of this machine; a reference is bounded.
func TestReferenceFaults(t *testing.T) {
	r := reference(t, "order")
	_, faults := ParseServices("f", fmt.Appendf(nil, "services: [{name: %q}]", r), DefaultPolicy())
	if len(faults) != 1 || !strings.Contains(faults[0].Message, "configuration file alone") {
		t.Error(faults)
	}
	long := reference(t, strings.Repeat("x", secretBytesMax+1))
	if _, faults = Load(written(t, "f.yaml", explicit+fmt.Sprintf("node: {id: %q}\n", long))); len(faults) != 1 || !strings.Contains(faults[0].Message, "larger than 64KiB") {
		t.Error(faults)
	}
}
