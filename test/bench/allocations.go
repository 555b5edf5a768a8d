//go:build linux

package main

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scrapes is how often the metrics are read in a row. One scrape allocates tens of thousands of objects, and the counter is read
// somewhere on the way: a single difference is off by thousands, a robust line through a row of them by hundreds.
const scrapes = 21

// idleSpan is how long the sidecar is watched at rest.
const idleSpan = 4 * time.Second

// row is readings of go_memstats_mallocs_total in direct succession.
type row []float64

// readRow reads the counter scrapes times.
func (b *bench) readRow() (row, error) {
	r := make(row, 0, scrapes)
	for range scrapes {
		v, err := b.mallocs()
		if err != nil {
			return nil, err
		}
		r = append(r, v)
	}
	return r, nil
}

// mallocs reads the counter once.
func (b *bench) mallocs() (float64, error) {
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	res, err := c.Get("http://" + b.at(metricsPort).String() + "/metrics")
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

// slope is what one scrape adds: the median of the slopes between all pairs (Theil and Sen), which a few odd readings do not move.
func (r row) slope() float64 {
	var all []float64
	for i := range r {
		for j := range i {
			all = append(all, (r[i]-r[j])/float64(i-j))
		}
	}
	return middle(all)
}

// level is the counter at the middle of the row by the line of that slope.
func (r row) level(slope float64) float64 {
	all := make([]float64, len(r))
	for i, v := range r {
		all[i] = v - slope*(float64(i)-float64(len(r)-1)/2)
	}
	return middle(all)
}

// between is what was allocated between two rows beside the scrapes themselves.
func between(a, b row) (allocated, scrape float64) {
	scrape = (a.slope() + b.slope()) / 2
	return b.level(scrape) - a.level(scrape) - scrape*scrapes, scrape
}

func middle(all []float64) float64 {
	s := slices.Sorted(slices.Values(all))
	return (s[len(s)/2] + s[(len(s)-1)/2]) / 2
}

// allocations measures the mean number of allocations per request of the whole sidecar process, its checks included, for the fast path
// and for an exchange that takes 10 ms at the endpoint. Only the scrapes that measure are taken off.
func (b *bench) allocations() error {
	measured := []struct {
		name, path string
		count      int
		gate       bool
	}{
		{"GET 1 KiB", "/", b.plan.count, true},
		{"10 ms at the endpoint", "/10ms", b.plan.count / 10, false},
	}
	var rows []row
	read := func() error {
		r, err := b.readRow()
		rows = append(rows, r)
		return err
	}
	var loads []figures
	for i, m := range measured {
		load, err := b.open(order{Addr: b.proxies[0].addr, Host: "service-0", Path: m.path, Connections: connections, Count: m.count})
		if err != nil {
			return err
		}
		defer load.close()
		if i == 0 { // at rest, with open connections
			if err := read(); err != nil {
				return err
			}
			time.Sleep(idleSpan)
		}
		if err := read(); err != nil {
			return err
		}
		f, err := load.run()
		if err != nil {
			return err
		}
		loads = append(loads, f)
		if err := read(); err != nil {
			return err
		}
	}
	rest, scrape := between(rows[0], rows[1])
	second := max(0, rest/idleSpan.Seconds())
	fmt.Printf("\nallocations per request, whole sidecar process, %d services with checks and metrics\n", services)
	fmt.Printf("(at rest it makes %.0f a second; the scrapes of its metrics that measure, %.0f each, are taken off)\n", second, scrape)
	fmt.Printf("%-26s %10s %12s %16s\n", "", "requests", "allocations", "without checks")
	var result error
	for i, m := range measured {
		total, _ := between(rows[2*i+1], rows[2*i+2])
		done := float64(loads[i].Done)
		each := total / done
		fmt.Printf("%-26s %10.0f %12.4f %16.4f\n", m.name, done, each, (total-second*loads[i].Elapsed.Seconds())/done)
		if m.gate && (each >= allocationsMax || math.IsNaN(each)) {
			result = fmt.Errorf("%w: %.4f, allowed is less than %v", errTooMany, each, allocationsMax)
		}
	}
	return result
}
