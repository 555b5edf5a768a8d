package codec

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"spillway/proxy/head"
)

func responseFacts(r *Response) string {
	s := fmt.Sprintf("= %d %q %s%s", r.Status, r.Bytes(r.Reason), framingName(r.Framing, r.Length), flags("keep", r.KeepAlive))
	if r.KeepAliveTimeout != 0 {
		s += fmt.Sprintf(" timeout=%d", r.KeepAliveTimeout)
	}
	return s
}

func TestResponse(t *testing.T) {
	runFile(t, "testdata/response.txt", func(t *testing.T, e *example) []string {
		b, err := wholeHead(t, e.in)
		var r Response
		asked, _ := e.option("method")
		if err == nil {
			err = r.Parse(b, Limits{HeadMax: 2048, FieldsMax: 8}, method([]byte(asked)))
		}
		if err != nil {
			return []string{errorLine(err)}
		}
		out := r.Append(nil, ResponseOut{Drop: e.drop(), Chunked: e.has("chunked"), StripFraming: e.has("strip"), Close: e.has("close"),
			KeepAlive: e.has("keepalive"), Upgrade: e.has("upgrade")})
		return append([]string{responseFacts(&r)}, headLines(t, out)...)
	})
}

func TestResponseTruncated(t *testing.T) {
	var r Response
	for n := range len(typicalAnswer) {
		if err := r.Parse([]byte(typicalAnswer[:n]), Limits{}, GET); err == nil {
			t.Errorf("%d bytes of %d are taken for a head", n, len(typicalAnswer))
		}
	}
}

// TestNoBody is the table of RFC 9112 6.3: which answers have a body whatever their fields say, by method and status.
func TestNoBody(t *testing.T) {
	for _, m := range []Method{GET, HEAD, POST, CONNECT, Other} {
		for _, status := range []int{100, 101, 103, 199, 200, 204, 205, 299, 304, 404, 500, 599, 999} {
			var r Response
			in := fmt.Sprintf("HTTP/1.1 %d x\r\nContent-Length: 5\r\n\r\n", status)
			if err := r.Parse([]byte(in), Limits{}, m); err != nil {
				t.Fatal(err)
			}
			none := status < 200 || status == 204 || status == 304 || m == HEAD || m == CONNECT && status < 300
			if (r.Framing == NoBody) != none {
				t.Errorf("method %d, status %d: framing %s", m, status, framingName(r.Framing, r.Length))
			}
			// Where the field would be a lie about a body that cannot come, it does not go on.
			keeps := bytes.Contains(r.Append(nil, ResponseOut{}), []byte("Content-Length"))
			if drop := status < 200 || status == 204 || m == CONNECT && status < 300; keeps == drop {
				t.Errorf("method %d, status %d: Content-Length goes on: %v", m, status, keeps)
			}
		}
	}
}

// FuzzResponse checks that the answer which goes on is framed as it was understood, also in net/http's eyes.
func FuzzResponse(f *testing.F) {
	for i := range 3 {
		seed(f, "testdata/response.txt", uint8(i))
	}
	f.Add([]byte(typicalAnswer), uint8(GET))
	f.Fuzz(func(t *testing.T, in []byte, m uint8) {
		asked := Method(m) % (PATCH + 1)
		b, err := wholeHead(t, in)
		var r Response
		if err != nil || r.Parse(b, Limits{}, asked) != nil {
			return
		}
		out := r.Append(nil, ResponseOut{Chunked: true, Upgrade: r.Status == 101})
		var s Response
		if err := s.Parse(out, Limits{HeadMax: 1 << 20, FieldsMax: 1 << 10}, asked); err != nil {
			t.Fatalf("the head that is sent on is refused: %v\n%q", err, out)
		}
		want := r.Framing
		if want == UntilClose {
			want = Chunked
		}
		if s.Status != r.Status || s.Framing != want || s.Length != r.Length || !bytes.Equal(s.Bytes(s.Reason), r.Bytes(r.Reason)) {
			t.Fatalf("the head that is sent on says something else\n%q\n%q", b, out)
		}
		for _, f := range s.Fields {
			if f.Hop && f.ID != head.Connection && f.ID != head.Upgrade {
				t.Fatalf("%q went on", s.Bytes(f.Name))
			}
		}
		name := "GET"
		if asked == HEAD {
			name = "HEAD"
		}
		theirs, herr := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), &http.Request{Method: name})
		if herr != nil {
			t.Fatalf("net/http refuses %q: %v", out, herr)
		}
		if asked == CONNECT || asked == HEAD || want == NoBody {
			return
		}
		chunked := len(theirs.TransferEncoding) == 1
		if chunked != (want == Chunked) || !chunked && theirs.ContentLength != r.Length {
			t.Fatalf("net/http sees a body of %d, chunked %v\n%q", theirs.ContentLength, chunked, out)
		}
	})
}

// seed adds the inputs of a data file.
func seed(f *testing.F, path string, more ...any) {
	text, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range readExamples(new(testing.T), strings.Split(string(text), "\n")) {
		f.Add(append([]any{e.in}, more...)...)
	}
}
