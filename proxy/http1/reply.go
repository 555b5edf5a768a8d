package http1

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"spillway/proxy/answer"
	"spillway/proxy/head"
	"spillway/proxy/http1/codec"
	"spillway/proxy/tcp"
)

// idleBy is until when a body may stand still.
func (x *conn) idleBy() time.Time { return time.Now().Add(x.ex.svc.Policy.IdleAfter) }

// refuse answers the request by itself: a line of text, the reason as a field, the same reason in log and metric. unread: the request
// was not understood, so nothing after it can be either.
func (x *conn) refuse(e *answer.Error, unread bool) bool {
	ex := &x.ex
	ex.refusal, ex.status = e, e.Code.Status()
	whole := !unread && ex.whole
	keep := whole && x.req.KeepAlive && e.Code != answer.Draining && x.s.draining() == Serving
	line := e.Error()
	b := make([]byte, 0, 512+len(line))
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(ex.status), 10)
	b = append(append(append(b, ' '), http.StatusText(ex.status)...), "\r\ndate: "...)
	b = time.Now().UTC().AppendFormat(b, http.TimeFormat)
	b = append(append(b, "\r\nx-spillway-reason: "...), e.Code.String()...)
	b = append(b, "\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: "...)
	b = strconv.AppendInt(b, int64(len(line)+1), 10)
	if e.Code.RetryAfter() {
		b = append(b, "\r\nretry-after: 1"...)
	}
	if id, ok := x.requestID(); ok {
		b = append(append(b, "\r\nx-request-id: "...), id...)
	}
	switch {
	case !keep:
		b = append(b, "\r\nconnection: close"...)
	case x.req.Minor == 0:
		b = append(b, "\r\nconnection: keep-alive"...)
	}
	b = append(b, "\r\n\r\n"...)
	if unread || x.req.Method != codec.HEAD {
		b = append(append(b, line...), '\n')
	}
	if x.c.WriteAll(b, x.s.Limits.Idle) != nil {
		keep = false
	}
	x.finish()
	if !keep {
		x.linger()
	}
	return keep
}

// requestID is the id of the request; it stands in the proxy's own answers and in the log.
func (x *conn) requestID() ([]byte, bool) {
	switch {
	case !x.ex.parsed || x.s.IDs == IDsOff:
		return nil, false
	case x.ex.made:
		return x.id[:], true
	}
	return x.req.Get(head.XRequestID)
}

// uuidLen is the length of a UUID as text.
const uuidLen = 36

// identify gives the request an id where it has none: a random UUID (RFC 9562 5.4).
func (x *conn) identify() {
	if x.s.IDs != IDsGenerate {
		return
	}
	if v, _ := x.req.Get(head.XRequestID); len(v) > 0 {
		return
	}
	x.ex.made = true
	hi, lo := x.src.Uint64(), x.src.Uint64()
	hi = hi&^0xf000 | 0x4000 // version 4
	lo = lo&^(3<<62) | 1<<63 // variant of the RFC
	const digits = "0123456789abcdef"
	for i := range x.id {
		switch i {
		case 8, 13, 18, 23:
			x.id[i] = '-'
			if i == 18 {
				hi = lo
			}
			continue
		}
		x.id[i] = digits[hi>>60]
		hi <<= 4
	}
}

// lastStop answers a TRACE or OPTIONS request that must not be sent on (RFC 9110 7.6.2). A TRACE is not echoed: it may hold secrets that
// the asker does not see.
func (x *conn) lastStop() bool {
	ex := &x.ex
	keep := ex.whole && x.req.KeepAlive && x.s.draining() == Serving
	ex.status = http.StatusOK
	if x.req.Method == codec.TRACE {
		ex.status = http.StatusMethodNotAllowed
	}
	b := append(strconv.AppendInt([]byte("HTTP/1.1 "), int64(ex.status), 10), ' ')
	b = append(append(b, http.StatusText(ex.status)...), "\r\nallow: GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH\r\ncontent-length: 0\r\ndate: "...)
	b = time.Now().UTC().AppendFormat(b, http.TimeFormat)
	if !keep {
		b = append(b, "\r\nconnection: close"...)
	}
	if x.c.WriteAll(append(b, "\r\n\r\n"...), x.s.Limits.Idle) != nil {
		keep = false
	}
	x.finish()
	if !keep {
		x.linger()
	}
	return keep
}

// linger ends our side and takes what the client still sends for a moment, so that a reset does not overtake the answer (RFC 9112 9.6).
func (x *conn) linger() {
	x.c.CloseWrite()
	b := x.s.Bufs.GetBig()
	defer x.s.Bufs.Put(b)
	x.c.SetReadDeadline(time.Now().Add(lingerTime))
	for total := 0; total < lingerMax; {
		n, err := x.c.Read(b.B)
		if err != nil {
			return
		}
		total += n
	}
}

// tunnelOn turns the connection into a tunnel after 101: what came behind the heads goes first.
func (x *conn) tunnelOn() {
	ex := &x.ex
	x.join()
	x.waitsAt(nil)
	ex.started, ex.status = true, 101
	o := codec.ResponseOut{Drop: x.answerDrop(), Upgrade: true}
	b := x.resp.Append(make([]byte, 0, 1024), o)
	b = append(b, x.ans.B[x.ar:x.aw]...)
	if x.c.WriteAll(b, x.s.Limits.Idle) == nil {
		ex.bytesIn, ex.bytesOut = x.tunnelled()
	}
	x.endTry(false)
	x.tunnel.Store(nil)
	x.finish()
}

// tunnelled relays until both sides ended, and returns the bytes of the client and of the endpoint.
func (x *conn) tunnelled() (fromClient, fromEndpoint int64) {
	early := bytes.Clone(x.in.B[x.r:x.w])
	c, held, err := x.c.Detach()
	if err != nil {
		return 0, 0
	}
	defer c.Close()
	up, heldUp, err := x.ex.up.Detach()
	if err != nil {
		return 0, 0
	}
	defer up.Close()
	x.tunnel.Store(&tunnel{c, up})
	x.dropAnswer()
	return tcp.Relay(c, up, append(early, held...), heldUp, tcp.Limits{Idle: x.ex.svc.Policy.IdleAfter, HalfClose: x.s.Limits.HalfClose})
}

// finish counts and logs the exchange. The head of the request is still in place.
func (x *conn) finish() {
	ex := &x.ex
	took := time.Since(ex.start)
	var code answer.Code
	if ex.refusal != nil {
		code = ex.refusal.Code
	}
	ep := ex.pick.Endpoint
	if ep != nil {
		ep.Cluster.Metric.Request(ex.status, code, ex.pick.Reason, took.Seconds())
	} else if code != answer.None {
		x.s.Table.Refusal(ex.svc, code)
	}
	if x.s.Log == nil {
		return
	}
	r := &x.record
	*r = logRecord(x, took)
	r.Code = code
	if ex.refusal != nil {
		r.Hint = ex.refusal.Hint
	}
	if ex.svc != nil {
		r.Service = ex.svc.Name
	}
	if ep != nil {
		r.Datacenter, r.Endpoint, r.Tier, r.Reason = ep.Cluster.Datacenter, ep.Address, ex.pick.TierNumber(), ex.pick.Reason.String()
	}
	x.s.Log.Log(r)
}
