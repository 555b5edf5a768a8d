package codec

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"spillway/proxy/head"
)

func requestFacts(r *Request) string {
	return fmt.Sprintf("= %s %s path=%q authority=%q %s%s", [...]string{"other", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH"}[r.Method],
		[...]string{"origin", "absolute", "asterisk", "authority"}[r.Form], r.Bytes(r.Path), r.Bytes(r.Authority), framingName(r.Framing, r.Length),
		flags("keep", r.KeepAlive, "keep10", r.Connection10KeepAlive, "upgrade", r.Upgrade, "expect100", r.Expect100, "trailers", r.TETrailers))
}

func requestExample(t *testing.T, e *example) []string {
	in := e.in[SkipEmptyLines(e.in):]
	b, err := wholeHead(t, in)
	var r Request
	if err == nil {
		err = r.Parse(b, Limits{HeadMax: 2048, FieldsMax: 8})
	}
	if err != nil {
		return []string{errorLine(err)}
	}
	extra, _ := e.option("extra")
	if extra != "" {
		extra = strings.Replace(extra, ":", ": ", 1) + "\r\n"
	}
	host, _ := e.option("host")
	out := r.Append(nil, RequestOut{Drop: e.drop(), Extra: []byte(extra), Host: []byte(host), Upgrade: !e.has("noupgrade")})
	again(t, &r, out)
	return append([]string{requestFacts(&r)}, headLines(t, out)...)
}

func TestRequest(t *testing.T)   { runFile(t, "testdata/request.txt", requestExample) }
func TestLengths(t *testing.T)   { runFile(t, "testdata/request_length.txt", requestExample) }
func TestSmuggling(t *testing.T) { runFile(t, "testdata/request_framing.txt", requestExample) }

// again checks what was encoded: it is a head in canonical form that says the same.
func again(t *testing.T, r *Request, out []byte) {
	t.Helper()
	end, _, err := HeadEnd(out, 0)
	if err != nil || end != len(out) {
		t.Fatalf("the head that is sent on ends at %d of %d: %v\n%q", end, len(out), err, out)
	}
	var s Request
	if err := s.Parse(out, Limits{HeadMax: 1 << 20, FieldsMax: 1 << 10}); err != nil {
		t.Fatalf("the head that is sent on is refused: %v\n%q", err, out)
	}
	if s.Method != r.Method || !bytes.Equal(s.Bytes(s.MethodSpan), r.Bytes(r.MethodSpan)) || s.Framing != r.Framing || s.Length != r.Length || s.Minor != 1 {
		t.Fatalf("the head that is sent on says something else\n%q\n%q", r.Arena, out)
	}
	if s.Form == Absolute || len(r.Bytes(r.Authority)) > 0 && !bytes.Equal(s.Bytes(s.Authority), r.Bytes(r.Authority)) {
		t.Fatalf("another destination: %q, was %q", out, r.Bytes(r.Authority))
	}
	if r.Form == Origin && !bytes.Equal(s.Bytes(s.Path), r.Bytes(r.Path)) {
		t.Fatalf("another path: %q, was %q", s.Bytes(s.Path), r.Bytes(r.Path))
	}
	for _, f := range s.Fields {
		switch f.ID {
		case head.KeepAlive, head.ProxyConnection, head.HTTP2Settings:
			t.Fatalf("%q went on", s.Bytes(f.Name))
		}
	}
	if once := s.Append(nil, RequestOut{Upgrade: s.Upgrade}); !bytes.Equal(sorted(once), sorted(out)) {
		t.Fatalf("encoding is not stable\n%q\n%q", out, once)
	}
}

// sorted is a head without the lines that Append moves to the end.
func sorted(b []byte) []byte {
	var keep [][]byte
	for line := range bytes.SplitSeq(b, []byte("\r\n")) {
		if n, _, _ := bytes.Cut(line, []byte(":")); !head.EqualFold(n, "connection") && !head.EqualFold(n, "te") && !head.EqualFold(n, "upgrade") {
			keep = append(keep, line)
		}
	}
	return bytes.Join(keep, []byte("\r\n"))
}

func TestRequestLimits(t *testing.T) {
	in := []byte("GET / HTTP/1.1\r\nHost: svc\r\nA: b\r\n\r\n")
	for _, c := range []struct {
		lim  Limits
		want *Error
	}{
		{Limits{}, nil},
		{Limits{HeadMax: len(in), FieldsMax: 2}, nil},
		{Limits{HeadMax: len(in) - 1, FieldsMax: 2}, errHeadSize},
		{Limits{HeadMax: len(in), FieldsMax: 1}, errFieldsCount},
	} {
		var r Request
		if err := r.Parse(in, c.lim); err != c.want {
			t.Errorf("%+v: %v, want %v", c.lim, err, c.want)
		}
	}
	long := []byte("GET / HTTP/1.1\r\nHost: svc\r\n" + strings.Repeat("A: b\r\n", FieldsDefaultMax) + "\r\n")
	if err := new(Request).Parse(long, Limits{}); err != errFieldsCount {
		t.Errorf("without limits: %v", err)
	}
	long = []byte("GET / HTTP/1.1\r\nHost: svc\r\nA: " + strings.Repeat("b", HeadDefaultMax) + "\r\n\r\n")
	if err := new(Request).Parse(long, Limits{}); err != errHeadSize {
		t.Errorf("without limits: %v", err)
	}
}

// TestOptionsMax bounds the work that nominations make.
func TestOptionsMax(t *testing.T) {
	for n, want := range map[int]*Error{OptionsMax: nil, OptionsMax + 1: errOptions} {
		in := "GET / HTTP/1.1\r\nHost: svc\r\nConnection: " + strings.Repeat("x,", n/2) + "\r\nConnection:" + strings.Repeat(",y", n-n/2) + "\r\n\r\n"
		if err := new(Request).Parse([]byte(in), Limits{}); err != want {
			t.Errorf("%d options: %v, want %v", n, err, want)
		}
	}
}

// TestRequestTruncated gives Parse every prefix of a head: an error, never a panic.
func TestRequestTruncated(t *testing.T) {
	var r Request
	for n := range len(typicalGet) {
		if err := r.Parse([]byte(typicalGet[:n]), Limits{}); err == nil {
			t.Errorf("%d bytes of %d are taken for a head", n, len(typicalGet))
		}
	}
}

// TestRequestReuse parses a large head and then a small one into the same Request: nothing of the first is left.
func TestRequestReuse(t *testing.T) {
	var r, fresh Request
	big := "POST http://svc/a HTTP/1.1\r\nHost: svc\r\nContent-Length: 7\r\nExpect: 100-continue\r\nTE: trailers\r\nConnection: upgrade, TE\r\nUpgrade: websocket\r\n\r\n"
	small := []byte("GET / HTTP/1.0\r\n\r\n")
	for _, bad := range []string{big, "POST / HTTP/1.1\r\nHost: svc\r\nContent-Length: x\r\n\r\n"} {
		_ = r.Parse([]byte(bad), Limits{})
		if err := r.Parse(small, Limits{}); err != nil {
			t.Fatal(err)
		}
		if err := fresh.Parse(small, Limits{}); err != nil {
			t.Fatal(err)
		}
		if requestFacts(&r) != requestFacts(&fresh) || len(r.Fields) != 0 {
			t.Errorf("%s, want %s", requestFacts(&r), requestFacts(&fresh))
		}
	}
}

func TestIdempotent(t *testing.T) {
	want := map[string]bool{"GET": true, "HEAD": true, "PUT": true, "DELETE": true, "OPTIONS": true, "TRACE": true, "POST": false, "PATCH": false, "CONNECT": false, "get": false, "PROPFIND": false}
	for name, ok := range want {
		if method([]byte(name)).Idempotent() != ok {
			t.Errorf("%s: idempotent is %v", name, !ok)
		}
	}
}

// FuzzRequest checks that what is accepted goes on framed beyond doubt: the encoded head parses to the same, and net/http, which nobody
// here wrote, sees the same body in it.
func FuzzRequest(f *testing.F) {
	for _, path := range []string{"testdata/request.txt", "testdata/request_length.txt", "testdata/request_framing.txt"} {
		seed(f, path)
	}
	f.Add([]byte(typicalGet))
	f.Fuzz(func(t *testing.T, in []byte) {
		orig := bytes.Clone(in)
		in = in[SkipEmptyLines(in):]
		b, err := wholeHead(t, in)
		var r Request
		perr := r.Parse(in, Limits{})
		if err != nil && perr == nil {
			t.Fatalf("HeadEnd refuses what Parse takes: %v", err)
		}
		if perr != nil && err == nil && len(b) < len(in) {
			perr = r.Parse(b, Limits{})
		}
		if perr != nil || err != nil {
			return
		}
		out := r.Append(nil, RequestOut{Upgrade: r.Upgrade})
		again(t, &r, out)
		if !bytes.Equal(orig[len(orig)-len(in):], in) {
			t.Fatal("parsing changed its input")
		}
		theirs, herr := http.ReadRequest(bufio.NewReader(bytes.NewReader(out)))
		if herr != nil {
			return // it is stricter with the target
		}
		chunked := len(theirs.TransferEncoding) == 1 && theirs.TransferEncoding[0] == "chunked"
		if chunked != (r.Framing == Chunked) || !chunked && theirs.ContentLength != r.Length {
			t.Fatalf("net/http sees a body of %d, chunked %v; we %s\n%q", theirs.ContentLength, chunked, framingName(r.Framing, r.Length), out)
		}
	})
}
