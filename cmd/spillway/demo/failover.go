package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
)

// What the failover scenario measures and promises.
const (
	failoverRequests  = 800
	failoverEvery     = 10 * time.Millisecond // 100 requests a second
	failoverFaultAt   = 200                   // the fault comes before this request: after 2 s
	failoverFirstMax  = 0.1                   // seconds from the kill to the first answer of dc2
	failoverRunsMax   = 2                     // runs of a row; see secondRun
	connectTimeout    = time.Second           // the default of connect_timeout.local
	holeLongestMax    = connectTimeout + 2*time.Second
	failoverAgainLeft = 15 * time.Second // time that must be left of a scenario to run a row again
)

// failoverCase is one row: how the sidecar is set up, and what happens to dc1.
type failoverCase struct {
	configuration string
	policy        string
	hole          bool // a black hole instead of kill -9; GET only
}

func failoverCases() []failoverCase {
	const off = "{consecutive_failures: 0}"
	all := []failoverCase{
		{configuration: "active_checks", policy: "policy:\n  health:\n    passive: " + off + "\n    active: {path: /healthz, interval: 1s, timeout: 1s}"},
		{configuration: "passive_only", policy: "policy:\n  health:\n    passive: {consecutive_failures: 3}"},
		{configuration: "neither", policy: "policy:\n  health:\n    passive: " + off},
	}
	if holeSupported {
		all = append(all, failoverCase{configuration: "black_hole", policy: "policy:\n  connect_timeout: {local: 1s}", hole: true})
	}
	return all
}

// outcome is what became of an open load with a fault in it. Times are seconds after the fault.
type outcome struct {
	requests, failed      int
	firstFailed, lastFail float64 // when the answers that failed came
	firstFar              float64 // first good answer of dc2; NaN: never
	longest               float64 // from when a request was due to its answer
	farBefore             int     // answers of dc2 that came before the fault
	failures              map[string]int
	unsafeOnly            bool // all that failed are POSTs that an endpoint may have read
}

// judge sums up the shots.
func judge(shots []shot, fault time.Time) outcome {
	o := outcome{requests: len(shots), firstFar: math.NaN(), firstFailed: math.NaN(), lastFail: math.NaN(), failures: map[string]int{}, unsafeOnly: true}
	for _, s := range shots {
		after := s.done.Sub(fault).Seconds()
		o.longest = max(o.longest, s.done.Sub(s.due).Seconds())
		if !s.good() {
			o.failed++
			o.failures[s.method+" "+failure(s.answer, s.err)]++
			o.unsafeOnly = o.unsafeOnly && s.method == http.MethodPost && s.answer.reason == "reset"
			o.firstFailed = earlier(o.firstFailed, after)
			o.lastFail = -earlier(-o.lastFail, -after)
			continue
		}
		if s.answer.datacenter != faraway {
			continue
		}
		if after < 0 {
			o.farBefore++
			continue
		}
		o.firstFar = earlier(o.firstFar, after)
	}
	return o
}

// earlier is the smaller of two, where NaN is none.
func earlier(a, b float64) float64 {
	if math.IsNaN(a) {
		return b
	}
	return min(a, b)
}

// secondRun tells whether a row may be measured once more: all that failed are POSTs that an endpoint had received when it was
// killed. Those may not be sent twice, so their loss is no fault of the sidecar, and the demo cannot choose the instant exactly.
func (o outcome) secondRun() bool { return o.failed > 0 && o.unsafeOnly }

// why names the failures, most frequent first.
func (o outcome) why() string {
	kinds := slices.SortedFunc(maps.Keys(o.failures), func(a, b string) int {
		if d := o.failures[b] - o.failures[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	var out []string
	for _, k := range kinds[:min(len(kinds), 3)] {
		out = append(out, fmt.Sprintf("%d x %s", o.failures[k], k))
	}
	text := strings.Join(out, ", ")
	if o.secondRun() {
		text += " (received by an endpoint before it was killed: never sent twice)"
	}
	return text
}

// window is from when to when answers failed, as in the published figures.
func (o outcome) window() cell {
	if o.failed == 0 {
		return word("none")
	}
	return word(fmt.Sprintf("%.2f-%.2f", o.firstFailed, o.lastFail))
}

// first is when dc2 answered first.
func (o outcome) first() cell {
	if math.IsNaN(o.firstFar) {
		return word("never")
	}
	return number(o.firstFar, 3)
}

func failoverColumns(source string) []column {
	return []column{
		{key: "configuration", title: "configuration", left: true},
		{key: "fault", title: "dc1", left: true},
		{key: "requests", title: "requests"},
		{key: "failed", title: "failed"},
		{key: "failures_from_to_seconds_after_kill", title: "failing, s"},
		{key: "first_success_from_dc2_seconds", title: "dc2 after s"},
		{key: "longest_answer_seconds", title: "longest s"},
		{key: "published_failed", title: source + ": failed"},
		{key: "published_failures_from_to_seconds_after_kill", title: "failing, s"},
		{key: "published_first_success_from_dc2_seconds", title: "dc2 after s"},
	}
}

// failoverRow is the verdict: nothing failed, and dc2 took over in time.
func failoverRow(c failoverCase, o outcome, pub figureRow) row {
	r := row{ok: true}
	fault := "kill -9"
	if c.hole {
		fault = "black hole"
	}
	r.cells = []cell{word(c.configuration), word(fault), count(o.requests), count(o.failed), o.window(), o.first(), number(o.longest, 3)}
	for _, key := range []string{"failed", "failures_from_to_seconds_after_kill", "first_success_from_dc2_seconds"} {
		if pub[key] == "" {
			r.cells = append(r.cells, blank())
			continue
		}
		v := word(pub[key])
		if _, err := pub.number(key); err == nil {
			v.value = json.Number(pub[key])
		}
		r.cells = append(r.cells, v)
	}
	switch {
	case o.failed > 0:
		r.ok, r.why = false, o.why()
	case o.farBefore > 0:
		r.ok, r.why = false, fmt.Sprintf("%d requests went to dc2 before anything had happened", o.farBefore)
	case math.IsNaN(o.firstFar):
		r.ok, r.why = false, "dc2 never answered"
	case !c.hole && o.firstFar > failoverFirstMax:
		r.ok, r.why = false, fmt.Sprintf("dc2 after more than %.1f s", failoverFirstMax)
	case c.hole && o.longest > holeLongestMax.Seconds():
		r.ok, r.why = false, fmt.Sprintf("an answer took more than connect_timeout + 2 s = %.0f s", holeLongestMax.Seconds())
	}
	return r
}

// playFailover takes all of dc1 away in the middle of an open load.
func playFailover(ctx context.Context, s *stage, r *scenario) error {
	rate := int(time.Second / failoverEvery)
	r.Shows = fmt.Sprintf("%d requests a second for %.0f s, half of them POST; after %.0f s all four endpoints of dc1 are killed with kill -9 in the pause between two\n"+
		"requests, with three ways of watching health. Last row: they vanish into a black hole (GET only, kept connections open).",
		rate, (failoverRequests * failoverEvery).Seconds(), (failoverFaultAt * failoverEvery).Seconds())
	r.Means = "dc1 was gone and no request was lost: what no endpoint had taken went to dc2 at once."
	cases := failoverCases()
	r.rowsMin = len(cases)
	t := r.table(failoverColumns(s.figures.failover.source))
	for _, c := range cases {
		var lost string
		for run := 1; ; run++ {
			o, err := failoverRun(ctx, s, c)
			if err != nil {
				return err
			}
			if o.secondRun() && run < failoverRunsMax && timeLeft(ctx) > failoverAgainLeft {
				lost = o.why()
				r.Means = "dc1 was gone; what no endpoint had taken went to dc2 at once. One row was run twice, it says why."
				continue
			}
			line := failoverRow(c, o, s.figures.failover.find("configuration", c.configuration))
			if lost != "" {
				line.why = strings.TrimPrefix(line.why+"; second run, in the first "+lost, "; ")
			}
			t.rows = append(t.rows, line)
			break
		}
	}
	return nil
}

// timeLeft is the time until the deadline of ctx.
func timeLeft(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return scenarioMax
	}
	return time.Until(end)
}

// failoverRun measures one row once, with endpoints and a sidecar that start anew.
func failoverRun(ctx context.Context, s *stage, c failoverCase) (outcome, error) {
	s.progress.show("%s: starting", c.configuration)
	if err := s.world.revive(ctx); err != nil {
		return outcome{}, err
	}
	side, err := s.world.sidecar(ctx, setup{name: c.configuration, policy: c.policy})
	if err != nil {
		return outcome{}, err
	}
	defer side.stop()
	if err := side.settle(ctx, map[string]int{nearby: endpointsEach, faraway: endpointsEach}); err != nil {
		return outcome{}, err
	}
	var fault time.Time
	shots, err := openLoad{
		address: side.address(), requests: failoverRequests, every: failoverEvery, faultAt: failoverFaultAt,
		method: func(i int) string {
			if i%2 == 0 || c.hole {
				return http.MethodGet
			}
			return http.MethodPost
		},
		fault: func() (err error) {
			if c.hole {
				fault, err = swallow(ctx, s.world.in(nearby))
			} else {
				fault, err = kill(s.world.in(nearby))
			}
			return err
		},
		each: func(sent, answered int) {
			s.progress.show("%s: %d of %d requests sent, %d open%s", c.configuration, sent, failoverRequests, sent-answered, since(sent))
		},
	}.run(ctx)
	if err != nil {
		return outcome{}, err
	}
	if c.hole { // they are alive, but nobody can talk to them any more
		if _, err := kill(s.world.in(nearby)); err != nil {
			return outcome{}, err
		}
	}
	return judge(shots, fault), nil
}

// since says in the progress line that the fault has happened.
func since(sent int) string {
	if sent < failoverFaultAt {
		return ""
	}
	return ", dc1 is gone"
}
