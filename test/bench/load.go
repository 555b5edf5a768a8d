//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// order is what a load is to do each time it is told to go on.
type order struct {
	Addr        netip.AddrPort
	Host, Path  string
	Connections int
	Rate        int           // requests a second; 0: the next one as soon as an answer has come
	Count       int           // requests in all; 0: for Span
	Span        time.Duration // 0: until Count
}

// figures are what a load met.
type figures struct {
	Done, Failed int
	Elapsed      time.Duration
	P50, P99     time.Duration
	Behind       int // due requests that found no free connection
}

// loadLoop is the load generator: one loop over all connections.
type loadLoop struct {
	*loop
	o       order
	request []byte
	conns   map[int]*loadConn
	free    []*loadConn
	buf     []byte
	sent    int
	owed    int // due requests that wait for a free connection
	took    []time.Duration
	f       figures
}

type loadConn struct {
	fd    int
	start time.Time
	head  []byte // of the answer, until its end is known
	need  int    // bytes of the answer's body still to come; -1: the head is not complete
	busy  bool
}

// warmRequests go over every connection before anything is measured.
const warmRequests = 10

// runLoad opens the connections and warms them up, says "ready", and then carries the order out once for every line that comes in.
// Connections stay open until the end of input: what opening and closing them costs the proxy is not part of any figure.
func runLoad(o order, in io.Reader, out io.Writer) error {
	warm := o
	warm.Rate, warm.Span, warm.Count = 0, 0, warmRequests*o.Connections
	g, err := newLoad(warm)
	if err == nil {
		_, err = g.once()
	}
	if err != nil {
		return err
	}
	g.o = o
	fmt.Fprintln(out, "ready")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		f, err := g.once()
		if err != nil {
			return err
		}
		if err := json.NewEncoder(out).Encode(f); err != nil {
			return err
		}
	}
	return nil
}

func newLoad(o order) (*loadLoop, error) {
	l, err := newLoop()
	if err != nil {
		return nil, err
	}
	g := &loadLoop{loop: l, o: o, conns: map[int]*loadConn{}, buf: make([]byte, 64<<10)}
	g.request = fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1\r\nAccept: */*\r\nX-Request-Id: 0123456789abcdef\r\n\r\n", o.Path, o.Host)
	for range o.Connections {
		fd, err := dial(o.Addr)
		if err != nil {
			return nil, err
		}
		c := &loadConn{fd: fd}
		g.conns[fd] = c
		g.free = append(g.free, c)
		if err := g.add(fd); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// once carries the order out.
func (g *loadLoop) once() (figures, error) {
	g.sent, g.owed, g.took, g.f = 0, 0, g.took[:0], figures{}
	timer := -1
	if g.o.Rate > 0 {
		var err error
		if timer, err = g.timer(); err != nil {
			return figures{}, err
		}
		defer unix.Close(timer)
	}
	start := time.Now()
	if err := g.run(start, timer); err != nil {
		return figures{}, err
	}
	g.f.Elapsed = time.Since(start)
	slices.Sort(g.took)
	if n := len(g.took); n > 0 {
		g.f.P50, g.f.P99 = g.took[n/2], g.took[n*99/100]
	}
	return g.f, nil
}

func (g *loadLoop) timer() (int, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("timerfd: %w", err)
	}
	every := unix.NsecToTimespec(int64(time.Second) / int64(g.o.Rate))
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: every, Value: every}, nil); err != nil {
		return 0, fmt.Errorf("timerfd: %w", err)
	}
	return fd, g.add(fd)
}

// over tells whether no further request is to be sent.
func (g *loadLoop) over(start time.Time) bool {
	return (g.o.Count > 0 && g.sent >= g.o.Count) || (g.o.Span > 0 && time.Since(start) >= g.o.Span)
}

// stallMax bounds the wait for anything to happen, in milliseconds.
const stallMax = 10_000

func (g *loadLoop) run(start time.Time, timer int) error {
	for {
		over := g.over(start)
		for !over && len(g.free) > 0 && (timer < 0 || g.owed > 0) {
			g.owed--
			if err := g.send(); err != nil {
				return err
			}
			over = g.o.Count > 0 && g.sent >= g.o.Count
		}
		if over && len(g.free) == len(g.conns) {
			return nil
		}
		events, err := g.wait(stallMax)
		if err != nil {
			return fmt.Errorf("epoll_wait: %w", err)
		}
		if len(events) == 0 {
			return fmt.Errorf("nothing happened in %d ms; %d requests done", stallMax, g.f.Done)
		}
		for _, ev := range events {
			if int(ev.Fd) == timer {
				var b [8]byte
				if n, _ := unix.Read(timer, b[:]); n == 8 {
					g.owed += int(binary.NativeEndian.Uint64(b[:]))
				}
				continue
			}
			if err := g.read(g.conns[int(ev.Fd)]); err != nil {
				return err
			}
		}
		if timer >= 0 && len(g.free) == 0 && g.owed > 0 {
			g.f.Behind++
		}
	}
}

func (g *loadLoop) send() error {
	c := g.free[0]
	g.free = append(g.free[:0], g.free[1:]...)
	c.start, c.head, c.need, c.busy = time.Now(), c.head[:0], -1, true
	g.sent++
	if n, err := unix.Write(c.fd, g.request); err != nil || n != len(g.request) {
		return fmt.Errorf("send: %d bytes, %v", n, err)
	}
	return nil
}

func (g *loadLoop) read(c *loadConn) error {
	n, err := unix.Read(c.fd, g.buf)
	if err == unix.EAGAIN {
		return nil
	}
	if err != nil || n <= 0 || !c.busy {
		return fmt.Errorf("a connection ended or spoke unasked: %d bytes, %v, after %d requests", n, err, g.f.Done)
	}
	in := g.buf[:n]
	if c.need < 0 {
		if len(c.head) > 0 {
			c.head = append(c.head, in...)
			in = c.head
		}
		end := bytes.Index(in, []byte("\r\n\r\n"))
		if end < 0 {
			if len(c.head) == 0 {
				c.head = append(c.head, in...)
			}
			return nil
		}
		if c.need, err = bodyLength(in[:end+2]); err != nil {
			return err
		}
		if !bytes.HasPrefix(in, []byte("HTTP/1.1 200")) {
			g.f.Failed++
		}
		in = in[end+4:]
	}
	c.need -= len(in)
	if c.need > 0 {
		return nil
	}
	if c.need < 0 {
		return fmt.Errorf("%d bytes too many", -c.need)
	}
	g.took = append(g.took, time.Since(c.start))
	g.f.Done++
	c.busy = false
	g.free = append(g.free, c)
	return nil
}

// bodyLength reads Content-Length from a head.
func bodyLength(head []byte) (int, error) {
	for line := range bytes.Lines(head) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if ok && bytes.EqualFold(name, []byte("Content-Length")) {
			return strconv.Atoi(string(bytes.TrimSpace(value)))
		}
	}
	return 0, fmt.Errorf("an answer without Content-Length: %q", head)
}

// role runs this program as one of its helpers.
func role(name string, args []string) int {
	var err error
	switch name {
	case "endpoint":
		var port int
		if port, err = strconv.Atoi(args[0]); err == nil {
			err = serveEndpoint(uint16(port))
		}
	case "load":
		var o order
		if err = json.Unmarshal([]byte(args[0]), &o); err == nil {
			err = runLoad(o, os.Stdin, os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
