// Package health decides which endpoints may be asked.
//
// Its job: the state of one endpoint from what requests meet (passive verdicts, refused connections), from checks and from its source;
// and whether a whole tier is down for this proxy.
// Not its job: doing checks (health/check), sharing out requests over tiers (locality), keeping states by address (their owner).
// It is pure: `now` is nanoseconds of one monotonic clock, chance comes from the caller. It starts no goroutine.
// Limits: a state is a fixed size; a probe is due at most ProbeBackoffMax after the one before, an ejection lasts at most the policy's ejection_max.
package health

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"spillway/discovery"
)

// Bounds of this package.
const (
	ProbeBackoffMin = 200 * time.Millisecond // wait before the first probe of an endpoint that refused
	ProbeBackoffMax = 5 * time.Second        // longest wait between two probes, jitter included
	DrainLearntMax  = 60 * time.Second       // how long a draining answer counts that nothing has confirmed since
	probeStepsMax   = 5                      // doublings after which the wait grows no more: ProbeBackoffMin<<5 is over the maximum
)

// Result is what one check met.
type Result uint8

// The results of a check.
const (
	Good     Result = iota // a 2xx answer, or a connection where only that is asked for
	Bad                    // any other answer, or a connection that broke
	Timeout                // nothing in time
	Refused                // the connection was refused
	Draining               // the endpoint's sidecar says that it is shutting down
)

// String names the result for logs.
func (r Result) String() string {
	switch r {
	case Good:
		return "good"
	case Bad:
		return "bad"
	case Timeout:
		return "timeout"
	case Refused:
		return "refused"
	case Draining:
		return "draining"
	}
	return "unknown"
}

// Config is the part of a policy that judges an endpoint.
type Config struct {
	Passive         discovery.PassiveHealth
	Active          discovery.ActiveCheck // neither Path nor TCP: no check
	CrossDatacenter bool                  // the endpoint stands in another datacenter than this proxy
}

// Checks tells whether a check is configured.
func (c Config) Checks() bool { return c.Active.Path != "" || c.Active.TCP }

// unhealthyAfter is the number of bad checks in a row that take an endpoint out, at least 1, scaled (rounding up) for other datacenters.
func (c Config) unhealthyAfter() int {
	n := c.Active.UnhealthyAfter
	if scale := c.Active.CrossDatacenterTime; c.CrossDatacenter && scale > 1 {
		scaled := int(float64(n) * scale)
		if float64(scaled) < float64(n)*scale {
			scaled++
		}
		n = scaled
	}
	return max(n, 1)
}

// verdict is what checks say of an endpoint.
type verdict uint8

const (
	checkOff     verdict = iota // none configured
	checkPending                // none was good yet, and too few were bad to take the endpoint out
	checkGood
	checkBad
)

// Marks let the healthy path do with one atomic load. They are set and cleared under State.mu.
const (
	markBlocked uint32 = 1 << iota // Usable may be false: look closer
	markSuccess                    // a success changes something
)

// State is the health of one endpoint. The zero value is usable and has no check.
//
// Its methods are safe for concurrent use. While nothing is wrong, Usable and OnSuccess cost one atomic load. The count of
// ejected endpoints that OnFailure gets is the caller's: calls for one tier must not overlap, or max_ejected_percent can be passed.
type State struct {
	marks atomic.Uint32

	mu       sync.Mutex
	check    verdict
	streak   int   // checks in a row that speak against check: bad ones while pending or good, good ones while bad
	draining bool  // said by the source
	drained  int64 // until when a draining answer counts; 0: none

	failures    int   // failures in a row, 0 <= failures <= consecutive_failures
	lastFailure int64 // of the last of them

	ejected    int64 // until when; 0: not ejected
	ejectedMin int64 // a good check may end the ejection from then on
	ejections  int   // ejections in a row: the factor of the next one's length is one more
	well       bool  // a success came since the last failure and the last ejection; only kept while ejections > 0
	wellSince  int64

	refused  bool
	probes   int // doublings of the wait before a probe, 0..probeStepsMax
	probeDue int64
}

// Usable tells whether new requests may go there: not draining, not ejected, not refused, and its check good, absent or not yet run.
func (s *State) Usable(now int64) bool {
	if s.marks.Load()&markBlocked == 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usable(now)
}

// Checked tells whether a check has been good, or none is configured. Usable endpoints that are not checked rank behind those that are.
func (s *State) Checked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checked()
}

// Ejected tells whether a verdict from answers keeps the endpoint out; the number of these in a tier is what OnFailure is given.
func (s *State) Ejected(now int64) bool {
	if s.marks.Load()&markBlocked == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return now < s.ejected
}

// SetCheck tells whether a check is configured. What an earlier check said is forgotten when it is no longer, and a new one starts
// as not yet run. It reports whether Checked changed or a failed check was forgotten.
func (s *State) SetCheck(on bool) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on == (s.check != checkOff) {
		return false
	}
	checked, failed := s.checked(), s.check == checkBad
	s.check, s.streak = checkOff, 0
	if on {
		s.check = checkPending
	}
	s.mark()
	return failed || checked != s.checked()
}

// SetDraining takes what the source says. It reports whether that is new.
func (s *State) SetDraining(draining bool) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining == draining {
		return false
	}
	s.draining = draining
	s.mark()
	return true
}

// OnSuccess takes note of an answer that is no failure.
func (s *State) OnSuccess(now int64) {
	if s.marks.Load()&markSuccess == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	s.failures = 0
	s.thrive(now)
	s.mark()
}

// OnFailure takes note of an answer that is a failure, or of one that never came. ejected and total count the endpoints of the tier:
// those kept out by such verdicts, and all. It reports whether the endpoint was ejected by this call.
// While an ejection lasts, failures that come late or in panic change nothing.
func (s *State) OnFailure(now int64, c Config, rng *rand.Rand, ejected, total int) (changed bool) {
	p := c.Passive
	if p.ConsecutiveFailures <= 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.mark()
	s.expire(now)
	if s.ejected != 0 {
		return false
	}
	s.relax(now, p)
	if s.failures > 0 && now-s.lastFailure > int64(p.Window) {
		s.failures = 0
	}
	s.failures = min(s.failures+1, p.ConsecutiveFailures)
	s.lastFailure = now
	if s.failures < p.ConsecutiveFailures || ejected >= total*p.MaxEjectedPercent/100 {
		return false
	}
	before := s.usable(now)
	s.eject(now, p, rng.Float64())
	return before != s.usable(now)
}

// OnRefused takes note of a dial that was refused or timed out: the endpoint is out at once, and a probe is due.
// It reports whether Usable changed.
func (s *State) OnRefused(now int64, rng *rand.Rand) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.usable(now)
	s.refuse(now, rng.Float64())
	s.mark()
	return before != s.usable(now)
}

// OnConnected takes note of a connect that succeeded: the endpoint refuses no longer. It reports whether Usable changed.
func (s *State) OnConnected(now int64) (changed bool) {
	if s.marks.Load()&markBlocked == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.usable(now)
	s.accept()
	s.mark()
	return before != s.usable(now)
}

// OnCheck takes the result of a check. It reports whether Usable or Checked changed.
func (s *State) OnCheck(now int64, c Config, r Result) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	usable, checked := s.usable(now), s.checked()
	if s.check == checkOff && c.Checks() {
		s.check = checkPending
	}
	s.expire(now)
	switch r {
	case Good:
		s.good(now, c)
	case Bad:
		s.drained = 0
		s.bad(c)
	case Timeout:
		s.bad(c)
	case Refused:
		// A fact, not a verdict: one good check or probe brings the endpoint back, whatever healthy_after says.
		if s.check == checkBad {
			s.streak = 0
		}
		s.refuse(now, spread(now))
	case Draining:
		s.drained = now + int64(DrainLearntMax)
	}
	s.mark()
	return usable != s.usable(now) || checked != s.checked()
}

// Until is the next instant at which Usable changes by time alone; 0: none.
func (s *State) Until(now int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining || s.refused || s.check == checkBad {
		return 0
	}
	if until := max(s.ejected, s.drained); until > now {
		return until
	}
	return 0
}

// ProbeDue is when the endpoint wants a probe connect; 0: no probe wanted.
func (s *State) ProbeDue() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.probeDue
}

// Describe is the state in one or two words, the strongest reason first: draining, refused, check failed, ejected, unchecked, usable.
func (s *State) Describe(now int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining || now < s.drained:
		return "draining"
	case s.refused:
		return "refused"
	case s.check == checkBad:
		return "check failed"
	case now < s.ejected:
		return "ejected"
	case !s.checked():
		return "unchecked"
	}
	return "usable"
}
