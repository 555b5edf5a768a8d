package codec

import (
	"bytes"
	"fmt"
	"io"
	"net/http/httputil"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fed is what came of a body that was given to Chunks in pieces.
type fed struct {
	out      []byte // with the trailer
	consumed int
	done     bool
	err      *Error
}

// failer is what tests and properties have in common.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// feed gives a body to Chunks in pieces of the sizes given, which are used in turn.
func feed(t failer, c *Chunks, strip bool, body []byte, sizes ...int) (f fed) {
	t.Helper()
	c.Reset(strip)
	rest := bytes.Clone(body)
	for k := 0; len(rest) > 0 && !f.done && f.err == nil; k++ {
		piece := rest[:min(max(sizes[k%len(sizes)], 1), len(rest))]
		rest = rest[len(piece):]
		n, used, done, err := c.Next(piece)
		if n > used || used > len(piece) || used < len(piece) && !done && err == nil {
			t.Fatalf("of %d bytes %d were used and %d are left to send; done %v, error %v", len(piece), used, n, done, err)
		}
		if !done && c.Trailer() != nil {
			t.Fatal("a trailer before the end")
		}
		f.out = append(f.out, piece[:n]...)
		f.consumed += used
		f.done, f.err = done, err
	}
	if f.done {
		f.out = append(f.out, c.Trailer()...)
	}
	if n, used, done, err := c.Next([]byte("more")); f.done && (n != 0 || used != 0 || !done || err != nil) || f.err != nil && (n != 0 || used != 0 || done || err != f.err) {
		t.Fatalf("after the end %d, %d, %v, %v", n, used, done, err)
	}
	return f
}

// alike checks that it does not matter where a body is split, and gives what came of it.
func alike(t failer, strip bool, body []byte, sizes ...int) fed {
	t.Helper()
	var c Chunks
	whole := feed(t, &c, strip, body, len(body)+1)
	for _, split := range [][]int{{1}, {2}, {3, 1}, sizes} {
		if len(split) == 0 {
			continue
		}
		f := feed(t, &c, strip, body, split...) // the same Chunks: nothing of the last body may be left
		if !bytes.Equal(f.out, whole.out) || f.consumed != whole.consumed || f.done != whole.done || f.err != whole.err {
			t.Fatalf("in pieces of %d: %q, %d, %v, %v\nwhole: %q, %d, %v, %v", split, f.out, f.consumed, f.done, f.err, whole.out, whole.consumed, whole.done, whole.err)
		}
	}
	return whole
}

func TestChunks(t *testing.T) {
	runFile(t, "testdata/chunks.txt", func(t *testing.T, e *example) []string {
		var out []string
		for _, strip := range []bool{false, true} {
			f := alike(t, strip, e.in, 5)
			if strip {
				f.out = append([]byte("data: "), f.out...)
			}
			out = append(out, strings.TrimRight("< "+escape(f.out), " "))
			if !strip {
				continue
			}
			switch {
			case f.err != nil:
				out = append(out, errorLine(f.err))
			case !f.done:
				out = append(out, "= more")
			default:
				out = append(out, fmt.Sprintf("= done, %d bytes behind", len(e.in)-f.consumed))
			}
		}
		return out
	})
}

// canonical is the dumb way to frame a body.
func canonical(parts [][]byte, trailer string) (b []byte) {
	for _, p := range parts {
		b = fmt.Appendf(b, "%x\r\n%s\r\n", len(p), p)
	}
	return append(append(append(b, "0\r\n"...), trailer...), "\r\n"...)
}

// TestChunksProperty makes bodies with extensions and trailer fields, splits them anywhere, and expects the body without extensions.
func TestChunksProperty(t *testing.T) {
	var c Chunks
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 40), 0, 5).Draw(t, "parts")
		kept := rapid.SampledFrom([]string{"", "X-Sum: 1\r\n", "a:b\r\nC: \r\n"}).Draw(t, "kept")
		cut := rapid.SampledFrom([]string{"", "Content-Length: 5\r\n", "x-spillway-hop: 1\r\nHost: a\r\n"}).Draw(t, "cut")
		var in []byte
		for _, p := range parts {
			ext := rapid.SampledFrom([]string{"", ";", ";a", " ; a=\"b;c\"", ";\t\xff"}).Draw(t, "extension")
			in = fmt.Appendf(in, "%x%s\r\n%s\r\n", len(p), ext, p)
		}
		in = append(append(append(append(in, "0\r\n"...), kept...), cut...), "\r\n"...)
		behind := rapid.SampledFrom([]string{"", "GET / HTTP/1.1\r\n", "\r\n"}).Draw(t, "behind")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 30), 1, 4).Draw(t, "sizes")
		for _, strip := range []bool{false, true} {
			want := canonical(parts, kept)
			if strip {
				want = bytes.Join(parts, nil)
			}
			f := feed(t, &c, strip, append(bytes.Clone(in), behind...), sizes...)
			if f.err != nil || !f.done || f.consumed != len(in) || !bytes.Equal(f.out, want) {
				t.Fatalf("%q\nbecomes %q, %d of %d used, done %v, error %v\nwant %q", in, f.out, f.consumed, len(in), f.done, f.err, want)
			}
		}
	})
}

func TestChunksLimits(t *testing.T) {
	const end = "0\r\n\r\n"
	line := "x: " + strings.Repeat("y", 95) + "\r\n" // 100 bytes
	fit := (TrailerMax - 2) / len(line)
	pad := "x:" + strings.Repeat("y", TrailerMax-2-fit*len(line)-4) + "\r\n"
	for _, c := range []struct {
		what, body string
		want       *Error
	}{
		{"digits", strings.Repeat("0", ChunkDigitsMax-1) + "1\r\nx\r\n" + end, nil},
		{"too many digits", strings.Repeat("0", ChunkDigitsMax) + "1\r\nx\r\n" + end, errChunkHuge},
		{"extensions", "1;" + strings.Repeat("x", ChunkExtensionsMax-1) + "\r\nx\r\n" + end, nil},
		{"extensions too long", "1;" + strings.Repeat("x", ChunkExtensionsMax) + "\r\nx\r\n" + end, errExtensionSize},
		{"extensions too long together", strings.Repeat("1;xxx\r\nx\r\n", ChunkExtensionsMax/4+1) + end, errExtensionSize},
		{"spaces count", "1" + strings.Repeat(" ", ChunkExtensionsMax) + ";\r\nx\r\n" + end, errExtensionSize},
		{"a trailer section", "0\r\n" + strings.Repeat(line, fit) + pad + "\r\n", nil},
		{"one byte too long", "0\r\n" + strings.Repeat(line, fit) + "z" + pad + "\r\n", errTrailerSize},
		{"a trailer line without an end", "0\r\nx:" + strings.Repeat("y", TrailerMax), errTrailerSize},
		{"fields that are cut count", "0\r\n" + strings.Repeat("host: "+strings.Repeat("y", 92)+"\r\n", fit+1) + pad + "\r\n", errTrailerSize},
		{"trailer fields", "0\r\n" + strings.Repeat("x:y\r\n", TrailerFieldsMax) + "\r\n", nil},
		{"too many trailer fields", "0\r\n" + strings.Repeat("x:y\r\n", TrailerFieldsMax+1) + "\r\n", errTrailerCount},
	} {
		f := alike(t, false, []byte(c.body), 1000)
		if f.err != c.want || f.done == (c.want != nil) {
			t.Errorf("%s: done %v, error %v; want %v", c.what, f.done, f.err, c.want)
		}
	}
}

// FuzzChunks checks that it does not matter where a body is split, that no output is longer than its input, that what goes on decodes to
// itself and to the same data as the stripped form, and that net/http reads the same data from it.
func FuzzChunks(f *testing.F) {
	seed(f, "testdata/chunks.txt", []byte{3, 7})
	f.Fuzz(func(t *testing.T, body, split []byte) {
		if len(body) > 1<<14 || len(split) > 16 {
			return
		}
		sizes := make([]int, len(split))
		for i, s := range split {
			sizes[i] = int(s)
		}
		kept, data := alike(t, false, body, sizes...), alike(t, true, body, sizes...)
		if kept.done != data.done || kept.err != data.err || kept.consumed != data.consumed || len(kept.out) > kept.consumed {
			t.Fatalf("%+v\nstripped %+v", kept, data)
		}
		if !kept.done {
			if again := alike(t, false, kept.out); again.done {
				t.Fatalf("a body that did not end goes on as one that does: %q", kept.out)
			}
			return
		}
		again := alike(t, false, append(bytes.Clone(kept.out), "behind"...))
		if again.err != nil || !again.done || !bytes.Equal(again.out, kept.out) || again.consumed != len(kept.out) {
			t.Fatalf("%q becomes %q, error %v", kept.out, again.out, again.err)
		}
		theirs, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(kept.out)))
		if err != nil || !bytes.Equal(theirs, data.out) {
			t.Fatalf("net/http reads %q, error %v; want %q", theirs, err, data.out)
		}
	})
}
