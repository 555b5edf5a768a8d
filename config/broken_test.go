package config

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var rewrite = flag.Bool("rewrite", false, "write what the broken files give into testdata")

// brokenMin is how many broken files there are at least.
const brokenMin = 20

// private copies a file of the source tree where its mode is ours to say: a checkout has the modes that the umask left it.
func private(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, filepath.Base(file), string(data))
}

// written writes a file that only its owner may write.
func written(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// faultsOf loads a broken file and gives its faults, one a line, without the folder.
func faultsOf(t *testing.T, file string) string {
	t.Helper()
	c, faults := Load(file)
	if c != nil || len(faults) == 0 {
		t.Fatalf("%s: no fault", file)
	}
	var b strings.Builder
	for _, f := range faults {
		f.File = filepath.Base(f.File)
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}

// TestBroken: testdata/broken has one file for each way to be wrong, which says in its first line what it is about, and beside it
// every fault that it must give, with line and column.
func TestBroken(t *testing.T) {
	files, err := filepath.Glob("testdata/broken/*.yaml")
	if err != nil || len(files) < brokenMin {
		t.Fatalf("%d broken files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			got := faultsOf(t, private(t, file))
			golden := strings.TrimSuffix(file, ".yaml") + ".want"
			if *rewrite {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// TestFaultsPointAtThings: whatever the broken files give, it lies inside the file, is in order, and names a key or value that
// stands there: goldens that were rewritten in haste cannot hide a wrong place.
func TestFaultsPointAtThings(t *testing.T) {
	files, _ := filepath.Glob("testdata/broken/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(data), "\n")
		_, faults := Load(private(t, file))
		if !slices.IsSortedFunc(faults, func(a, b Fault) int { return 1000*(a.Line-b.Line) + a.Column - b.Column }) {
			t.Errorf("%s: not in the order of the file", file)
		}
		for _, f := range faults {
			if f.Line < 1 || f.Line > len(lines) || f.Column < 1 || f.Column > len([]rune(lines[f.Line-1]))+1 {
				t.Errorf("%s is outside of the file", f)
				continue
			}
			if f.Line == 1 && f.Column == 1 {
				continue // the file as a whole
			}
			if r := rune(lines[f.Line-1][f.Column-1]); r == ' ' || r == '\t' {
				t.Errorf("%s points at white space", f)
			}
			_, value, _ := strings.Cut(f.Message, "got \"")
			value = strings.TrimSuffix(value, "\"")
			if strings.HasPrefix(f.Message, "unknown key") {
				value = f.Key[strings.LastIndexByte(f.Key, '.')+1:]
			}
			if rest := strings.TrimPrefix(lines[f.Line-1][f.Column-1:], "\""); !strings.HasPrefix(rest, value) {
				t.Errorf("%s does not point at %s", f, value)
			}
		}
	}
}

// TestUnserved: every key of the list is accepted with each of its values and refused by its name with another; it is never unknown.
func TestUnserved(t *testing.T) {
	for path, values := range unserved {
		for _, v := range append(slices.Clone(values), "9z", "{a: b}") {
			accepted := slices.Contains(values, v)
			key, text := nested(path, v)
			_, faults := parse("f", "/", []byte(text), nil)
			switch {
			case accepted && len(faults) > 0:
				t.Errorf("%s: %v", text, faults)
			case !accepted && (len(faults) != 1 || faults[0].Key != key || !strings.HasPrefix(faults[0].Message, "not served by this version (expected ")):
				t.Errorf("%s: %v, want one for %s", text, faults, key)
			}
		}
	}
}

// nested writes a file with the value at a place of the schema, in flow style, and gives the path of its key.
func nested(path, value string) (key, text string) {
	lists := map[string]string{"datacenters": "name: a", "discovery": "", "services": "name: a", "services.endpoints": "address: 10.0.0.1:1"}
	parts := strings.Split(path, ".")
	text = value
	for i := len(parts) - 1; i >= 0; i-- {
		text = parts[i] + ": " + text
		name := parts[i]
		if i == 0 {
			break
		}
		at := strings.Join(parts[:i], ".")
		if more, ok := lists[at]; ok {
			if more != "" && !strings.HasSuffix(text, more) {
				text = more + ", " + text
			}
			text, name = "[{"+text+"}]", "[0]."+name
		} else {
			text, name = "{"+text+"}", "."+name
		}
		key = name + key
	}
	key = parts[0] + key
	if parts[0] == "outbound" {
		return key, strings.Replace(text, "outbound: {", "outbound: {listen: \"\", ", 1)
	}
	return key, "outbound: {listen: \"\"}\n" + text
}

// TestLaterWords: words that are known and not served say so.
func TestLaterWords(t *testing.T) {
	for _, c := range []struct {
		words  []string
		format string
	}{
		{laterProtocols, "services: [{name: a, ports: [{port: 1, protocol: WORD}]}]"},
		{laterProtocols, "inbound: {ports: [{port: 1, protocol: WORD}]}"},
		{laterBalance, "policy: {balance: WORD}"},
		{laterSpill, "policy: {locality: {spill: WORD}}"},
	} {
		for _, w := range c.words {
			text := "outbound: {listen: \"\"}\n" + strings.Replace(c.format, "WORD", w, 1)
			_, faults := parse("f", "/", []byte(text), nil)
			if len(faults) != 1 || !strings.HasPrefix(faults[0].Message, "not served by this version (expected ") {
				t.Errorf("%s: %v", text, faults)
			}
		}
	}
}

// TestManyFaults: the list is cut, and says so.
func TestManyFaults(t *testing.T) {
	var b strings.Builder
	for range faultsKeptMax + 10 {
		b.WriteString("a: 1\n")
	}
	_, faults := parse("f", "/", []byte(b.String()), nil)
	if len(faults) != faultsMax+1 || !strings.Contains(faults[faultsMax].Message, "not listed") || faults[faultsMax].Line != faultsMax+1 {
		t.Errorf("%d faults, the last is %v", len(faults), faults[len(faults)-1])
	}
}

// TestAliasBomb: nine lists of nine aliases each would be 387 million values.
func TestAliasBomb(t *testing.T) {
	text := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'i'; c++ {
		text += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 9), ",") + "]\n"
	}
	if _, faults := parse("f", "/", []byte(text+"outbound: *i\nservices: *i\n"), nil); len(faults) != 11 {
		t.Errorf("%d faults: %v", len(faults), faults)
	}
}

// TestPanicOfLibrary: what the YAML library cannot cope with is a fault of the file.
func TestPanicOfLibrary(t *testing.T) {
	if _, err := next(yaml.NewDecoder(panicky{})); err == nil || !strings.Contains(err.Error(), "odd input") {
		t.Errorf("got %v", err)
	}
}

type panicky struct{}

func (panicky) Read([]byte) (int, error) { panic("odd input") }
