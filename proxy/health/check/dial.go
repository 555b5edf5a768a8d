package check

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"spillway/proxy/answer"
	"spillway/proxy/health"
	"spillway/proxy/listen/proxyproto"
)

// Bounds of one check.
const (
	HeadMax        = 64 << 10               // bytes of an answer's heads, interim ones included
	interimMax     = 8                      // 1xx answers before the final one
	bodyDrainMax   = 16 << 10               // bytes of the body that are read so that the endpoint sees no reset
	bodyDrainTime  = 100 * time.Millisecond // at most for that
	targetGraceMax = 100 * time.Millisecond // scaled for other datacenters: see grace
)

// dial does the check or probe on a connection of its own.
func dial(ctx context.Context, item Item, j job) outcome {
	limit := timeout(&item)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", item.Dial.String())
	if err != nil {
		return failed(ctx, err)
	}
	defer conn.Close()
	if j == jobProbe {
		return outcome{result: health.Good, ok: true}
	}
	// Ends reads and writes at the deadline as well as at shutdown.
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if item.Check.Path == "" {
		return checkTCP(ctx, conn, &item, limit)
	}
	return checkHTTP(ctx, conn, &item)
}

// timeout is the item's, scaled for another datacenter.
func timeout(i *Item) time.Duration {
	t := i.Check.Timeout
	if t <= 0 {
		t = ProbeTimeout
	}
	if i.Cross && i.Check.CrossDatacenterTime > 1 {
		t = time.Duration(float64(t) * i.Check.CrossDatacenterTime)
	}
	return t
}

// failed tells what an error of the network means for the endpoint.
func failed(ctx context.Context, err error) outcome {
	o := outcome{result: health.Bad, ok: true, cause: err}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		o.ok = false
	case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		o.result = health.Timeout
	case errors.Is(err, syscall.ECONNREFUSED):
		o.result = health.Refused
	case errors.Is(err, syscall.ETIMEDOUT):
		o.result = health.Timeout
	case ourFault(err):
		o.ok = false
	}
	return o
}

// ourFault tells whether the error is a shortage on this side, which says nothing of the endpoint.
func ourFault(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// checkTCP: the connection is all that is asked for. A sidecar takes every connection, so it is told which endpoint is meant and given a
// moment to close or reset what it cannot pass on; one that stays open, or brings bytes of a server that speaks first, is good.
func checkTCP(ctx context.Context, conn net.Conn, item *Item, limit time.Duration) outcome {
	if !item.Target.IsValid() {
		return outcome{result: health.Good, ok: true}
	}
	// No addresses of a client: the header speaks for the check alone.
	if _, err := conn.Write(proxyproto.Append(nil, proxyproto.Header{Target: item.Target})); err != nil {
		return failed(ctx, err)
	}
	moment, cancel := context.WithTimeout(ctx, grace(item, limit))
	defer cancel()
	stop := context.AfterFunc(moment, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var b [1]byte
	if _, err := conn.Read(b[:]); err != nil && (ctx.Err() != nil || !errors.Is(err, os.ErrDeadlineExceeded)) {
		return failed(ctx, err)
	}
	return outcome{result: health.Good, ok: true}
}

// grace is how long a sidecar may take to close a connection that it cannot pass on; a round trip to another datacenter fits in.
func grace(item *Item, limit time.Duration) time.Duration {
	g := targetGraceMax
	if item.Cross && item.Check.CrossDatacenterTime > 1 {
		g = time.Duration(float64(g) * item.Check.CrossDatacenterTime)
	}
	return min(g, limit/2)
}

// checkHTTP asks for the path and judges the answer (RFC 9110 15.3: 2xx).
func checkHTTP(ctx context.Context, conn net.Conn, item *Item) outcome {
	if _, err := io.WriteString(conn, request(item)); err != nil {
		return failed(ctx, err)
	}
	in := &io.LimitedReader{R: conn, N: HeadMax}
	buffer := bufio.NewReader(in)
	var resp *http.Response
	for i := 0; ; i++ {
		var err error
		if resp, err = http.ReadResponse(buffer, nil); err != nil {
			return failed(ctx, err)
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			break
		}
		if i == interimMax {
			return outcome{result: health.Bad, ok: true, cause: errors.New("too many interim answers")}
		}
	}
	o := outcome{result: health.Bad, ok: true}
	switch {
	case resp.StatusCode/100 == 2:
		o.result = health.Good
	case resp.StatusCode == http.StatusServiceUnavailable && item.Target.IsValid() &&
		answer.Parse([]byte(resp.Header.Get("X-Spillway-Reason"))) == answer.Draining:
		o.result = health.Draining
	}
	// The verdict stands. The body is read so that closing does not reset the connection under the endpoint's last write.
	conn.SetReadDeadline(time.Now().Add(bodyDrainTime))
	io.CopyN(io.Discard, resp.Body, bodyDrainMax)
	return o
}

// request is the head of a check.
func request(item *Item) string {
	host := item.Host
	if host == "" {
		host = item.Dial.String()
	}
	var b strings.Builder
	b.WriteString("GET " + target(item.Check.Path) + " HTTP/1.1\r\nHost: " + clean(host) +
		"\r\nUser-Agent: spillway-check/1\r\nAccept: */*\r\nConnection: close\r\n")
	if item.Target.IsValid() {
		b.WriteString("x-spillway-target: " + item.Target.String() + "\r\n")
	}
	b.WriteString("\r\n")
	return b.String()
}

// target makes a request target of a path (RFC 9112 3.2.1): what may not stand there is percent-encoded.
func target(path string) string {
	const hex = "0123456789ABCDEF"
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if c := path[i]; c <= ' ' || c == 0x7f || c == '#' {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// clean leaves out what would end a field value.
func clean(value string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f {
			return -1
		}
		return r
	}, value)
}
