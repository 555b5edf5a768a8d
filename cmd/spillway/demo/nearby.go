package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// What the nearby scenario measures and promises.
const (
	nearbyDelay      = 40 * time.Millisecond // by which dc2 answers later
	nearbyPairs      = 5000                  // requests sent directly, each followed by one through the sidecar
	nearbyWarm       = 500                   // pairs before that are not counted
	nearbyAboveMax   = 0.15                  // milliseconds that the median may be above the direct call's
	nearbyRunsMax    = 3                     // runs of which the quietest counts: neighbours on the machine can only add
	nearbyOverBoth   = 400                   // requests of the comparison without localities
	nearbyPointsMax  = 3.0                   // a share of the comparison may be off by that many points
	lastResortPar    = 20                    // connections; dc2 alone would need a minute over one
	lastResortOffMax = 0.02                  // an endpoint's count may be off by that part
)

// Policies of the three sidecars.
const (
	nearbyPolicy     = "policy:\n  locality: {spill: health}" + checksOften
	overBothPolicy   = "policy:\n  balance: round_robin" + checksOften
	lastResortPolicy = "policy:\n  balance: round_robin\n  locality: {spill: last_resort}" + checksOften
)

func nearbyColumns(source string) []column {
	return []column{
		{key: "configuration", title: "configuration", left: true},
		{key: "requests", title: "requests"},
		{key: "errors", title: "errors"},
		{key: "p50_ms", title: "p50 ms"},
		{key: "p99_ms", title: "p99 ms"},
		{key: "dc1_percent", title: "dc1 %"},
		{key: "dc2_percent", title: "dc2 %"},
		{key: "above_direct_p50_ms", title: "p50 above direct"},
		{title: source + ": p50", left: false},
		{title: "p99"},
		{title: "dc1 %"},
		{key: "published_p50_ms"},
		{key: "published_p99_ms"},
		{key: "published_dc1_percent"},
	}
}

// nearbyRow makes a row without a verdict.
func nearbyRow(configuration string, t *tally, above cell, pub figureRow) row {
	r := row{ok: true, cells: []cell{
		word(configuration), count(t.requests), count(t.errors), number(quantile(t.took, 0.5), 3), number(quantile(t.took, 0.99), 3),
		number(t.percent(nearby), 1), number(t.percent(faraway), 1), above,
		word(pub["p50_ms"]), word(pub["p99_ms"]), word(pub["dc1_percent"]),
	}}
	for _, c := range []string{"p50_ms", "p99_ms", "dc1_percent"} {
		if pub[c] == "" {
			r.cells = append(r.cells, blank())
		} else {
			r.cells = append(r.cells, cell{value: json.Number(pub[c])})
		}
	}
	return r
}

// pair is one measurement of direct and proxied calls.
type pair struct{ direct, proxied *tally }

// above is by how much the median of proxied calls is above that of direct ones, in milliseconds.
func (p pair) above() float64 { return quantile(p.proxied.took, 0.5) - quantile(p.direct.took, 0.5) }

// rows are the direct call and dc1_first: everything stays in dc1 and the median is at most nearbyAboveMax above the direct one.
func (p pair) rows(pub figureRow, runs int) []row {
	direct := nearbyRow("direct, no sidecar", p.direct, blank(), figureRow{})
	direct.ok = p.direct.errors == 0
	direct.why = p.direct.first
	first := nearbyRow("dc1_first", p.proxied, number(p.above(), 3), pub)
	switch {
	case p.proxied.errors > 0:
		first.ok, first.why = false, "first error: "+p.proxied.first
	case p.proxied.datacenters[nearby] != p.proxied.requests:
		first.ok, first.why = false, "not all requests stayed in dc1"
	case p.above() > nearbyAboveMax:
		first.ok, first.why = false, fmt.Sprintf("p50 more than %.2f ms above the direct call", nearbyAboveMax)
	}
	if runs > 1 {
		first.why = strings.TrimPrefix(first.why+fmt.Sprintf("; the quietest of %d runs", runs), "; ")
	}
	return []row{direct, first}
}

// interleaved sends a direct call and one through the sidecar in turn, so that both meet the same noise.
func interleaved(ctx context.Context, s *stage, side *sidecar) (pair, error) {
	out := pair{newTally(), newTally()}
	var direct []*caller
	for _, e := range s.world.in(nearby) {
		direct = append(direct, newCaller(e.address.String()))
	}
	proxied := newCaller(side.address())
	defer func() {
		for _, c := range append(direct, proxied) {
			c.close()
		}
	}()
	for i := range nearbyWarm + nearbyPairs {
		if i == nearbyWarm {
			out = pair{newTally(), newTally()}
		}
		if i%64 == 0 {
			if ctx.Err() != nil {
				return out, ctx.Err()
			}
			s.progress.show("dc1_first: %d of %d pairs of calls, direct and proxied", max(i-nearbyWarm, 0), nearbyPairs)
		}
		timed(out.direct, direct[i%len(direct)])
		timed(out.proxied, proxied)
	}
	return out, nil
}

// playNearby shows that requests stay near, what that is worth, and nginx's published line for `last_resort`.
func playNearby(ctx context.Context, s *stage, r *scenario) error {
	r.Shows = fmt.Sprintf("dc2 answers %d ms later than dc1; requests stay in dc1, and the way through the sidecar costs at most %.2f ms at the median.\n"+
		"For comparison the same endpoints without localities; then `spill: last_resort` with endpoints of dc1 killed.\n"+
		"Published figures were measured on other machines: compare shares and shapes, not milliseconds.", nearbyDelay.Milliseconds(), nearbyAboveMax)
	r.Means = "Nobody pays for the distance while dc1 can serve, and with last_resort only when nothing is left there."
	r.rowsMin = 3 + len(lastResortLine())
	t := r.table(nearbyColumns(s.figures.nearby.source))
	all := map[string]int{nearby: endpointsEach, faraway: endpointsEach}
	side, err := s.world.sidecar(ctx, setup{name: "nearby", policy: nearbyPolicy})
	if err != nil {
		return err
	}
	if err := side.settle(ctx, all); err != nil {
		return err
	}
	var best pair
	runs := 0
	for runs < nearbyRunsMax {
		p, err := interleaved(ctx, s, side)
		if err != nil {
			return err
		}
		if runs++; runs == 1 || p.above() < best.above() {
			best = p
		}
		if best.above() <= nearbyAboveMax {
			break
		}
	}
	side.stop()
	t.rows = append(t.rows, best.rows(s.figures.nearby.find("configuration", "dc1_first"), runs)...)
	if side, err = s.world.sidecar(ctx, setup{name: "both", policy: overBothPolicy, oneZone: true}); err != nil {
		return err
	}
	if err := side.settleChecked(ctx, 2*endpointsEach); err != nil {
		return err
	}
	both, err := sequential(ctx, side.address(), nearbyOverBoth, func(done int) {
		s.progress.show("round_robin_over_both: %d of %d requests", done, nearbyOverBoth)
	})
	if err != nil {
		return err
	}
	side.stop()
	t.rows = append(t.rows, overBothRow(both, s.figures.nearby.find("configuration", "round_robin_over_both")))
	return playLastResort(ctx, s, r)
}

// overBothRow is the comparison: half of the requests go far.
func overBothRow(t *tally, pub figureRow) row {
	r := nearbyRow("round_robin_over_both", t, blank(), pub)
	switch {
	case t.errors > 0:
		r.ok, r.why = false, "first error: "+t.first
	case math.Abs(t.percent(faraway)-50) > nearbyPointsMax:
		r.ok, r.why = false, "not half and half"
	}
	return r
}

func lastResortColumns() []column {
	return []column{
		{key: "configuration", title: "configuration", left: true},
		{key: "dead_in_dc1", title: "dead in dc1"},
		{key: "requests", title: "requests"},
		{key: "errors", title: "errors"},
		{key: "dc1_percent", title: "dc1 %"},
		{key: "dc2_percent", title: "dc2 %"},
		{key: "requests_per_endpoint", title: "requests of each endpoint", left: true},
		{key: "published_requests_per_endpoint", title: lastResortSource},
	}
}

// lastResortRow wants everything in the one datacenter, evenly.
func lastResortRow(l lastResort, t *tally) row {
	counts := make([]int, 0, len(t.endpoints))
	for _, name := range slices.Sorted(maps.Keys(t.endpoints)) {
		counts = append(counts, t.endpoints[name])
	}
	r := row{ok: true, cells: []cell{
		word("last_resort"), count(l.dead), count(t.requests), count(t.errors), number(t.percent(nearby), 1), number(t.percent(faraway), 1),
		{counts, strings.Trim(fmt.Sprint(counts), "[]")}, {l.each, fmt.Sprintf("%d each", l.each)},
	}}
	for _, n := range counts {
		if math.Abs(float64(n-l.each)) > lastResortOffMax*float64(l.each) {
			r.ok, r.why = false, fmt.Sprintf("not %d each", l.each)
		}
	}
	switch {
	case t.errors > 0:
		r.ok, r.why = false, "first error: "+t.first
	case t.datacenters[l.datacenter] != t.requests:
		r.ok, r.why = false, "not all in "+l.datacenter
	}
	return r
}

// playLastResort kills two endpoints of dc1, then all.
func playLastResort(ctx context.Context, s *stage, r *scenario) error {
	side, err := s.world.sidecar(ctx, setup{name: "last", policy: lastResortPolicy})
	if err != nil {
		return err
	}
	t := r.table(lastResortColumns())
	for _, l := range lastResortLine() {
		if _, err := kill(s.world.in(nearby)[:l.dead]); err != nil {
			return err
		}
		if err := side.settle(ctx, map[string]int{nearby: endpointsEach - l.dead, faraway: endpointsEach}); err != nil {
			return err
		}
		got, err := parallel(ctx, side.address(), lastResortRequests, lastResortPar, func(done int) {
			s.progress.show("last_resort, %d of 4 dead in dc1: %d of %d requests", l.dead, done, lastResortRequests)
		})
		if err != nil {
			return err
		}
		t.rows = append(t.rows, lastResortRow(l, got))
	}
	return nil
}
