// Package demo shows on one machine what Spillway does: two datacenters of four endpoints each, sidecars and a client's traffic, all
// as real processes on loopback addresses, with faults made for real. What was measured stands beside published figures.
//
// Its job: starting and stopping the processes, the faults (kill -9, a black hole, an added delay), small load generators, verdicts,
// tables and JSON. It also is the endpoint process itself (Endpoint).
// Not its job: deciding anything about traffic. It sees the sidecar from outside, as an application and an operator do.
//
// Goroutines: one for each request of an open load and each connection of a parallel one, two or three for each child process; all
// end with Run. Limits: a scenario ends after scenarioMax, every wait inside has a bound of its own. Children end with Run, also
// when it is interrupted; on Linux the kernel ends them when this process is killed.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// scenarioMax is the time that one scenario may take.
const scenarioMax = 60 * time.Second

// Options says what to show and where to write.
type Options struct {
	Scenario       string // all, nearby, spill, failover, loop or bulkhead
	JSON           bool   // one JSON document on Stdout instead of text
	Executable     string // the spillway binary, started for endpoints and sidecars
	Stdout, Stderr io.Writer
	Terminal       bool // Stderr is a terminal: the progress line is rewritten in place
}

// stage is what a scenario works with.
type stage struct {
	figures  *published
	world    *world
	progress *progress
}

// act is one scenario. It adds tables to its report as far as it comes.
type act struct {
	name  string
	delay time.Duration // of the endpoints of dc2
	play  func(ctx context.Context, s *stage, r *scenario) error
}

// acts are the scenarios in the order of `all`.
func acts() []act {
	return []act{
		{"nearby", nearbyDelay, playNearby},
		{"spill", 0, playSpill},
		{"failover", 0, playFailover},
		{"loop", 0, playLoop},
		{"bulkhead", 0, playBulkhead},
	}
}

// Scenarios lists the names that Options.Scenario takes, besides all.
func Scenarios() []string {
	var out []string
	for _, a := range acts() {
		out = append(out, a.name)
	}
	return out
}

// Run plays the scenarios and prints them. It returns the exit code: 0 when every row is as promised, 1 otherwise.
func Run(ctx context.Context, o Options) int {
	figures, err := loadPublished()
	if err != nil {
		fmt.Fprintln(o.Stderr, "spillway demo:", err)
		return 1
	}
	rep := report{Scenarios: []*scenario{}}
	good := true
	for _, a := range acts() {
		if o.Scenario != "all" && o.Scenario != a.name {
			continue
		}
		s := perform(ctx, o, a, figures)
		rep.Scenarios = append(rep.Scenarios, s)
		good = good && s.ok()
		if !o.JSON {
			s.render(o.Stdout)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if o.JSON {
		if err := rep.write(o.Stdout); err != nil {
			fmt.Fprintln(o.Stderr, "spillway demo: write the report:", err)
			return 1
		}
	}
	if ctx.Err() != nil {
		fmt.Fprintln(o.Stderr, "spillway demo: interrupted")
	}
	if !good {
		return 1
	}
	return 0
}

// perform plays one scenario in a world of its own and leaves nothing behind.
func perform(ctx context.Context, o Options, a act, figures *published) *scenario {
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, scenarioMax, fmt.Errorf("not finished after %v", scenarioMax))
	defer cancel()
	out := &scenario{Name: a.name}
	line := newProgress(o.Stderr, o.Terminal, a.name)
	defer line.clear()
	line.show("starting eight endpoints in two datacenters")
	w, err := newWorld(ctx, o.Executable, a.delay)
	if err == nil {
		defer w.close()
		err = a.play(ctx, &stage{figures, w, line}, out)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w (%w)", err, cause)
		}
		out.Error = err.Error()
	}
	out.took = time.Since(started)
	return out
}

// IsTerminal tells whether f is a terminal, as far as the file's mode shows it.
func IsTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
