package demo

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// answerMax is how long a client waits for an answer.
const answerMax = 10 * time.Second

// requestText is a request of a client, as bytes. The body of a POST comes with its head.
func requestText(method, service string) string {
	if method == http.MethodPost {
		return "POST /demo HTTP/1.1\r\nHost: " + service + "\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\nan order: 1\n"
	}
	return "GET /demo HTTP/1.1\r\nHost: " + service + "\r\n\r\n"
}

// answer is what came back. Empty datacenter: no endpoint gave it.
type answer struct {
	status               int
	endpoint, datacenter string
	reason               string // x-spillway-reason: the sidecar itself answered
	gateways             int    // that it has passed
}

// good tells whether an endpoint served the request.
func (a answer) good() bool { return a.status == http.StatusOK && a.datacenter != "" }

// caller is one kept connection. It never sends anything twice: net/http's client would, and so hide what is lost.
type caller struct {
	address string
	service string
	conn    net.Conn // nil: not connected
	r       *bufio.Reader
}

func newCaller(address string) *caller { return &caller{address: address, service: serviceName} }

func (c *caller) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// call sends one request and reads its answer. After an error the next call connects anew.
func (c *caller) call(method string) (answer, error) {
	a, err := c.exchange(method)
	if err != nil {
		c.close()
	}
	return a, err
}

func (c *caller) exchange(method string) (answer, error) {
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.address, answerMax)
		if err != nil {
			return answer{}, err
		}
		c.conn = conn
		if c.r == nil {
			c.r = bufio.NewReader(conn)
		} else {
			c.r.Reset(conn)
		}
	}
	if err := c.conn.SetDeadline(time.Now().Add(answerMax)); err != nil {
		return answer{}, err
	}
	if _, err := io.WriteString(c.conn, requestText(method, c.service)); err != nil {
		return answer{}, err
	}
	resp, err := http.ReadResponse(c.r, nil) // neither GET nor POST changes how an answer is framed
	if err != nil {
		return answer{}, fmt.Errorf("read the answer: %w", err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return answer{}, fmt.Errorf("read the body: %w", err)
	}
	if resp.Close {
		c.close()
	}
	return answer{resp.StatusCode, resp.Header.Get(fieldEndpoint), resp.Header.Get(fieldDatacenter), resp.Header.Get("X-Spillway-Reason"),
		len(resp.Header.Values(fieldGateways))}, nil
}

// callers are the connections of a client that has several requests open at a time. Safe for concurrent use.
type callers struct {
	address string
	service string
	mu      sync.Mutex
	free    []*caller
}

// call sends a request on a free connection, or on a new one.
func (p *callers) call(method string) (answer, error) {
	p.mu.Lock()
	var c *caller
	if n := len(p.free); n > 0 {
		c, p.free = p.free[n-1], p.free[:n-1]
	}
	p.mu.Unlock()
	if c == nil {
		c = &caller{address: p.address, service: p.service}
	}
	a, err := c.call(method)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, c)
	return a, err
}

func (p *callers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.free {
		c.close()
	}
	p.free = nil
}
