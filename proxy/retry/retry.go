// Package retry decides what may be tried again.
//
// Its job: whether a failed try may be followed by another one (a re-send: the endpoint has provably taken nothing; a retry: it may have),
// and the budget that bounds retries by the number of requests.
// Not its job: choosing where the next try goes, keeping bodies, times of a try.
// It is pure and starts no goroutine; `now` is nanoseconds of one monotonic clock. A Budget has a fixed size.
package retry

import (
	"time"

	"spillway/discovery"
)

// Kind is how a try ended.
type Kind uint8

// The first four prove that the endpoint has taken nothing; with the others it may have.
const (
	Refused             Kind = iota // the dial was refused
	DialTimeout                     // the dial got no answer
	ClosedBeforeWrite               // the connection was seen closed before the first byte was written
	SidecarRefusal                  // reserve, overflow or draining of a trusted sidecar
	ResetBeforeResponse             // reset or end before any byte of an answer
	Silence                         // no byte of an answer in the time of the try
	GatewayError                    // 502, 503 or 504 from the endpoint
)

// Untaken tells whether the endpoint has provably taken nothing of the request.
func (k Kind) Untaken() bool { return k <= SidecarRefusal }

// Try is what is known of a try that failed.
type Try struct {
	Kind          Kind
	Idempotent    bool          // by its method, or by Idempotency-Key where the policy says so
	Replayable    bool          // its body is complete in hand or untouched
	Resends       int           // re-sends done so far; 0 for the first try
	Attempts      int           // tries so far that may have been taken, this one included where it may have been
	Left          time.Duration // of the request's time
	CrossTierNext bool          // the next try would leave the tier of this one
}

// Verdict is what may follow.
type Verdict uint8

// The verdicts. A retry draws from the Budget, a re-send from none.
const (
	Stop Verdict = iota
	Resend
	Retry
)

// String names the verdict.
func (v Verdict) String() string { return [...]string{"stop", "resend", "retry"}[v] }

// The pause before a retry. What reset one connection often resets its neighbours in the next moment: a datacenter that is being killed
// would take both tries of a request.
const (
	PauseMin = 10 * time.Millisecond
	PauseMax = 25 * time.Millisecond
)

// Pause is how long to wait before a retry, for u in [0, 1). A re-send needs none.
func Pause(u float64) time.Duration { return PauseMin + time.Duration(u*float64(PauseMax-PauseMin)) }

// Decide tells what may follow the try. The caller takes Retry from the Budget.
func Decide(p discovery.RetryPolicy, t Try) Verdict {
	if t.Left <= 0 || !t.Replayable {
		return Stop
	}
	if t.Kind.Untaken() {
		if t.Resends >= p.ResendMax || t.CrossTierNext && p.CrossTier == discovery.CrossNever {
			return Stop
		}
		return Resend
	}
	condition := discovery.OnResetBeforeResponse
	if t.Kind == GatewayError {
		condition = discovery.OnGatewayError
	}
	// RFC 9110 9.2.2: a proxy must not automatically retry non-idempotent requests.
	if !t.Idempotent || p.On&condition == 0 || t.Attempts >= p.Attempts {
		return Stop
	}
	if t.CrossTierNext && p.CrossTier != discovery.CrossAlways {
		return Stop
	}
	return Retry
}
