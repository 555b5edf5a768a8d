package http1

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"spillway/proxy/answer"
	"spillway/proxy/http1/codec"
	"spillway/proxy/retry"
	"spillway/proxy/sock"
)

// send writes the head and the first part of the body in one call; the helper does what is left.
func (x *conn) send() failure {
	ex := &x.ex
	x.help.reset()
	n, err := ex.up.TryWrite(ex.encoded)
	switch {
	case err == nil:
		ex.encoded = nil
	case errors.Is(err, sock.ErrWouldBlock):
		ex.encoded = ex.encoded[n:]
	case n == 0:
		return failure{kind: failed, retry: retry.ClosedBeforeWrite, refusal: x.resetHint("the connection was closed before the request was sent")}
	default:
		return failure{} // an answer may lie in the receive buffer: awaitHead looks
	}
	if len(ex.encoded) > 0 || !ex.whole {
		x.startHelper(true)
		return failure{}
	}
	// Waiting for the answer needs no buffer but the request's own.
	x.s.Bufs.Put(x.out)
	x.out = nil
	return failure{}
}

func (x *conn) resetHint(what string) *answer.Error {
	ep := x.ex.pick.Endpoint
	return &answer.Error{Code: answer.Reset, Hint: fmt.Sprintf("%s at %s: %s", ep.Cluster.Service, ep.Text, what)}
}

// errGone means that the helper found the client gone or its body broken.
var errGone = errors.New("client gone")

// awaitHead reads to the end of the head of the final answer; interim answers are passed on as they come.
func (x *conn) awaitHead() failure {
	scanned := 0
	for {
		if x.ar < x.aw {
			end, next, cerr := codec.HeadEnd(x.ans.B[x.ar:x.aw], scanned)
			if cerr == nil && end == 0 && x.aw-x.ar > x.s.Limits.Head.HeadMax {
				cerr = &codec.Error{What: fmt.Sprintf("the head is over %d bytes (limits.head)", x.s.Limits.Head.HeadMax)}
			}
			if cerr == nil && end > 0 {
				cerr = x.resp.Parse(x.ans.B[x.ar:x.ar+end], x.s.Limits.Head, x.req.Method)
			}
			if cerr == nil && end > 0 && x.resp.Status == 101 && !x.req.Upgrade {
				cerr = &codec.Error{What: "101 was not asked for"}
			}
			if cerr != nil {
				return failure{kind: failed, retry: retry.GatewayError, refusal: x.resetHint("malformed answer: " + cerr.What)}
			}
			if end > 0 {
				x.ar += end
				scanned = 0
				if x.resp.Status >= 200 || x.resp.Status == 101 {
					return failure{}
				}
				if !x.passInterim() {
					return failure{kind: gone}
				}
				continue
			}
			scanned = next
		}
		if f := x.moreHead(); f.kind != none {
			return f
		}
	}
}

// moreHead reads more of the head, watching the times and the client.
func (x *conn) moreHead() failure {
	ex := &x.ex
	by, try := ex.deadline, false
	if p := ex.svc.Policy.Retry.PerTry; p > 0 && ex.sent.Add(p).Before(by) {
		by, try = ex.sent.Add(p), true
	}
	err := x.readAnswer(by, ex.pick.Endpoint.ConnectMax)
	switch {
	case err == nil:
		return failure{}
	case err == errGone:
		return failure{kind: gone}
	case err == errSilent:
		return failure{kind: failed, retry: retry.Silence, silent: true,
			refusal: x.resetHint(fmt.Sprintf("nothing was acknowledged for %s (policy.connect_timeout)", ex.pick.Endpoint.ConnectMax))}
	case isTimeout(err):
		what, key := ex.svc.Policy.Timeout, "policy.timeout"
		if try {
			what, key = ex.svc.Policy.Retry.PerTry, "policy.retry.per_try_timeout"
		}
		f := failure{kind: failed, retry: retry.Silence, refusal: &answer.Error{Code: answer.Timeout,
			Hint: fmt.Sprintf("%s at %s: no answer within %s (%s)", ex.pick.Endpoint.Cluster.Service, ex.pick.Endpoint.Text, what, key)}}
		return f
	case x.aw > x.ar:
		return failure{kind: failed, retry: retry.GatewayError, refusal: x.resetHint("the answer broke off inside its head")}
	default:
		what := "the connection was reset before an answer"
		if errors.Is(err, io.EOF) {
			what = "the connection ended before an answer"
		}
		return failure{kind: failed, retry: retry.ResetBeforeResponse, refusal: x.resetHint(what)}
	}
}

// errSilent means that the path to the endpoint has been dead for the time a connect may take.
var errSilent = errors.New("path silent")

// readAnswer reads what comes next from the endpoint into ans. It parks until by; the client is watched meanwhile, by the Watcher
// or after watchAfter by the helper, and with silentAfter over 0 an endpoint whose kernel has not acknowledged the request for that long is given up.
func (x *conn) readAnswer(by time.Time, silentAfter time.Duration) error {
	now := time.Now()
	if !x.help.running && !x.watched {
		if soon := now.Add(watchAfter); soon.Before(by) {
			err := x.readOnce(soon)
			if !isTimeout(err) {
				return err
			}
			x.startHelper(false)
		}
	}
	suspect := time.Time{}
	if silentAfter > 0 {
		suspect = x.ex.sent.Add(silentAfter)
	}
	uploading := false
	for {
		// The clock of the answer starts when the request is complete; a body that moves is bounded by its own idle time (pump.go).
		if silentAfter > 0 && x.help.uploading() && !x.req.Expect100 {
			uploading = true
			by = later(by, time.Now().Add(2*x.ex.svc.Policy.IdleAfter))
		} else if uploading {
			uploading = false
			by = time.Now().Add(x.ex.wait)
			suspect = time.Now().Add(silentAfter)
		}
		until := by
		if now = time.Now(); !uploading && suspect.After(now) && suspect.Before(until) {
			until = suspect
		}
		err := x.readOnce(until)
		if !isTimeout(err) {
			return err
		}
		if now = time.Now(); now.Before(until) {
			continue // woken for another reason
		}
		if !uploading && !suspect.IsZero() && !now.Before(suspect) {
			if x.ex.up.Unacknowledged() && x.mayLeaveSilent() {
				return errSilent
			}
			suspect = now.Add(silentAfter)
		}
		if !now.Before(by) {
			return err
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// mayLeaveSilent tells whether a silent path is given up now: a request that may not be sent again waits for the kernel's own verdict,
// others are told of the endpoint's state all the same.
func (x *conn) mayLeaveSilent() bool {
	if x.req.Method.Idempotent() {
		return true
	}
	x.ex.pick.Endpoint.Refused(x.s.Table.Now())
	return false
}

// readOnce parks for bytes from the endpoint until the time given, unless the helper has called the owner off.
func (x *conn) readOnce(until time.Time) error {
	up := x.ex.up
	up.SetReadDeadline(until)
	if x.calledOff() {
		return errGone
	}
	if x.help.woke.Swap(false) {
		return os.ErrDeadlineExceeded // what the helper has to tell came before the deadline was set
	}
	if x.ans == nil {
		b, n, err := up.ReadInto(x.s.Bufs)
		if err != nil {
			x.s.Bufs.Put(b)
			return x.called(err)
		}
		x.ans, x.ar, x.aw = b, 0, n
		return nil
	}
	if x.aw == len(x.ans.B) {
		x.roomForAnswer()
	}
	n, err := up.Read(x.ans.B[x.aw:])
	x.aw += n
	if err != nil {
		return x.called(err)
	}
	return nil
}

func (x *conn) called(err error) error {
	if x.calledOff() {
		return errGone
	}
	return err
}

// roomForAnswer moves what is left to the front or doubles the buffer: a head may be longer than a buffer.
func (x *conn) roomForAnswer() {
	if x.ar > 0 {
		x.aw = copy(x.ans.B, x.ans.B[x.ar:x.aw])
		x.ar = 0
		return
	}
	grown := make([]byte, 2*len(x.ans.B))
	copy(grown, x.ans.B[:x.aw])
	x.ans.B = grown
}
