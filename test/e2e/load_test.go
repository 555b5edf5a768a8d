//go:build linux

package e2e

import (
	"fmt"
	"net"
	"sort"
	"sync"
	"time"
)

// outcome is what one request of a load met.
type outcome struct {
	method string
	start  time.Time
	took   time.Duration
	status int // 0: no answer
	reason string
	body   string
	err    error
}

func (o outcome) String() string {
	return fmt.Sprintf("%s after %v: %d %s %q %v", o.method, o.took.Round(time.Millisecond), o.status, o.reason, tail(o.body, 100), o.err)
}

// load is an open load: a request every 1/rate seconds whether or not those before have been answered, on kept connections.
type load struct {
	addr, service string
	rate          int
	methods       []string // taken in turn
	mu            sync.Mutex
	idle          []*wire
	done          []outcome
	stop          chan struct{}
	wg            sync.WaitGroup
}

func startLoad(addr, service string, rate int, methods ...string) *load {
	l := &load{addr: addr, service: service, rate: rate, methods: methods, stop: make(chan struct{})}
	l.wg.Go(func() {
		start := time.Now()
		for i := 0; ; i++ {
			due := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
			select {
			case <-l.stop:
				return
			case <-time.After(time.Until(due)):
			}
			l.wg.Go(func() { l.one(methods[i%len(methods)]) })
		}
	})
	return l
}

// finish ends the load, waits for the last answers and gives all outcomes in the order of their start.
func (l *load) finish() []outcome {
	close(l.stop)
	l.wg.Wait()
	for _, w := range l.idle {
		_ = w.Close()
	}
	sort.Slice(l.done, func(i, j int) bool { return l.done[i].start.Before(l.done[j].start) })
	return l.done
}

func (l *load) connection() (*wire, error) {
	l.mu.Lock()
	if n := len(l.idle); n > 0 {
		w := l.idle[n-1]
		l.idle = l.idle[:n-1]
		l.mu.Unlock()
		return w, nil
	}
	l.mu.Unlock()
	c, err := net.DialTimeout("tcp4", l.addr, waitMax)
	if err != nil {
		return nil, err
	}
	return newWire(c, 0), nil
}

func (l *load) one(method string) {
	o := outcome{method: method, start: time.Now()}
	w, err := l.connection()
	if err == nil {
		var m message
		_ = w.SetDeadline(time.Now().Add(2 * waitMax))
		if method == "POST" {
			w.say("POST / HTTP/1.1\r\nHost: ", l.service, "\r\nContent-Length: 4\r\n\r\nbody")
		} else {
			w.say(method, " / HTTP/1.1\r\nHost: ", l.service, "\r\n\r\n")
		}
		m, err = readMessage(w.br, method)
		o.status, o.reason, o.body = m.status(), m.reason(), string(m.body)
		if err != nil || m.has("Connection", "close") {
			_ = w.Close()
			w = nil
		}
	}
	o.took, o.err = time.Since(o.start), err
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, o)
	if w != nil {
		l.idle = append(l.idle, w)
	}
}

// sofar is the number of finished requests.
func (l *load) sofar() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.done)
}

// failures are the outcomes that are no 200.
func failures(all []outcome) []outcome {
	var bad []outcome
	for _, o := range all {
		if o.err != nil || o.status != 200 {
			bad = append(bad, o)
		}
	}
	return bad
}

// percentile is the time within which p of the requests (0..1) were answered.
func percentile(all []outcome, p float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	d := make([]time.Duration, len(all))
	for i, o := range all {
		d[i] = o.took
	}
	sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
	return d[min(int(p*float64(len(d))), len(d)-1)]
}
