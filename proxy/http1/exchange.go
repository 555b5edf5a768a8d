package http1

import (
	"time"

	"spillway/discovery"
	"spillway/proxy/answer"
	"spillway/proxy/balance"
	"spillway/proxy/hop"
	"spillway/proxy/http1/codec"
	"spillway/proxy/pool"
	"spillway/proxy/retry"
	"spillway/proxy/upstream"
)

// exchange is the state of one request and its tries.
type exchange struct {
	start    time.Time
	now      int64         // the table's clock at start, in nanoseconds
	wait     time.Duration // for the head of the answer, over all tries
	deadline time.Time
	svc      *upstream.Service
	chain    hop.Chain // where the request comes from; aliases its head

	bodyFrom, bodyTo int   // first part of the body in conn.in, framed as it is sent
	left             int64 // bytes of a body of known length that did not come with the head
	whole            bool  // the body is complete in hand
	bytesIn          int64
	bytesOut         int64
	encoded          []byte // head and first body for the endpoint at hand

	pick     upstream.Pick
	up       *pool.Conn
	mustDial bool
	held     bool              // a request of the cluster's bulkhead is held, and the endpoint's load counted
	retrying *upstream.Cluster // a retry of its bulkhead is held
	tried    [upstream.TriedMax]*balance.Load
	ntried   int
	attempts int // tries that may have been taken
	resends  int
	sent     time.Time
	headIn   time.Duration // from the first byte sent to the head of the answer

	forwards int  // Max-Forwards to send on; -1: the field is not ours to change
	parsed   bool // the head was understood
	started  bool // bytes of a final answer went to the client
	status   int
	made     bool          // conn.id holds the id that this request was given
	refusal  *answer.Error // what the proxy itself answered
}

// exchange serves one request. It returns whether the client connection serves another one.
func (x *conn) exchange() bool {
	x.ex = exchange{start: time.Now(), now: x.s.Table.Now()}
	if err := x.readHead(); err != nil {
		if err == errEnd {
			return false
		}
		x.req.Minor = 1
		x.refuse(err, true)
		return false
	}
	x.identify()
	forwards, err := x.maxForwards()
	if err == nil && forwards == 0 {
		return x.lastStop()
	}
	x.ex.forwards = forwards - 1
	if err != nil {
		return x.refuse(err, false)
	}
	if err := x.guard(); err != nil {
		return x.refuse(err, false)
	}
	svc, err := x.s.Router.Route(&x.req, &x.peer)
	if err == ErrClose {
		return false
	}
	if err == nil {
		err = x.admit()
	}
	keep := false
	if err != nil {
		keep = x.refuse(err, false)
	} else {
		x.ex.svc = svc
		keep = x.serve()
		if x.s.Max != nil {
			x.s.Max.Release()
		}
	}
	return keep
}

// admit refuses what a draining or full inbound side does not take.
func (x *conn) admit() *answer.Error {
	phase := x.s.draining()
	if x.s.peers() && (phase == Closing || phase == Announcing && x.isCheck()) {
		return &answer.Error{Code: answer.Draining, Hint: "this proxy is shutting down"}
	}
	if x.s.Max != nil && !x.s.Max.TryAcquire() {
		return &answer.Error{Code: answer.Overflow, Hint: limitHint("inbound", x.s.Max.Held(), x.s.Max.Max(), "requests", "inbound.concurrency_max")}
	}
	return nil
}

// serve makes tries until one is answered or nothing may be tried any more, and relays the answer.
func (x *conn) serve() bool {
	ex := &x.ex
	policy := ex.svc.Policy
	ex.wait = policy.Timeout
	if ex.wait <= 0 {
		ex.wait = noTimeout
	}
	ex.deadline = ex.start.Add(ex.wait)
	ex.svc.Requested(ex.now)
	home := x.s.Gateway || !x.s.Inbound && x.s.Guard.HomeOnly(&ex.chain, ex.svc.Name)
	ex.pick = ex.svc.Choose(ex.now, &x.src, home)
	if ex.pick.Endpoint == nil {
		switch {
		case x.s.Gateway:
			return x.refuse(ex.svc.NobodyBehind(ex.pick.Choice), false)
		case home:
			return x.refuse(ex.svc.NobodyAtHome(ex.pick.Choice, x.s.Guard.Limit), false)
		default:
			return x.refuse(ex.svc.NobodyServes(ex.pick.Choice), false)
		}
	}
	for {
		f := x.try()
		if f.kind == gone {
			x.endTry(false)
			x.finish()
			return false
		}
		if f.kind != none {
			if x.again(&f) {
				continue
			}
			if f.refusal != nil {
				x.endTry(false)
				return x.refuse(f.refusal, false)
			}
		}
		if x.resp.Status == 101 {
			x.tunnelOn()
			return false
		}
		return x.relay()
	}
}

// noTimeout stands for a policy without a timeout.
const noTimeout = 365 * 24 * time.Hour

// try makes one try: admit, connect, send, and wait for the head of the answer.
func (x *conn) try() failure {
	ex := &x.ex
	ep := ex.pick.Endpoint
	if ex.ntried < len(ex.tried) {
		ex.tried[ex.ntried] = &ep.Load
		ex.ntried++
	}
	if !ep.Cluster.Limits.Requests.TryAcquire() {
		return x.overflow(&ep.Cluster.Limits.Requests, "requests")
	}
	ex.held = true
	ep.Load.Begin()
	if f := x.connect(ep); f.kind != none {
		return f
	}
	x.encode()
	ex.sent = time.Now()
	if f := x.send(); f.kind != none {
		return f
	}
	ex.attempts++
	x.waitsAt(ex.up)
	f := x.awaitHead()
	if f.kind == none {
		f = x.judge()
	}
	x.observe(&f)
	return f
}

// connect takes a kept connection that is still good, or dials.
func (x *conn) connect(ep *upstream.Endpoint) failure {
	ex := &x.ex
	if !ex.mustDial {
		if ex.up = ep.Queue.Idle(x.s.Table.Now()); ex.up != nil {
			return failure{}
		}
	}
	if x.waiter == nil {
		x.waiter = pool.NewWaiter()
	}
	up, err := ep.Queue.Fresh(x.waiter, ep.ConnectMax, ex.deadline, ex.mustDial)
	if err != nil {
		return x.connectFailed(ep, err)
	}
	ep.Connected(x.s.Table.Now())
	ex.up = up
	return failure{}
}

// endTry gives back what one try holds. good: the connection may be used again.
func (x *conn) endTry(good bool) {
	ex := &x.ex
	x.join()
	if ex.up != nil {
		x.waitsAt(nil)
		if good {
			ex.up.Keep(x.s.Table.Now(), keptFor(x.resp.KeepAliveTimeout))
		} else {
			ex.up.Discard()
		}
		ex.up = nil
	}
	if ex.held {
		ex.held = false
		ex.pick.Endpoint.Load.End()
		ex.pick.Endpoint.Cluster.Limits.Requests.Release()
	}
	if ex.retrying != nil {
		ex.retrying.Limits.Retries.Release()
		ex.retrying = nil
	}
}

// again decides whether and where the request is tried once more, and moves there.
func (x *conn) again(f *failure) bool {
	ex := &x.ex
	if f.kind == full || ex.started {
		return false
	}
	p := &ex.svc.Policy.Retry
	replayable := x.replayable()
	verdict := retry.Decide(*p, retry.Try{Kind: f.retry, Idempotent: x.req.Method.Idempotent(), Replayable: replayable,
		Resends: ex.resends, Attempts: ex.attempts, Left: time.Until(ex.deadline)})
	if verdict == retry.Stop {
		return false
	}
	now := x.s.Table.Now()
	next := x.nextPick(now, f, verdict == retry.Resend)
	if next.Endpoint == nil {
		return false
	}
	if verdict == retry.Retry {
		if !next.Endpoint.Cluster.Limits.Retries.TryAcquire() {
			return false
		}
		if !ex.svc.TakeRetry(now) {
			next.Endpoint.Cluster.Limits.Retries.Release()
			return false
		}
	}
	x.endTry(false)
	x.dropAnswer()
	if verdict == retry.Retry {
		ex.retrying = next.Endpoint.Cluster
		next.Endpoint.Cluster.Metric.Retry()
		time.Sleep(min(retry.Pause(x.src.Float64()), max(0, time.Until(ex.deadline))))
		// What happened meanwhile may have taken the chosen endpoint out.
		if later := x.nextPick(x.s.Table.Now(), f, false); later.Endpoint != nil && later.Endpoint.Cluster == next.Endpoint.Cluster {
			next = later
		}
	} else {
		ex.resends++
		next.Endpoint.Cluster.Metric.Resend()
	}
	ex.pick, ex.mustDial = next, true
	return true
}

// nextPick chooses for the next try. Where there is no other endpoint, a connection that failed because it was kept too long, and an
// answer that tells of a passing fault, get the same endpoint again on a new connection.
func (x *conn) nextPick(now int64, f *failure, resend bool) upstream.Pick {
	ex := &x.ex
	cross := ex.svc.Policy.Retry.CrossTier
	leave := cross == discovery.CrossAlways || cross == discovery.CrossResend && resend
	next := ex.svc.Another(now, &x.src, ex.pick, ex.tried[:ex.ntried], leave)
	if next.Endpoint != nil {
		return next
	}
	stale := ex.up != nil && ex.up.Reused && (f.retry == retry.ClosedBeforeWrite || f.retry == retry.ResetBeforeResponse)
	if stale || f.retry == retry.GatewayError {
		return ex.pick
	}
	return next
}

// replayable tells whether the request can be sent again from what is in hand: nothing of the body was taken beyond the first read.
func (x *conn) replayable() bool {
	x.join()
	return x.help.taken == 0
}

// sentAll tells whether the endpoint has been sent the whole request.
func (x *conn) sentAll() bool {
	if x.help.pumping {
		return x.help.sentAll.Load()
	}
	return x.ex.whole
}

// inHand tells whether the whole answer has been read, and nothing but it.
func (x *conn) inHand() bool {
	if x.help.uploading() {
		return false
	}
	switch x.resp.Framing {
	case codec.NoBody:
		return x.ar == x.aw
	case codec.Length:
		return int64(x.aw-x.ar) == x.resp.Length
	}
	return false
}

// keepMargin is how much earlier than an endpoint says we stop using a connection: its close may be on the way.
const keepMargin = 200 * time.Millisecond

// keptFor is how long a connection may be idle, in nanoseconds, by the endpoint's Keep-Alive: timeout=N in seconds; 0: it said nothing.
func keptFor(seconds int) int64 {
	if seconds <= 0 {
		return 0
	}
	return int64(time.Duration(seconds)*time.Second - keepMargin)
}

// relay passes the answer on and ends the exchange.
func (x *conn) relay() bool {
	keep := x.req.KeepAlive && x.s.draining() == Serving
	if x.help.running && !x.sentAll() && (x.resp.Status >= 300 || !x.resp.KeepAlive) {
		keep = false // the endpoint will not take the rest of the body; neither do we
	}
	if x.inHand() {
		// The endpoint is done: its connection and its place in the bulkhead need not wait for a slow client.
		x.join()
		x.endTry(x.resp.KeepAlive && x.sentAll())
	}
	end := x.passAnswer(&keep)
	x.join()
	sentAll := x.sentAll()
	if !sentAll {
		keep = false
	}
	x.endTry(end == bodyWhole && x.resp.KeepAlive && sentAll && x.ar == x.aw && x.resp.Framing != codec.UntilClose)
	x.finish()
	switch end {
	case bodyBroken:
		x.c.Reset()
		return false
	case clientGone:
		return false
	}
	if !sentAll {
		x.linger()
	}
	return keep
}
