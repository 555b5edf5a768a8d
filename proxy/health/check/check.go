// Package check does the health checks and the probe connects.
//
// Its job: asking each endpoint at its interval, within a budget of the whole process, and telling what it met.
// Not its job: judging what that means for the endpoint (health), knowing which endpoints there are (the Source).
// Its goroutines: one scheduler, which alone calls the Sink, and one worker for each check or probe under way, at most InFlightMax.
// Limits: at most perSecondMax starts in any second, InFlightMax under way, one check and one probe of an endpoint at a time;
// an answer's head is read up to HeadMax bytes.
package check

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"time"

	"spillway/discovery"
	"spillway/proxy/health"
)

// Bounds of this package.
const (
	InFlightMax      = 1024                   // checks and probes under way: the default budget times the longest default timeout, and room
	KicksMax         = 256                    // kicks that wait to be seen; more are dropped, the next interval comes anyway
	PerSecondDefault = 200                    // starts in any second where no budget is given
	PerSecondMax     = 10_000                 // largest budget
	SourcePollMax    = 200 * time.Millisecond // the source is asked at least so often
	ProbeTimeout     = time.Second            // of a probe where the check has no timeout
	kickGapShare     = 5                      // kicked checks of one endpoint are a fifth of an interval apart
	intervalMin      = 10 * time.Millisecond  // shorter ones are taken as this
	shortageBackoff  = time.Second            // wait after a check that failed by a shortage of our own
	jitterShare      = 0.1                    // an interval is up to this much shorter or longer
)

// Item is one endpoint to look at.
type Item struct {
	ID       uint64                // tells items apart; not reused for another endpoint
	Dial     netip.AddrPort        // where to connect
	Target   netip.AddrPort        // the endpoint's own address where Dial is its sidecar; zero: none
	Host     string                // for the Host field; empty: the address
	Check    discovery.ActiveCheck // neither Path nor TCP: none
	Cross    bool                  // stands in another datacenter: CrossDatacenterTime scales the timeout
	ProbeDue int64                 // when a plain connect is wanted, by the runner's clock; 0: none. Each value is probed once.
}

func (i *Item) checks() bool { return i.Check.Path != "" || i.Check.TCP }

// Source knows what is to be looked at.
type Source interface {
	// CheckItems gives the items and their generation; nil items when generation is current.
	CheckItems(generation uint64) (items []Item, now uint64)
}

// Sink is told what was met, by one goroutine.
type Sink interface {
	OnCheck(id uint64, r health.Result)
	OnProbe(id uint64, connected bool)
}

// job is what a worker does.
type job uint8

const (
	jobCheck job = iota
	jobProbe
)

// outcome is what a worker met. ok is false when that says nothing of the endpoint: shutdown, or a shortage of our own.
type outcome struct {
	result health.Result // a probe is Good when it connected
	ok     bool
	cause  error // for the log
}

// doer does one check or probe. It must return soon after ctx ends.
type doer func(ctx context.Context, item Item, j job) outcome

// Runner looks at the items of its source.
type Runner struct {
	src       Source
	sink      Sink
	clock     func() int64
	budget    int
	stretched func(factor float64)
	log       *slog.Logger
	do        doer
	rng       *rand.Rand // the scheduler's alone

	kicks chan uint64
	wake  chan struct{}
}

// New makes a runner. clock is monotonic, in nanoseconds. stretched, where not nil, is told the factor by which intervals are stretched to
// keep the budget of perSecondMax starts, whenever it changes; 1 is none.
func New(src Source, sink Sink, clock func() int64, perSecondMax int, stretched func(factor float64), log *slog.Logger) *Runner {
	if perSecondMax <= 0 {
		perSecondMax = PerSecondDefault
	}
	perSecondMax = min(perSecondMax, PerSecondMax)
	if stretched == nil {
		stretched = func(float64) {}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Runner{
		src: src, sink: sink, clock: clock, budget: perSecondMax, stretched: stretched, log: log,
		do:    dial,
		rng:   rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		kicks: make(chan uint64, KicksMax), wake: make(chan struct{}, 1),
	}
}

// Kick asks for a check of the item at once, because a live connection to it failed. It never blocks.
func (r *Runner) Kick(id uint64) {
	select {
	case r.kicks <- id:
	default:
	}
}

// Wake makes the runner ask its source at once. It never blocks.
func (r *Runner) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
