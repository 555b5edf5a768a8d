package proxy

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"spillway/discovery"
)

// rawEndpoint answers every request that fits into one read with the same bytes, after a pause.
func rawEndpoint(t testing.TB, answer string, pause time.Duration) discovery.Endpoint {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	bytes := []byte(answer)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 4096)
				for {
					if _, err := c.Read(b); err != nil {
						return
					}
					time.Sleep(pause) // the endpoint works that long
					if _, err := c.Write(bytes); err != nil {
						return
					}
				}
			}()
		}
	}()
	return discovery.Endpoint{Address: netip.MustParseAddrPort(l.Addr().String())}
}

const (
	benchRequest = "GET /orders/42?full=1 HTTP/1.1\r\nHost: pay\r\nUser-Agent: bench/1\r\nAccept: */*\r\nX-User-Id: 17\r\n\r\n"
	benchAnswer  = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nServer: x\r\n\r\nhello"
)

func exchanges(b *testing.B, pause time.Duration) {
	_, addr := start(b, service(policy(), rawEndpoint(b, benchAnswer, pause)))
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	request, buf := []byte(benchRequest), make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExchange(b *testing.B)     { exchanges(b, 0) }
func BenchmarkExchange10ms(b *testing.B) { exchanges(b, 10*time.Millisecond) }
