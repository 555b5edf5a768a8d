package http1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"spillway/proxy/answer"
	"spillway/proxy/detect"
	"spillway/proxy/head"
	"spillway/proxy/http1/codec"
	"spillway/proxy/sock"
)

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// errEnd means that the connection ended before a request was complete: there is nobody to answer.
var errEnd = &answer.Error{Code: answer.BadRequest, Hint: "the connection ended inside a request head"}

// readHead reads up to the end of a request head and parses it. The head stays where it was read until the exchange ends.
func (x *conn) readHead() *answer.Error {
	x.r += codec.SkipEmptyLines(x.in.B[x.r:x.w])
	scanned := 0
	var by time.Time
	for {
		end, next, cerr := codec.HeadEnd(x.in.B[x.r:x.w], scanned)
		if cerr != nil {
			return x.badHead(cerr)
		}
		if end > x.s.Limits.Head.HeadMax || end == 0 && x.w-x.r >= x.s.Limits.Head.HeadMax {
			return &answer.Error{Code: answer.HeaderTooLarge, Hint: fmt.Sprintf("the head is over %d bytes (limits.head)", x.s.Limits.Head.HeadMax)}
		}
		if end > 0 {
			return x.parseHead(end)
		}
		switch detect.First(x.in.B[x.r:x.w]) {
		case detect.NeedMore, detect.HTTP1:
		default:
			return &answer.Error{Code: answer.BadRequest, Hint: "the first bytes are not an HTTP/1 request"}
		}
		scanned = next
		if by.IsZero() {
			by = time.Now().Add(x.s.Limits.HeadTimeout)
		}
		if err := x.more(by); err != nil {
			if isTimeout(err) {
				return &answer.Error{Code: answer.RequestTimeout, Hint: fmt.Sprintf("the head was not complete after %s (limits.head_timeout)", x.s.Limits.HeadTimeout)}
			}
			return errEnd
		}
		if scanned == 0 && x.r < x.w {
			x.r += codec.SkipEmptyLines(x.in.B[x.r:x.w])
		}
	}
}

// more reads more bytes of a head, making room where there is none.
func (x *conn) more(by time.Time) error {
	if x.w == len(x.in.B) {
		if x.r > 0 {
			x.w = copy(x.in.B, x.in.B[x.r:x.w])
			x.r = 0
		} else {
			grown := make([]byte, 2*len(x.in.B))
			copy(grown, x.in.B[:x.w])
			x.in.B = grown
		}
	}
	for {
		x.readBy = by
		x.c.SetReadDeadline(by)
		n, err := x.c.Read(x.in.B[x.w:])
		x.w += n
		if n > 0 {
			return nil
		}
		if isTimeout(err) && time.Now().Before(by) {
			continue // woken for another reason
		}
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
}

func (x *conn) badHead(e *codec.Error) *answer.Error {
	if e.Kind == codec.TooLarge {
		return &answer.Error{Code: answer.HeaderTooLarge, Hint: e.What + fmt.Sprintf(" (limits.head_fields: %d)", x.s.Limits.Head.FieldsMax)}
	}
	return &answer.Error{Code: answer.BadRequest, Hint: e.What}
}

func (x *conn) parseHead(end int) *answer.Error {
	if cerr := x.req.Parse(x.in.B[x.r:x.r+end], x.s.Limits.Head); cerr != nil {
		return x.badHead(cerr)
	}
	x.r += end
	x.ex.parsed = true
	if x.req.Method == codec.CONNECT {
		return &answer.Error{Code: answer.BadRequest, Hint: "CONNECT is not served"}
	}
	return x.firstBody()
}

// maxForwards reads Max-Forwards of a TRACE or OPTIONS request; it means nothing on others (RFC 9110 7.6.2). -1: none.
func (x *conn) maxForwards() (n int, err *answer.Error) {
	if x.req.Method != codec.TRACE && x.req.Method != codec.OPTIONS {
		return -1, nil
	}
	v, ok := x.req.Get(head.MaxForwards)
	if !ok {
		return -1, nil
	}
	if len(v) == 0 || len(v) > 9 {
		return 0, &answer.Error{Code: answer.BadRequest, Hint: "Max-Forwards is no number"}
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, &answer.Error{Code: answer.BadRequest, Hint: "Max-Forwards is no number"}
		}
		n = n*10 + int(c-'0')
	}
	return n, nil
}

// firstBody takes the part of the request body that came with the head.
func (x *conn) firstBody() *answer.Error {
	ex := &x.ex
	rest := x.in.B[x.r:x.w]
	ex.left, ex.whole = 0, true
	switch x.req.Framing {
	case codec.Length:
		n := int64(len(rest))
		if n > x.req.Length {
			n = x.req.Length
		}
		ex.bodyFrom, ex.bodyTo = x.r, x.r+int(n)
		ex.left = x.req.Length - n
		ex.whole = ex.left == 0
		x.r += int(n)
	case codec.Chunked:
		x.body.Reset(false)
		n, used, done, cerr := x.body.Next(rest)
		if cerr != nil {
			return &answer.Error{Code: answer.BadRequest, Hint: cerr.What}
		}
		ex.bodyFrom, ex.bodyTo = x.r, x.r+n
		ex.whole = done
		x.r += used
	default:
		ex.bodyFrom, ex.bodyTo = x.r, x.r
	}
	ex.bytesIn = int64(ex.bodyTo - ex.bodyFrom)
	return nil
}

// headSlack is the room for what encoding adds to a head and for trailers, in bytes.
const headSlack = 1 << 10

// encode writes the head and what is in hand of the body for the endpoint into out.
func (x *conn) encode() {
	ex := &x.ex
	x.extra = append(x.extra[:0], ex.pick.Endpoint.TargetLine...)
	drop := x.s.Drop
	switch {
	case x.s.Inbound || ex.pick.Endpoint.Self:
		drop |= head.SetOf(head.TraceState)
		x.toApplication()
	case ex.pick.Endpoint.Sidecar:
		x.toSidecar()
	}
	if x.s.peers() && x.peer.Trusted {
		drop |= head.SetOf(head.XForwardedFor)
		x.forwardedFor()
	}
	if ex.made {
		drop |= head.SetOf(head.XRequestID) // an empty one
		x.extra = append(append(append(x.extra, "x-request-id: "...), x.id[:]...), "\r\n"...)
	}
	if ex.forwards >= 0 {
		drop |= head.SetOf(head.MaxForwards)
		x.extra = append(strconv.AppendInt(append(x.extra, "Max-Forwards: "...), int64(ex.forwards), 10), "\r\n"...)
	}
	if len(x.req.Arena)+len(x.extra)+ex.bodyTo-ex.bodyFrom > sock.BufSize-headSlack {
		x.s.Bufs.Put(x.out)
		x.out = x.s.Bufs.GetBig()
	} else if x.out == nil {
		x.out = x.s.Bufs.Get()
	}
	b := x.req.Append(x.out.B[:0], codec.RequestOut{Drop: drop, Extra: x.extra, Upgrade: x.req.Upgrade, Host: ex.pick.Endpoint.Host})
	b = append(b, x.in.B[ex.bodyFrom:ex.bodyTo]...)
	if ex.whole && x.req.Framing == codec.Chunked {
		b = append(b, x.body.Trailer()...)
	}
	ex.encoded = b
}

// forwardedFor adds the peer to the X-Forwarded-For that a trusted peer sent, several fields in one line, in order.
func (x *conn) forwardedFor() {
	b := append(x.extra, "X-Forwarded-For: "...)
	for i := range x.req.Fields {
		if f := &x.req.Fields[i]; f.ID == head.XForwardedFor && !f.Hop {
			b = append(append(b, x.req.Bytes(f.Value)...), ", "...)
		}
	}
	b = x.peer.Remote.Addr().AppendTo(b)
	x.extra = append(b, "\r\n"...)
}

// isCheck tells an active check of another sidecar from a request.
func (x *conn) isCheck() bool {
	ua, ok := x.req.Get(head.UserAgent)
	return ok && bytes.HasPrefix(ua, []byte("spillway-check/"))
}
