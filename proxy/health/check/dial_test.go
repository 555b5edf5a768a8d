package check

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"spillway/discovery"
	"spillway/proxy/health"
)

// server answers each connection on loopback with f until the test ends.
func server(t *testing.T, f func(c net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// speaks reads a request and writes an answer, then waits for the client's end.
func speaks(answer string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		io.WriteString(c, answer)
		if strings.HasSuffix(answer, "\r\n\r\n") || strings.Contains(answer, "Content-Length") {
			io.Copy(io.Discard, c)
		}
	}
}

// silent reads and says nothing.
func silent(c net.Conn) { io.Copy(io.Discard, c) }

func httpCheck(addr netip.AddrPort) Item {
	return Item{ID: 1, Dial: addr, Check: discovery.ActiveCheck{Path: "/health", Timeout: 5 * time.Second}}
}

func look(t *testing.T, item Item) outcome {
	t.Helper()
	o := dial(t.Context(), item, jobCheck)
	if !o.ok {
		t.Fatalf("no outcome: %v", o.cause)
	}
	return o
}

const draining = "HTTP/1.1 503 Service Unavailable\r\nx-spillway-reason: draining\r\nContent-Length: 9\r\n\r\ndraining\n"

func TestHTTP(t *testing.T) {
	target := netip.MustParseAddrPort("10.1.2.3:8080")
	for _, row := range []struct {
		name   string
		serve  func(net.Conn)
		target netip.AddrPort
		short  bool // a timeout is expected: do not wait long for it
		want   health.Result
	}{
		{"200", speaks("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), netip.AddrPort{}, false, health.Good},
		{"204", speaks("HTTP/1.1 204 No Content\r\n\r\n"), netip.AddrPort{}, false, health.Good},
		{"299 without a reason phrase", speaks("HTTP/1.1 299\r\nContent-Length: 0\r\n\r\n"), netip.AddrPort{}, false, health.Good},
		{"1.0", speaks("HTTP/1.0 200 OK\r\n\r\nok until the end"), netip.AddrPort{}, false, health.Good},
		{"interim answers", speaks("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), netip.AddrPort{}, false, health.Good},
		{"redirect, not followed", speaks("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"), netip.AddrPort{}, false, health.Bad},
		{"404", speaks("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), netip.AddrPort{}, false, health.Bad},
		{"500", speaks("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"), netip.AddrPort{}, false, health.Bad},
		{"503", speaks("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), target, false, health.Bad},
		{"draining sidecar", speaks(draining), target, false, health.Draining},
		{"draining, but no sidecar that could say so", speaks(draining), netip.AddrPort{}, false, health.Bad},
		{"another reason", speaks(strings.Replace(draining, "draining\r", "reserve\r", 1)), target, false, health.Bad},
		{"101", speaks("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), netip.AddrPort{}, false, health.Bad},
		{"1xx without end", func(c net.Conn) {
			for {
				if _, err := io.WriteString(c, "HTTP/1.1 102 Processing\r\n\r\n"); err != nil {
					return
				}
			}
		}, netip.AddrPort{}, false, health.Bad},
		{"closes at once", func(net.Conn) {}, netip.AddrPort{}, false, health.Bad},
		{"resets", func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }, netip.AddrPort{}, false, health.Bad},
		{"garbage", speaks("\x16\x03\x01\x02\x00 not HTTP at all\r\n\r\n"), netip.AddrPort{}, false, health.Bad},
		{"half a head, then the end", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nCont")
			c.(*net.TCPConn).CloseWrite()
			silent(c)
		}, netip.AddrPort{}, false, health.Bad},
		{"head without end", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := io.WriteString(c, "x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n"); err != nil {
					return
				}
			}
		}, netip.AddrPort{}, false, health.Bad},
		{"body without end", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			for {
				if _, err := io.WriteString(c, strings.Repeat("x", 1000)); err != nil {
					return
				}
			}
		}, netip.AddrPort{}, false, health.Good},
		{"body that never comes", speaks("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"), netip.AddrPort{}, false, health.Good},
		{"silence", silent, netip.AddrPort{}, true, health.Timeout},
		{"half a head, then silence", func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nCont"); silent(c) }, netip.AddrPort{}, true, health.Timeout},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			item := httpCheck(server(t, row.serve))
			item.Target = row.target
			if row.short {
				item.Check.Timeout = 50 * time.Millisecond
			}
			if o := look(t, item); o.result != row.want {
				t.Errorf("%v (%v), want %v", o.result, o.cause, row.want)
			}
		})
	}
}

// TestBodyIsNotWaitedFor: a good head is enough; with this timeout the test would not end if it were not.
func TestBodyIsNotWaitedFor(t *testing.T) {
	item := httpCheck(server(t, speaks("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")))
	item.Check.Timeout = time.Hour
	if o := look(t, item); o.result != health.Good {
		t.Errorf("%v (%v)", o.result, o.cause)
	}
}

// TestRequest: what the endpoint gets, to the byte.
func TestRequest(t *testing.T) {
	for _, row := range []struct {
		item Item
		want string
	}{
		{Item{Dial: netip.MustParseAddrPort("127.0.0.1:80"), Check: discovery.ActiveCheck{Path: "/health?full=1"}},
			"GET /health?full=1 HTTP/1.1\r\nHost: 127.0.0.1:80\r\nUser-Agent: spillway-check/1\r\nAccept: */*\r\nConnection: close\r\n\r\n"},
		{Item{Dial: netip.MustParseAddrPort("[::1]:80"), Check: discovery.ActiveCheck{Path: "/"}},
			"GET / HTTP/1.1\r\nHost: [::1]:80\r\nUser-Agent: spillway-check/1\r\nAccept: */*\r\nConnection: close\r\n\r\n"},
		{Item{Dial: netip.MustParseAddrPort("127.0.0.1:15006"), Host: "pay", Target: netip.MustParseAddrPort("10.1.0.1:8080"), Check: discovery.ActiveCheck{Path: "/h"}},
			"GET /h HTTP/1.1\r\nHost: pay\r\nUser-Agent: spillway-check/1\r\nAccept: */*\r\nConnection: close\r\nx-spillway-target: 10.1.0.1:8080\r\n\r\n"},
		{Item{Host: "pay\r\nx: y", Check: discovery.ActiveCheck{Path: "a b\r\nx: y\x7f#f"}},
			"GET /a%20b%0D%0Ax:%20y%7F%23f HTTP/1.1\r\nHost: payx:y\r\nUser-Agent: spillway-check/1\r\nAccept: */*\r\nConnection: close\r\n\r\n"},
	} {
		if got := request(&row.item); got != row.want {
			t.Errorf("got  %q\nwant %q", got, row.want)
		}
	}
}

// TestEndpointSeesNoReset: the endpoint's answer, body included, is read and the connection closed in order.
func TestEndpointSeesNoReset(t *testing.T) {
	saw := make(chan error, 1)
	addr := server(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			saw <- err
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 8000\r\n\r\n"+strings.Repeat("x", 8000))
		_, err := io.Copy(io.Discard, c)
		saw <- err
	})
	if o := look(t, httpCheck(addr)); o.result != health.Good {
		t.Fatal(o)
	}
	if err := <-saw; err != nil {
		t.Errorf("the endpoint saw %v", err)
	}
}

// closed is an address on loopback where nobody listens.
func closed(t *testing.T) netip.AddrPort {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// blackHole is a listener whose queue is full: the kernel drops what wants to connect.
func blackHole(t *testing.T) netip.AddrPort {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(name.(*syscall.SockaddrInet4).Port))
	for range 10 {
		c, err := net.DialTimeout("tcp", addr.String(), 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
	if os.Getenv("SPILLWAY_REQUIRE_ALL") != "" {
		t.Fatal("this kernel takes any number of connections: no black hole")
	}
	t.Skip("this kernel takes any number of connections: no black hole")
	return addr
}

func TestDialResults(t *testing.T) {
	open := server(t, silent)
	gone, hole := closed(t), blackHole(t)
	for _, row := range []struct {
		name string
		addr netip.AddrPort
		tcp  bool
		j    job
		want health.Result
	}{
		{"HTTP refused", gone, false, jobCheck, health.Refused},
		{"HTTP, black hole", hole, false, jobCheck, health.Timeout},
		{"TCP open", open, true, jobCheck, health.Good},
		{"TCP refused", gone, true, jobCheck, health.Refused},
		{"TCP, black hole", hole, true, jobCheck, health.Timeout},
		{"probe of a silent one", open, false, jobProbe, health.Good},
		{"probe refused", gone, false, jobProbe, health.Refused},
		{"probe of a black hole", hole, false, jobProbe, health.Timeout},
	} {
		item := httpCheck(row.addr)
		item.Check.Timeout = 100 * time.Millisecond
		if row.want == health.Good {
			item.Check.Timeout = 5 * time.Second
		}
		if row.tcp {
			item.Check.Path, item.Check.TCP = "", true
		}
		o := dial(t.Context(), item, row.j)
		if !o.ok || o.result != row.want {
			t.Errorf("%s: %v %v (%v), want %v", row.name, o.result, o.ok, o.cause, row.want)
		}
	}
}

// TestShutdownSaysNothing: the end of the context ends a check at once and is no verdict.
func TestShutdownSaysNothing(t *testing.T) {
	began := make(chan struct{}, 2)
	addr := server(t, func(c net.Conn) { began <- struct{}{}; silent(c) })
	item := httpCheck(addr)
	item.Check.Timeout = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan outcome)
	go func() { done <- dial(ctx, item, jobCheck) }()
	<-began
	cancel()
	if o := <-done; o.ok {
		t.Errorf("after shutdown: %+v", o)
	}
	item.Dial = blackHole(t)
	ctx, cancel = context.WithCancel(t.Context())
	go func() { done <- dial(ctx, item, jobProbe) }()
	cancel()
	if o := <-done; o.ok {
		t.Errorf("after shutdown: %+v", o)
	}
}

// TestErrors: what the network's errors mean.
func TestErrors(t *testing.T) {
	wrap := func(err error) error { return &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", err)} }
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, row := range []struct {
		ctx  context.Context
		err  error
		want health.Result
		ok   bool
	}{
		{t.Context(), wrap(syscall.ECONNREFUSED), health.Refused, true},
		{t.Context(), wrap(syscall.ETIMEDOUT), health.Timeout, true},
		{t.Context(), os.ErrDeadlineExceeded, health.Timeout, true},
		{t.Context(), context.DeadlineExceeded, health.Timeout, true},
		{t.Context(), wrap(syscall.EHOSTUNREACH), health.Bad, true},
		{t.Context(), wrap(syscall.ECONNRESET), health.Bad, true},
		{t.Context(), io.ErrUnexpectedEOF, health.Bad, true},
		{t.Context(), errors.New("malformed HTTP response"), health.Bad, true},
		{t.Context(), wrap(syscall.EMFILE), health.Bad, false},
		{t.Context(), wrap(syscall.ENFILE), health.Bad, false},
		{t.Context(), wrap(syscall.EADDRNOTAVAIL), health.Bad, false},
		{t.Context(), wrap(syscall.ENOBUFS), health.Bad, false},
		{canceled, wrap(syscall.ECONNREFUSED), health.Bad, false},
	} {
		if o := failed(row.ctx, row.err); o.ok != row.ok || o.ok && o.result != row.want {
			t.Errorf("%v: %v %v, want %v %v", row.err, o.result, o.ok, row.want, row.ok)
		}
	}
}

// TestRunnerOnSockets: the whole of it, on loopback: first checks of a good and of a dead endpoint, and a probe.
func TestRunnerOnSockets(t *testing.T) {
	start := time.Now()
	well := httpCheck(server(t, speaks("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")))
	dead := httpCheck(closed(t))
	dead.ID, dead.ProbeDue = 2, 1
	for _, i := range []*Item{&well, &dead} {
		i.Check.Interval = time.Hour
	}
	src := &world{t: t, version: 1, items: []Item{well, dead}}
	sink := make(chanSink, 16)
	r := New(src, sink, func() int64 { return int64(time.Since(start)) }, 200, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	got := map[told]bool{}
	for range 3 {
		got[<-sink] = true
	}
	cancel()
	<-done
	for _, want := range []told{{id: 1, result: health.Good}, {id: 2, result: health.Refused}, {id: 2, probe: true}} {
		if !got[want] {
			t.Errorf("%+v is missing in %v", want, got)
		}
	}
}

type chanSink chan told

func (c chanSink) OnCheck(id uint64, r health.Result) { c <- told{id: id, result: r} }
func (c chanSink) OnProbe(id uint64, connected bool) {
	c <- told{id: id, probe: true, connected: connected}
}
