//go:build linux

package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// message is one request or answer as it stood on the wire.
type message struct {
	line    string   // request or status line
	fields  []string // lines of the head without their ends
	head    string   // the head byte for byte, without the empty line
	body    []byte   // decoded
	trailer []string
	chunked bool
}

// get is the value of the first field of that name.
func (m message) get(name string) (string, bool) {
	for _, f := range m.fields {
		n, v, _ := strings.Cut(f, ":")
		if strings.EqualFold(n, name) {
			return strings.TrimSpace(v), true
		}
	}
	return "", false
}

// has tells whether there is a field of that name with that value; empty means any.
func (m message) has(name, value string) bool {
	for _, f := range m.fields {
		n, v, _ := strings.Cut(f, ":")
		if strings.EqualFold(n, name) && (value == "" || strings.EqualFold(strings.TrimSpace(v), value)) {
			return true
		}
	}
	return false
}

func (m message) status() int {
	f := strings.Fields(m.line)
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(f[1])
	return n
}

func (m message) reason() string { v, _ := m.get("x-spillway-reason"); return v }

func (m message) path() string {
	f := strings.Fields(m.line)
	if len(f) < 2 {
		return ""
	}
	return f[1]
}

func (m message) method() string { v, _, _ := strings.Cut(m.line, " "); return v }

func readHead(br *bufio.Reader) (message, error) {
	var m message
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			if err == io.EOF && (m.line != "" || line != "") {
				err = io.ErrUnexpectedEOF
			}
			return m, err
		}
		bare := strings.TrimSuffix(line, "\r\n")
		switch {
		case bare == line:
			return m, fmt.Errorf("line without CRLF: %q", line)
		case bare == "" && m.line != "":
			return m, nil
		case m.line == "":
			m.line = bare
		default:
			m.fields = append(m.fields, bare)
		}
		m.head += line
	}
}

// readMessage reads a request (forMethod empty) or the answer to a request of that method. An incomplete body is an error; what came
// of it is in the message. A body that lasts until the close is complete with the end of input and not with a reset.
func readMessage(br *bufio.Reader, forMethod string) (message, error) {
	m, err := readHead(br)
	if err != nil {
		return m, err
	}
	answer := forMethod != ""
	if answer && (forMethod == "HEAD" || m.status()/100 == 1 || m.status() == 204 || m.status() == 304) {
		return m, nil
	}
	if m.has("Transfer-Encoding", "chunked") {
		m.chunked = true
		return m, m.readChunks(br)
	}
	if v, ok := m.get("Content-Length"); ok {
		n, err := strconv.Atoi(v)
		if err != nil {
			return m, err
		}
		m.body = make([]byte, n)
		got, err := io.ReadFull(br, m.body)
		m.body = m.body[:got]
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return m, err
	}
	if answer {
		m.body, err = io.ReadAll(br)
	}
	return m, err
}

func (m *message) readChunks(br *bufio.Reader) error {
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return io.ErrUnexpectedEOF
		}
		size, _, _ := strings.Cut(strings.TrimSuffix(line, "\r\n"), ";")
		n, err := strconv.ParseUint(size, 16, 31)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		b := make([]byte, n+2)
		got, err := io.ReadFull(br, b)
		m.body = append(m.body, b[:min(got, int(n))]...)
		if err != nil {
			return io.ErrUnexpectedEOF
		}
		if string(b[n:]) != "\r\n" {
			return fmt.Errorf("chunk ends with %q", b[n:])
		}
	}
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return io.ErrUnexpectedEOF
		}
		bare := strings.TrimSuffix(line, "\r\n")
		if bare == "" {
			return nil
		}
		m.trailer = append(m.trailer, bare)
	}
}

// wire is one connection of a scripted endpoint, or a client's.
type wire struct {
	net.Conn
	br *bufio.Reader
	n  int // number of the connection at its endpoint, from 1
}

func newWire(c net.Conn, n int) *wire {
	_ = c.SetDeadline(time.Now().Add(2 * waitMax))
	return &wire{Conn: c, br: bufio.NewReader(c), n: n}
}

// say writes; an endpoint does not mind that its peer is gone.
func (w *wire) say(parts ...string) bool {
	_, err := io.WriteString(w.Conn, strings.Join(parts, ""))
	return err == nil
}

// ok answers 200 with a body of known length.
func (w *wire) ok(body string) bool {
	return w.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
}

// request reads one whole request.
func (w *wire) request() (message, error) { return readMessage(w.br, "") }

// reset ends the connection so that the peer sees a reset.
func (w *wire) reset() { reset(w.Conn) }

func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// CloseWrite ends the sending side.
func (w *wire) CloseWrite() error { return w.Conn.(*net.TCPConn).CloseWrite() }

// gone waits for the end of input or a reset and tells which; false after within.
func (w *wire) gone(within time.Duration) (err error, ended bool) {
	_ = w.SetReadDeadline(time.Now().Add(within))
	_, err = w.br.WriteTo(io.Discard)
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return err, false
	}
	return err, true
}

// endpoint is a scripted endpoint: every connection is handled by a function and closed when that returns.
type endpoint struct {
	ip, addr string
	ln       *net.TCPListener
	conns    atomic.Int64 // accepted so far
	requests atomic.Int64 // counted by each
	mu       sync.Mutex
	open     map[net.Conn]bool
	stopped  bool
	wg       sync.WaitGroup
}

// listenTCP listens without multipath TCP, so that a black hole can be dug there.
func listenTCP(t *testing.T, addr string) *net.TCPListener {
	t.Helper()
	lc := net.ListenConfig{}
	lc.SetMultipathTCP(false)
	ln, err := lc.Listen(t.Context(), "tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	return ln.(*net.TCPListener)
}

// serve starts an endpoint on an address of its own.
func serve(t *testing.T, handle func(w *wire)) *endpoint {
	t.Helper()
	return serveAt(t, newIP(), handle)
}

func serveAt(t *testing.T, ip string, handle func(w *wire)) *endpoint {
	t.Helper()
	e := &endpoint{ip: ip, addr: ip + ":8080", open: map[net.Conn]bool{}}
	e.ln = listenTCP(t, e.addr)
	e.wg.Add(1)
	go e.accept(e.ln, handle)
	t.Cleanup(e.stop)
	return e
}

func (e *endpoint) accept(ln *net.TCPListener, handle func(w *wire)) {
	defer e.wg.Done()
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		n := int(e.conns.Add(1))
		e.mu.Lock()
		if e.stopped {
			e.mu.Unlock()
			_ = c.Close()
			return
		}
		e.open[c] = true
		e.wg.Add(1)
		e.mu.Unlock()
		go func() {
			defer e.wg.Done()
			handle(newWire(c, n))
			_ = c.Close()
			e.mu.Lock()
			delete(e.open, c)
			e.mu.Unlock()
		}()
	}
}

// stop refuses new connections and resets the open ones, as a killed process does.
func (e *endpoint) stop() {
	// Closing alone leaves the socket listening as long as a process that another test is just starting still has a copy of it.
	if raw, err := e.ln.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) })
	}
	_ = e.ln.Close()
	e.mu.Lock()
	e.stopped = true
	for c := range e.open {
		reset(c)
	}
	e.mu.Unlock()
	e.wg.Wait()
}

// sockets are the listening socket and all open connections.
func (e *endpoint) sockets() []syscall.Conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := []syscall.Conn{e.ln}
	for c := range e.open {
		all = append(all, c.(syscall.Conn))
	}
	return all
}

// each starts an endpoint that answers whole requests until one fails; handle gives false to close the connection.
func each(t *testing.T, handle func(w *wire, m message) bool) *endpoint {
	t.Helper()
	var e *endpoint
	ready := make(chan struct{})
	e = serve(t, func(w *wire) {
		<-ready
		for {
			m, err := w.request()
			if err != nil {
				return
			}
			e.requests.Add(1)
			if !handle(w, m) {
				return
			}
		}
	})
	close(ready)
	return e
}

// named starts an endpoint that answers every request with its own name.
func named(t *testing.T, name string) *endpoint {
	t.Helper()
	return each(t, func(w *wire, _ message) bool { return w.ok(name) })
}

// client is a raw connection of an application.
type client struct {
	*wire
	t *testing.T
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	c, err := net.DialTimeout("tcp4", addr, waitMax)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &client{wire: newWire(c, 0), t: t}
}

func (c *client) send(parts ...string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, strings.Join(parts, "")); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// answer reads one whole answer to a request of that method.
func (c *client) answer(method string) message {
	c.t.Helper()
	m, err := readMessage(c.br, method)
	if err != nil {
		c.t.Fatalf("answer to %s: %v; so far %q %q", method, err, m.head, tail(string(m.body), 200))
	}
	return m
}

// get sends a GET and reads the answer.
func (c *client) get(service, path string) message {
	c.t.Helper()
	c.send("GET ", path, " HTTP/1.1\r\nHost: ", service, "\r\n\r\n")
	return c.answer("GET")
}

// post sends a POST with a body and reads the answer.
func (c *client) post(service, path, body string) message {
	c.t.Helper()
	c.send(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", path, service, len(body), body))
	return c.answer("POST")
}

// ended fails the test unless the proxy ends the connection, cleanly or not, without a further byte.
func (c *client) ended(within time.Duration) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(within))
	b, err := io.ReadAll(c.br)
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		c.t.Fatalf("the connection is still open after %v", within)
	}
	if len(b) > 0 {
		c.t.Fatalf("more bytes before the end: %q", tail(string(b), 300))
	}
}

// want fails the test unless the answer has the status and the body.
func (c *client) want(m message, status int, body string) {
	c.t.Helper()
	if m.status() != status || string(m.body) != body {
		c.t.Fatalf("answer %q with body %q, want %d %q", m.head, tail(string(m.body), 200), status, body)
	}
}

// refused fails the test unless the answer is the proxy's own with that code: status, field and a body of one line.
func (c *client) refused(m message, status int, code string) {
	c.t.Helper()
	if m.status() != status || m.reason() != code {
		c.t.Fatalf("answer %q, want %d with x-spillway-reason: %s", m.head, status, code)
	}
	line := strings.TrimSuffix(string(m.body), "\n")
	if line == "" || strings.Contains(line, "\n") {
		c.t.Fatalf("body %q, want one line", m.body)
	}
}
