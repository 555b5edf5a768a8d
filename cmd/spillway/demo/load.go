package demo

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// tally counts answers.
type tally struct {
	requests, errors int
	datacenters      map[string]int
	endpoints        map[string]int
	first            string         // the first error, as text
	took             []milliseconds // of good answers
}

// milliseconds is a time as the figures give it.
type milliseconds = float64

func newTally() *tally { return &tally{datacenters: map[string]int{}, endpoints: map[string]int{}} }

// add counts one answer.
func (t *tally) add(a answer, err error, took time.Duration) {
	t.requests++
	if err != nil || !a.good() {
		t.errors++
		if t.first == "" {
			t.first = failure(a, err)
		}
		return
	}
	t.datacenters[a.datacenter]++
	t.endpoints[a.endpoint]++
	t.took = append(t.took, float64(took)/float64(time.Millisecond))
}

// merge adds another tally.
func (t *tally) merge(o *tally) {
	t.requests += o.requests
	t.errors += o.errors
	if t.first == "" {
		t.first = o.first
	}
	for k, v := range o.datacenters {
		t.datacenters[k] += v
	}
	for k, v := range o.endpoints {
		t.endpoints[k] += v
	}
	t.took = append(t.took, o.took...)
}

// percent is the share of the good answers that a datacenter gave.
func (t *tally) percent(datacenter string) float64 {
	return rate(t.datacenters[datacenter], t.requests-t.errors)
}

// failure names what went wrong with a request, in few words.
func failure(a answer, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case a.reason != "":
		return fmt.Sprintf("%d %s", a.status, a.reason)
	}
	return fmt.Sprintf("status %d", a.status)
}

// quantile is the q-quantile (0..1) of values, linear between neighbours; 0 without values. It sorts a copy.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// timed sends one GET and counts it.
func timed(t *tally, c *caller) {
	from := time.Now()
	a, err := c.call(http.MethodGet)
	t.add(a, err, time.Since(from))
}

// sequential sends GET requests one after the other on one kept connection. each is called now and then.
func sequential(ctx context.Context, address string, requests int, each func(done int)) (*tally, error) {
	t, c := newTally(), newCaller(address)
	defer c.close()
	for i := range requests {
		if i%64 == 0 {
			if ctx.Err() != nil {
				return t, ctx.Err()
			}
			each(i)
		}
		timed(t, c)
	}
	return t, nil
}

// parallel sends GET requests on several kept connections, one after the other on each.
func parallel(ctx context.Context, address string, requests, connections int, each func(done int)) (*tally, error) {
	var next atomic.Int64
	tallies := make([]*tally, connections)
	var wg sync.WaitGroup
	for i := range tallies {
		tallies[i] = newTally()
		wg.Go(func() {
			c := newCaller(address)
			defer c.close()
			for n := next.Add(1); n <= int64(requests) && ctx.Err() == nil; n = next.Add(1) {
				each(int(n))
				timed(tallies[i], c)
			}
		})
	}
	wg.Wait()
	sum := newTally()
	for _, t := range tallies {
		sum.merge(t)
	}
	return sum, ctx.Err()
}

// shot is one request of an open load.
type shot struct {
	method string
	due    time.Time // when it was to be sent
	done   time.Time // when it was answered or given up
	answer answer
	err    error
}

// good tells whether it was served.
func (s shot) good() bool { return s.err == nil && s.answer.good() }

// openLoad sends requests at a fixed rate, whatever becomes of earlier ones: a late answer delays no other request.
type openLoad struct {
	address  string
	service  string // empty: serviceName
	requests int
	every    time.Duration
	method   func(i int) string
	faultAt  int // the fault happens after the request before this one was answered, or half way to this one if that is late
	fault    func() error
	each     func(sent, answered int)
}

// run sends all requests and waits for their answers.
func (l openLoad) run(ctx context.Context) ([]shot, error) {
	pool := &callers{address: l.address, service: l.service}
	if pool.service == "" {
		pool.service = serviceName
	}
	defer pool.close()
	shots := make([]shot, l.requests)
	before := make(chan struct{}) // closed when the request before the fault is answered
	faulted := make(chan error, 1)
	var answered atomic.Int64
	var wg sync.WaitGroup
	start := time.Now().Add(l.every)
	if l.fault != nil {
		go func() {
			t := time.NewTimer(time.Until(start.Add(time.Duration(l.faultAt)*l.every - l.every/2)))
			defer t.Stop()
			select {
			case <-before:
			case <-t.C:
			case <-ctx.Done():
				faulted <- ctx.Err()
				return
			}
			faulted <- l.fault()
		}()
	} else {
		faulted <- nil
	}
	for i := range shots {
		due := start.Add(time.Duration(i) * l.every)
		if err := until(ctx, due); err != nil {
			break
		}
		wg.Go(func() {
			method := l.method(i)
			a, err := pool.call(method)
			shots[i] = shot{method, due, time.Now(), a, err}
			answered.Add(1)
			if i == l.faultAt-1 {
				close(before)
			}
		})
		if l.each != nil {
			l.each(i+1, int(answered.Load()))
		}
	}
	wg.Wait()
	if err := <-faulted; err != nil {
		return nil, err
	}
	return shots, ctx.Err()
}

// until waits for an instant.
func until(ctx context.Context, at time.Time) error {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
