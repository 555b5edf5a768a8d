//go:build linux

package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// mallocs reads go_memstats_mallocs_total of the sidecar.
func mallocs() (float64, error) {
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", metricsPort))
	if err != nil {
		return 0, fmt.Errorf("scrape: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, fmt.Errorf("scrape: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "go_memstats_mallocs_total "); ok {
			return strconv.ParseFloat(strings.TrimSpace(v), 64)
		}
	}
	return 0, fmt.Errorf("no go_memstats_mallocs_total among the metrics")
}

// gauge is the cost of the measurement itself: what one scrape allocates, and what the idle sidecar does in a second.
type gauge struct{ scrape, second float64 }

// calibrate measures both with no traffic. Scrapes follow each other at once; the time of idleness is long against its checks.
func calibrate(idle time.Duration) (gauge, error) {
	const scrapes = 10
	var first, last float64
	for i := range scrapes + 2 { // the first one builds what later ones reuse
		m, err := mallocs()
		if err != nil {
			return gauge{}, err
		}
		if i == 1 {
			first = m
		}
		last = m
	}
	g := gauge{scrape: (last - first) / scrapes}
	time.Sleep(idle)
	m, err := mallocs()
	if err != nil {
		return gauge{}, err
	}
	g.second = max(0, m-last-g.scrape) / idle.Seconds()
	return g, nil
}

// allocations measures the mean number of allocations per request of the whole sidecar process, its checks included, for the fast path
// and for an exchange that takes 10 ms at the endpoint. Only the scrapes that measure are taken off.
func (b *bench) allocations() error {
	sidecar := b.proxies[0]
	measured := []struct {
		name, path string
		count      int
		gate       bool
	}{
		{"GET 1 KiB", "/", b.plan.count, true},
		{"10 ms at the endpoint", "/10ms", b.plan.count / 10, false},
	}
	for _, m := range measured { // warm up: connections, buffers, pools
		if _, err := b.load(order{Addr: sidecar.addr, Host: "service-0", Path: m.path, Connections: connections, Count: m.count / 10}); err != nil {
			return err
		}
	}
	g, err := calibrate(3 * time.Second)
	if err != nil {
		return err
	}
	fmt.Printf("\nallocations per request, whole sidecar process, %d services with checks and metrics\n", services)
	fmt.Printf("(at rest it makes %.0f a second; a scrape of its metrics, %.0f, is taken off)\n", g.second, g.scrape)
	fmt.Printf("%-26s %10s %12s %16s\n", "", "requests", "allocations", "without checks")
	var result error
	for _, m := range measured {
		before, err := mallocs()
		if err != nil {
			return err
		}
		f, err := b.load(order{Addr: sidecar.addr, Host: "service-0", Path: m.path, Connections: connections, Count: m.count})
		if err != nil {
			return err
		}
		after, err := mallocs()
		if err != nil {
			return err
		}
		total := max(0, after-before-g.scrape)
		each := total / float64(f.Done)
		fmt.Printf("%-26s %10d %12.4f %16.4f\n", m.name, f.Done, each, max(0, total-g.second*f.Elapsed.Seconds())/float64(f.Done))
		if m.gate && each >= allocationsMax {
			result = fmt.Errorf("%w: %.4f, allowed is less than %v", errTooMany, each, allocationsMax)
		}
	}
	return result
}
