package http1

import (
	"errors"
	"fmt"
	"time"

	"spillway/proxy/answer"
	"spillway/proxy/bulkhead"
	"spillway/proxy/head"
	"spillway/proxy/pool"
	"spillway/proxy/retry"
	"spillway/proxy/upstream"
)

type failKind uint8

const (
	none   failKind = iota
	failed          // the try failed; retry says how
	full            // a limit of ours: no other try
	gone            // the client went away
)

// failure is how a try ended. Without a refusal the answer in hand is what the caller gets if nothing is tried again.
type failure struct {
	kind    failKind
	retry   retry.Kind
	silent  bool // the path to the endpoint is dead: its own silence, not its application's
	refusal *answer.Error
}

func (x *conn) overflow(l *bulkhead.Limit, what string) failure {
	c := x.ex.pick.Endpoint.Cluster
	return failure{kind: full, refusal: &answer.Error{Code: answer.Overflow, Hint: bulkhead.Hint(c.Service, c.Datacenter, l, what, c.Cross)}}
}

func limitHint(what string, held, limit int64, unit, key string) string {
	return fmt.Sprintf("%s %d/%d %s (%s)", what, held, limit, unit, key)
}

// connectFailed sorts what a dial met and tells the endpoint's health.
func (x *conn) connectFailed(ep *upstream.Endpoint, err error) failure {
	c := ep.Cluster
	switch {
	case errors.Is(err, pool.ErrPending):
		return x.overflow(&c.Limits.Pending, "pending")
	case errors.Is(err, pool.ErrWait):
		return failure{kind: full, refusal: &answer.Error{Code: answer.Timeout, Hint: bulkhead.Hint(c.Service, c.Datacenter, &c.Limits.Connections, "connections", c.Cross) + ": none became free in time"}}
	case errors.Is(err, pool.ErrLocal):
		return failure{kind: full, refusal: &answer.Error{Code: answer.ConnectFailure, Hint: "this machine could not open a connection: " + oneLine(err)}}
	}
	f := failure{kind: failed, retry: retry.Refused,
		refusal: &answer.Error{Code: answer.ConnectFailure, Hint: fmt.Sprintf("%s at %s: connection refused", c.Service, ep.Text)}}
	if errors.Is(err, pool.ErrTimeout) {
		f.retry = retry.DialTimeout
		f.refusal.Hint = fmt.Sprintf("%s at %s: no connection within %s (policy.connect_timeout)", c.Service, ep.Text, ep.ConnectMax)
		if time.Until(x.ex.deadline) <= 0 {
			f.refusal = &answer.Error{Code: answer.Timeout, Hint: f.refusal.Hint}
		}
	}
	ep.Refused(x.s.Table.Now())
	return f
}

// judge looks at the head of an answer: is it one that says that the request was not taken, or one that may be tried again?
func (x *conn) judge() failure {
	ep := x.ex.pick.Endpoint
	if ep.Sidecar {
		if !x.resp.KeepAlive {
			// A sidecar closes a connection when it leaves: what is idle would be closed under the next request.
			ep.Queue.CloseIdle(false)
		}
		if v, ok := x.resp.Get(head.SpillwayReason); ok {
			code := answer.Parse(v)
			if code == answer.Draining {
				ep.Leaving(x.s.Table.Now())
			}
			if code.MayResend() {
				return failure{kind: failed, retry: retry.SidecarRefusal}
			}
			if code != answer.None {
				return failure{} // the sidecar's own answer: the endpoint has not failed
			}
		}
	}
	switch x.resp.Status {
	case 502, 503, 504:
		return failure{kind: failed, retry: retry.GatewayError}
	}
	return failure{}
}

// observe tells balance and health how the try went.
func (x *conn) observe(f *failure) {
	ep := x.ex.pick.Endpoint
	now := x.s.Table.Now()
	switch {
	case f.kind == gone || f.kind == full:
	case f.kind == failed && f.retry == retry.SidecarRefusal:
	case f.silent:
		ep.Refused(now)
	case f.kind == failed && f.retry == retry.ResetBeforeResponse && x.ex.up.Reused:
		// An endpoint may end a kept connection whenever it likes.
	case f.kind == failed:
		ep.Failed(now)
	default:
		x.ex.headIn = time.Since(x.ex.sent)
		ep.Load.Observe(now, x.ex.headIn)
		_, own := x.resp.Get(head.SpillwayReason)
		if x.resp.Status >= 500 && !(own && ep.Sidecar) {
			ep.Failed(now)
		} else {
			ep.Succeeded(now)
		}
	}
}

func oneLine(err error) string {
	b := []byte(err.Error())
	for i := range b {
		if b[i] < ' ' {
			b[i] = ' '
		}
	}
	return string(b[:min(len(b), answer.HintMax/2)])
}
