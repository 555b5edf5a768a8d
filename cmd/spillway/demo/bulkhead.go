package demo

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// What the bulkhead scenario measures and promises.
const (
	bulkheadWindow   = 5 * time.Second // well and sick in turns
	bulkheadWindows  = 10
	bulkheadEvery    = 5 * time.Millisecond  // 200 requests a second to the service that nothing happens to
	bulkheadSickEach = 10 * time.Millisecond // 100 a second to the one that vanishes
	bulkheadSettle   = 500 * time.Millisecond
	bulkheadRatioMax = 1.2   // of the medians, sick to well; the median over the pairs
	bulkheadSlowOver = 10    // times the median of all windows without the fault: a slow request
	bulkheadSlowMax  = 2     // times as many slow requests as without the fault
	bulkheadSlowFree = 0.005 // part of the requests that may be slow whatever it was before: too few to compare
)

// pairOf is one window without and one with the fault.
type pairOf struct{ well, sick window }

// window is what a window brought.
type window struct {
	order tally          // the untouched service
	stock map[string]int // the other one: how often "served", or the reason for which it was not
}

// share puts the shots into windows by when they were due. What was due in the first bulkheadSettle of a window belongs to none: the fault
// was about to begin or to end.
func share(start time.Time, order, stock []shot) []pairOf {
	out := make([]pairOf, bulkheadWindows/2)
	at := func(s shot) *window {
		since := s.due.Sub(start)
		n := int(since / bulkheadWindow)
		if since < 0 || n >= bulkheadWindows || since%bulkheadWindow < bulkheadSettle {
			return nil
		}
		if n%2 == 0 {
			return &out[n/2].well
		}
		return &out[n/2].sick
	}
	for i := range out {
		for _, w := range []*window{&out[i].well, &out[i].sick} {
			w.order, w.stock = *newTally(), map[string]int{}
		}
	}
	for _, s := range order {
		if w := at(s); w != nil {
			w.order.add(s.answer, s.err, s.done.Sub(s.due))
		}
	}
	for _, s := range stock {
		if w := at(s); w != nil {
			switch {
			case s.good() && s.done.Sub(start)/bulkheadWindow != s.due.Sub(start)/bulkheadWindow:
				w.stock["served after it came back"]++
			case s.good():
				w.stock["served"]++
			case s.err != nil:
				w.stock["no answer"]++
			default:
				w.stock[s.answer.reason]++
			}
		}
	}
	return out
}

func bulkheadColumns() []column {
	return []column{
		{key: "pair", title: "pair", left: true},
		{key: "order_requests", title: "order: requests"},
		{key: "order_errors", title: "errors"},
		{key: "p50_ms_well", title: "p50 ms, stock well"},
		{key: "p50_ms_sick", title: "stock gone"},
		{key: "p50_ratio", title: "ratio"},
		{key: "slow_well", title: "slow, well"},
		{key: "slow_sick", title: "gone"},
		{key: "stock_served", title: "stock while gone: served"},
		{key: "stock_no_healthy_endpoint", title: "nobody usable"},
		{key: "stock_overflow", title: "overflow"},
		{key: "stock_other", title: "waited in vain"},
	}
}

// slow counts the requests over a time.
func slow(took []milliseconds, over float64) (n int) {
	for _, t := range took {
		if t > over {
			n++
		}
	}
	return n
}

// bulkheadRows makes a row for each pair and one for all, which has the verdict.
func bulkheadRows(pairs []pairOf) []row {
	var well, sick, ratios []float64
	for _, p := range pairs {
		well, sick = append(well, p.well.order.took...), append(sick, p.sick.order.took...)
		ratios = append(ratios, quantile(p.sick.order.took, 0.5)/max(quantile(p.well.order.took, 0.5), 1e-9))
	}
	over := bulkheadSlowOver * quantile(well, 0.5)
	line := func(name string, p pairOf, ratio float64) row {
		other := 0
		for reason, n := range p.sick.stock {
			if reason != "served" && reason != "overflow" && reason != "no_healthy_endpoint" {
				other += n
			}
		}
		return row{ok: true, cells: []cell{word(name), count(p.well.order.requests + p.sick.order.requests), count(p.well.order.errors + p.sick.order.errors),
			number(quantile(p.well.order.took, 0.5), 2), number(quantile(p.sick.order.took, 0.5), 2), number(ratio, 2),
			count(slow(p.well.order.took, over)), count(slow(p.sick.order.took, over)), count(p.sick.stock["served"]), count(p.sick.stock["no_healthy_endpoint"]), count(p.sick.stock["overflow"]), count(other)}}
	}
	var rows []row
	all := pairOf{window{*newTally(), map[string]int{}}, window{*newTally(), map[string]int{}}}
	for i, p := range pairs {
		rows = append(rows, line(fmt.Sprint(i+1), p, ratios[i]))
		all.well.order.merge(&p.well.order)
		all.sick.order.merge(&p.sick.order)
		for reason, n := range p.sick.stock {
			all.sick.stock[reason] += n
		}
	}
	ratio := quantile(ratios, 0.5)
	sum := line("all, median ratio", all, ratio)
	worse := 0 // pairs with too many slow requests; one alone is the machine's noise
	for _, p := range pairs {
		most := max(float64(bulkheadSlowMax*slow(p.well.order.took, over)), bulkheadSlowFree*float64(len(p.sick.order.took)))
		if float64(slow(p.sick.order.took, over)) > most {
			worse++
		}
	}
	switch errors := all.well.order.errors + all.sick.order.errors; {
	case errors > 0:
		sum.ok, sum.why = false, fmt.Sprintf("%d requests of order failed", errors)
	case len(well) == 0 || len(sick) == 0:
		sum.ok, sum.why = false, "nothing was measured"
	case all.sick.stock["served"] > 0:
		sum.ok, sum.why = false, "stock was served while it should have been gone"
	case ratio > bulkheadRatioMax:
		sum.ok, sum.why = false, fmt.Sprintf("ratio over %.1f", bulkheadRatioMax)
	case 2*worse > len(pairs):
		sum.ok, sum.why = false, fmt.Sprintf("over %d times as many slow requests in %d of %d pairs", bulkheadSlowMax, worse, len(pairs))
	}
	return append(rows, sum)
}

// playBulkhead lets all endpoints of a service vanish and come back while another one is called through the same sidecar.
func playBulkhead(ctx context.Context, s *stage, r *scenario) error {
	if !holeSupported {
		return fmt.Errorf("a black hole can be dug on Linux alone")
	}
	r.Shows = fmt.Sprintf("order stands in dc1, stock in dc2. dc2 vanishes into a black hole for %.0f s and comes back for %.0f s, %d times, while %d requests a second\n"+
		"go to order and %d to stock through one sidecar. Slow: over %d times the median without the fault; the verdict is on the median ratio, and on what most pairs show.", bulkheadWindow.Seconds(), bulkheadWindow.Seconds(),
		bulkheadWindows/2, int(time.Second/bulkheadEvery), int(time.Second/bulkheadSickEach), bulkheadSlowOver)
	r.Means = "What hangs in dc2 holds connections and places of its own alone; order does not notice it."
	r.rowsMin = bulkheadWindows/2 + 1
	t := r.table(bulkheadColumns())
	s.progress.show("starting a sidecar")
	side, err := s.world.sidecar(ctx, setup{name: "bulkhead", second: true, policy: "policy:\n  timeout: 3s"})
	if err != nil {
		return err
	}
	defer side.stop()
	total := bulkheadWindow * bulkheadWindows
	get := func(int) string { return http.MethodGet }
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now().Add(bulkheadEvery)
	faults, stock := make(chan error, 1), make(chan []shot, 1)
	go func() { faults <- alternate(ctx, s.world.in(faraway), start) }()
	go func() {
		shots, _ := openLoad{address: side.address(), service: secondName, requests: int(total / bulkheadSickEach), every: bulkheadSickEach, method: get, faultAt: -1}.run(ctx)
		stock <- shots
	}()
	order, err := openLoad{address: side.address(), requests: int(total / bulkheadEvery), every: bulkheadEvery, method: get, faultAt: -1,
		each: func(sent, answered int) {
			state := "stock is well"
			if time.Since(start)/bulkheadWindow%2 == 1 {
				state = "stock is gone"
			}
			s.progress.show("%s: %d requests of order sent, %d open", state, sent, sent-answered)
		}}.run(ctx)
	if err != nil {
		cancel()
	}
	others := <-stock
	if faultErr := <-faults; err == nil {
		err = faultErr
	}
	if err != nil {
		return err
	}
	t.rows = bulkheadRows(share(start, order, others))
	return nil
}

// alternate lets endpoints vanish at each odd window and come back at each even one.
func alternate(ctx context.Context, endpoints []*endpoint, start time.Time) error {
	for n := 1; n <= bulkheadWindows; n++ {
		if err := until(ctx, start.Add(time.Duration(n)*bulkheadWindow)); err != nil {
			return err
		}
		var err error
		if n%2 == 1 {
			_, err = swallow(ctx, endpoints)
		} else {
			err = release(ctx, endpoints)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
