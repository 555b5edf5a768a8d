package codec

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"spillway/proxy/head"
)

var rewrite = flag.Bool("rewrite", false, "write what the code does into testdata/*.txt instead of comparing")

// example is one block of a data file. Lines begin with
//
//	==  the name            >  a line of input, CRLF is added, and an empty line behind the last one
//	|   input as it is      @  options
//	=   what was understood !  the error         <  a line of output, as > or, where it is no head, as |
//
// Input and output are written with Go's escapes.
type example struct {
	name, options string
	in            []byte
	want          []string
	from, to      int // lines of the file that hold want
}

func (e *example) option(name string) (value string, ok bool) {
	for o := range strings.FieldsSeq(e.options) {
		if k, v, _ := strings.Cut(o, "="); k == name {
			return v, true
		}
	}
	return "", false
}

func (e *example) has(name string) bool { _, ok := e.option(name); return ok }

// drop is the set of the fields named in the option drop.
func (e *example) drop() (s head.Set) {
	names, _ := e.option("drop")
	for name := range strings.SplitSeq(names, ",") {
		if id := head.Lookup([]byte(name)); id != head.Unknown {
			s = s.With(id)
		}
	}
	return s
}

func unescape(t *testing.T, s string) []byte {
	t.Helper()
	out, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `"`, `\"`) + `"`)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return []byte(out)
}

func escape(b []byte) string {
	s := strconv.QuoteToASCII(string(b))
	return strings.ReplaceAll(s[1:len(s)-1], `\"`, `"`)
}

func readExamples(t *testing.T, lines []string) (all []*example) {
	var e *example
	isHead := false
	finish := func() {
		if e != nil && isHead {
			e.in = append(e.in, "\r\n"...)
		}
	}
	for i, line := range lines {
		kind, rest := line, ""
		if at := strings.IndexByte(line, ' '); at >= 0 {
			kind, rest = line[:at], line[at+1:]
		}
		switch kind {
		case "==":
			finish()
			e, isHead = &example{name: rest, from: -1}, false
			all = append(all, e)
		case ">":
			e.in, isHead = append(append(e.in, unescape(t, rest)...), "\r\n"...), true
		case "|":
			e.in = append(e.in, unescape(t, rest)...)
		case "@":
			e.options = rest
		case "=", "!", "<":
			e.want = append(e.want, line)
			if e.from < 0 {
				e.from = i
			}
			e.to = i + 1
		case "#", "":
		default:
			t.Fatalf("line %d: %q", i+1, line)
		}
		if e != nil && e.from < 0 && (kind == ">" || kind == "|" || kind == "@") {
			e.to = i + 1
		}
	}
	finish()
	return all
}

// runFile runs every example of a data file through do, which gives the lines that it wants.
func runFile(t *testing.T, path string, do func(t *testing.T, e *example) []string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	all := readExamples(t, lines)
	names := map[string]bool{}
	for _, e := range all {
		if names[e.name] {
			t.Errorf("two examples are called %q", e.name)
		}
		names[e.name] = true
		t.Run(e.name, func(t *testing.T) {
			got := do(t, e)
			if *rewrite {
				e.want = got
				return
			}
			if g, w := strings.Join(got, "\n"), strings.Join(e.want, "\n"); g != w {
				t.Errorf("got\n%s\nwant\n%s", g, w)
			}
		})
	}
	if !*rewrite {
		return
	}
	var out []string
	at := 0
	for _, e := range all {
		from := e.from
		if from < 0 {
			from = e.to
		}
		out = append(append(out, lines[at:from]...), e.want...)
		at = e.to
	}
	out = append(out, lines[at:]...)
	if err := os.WriteFile(path, []byte(strings.Join(out, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// headLines shows an encoded head as lines of output.
func headLines(t *testing.T, b []byte) (out []string) {
	s, ok := strings.CutSuffix(string(b), "\r\n\r\n")
	if !ok {
		t.Errorf("the output is no head: %q", b)
	}
	for line := range strings.SplitSeq(s, "\r\n") {
		out = append(out, strings.TrimRight("< "+escape([]byte(line)), " "))
	}
	return out
}

func errorLine(err *Error) string {
	return fmt.Sprintf("! %s: %s", [...]string{"malformed", "too large", "unsupported"}[err.Kind], err.What)
}

func framingName(f Framing, n int64) string {
	if f == Length {
		return fmt.Sprintf("length=%d", n)
	}
	return [...]string{"nobody", "", "chunked", "untilclose"}[f]
}

// flags lists the names whose value is true, each after a space.
func flags(pairs ...any) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1].(bool) {
			b.WriteString(" " + pairs[i].(string))
		}
	}
	return b.String()
}

// wholeHead is what Parse gets of an input: what HeadEnd says is the head, found in one piece and byte by byte alike.
func wholeHead(t *testing.T, in []byte) ([]byte, *Error) {
	end, _, err := HeadEnd(in, 0)
	slow, slowErr := 0, (*Error)(nil)
	for n, scanned := 0, 0; n <= len(in) && slow == 0 && slowErr == nil; n++ {
		slow, scanned, slowErr = HeadEnd(in[:n], scanned)
	}
	if slow != end && err == nil && slowErr != errNUL { // of a NUL inside a whole head Parse has to speak
		t.Errorf("the head ends at %d, byte by byte at %d", end, slow)
	}
	if err != nil && slowErr == nil && slow == 0 {
		t.Errorf("byte by byte there is no error %v", err)
	}
	if err == nil && end == 0 {
		return in, nil // Parse has to say what it lacks
	}
	return in[:max(end, 0)], err
}
