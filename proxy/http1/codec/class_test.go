package codec

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawText makes bytes of which few end a text, so that the ends lie anywhere in a word of eight.
func drawText(t *rapid.T, odd string) []byte {
	b := rapid.SliceOfN(rapid.ByteRange(0x20, 0xff), 0, 40).Draw(t, "text")
	for range rapid.IntRange(0, 3).Draw(t, "odd ones") {
		if len(b) > 0 {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = odd[rapid.IntRange(0, len(odd)-1).Draw(t, "byte")]
		}
	}
	return b
}

// TestTextEnd compares eight bytes at a time with one.
func TestTextEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawText(t, "\x00\x01\t\n\r\x1f\x7f\x80\xff ")
		from := rapid.IntRange(0, len(b)).Draw(t, "from")
		want := from
		for want < len(b) && (b[want] >= 0x20 && b[want] != 0x7f || b[want] == '\t') {
			want++
		}
		if got := textEnd(b, from); got != want {
			t.Fatalf("textEnd(%q, %d) = %d, want %d", b, from, got, want)
		}
	})
}

// TestTextEndEveryByte puts every byte at every place of a word.
func TestTextEndEveryByte(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			b := []byte(strings.Repeat("a", 20))
			b[at] = byte(c)
			want := 20
			if c < 0x20 && c != '\t' || c == 0x7f {
				want = at
			}
			if got := textEnd(b, 0); got != want {
				t.Fatalf("byte %#x at %d: %d, want %d", c, at, got, want)
			}
		}
	}
}

// headEnd is HeadEnd without memory: the first of an empty line behind a line, and of what is an error at once.
func headEnd(b []byte) (end int, fault bool) {
	for i, c := range b {
		switch {
		case c == '\n' && (i < 2 || b[i-1] != '\r'), c == '\n' && i == 1:
			return 0, true
		case c == '\n' && b[i-2] == '\n':
			return i + 1, false
		}
	}
	return 0, strings.IndexByte(string(b), 0) >= 0
}

func TestHeadEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "\r\n", "\r\n\r\n", "\r", "\n", "\x00", "GET / HTTP/1.1\r\n", ": "}), 0, 8).Draw(t, "words")
		b := []byte(strings.Join(words, ""))
		want, fault := headEnd(b)
		end, next, err := HeadEnd(b, 0)
		if end != want || (err != nil) != fault {
			t.Fatalf("HeadEnd(%q) = %d, %v; want %d, %v", b, end, err, want, fault)
		}
		if err != nil || end > 0 {
			return
		}
		// Going on from next, with more bytes, finds what a fresh look finds.
		more := append(b, rapid.SampledFrom([]string{"\r\n\r\n", "\n", "\r\n", "x", "\n\r\n"}).Draw(t, "more")...)
		want, fault = headEnd(more)
		if end, _, err := HeadEnd(more, next); end != want || (err != nil) != fault {
			t.Fatalf("HeadEnd(%q, %d) = %d, %v; want %d, %v", more, next, end, err, want, fault)
		}
	})
}

func TestSkipEmptyLines(t *testing.T) {
	for in, want := range map[string]int{"": 0, "\r": 0, "\r\n": 2, "\r\n\r\nGET": 4, "\n\nGET": 0, "GET\r\n": 0, "\r\n\r\n\r\n\r\n\r\n": 8} {
		if got := SkipEmptyLines([]byte(in)); got != want {
			t.Errorf("SkipEmptyLines(%q) = %d, want %d", in, got, want)
		}
	}
	// An empty line that comes in two pieces: HeadEnd asks to begin again.
	if end, next, err := HeadEnd([]byte("\r"), 0); end != 0 || next != 0 || err != nil {
		t.Errorf("HeadEnd of CR alone = %d, %d, %v", end, next, err)
	}
}

func TestElement(t *testing.T) {
	for list, want := range map[string]string{"": "", "a": "a", "a,b": "a|b", " a\t,, b c ,": "a||b c", ",": ""} {
		var got []string
		for rest := []byte(list); len(rest) > 0; {
			var e []byte
			e, rest = element(rest)
			got = append(got, string(e))
		}
		if s := strings.Join(got, "|"); s != want {
			t.Errorf("%q has the elements %q, want %q", list, s, want)
		}
	}
}
