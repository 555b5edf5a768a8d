package detect

import (
	"strings"
	"testing"
)

func (p Protocol) name() string {
	return [...]string{"more", "http1", "http2", "tls", "proxy2", "unknown"}[p]
}

// What clients open a connection with. The verdict is for the whole text; every shorter prefix must give the same one or ask for more.
var openings = []struct{ what, first, want string }{
	{"nothing yet", "", "more"},
	{"a GET", "GET /a HTTP/1.1\r\n", "http1"},
	{"a method of HTTP, cut behind the space", "DELETE ", "http1"},
	{"a method that has not ended", "OPTI", "more"},
	{"a method from an extension", "PROPFIND /dav HTTP/1.1\r\n", "http1"},
	{"an extension method, cut before the target", "PROPFIND ", "more"},
	{"an extension method and an absolute target", "REPORT http://svc/ HTTP/1.1\r\n", "http1"},
	{"the same, cut inside the scheme", "REPORT htt", "more"},
	{"lower case is another method, and HTTP's to refuse", "get / HTTP/1.1\r\n", "http1"},
	{"CONNECT has a target without a slash", "CONNECT svc:443 HTTP/1.1\r\n", "http1"},
	{"a word as long as a method may be", strings.Repeat("A", FirstMax-1), "more"},
	{"a longer word", strings.Repeat("A", FirstMax), "http1"},
	{"a long word and a space at the bound", strings.Repeat("A", FirstMax-1) + " ", "http1"},
	{"empty lines before a request", "\r\n\r\nGET / HTTP/1.1\r\n", "http1"},
	{"four empty lines", "\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n", "http1"},
	{"five empty lines", "\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n", "unknown"},
	{"an empty line and half of the next", "\r\n\r", "more"},
	{"CR alone", "\rGET", "unknown"},
	{"LF alone", "\nGET / HTTP/1.1\r\n", "unknown"},
	{"HTTP/2 with prior knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http2"},
	{"its first line is enough", "PRI * HTTP/2.0\r\n", "http2"},
	{"and less is not", "PRI * HTTP/2.0\r", "more"},
	{"PRI as a method of HTTP/1", "PRI /x HTTP/1.1\r\n", "http1"},
	{"PRINT is no preface", "PRINT /x HTTP/1.1\r\n", "http1"},
	{"a TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "tls"},
	{"TLS with the record version of TLS 1.2", "\x16\x03\x03", "tls"},
	{"a TLS record that has just begun", "\x16\x03", "more"},
	{"a handshake of no known version", "\x16\x03\x09\x00", "unknown"},
	{"0x16 and something else", "\x16\x02", "unknown"},
	{"PROXY version 2", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c", "proxy2"},
	{"its signature, cut", "\r\n\r\n\x00\r\nQUI", "more"},
	{"its signature, wrong at the end", "\r\n\r\n\x00\r\nQUIT\r", "unknown"},
	{"SMTP", "EHLO mail.example\r\n", "unknown"},
	{"Redis", "*3\r\n$3\r\nSET\r\n", "unknown"},
	{"Redis, inline", "PING\r\n", "unknown"},
	{"SSH", "SSH-2.0-OpenSSH_9.6\r\n", "unknown"},
	{"PostgreSQL", "\x00\x00\x00\x08\x04\xd2\x16\x2f", "unknown"},
	{"Dubbo", "\xda\xbb\xc2\x00", "unknown"},
	{"a NUL", "\x00", "unknown"},
	{"a space", " GET / HTTP/1.1\r\n", "unknown"},
}

func TestFirst(t *testing.T) {
	for _, o := range openings {
		t.Run(o.what, func(t *testing.T) {
			if got := First([]byte(o.first)).name(); got != o.want {
				t.Errorf("First(%q) = %s, want %s", o.first, got, o.want)
			}
			steady(t, []byte(o.first))
		})
	}
}

// steady checks that a verdict, once given, stays whatever comes behind, and that there is one at the bound.
func steady(t *testing.T, b []byte) {
	t.Helper()
	given := NeedMore
	for n := range len(b) + 1 {
		got := First(b[:n])
		if given != NeedMore && got != given {
			t.Fatalf("First(%q) = %s, and of a shorter prefix it was %s", b[:n], got.name(), given.name())
		}
		if got == NeedMore && n >= FirstMax {
			t.Fatalf("First(%q): no verdict on %d bytes", b[:n], n)
		}
		given = got
	}
}

func TestNoAllocation(t *testing.T) {
	in := []byte("PROPFIND http://svc/ HTTP/1.1\r\n")
	if n := testing.AllocsPerRun(100, func() { First(in) }); n != 0 {
		t.Errorf("First allocates %v times", n)
	}
}

func FuzzFirst(f *testing.F) {
	for _, o := range openings {
		f.Add([]byte(o.first))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4*FirstMax {
			b = b[:4*FirstMax]
		}
		steady(t, b)
	})
}

func BenchmarkFirst(b *testing.B) {
	in := []byte("GET /index.html HTTP/1.1\r\n")
	for b.Loop() {
		if First(in) != HTTP1 {
			b.Fatal("not HTTP/1")
		}
	}
}
