// Package answer is the one place that says what a caller is told when the proxy itself answers.
//
// Its job: the closed list of reason codes, their HTTP status and gRPC status, whether the caller's own proxy may send the request
// elsewhere, and the error type that carries a code and its hint line from where it happened to the edge where it is written.
// Not its job: writing the answer (proxy/http1), counting it (telemetry/metric).
// It is pure and starts no goroutine. A hint is at most HintMax bytes.
package answer

// HintMax bounds the hint line of an answer, in bytes.
const HintMax = 512

// Code is why the proxy answered by itself. The zero value means that it did not: the answer is the endpoint's.
type Code uint8

// The closed list of codes; String gives the form that stands in x-spillway-reason, the log and the metric label.
const (
	None Code = iota
	NoRoute
	NoHealthyEndpoint
	NotReady
	Overflow
	Reserve
	Shed
	ConnectFailure
	Reset
	Timeout
	Loop
	HoldTimeout
	StaleEpoch
	Denied
	BadRequest
	PayloadTooLarge
	RequestTimeout
	HeaderTooLarge
	Draining
	CodeCount // number of codes, for tables indexed by Code
)

type row struct {
	name    string
	status  int
	grpc    int
	resend  bool // the caller's proxy may send the request elsewhere
	retryIn bool // carries retry-after
}

var table = [CodeCount]row{
	None:              {"", 0, 0, false, false},
	NoRoute:           {"no_route", 404, 12, false, false},
	NoHealthyEndpoint: {"no_healthy_endpoint", 503, 14, false, false},
	NotReady:          {"not_ready", 503, 14, false, false},
	Overflow:          {"overflow", 503, 8, true, true},
	Reserve:           {"reserve", 503, 8, true, true},
	Shed:              {"shed", 503, 8, false, true},
	ConnectFailure:    {"connect_failure", 503, 14, false, false},
	Reset:             {"reset", 503, 14, false, false},
	Timeout:           {"timeout", 504, 4, false, false},
	Loop:              {"loop", 508, 10, false, false},
	HoldTimeout:       {"hold_timeout", 503, 14, true, true},
	StaleEpoch:        {"stale_epoch", 503, 14, true, true},
	Denied:            {"denied", 403, 7, false, false},
	BadRequest:        {"bad_request", 400, 3, false, false},
	PayloadTooLarge:   {"payload_too_large", 413, 8, false, false},
	RequestTimeout:    {"request_timeout", 408, 4, false, false},
	HeaderTooLarge:    {"header_too_large", 431, 8, false, false},
	Draining:          {"draining", 503, 14, true, false},
}

// String is the code as callers see it; empty for None.
func (c Code) String() string { return table[c].name }

// Status is the HTTP status of the answer.
func (c Code) Status() int { return table[c].status }

// GRPC is the gRPC status of the answer.
func (c Code) GRPC() int { return table[c].grpc }

// MayResend tells whether a proxy that trusts the sender of this code may send the request elsewhere, whatever its method:
// the request has provably not been taken.
func (c Code) MayResend() bool { return table[c].resend }

// RetryAfter tells whether the answer carries retry-after.
func (c Code) RetryAfter() bool { return table[c].retryIn }

// Parse finds the code by its name; None if there is no such code.
func Parse(name []byte) Code {
	for c := None + 1; c < CodeCount; c++ {
		if string(name) == table[c].name {
			return c
		}
	}
	return None
}

// Error is a refusal with its code and one line for the person who reads it.
type Error struct {
	Code Code
	Hint string // one line without line ends; names the limit, its value and the key to change where a limit was hit
}

// Error implements error: "code: hint".
func (e *Error) Error() string { return e.Code.String() + ": " + e.Hint }
