package codec

import (
	"strings"
	"testing"
)

const typicalGet = "GET /api/v1/orders/7361?expand=lines HTTP/1.1\r\n" +
	"Host: order.shop.svc.cluster.local\r\n" +
	"User-Agent: Go-http-client/1.1\r\n" +
	"Accept: application/json\r\n" +
	"Accept-Encoding: gzip\r\n" +
	"X-Request-Id: 0b9d2c5e-6f0a-4f5e-9a43-c7f6b8f6f2a1\r\n" +
	"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n" +
	"Cookie: session=3f9c1a7be0d14b5c8a6f\r\n" +
	"Connection: keep-alive\r\n\r\n"

const typicalAnswer = "HTTP/1.1 200 OK\r\n" +
	"Date: Tue, 06 May 2025 09:41:07 GMT\r\n" +
	"Content-Type: application/json; charset=utf-8\r\n" +
	"Content-Length: 1024\r\n" +
	"Cache-Control: no-store\r\n" +
	"ETag: \"5f3a-61c0\"\r\n" +
	"Connection: keep-alive\r\n\r\n"

// TestNoAllocation runs the hot path once warm: nothing allocates.
func TestNoAllocation(t *testing.T) {
	get, answer := []byte(typicalGet), []byte(typicalAnswer)
	post := []byte("POST / HTTP/1.1\r\nHost: svc\r\nTransfer-Encoding: chunked\r\nConnection: TE, x-drop, Upgrade\r\nX-Drop: 1\r\nTE: trailers\r\nUpgrade: websocket\r\n\r\n")
	bad := []byte("GET / HTTP/1.1\r\nHost: svc\r\nContent-Length: +5\r\n\r\n")
	const encoded = "5;a=b\r\nhello\r\n0\r\nX-Sum: 1\r\nHost: a\r\n\r\n"
	var req Request
	var resp Response
	var c Chunks
	dst, body := make([]byte, 0, 1<<12), make([]byte, len(encoded))
	if n := testing.AllocsPerRun(100, func() {
		for _, in := range [][]byte{get, post} {
			if _, _, err := HeadEnd(in, 0); err != nil {
				t.Fatal(err)
			}
			if err := req.Parse(in, Limits{}); err != nil {
				t.Fatal(err)
			}
			dst = req.Append(dst[:0], RequestOut{Upgrade: req.Upgrade, Extra: []byte("A: b\r\n")})
		}
		if req.Parse(bad, Limits{}) == nil {
			t.Fatal("no error")
		}
		if err := resp.Parse(answer, Limits{}, GET); err != nil {
			t.Fatal(err)
		}
		dst = resp.Append(dst[:0], ResponseOut{Close: true})
		c.Reset(false)
		copy(body, encoded)
		if _, _, done, err := c.Next(body); !done || err != nil {
			t.Fatal(err)
		}
		dst = append(dst, c.Trailer()...)
	}); n != 0 {
		t.Errorf("the hot path allocates %v times", n)
	}
}

func BenchmarkHeadEnd(b *testing.B) {
	in := []byte(typicalGet)
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		if end, _, _ := HeadEnd(in, 0); end != len(in) {
			b.Fatal("no end")
		}
	}
}

func BenchmarkParseRequest(b *testing.B) {
	in := []byte(typicalGet)
	var r Request
	b.ReportAllocs()
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		if err := r.Parse(in, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendRequest(b *testing.B) {
	var r Request
	if err := r.Parse([]byte(typicalGet), Limits{}); err != nil {
		b.Fatal(err)
	}
	dst := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		dst = r.Append(dst[:0], RequestOut{})
	}
}

// BenchmarkRequest is all that one request costs here: finding the end of its head, parsing, encoding.
func BenchmarkRequest(b *testing.B) {
	in := []byte(typicalGet)
	dst := make([]byte, 0, 1024)
	var r Request
	b.ReportAllocs()
	for b.Loop() {
		if end, _, _ := HeadEnd(in, 0); end != len(in) {
			b.Fatal("no end")
		}
		if err := r.Parse(in, Limits{}); err != nil {
			b.Fatal(err)
		}
		dst = r.Append(dst[:0], RequestOut{})
	}
}

func BenchmarkParseResponse(b *testing.B) {
	in := []byte(typicalAnswer)
	var r Response
	b.ReportAllocs()
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		if err := r.Parse(in, Limits{}, GET); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendResponse(b *testing.B) {
	var r Response
	if err := r.Parse([]byte(typicalAnswer), Limits{}, GET); err != nil {
		b.Fatal(err)
	}
	dst := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		dst = r.Append(dst[:0], ResponseOut{})
	}
}

func BenchmarkChunks(b *testing.B) {
	for _, size := range []struct {
		name string
		body string
	}{
		{"16x16B", strings.Repeat("10\r\n0123456789abcdef\r\n", 16)},
		{"1x32KiB", "8000\r\n" + strings.Repeat("x", 0x8000) + "\r\n"},
		{"extensions", strings.Repeat("100;a\r\n"+strings.Repeat("x", 0x100)+"\r\n", 64)},
	} {
		b.Run(size.name, func(b *testing.B) {
			in := []byte(size.body + "0\r\n\r\n")
			buf := make([]byte, len(in))
			var c Chunks
			b.ReportAllocs()
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				copy(buf, in)
				c.Reset(false)
				if _, _, done, err := c.Next(buf); !done || err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
