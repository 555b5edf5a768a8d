package proxy

import (
	"net"
	"net/netip"
	"strings"
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

func exchanges(b *testing.B, pause time.Duration, request string, change func(*discovery.Endpoint)) {
	e := rawEndpoint(b, benchAnswer, pause)
	if change != nil {
		change(&e)
	}
	_, addr := start(b, service(policy(), e))
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	bytes, buf := []byte(request), make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(bytes); err != nil {
			b.Fatal(err)
		}
		if n, err := c.Read(buf); err != nil || n < 12 || string(buf[:12]) != "HTTP/1.1 200" {
			b.Fatalf("%v %q", err, buf[:n])
		}
	}
}

func BenchmarkExchange(b *testing.B)     { exchanges(b, 0, benchRequest, nil) }
func BenchmarkExchange10ms(b *testing.B) { exchanges(b, 10*time.Millisecond, benchRequest, nil) }

// BenchmarkExchangeHop: a request that carries its chain goes to a sidecar in another datacenter.
func BenchmarkExchangeHop(b *testing.B) {
	request := strings.TrimSuffix(benchRequest, "\r\n") + "tracestate: vendor=1,spillway=1:2:ledger@dc1;order@dc2\r\n\r\n"
	exchanges(b, 0, request, func(e *discovery.Endpoint) { e.Sidecar, e.Locality = e.Address.Port(), dc2 })
}
