package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
)

// What the spill scenario measures and promises.
const (
	spillRequests  = 6000 // of a row
	spillPointsMax = 2.0  // a measured share may differ from the expected one by that many points
)

// checksOften lets a sidecar notice within a fraction of a second what happens to endpoints that get no requests.
const checksOften = `
  health:
    active: {path: /healthz, interval: 200ms, unhealthy_after: 1, healthy_after: 1}`

// spillPolicy is the policy for a factor.
func spillPolicy(factor string) string {
	return "policy:\n  locality: {spill: health, overprovisioning_factor: " + factor + "}" + checksOften
}

// spillCase is one row of the published figures.
type spillCase struct {
	factor                      string
	dead                        int
	usable, expected, published float64 // percent: usable in dc1, expected in dc1, measured in dc1 by the published proxy
}

func spillCases(f figures) ([]spillCase, error) {
	var out []spillCase
	for _, r := range f.rows {
		c := spillCase{factor: r["factor"]}
		dead, err := r.number("dead_in_dc1")
		if err != nil {
			return nil, err
		}
		c.dead = int(dead)
		for name, to := range map[string]*float64{"healthy_dc1_percent": &c.usable, "expected_dc1_percent": &c.expected, "measured_dc1_percent": &c.published} {
			if *to, err = r.number(name); err != nil {
				return nil, err
			}
		}
		out = append(out, c)
	}
	return out, nil
}

func spillColumns(source string) []column {
	return []column{
		{key: "factor", title: "factor"},
		{key: "dead_in_dc1", title: "dead in dc1"},
		{key: "healthy_dc1_percent", title: "usable %"},
		{key: "requests", title: "requests"},
		{key: "errors", title: "errors"},
		{key: "measured_dc1_percent", title: "dc1 %"},
		{key: "measured_dc2_percent", title: "dc2 %"},
		{key: "expected_dc1_percent", title: "expected dc1 %"},
		{key: "published_dc1_percent", title: source + " dc1 %"},
	}
}

// spillRow is the verdict on one row: within spillPointsMax of what is expected, and no errors.
func spillRow(c spillCase, t *tally) row {
	got := t.percent(nearby)
	r := row{ok: true, cells: []cell{
		{json.Number(c.factor), c.factor}, count(c.dead), number(c.usable, 0), count(t.requests), count(t.errors),
		number(got, 1), number(t.percent(faraway), 1), number(c.expected, 0), number(c.published, 1),
	}}
	switch off := math.Abs(got - c.expected); {
	case t.errors > 0:
		r.ok, r.why = false, "first error: "+t.first
	case off > spillPointsMax:
		r.ok, r.why = false, fmt.Sprintf("%.1f points off, at most %.0f", off, spillPointsMax)
	}
	return r
}

// playSpill kills none to all endpoints of dc1 and measures which share of the requests leaves for dc2.
func playSpill(ctx context.Context, s *stage, r *scenario) error {
	cases, err := spillCases(s.figures.spill)
	if err != nil {
		return err
	}
	r.Shows = fmt.Sprintf("of four endpoints in dc1, none to all are killed with kill -9; with `spill: health` dc1 keeps min(100 %%, usable x factor / 100)\n"+
		"of the requests and dc2 gets the rest (%d requests a row, one after the other, at most %.0f points off, no errors).", spillRequests, spillPointsMax)
	r.Means = "The spill follows what dc1 can still take; no request was lost on the way."
	r.rowsMin = len(cases)
	t := r.table(spillColumns(s.figures.spill.source))
	var side *sidecar
	factor := ""
	for _, c := range cases {
		label := fmt.Sprintf("factor %s, %d of 4 dead", c.factor, c.dead)
		s.progress.show("%s: waiting until the sidecar sees it", label)
		if err := s.world.revive(ctx); err != nil {
			return err
		}
		if c.factor != factor {
			if side != nil {
				side.stop()
			}
			if side, err = s.world.sidecar(ctx, setup{name: "spill-" + c.factor, policy: spillPolicy(c.factor)}); err != nil {
				return err
			}
			factor = c.factor
		}
		if err := side.settle(ctx, map[string]int{nearby: endpointsEach, faraway: endpointsEach}); err != nil {
			return err
		}
		if _, err := kill(s.world.in(nearby)[:c.dead]); err != nil {
			return err
		}
		if err := side.settle(ctx, map[string]int{nearby: endpointsEach - c.dead, faraway: endpointsEach}); err != nil {
			return err
		}
		got, err := sequential(ctx, side.address(), spillRequests, func(done int) {
			s.progress.show("%s: %d of %d requests", label, done, spillRequests)
		})
		if err != nil {
			return err
		}
		t.rows = append(t.rows, spillRow(c, got))
	}
	return nil
}
