package http1

import (
	"errors"
	"io"
	"strconv"

	"spillway/proxy/head"
	"spillway/proxy/http1/codec"
	"spillway/proxy/sock"
)

// fromEndpoint is what an endpoint without a sidecar has no say in; ours is the same set, as proxies keep these fields between them.
var fromEndpoint = head.SetOf(head.SpillwayHop, head.SpillwayLoad, head.SpillwayTarget, head.SpillwayReason, head.SpillwayOther, head.SpillwayCriticality)

// fromSidecar leaves the reason of a sidecar's own answer for the caller to read.
var fromSidecar = head.SetOf(head.SpillwayHop, head.SpillwayLoad, head.SpillwayTarget, head.SpillwayOther, head.SpillwayCriticality)

func (x *conn) answerDrop() head.Set {
	if x.ex.pick.Endpoint.Sidecar {
		return fromSidecar
	}
	return fromEndpoint
}

// passInterim passes a 1xx answer on; HTTP/1.0 clients do not know them (RFC 9110 15.2).
func (x *conn) passInterim() bool {
	if x.req.Minor == 0 {
		return true
	}
	var scratch [1024]byte
	return x.c.WriteAll(x.resp.Append(scratch[:0], codec.ResponseOut{Drop: x.answerDrop()}), x.s.Limits.Idle) == nil
}

type bodyEnd uint8

const (
	bodyWhole  bodyEnd = iota
	bodyBroken         // the endpoint's answer broke off: what came is passed on and must not look whole
	clientGone
)

// passAnswer writes the final head and relays the body as it comes. keep is cleared when the connection cannot be kept after it.
func (x *conn) passAnswer(keep *bool) bodyEnd {
	ex := &x.ex
	ex.started, ex.status = true, x.resp.Status
	o := codec.ResponseOut{Drop: x.answerDrop()}
	old := x.req.Minor == 0
	o.StripFraming = old
	switch x.resp.Framing {
	case codec.UntilClose:
		if old {
			*keep = false
		} else {
			o.Chunked = true
		}
	case codec.Chunked:
		if old {
			*keep = false
		}
		x.abody.Reset(old)
	}
	o.Close = !*keep
	o.KeepAlive = *keep && old
	if x.out == nil {
		x.out = x.s.Bufs.Get()
	}
	b := x.resp.Append(x.out.B[:0], o)
	var end bodyEnd
	switch x.resp.Framing {
	case codec.NoBody:
		end = x.toClient(b)
	case codec.Length:
		end = x.passLength(b)
	case codec.Chunked:
		end = x.passChunks(b)
	default:
		end = x.passUntilClose(b, o.Chunked)
	}
	return end
}

func (x *conn) toClient(b []byte) bodyEnd {
	if len(b) > 0 && x.c.WriteAll(b, x.ex.svc.Policy.IdleAfter) != nil {
		return clientGone
	}
	return bodyWhole
}

// headAnd writes the head and the first piece of the body: in one call where they fit into the buffer.
func (x *conn) headAnd(b, piece []byte) bodyEnd {
	if len(b)+len(piece) <= cap(b) {
		return x.toClient(append(b, piece...))
	}
	if end := x.toClient(b); end != bodyWhole {
		return end
	}
	return x.toClient(piece)
}

// moreBody reads more of the body into an empty ans.
func (x *conn) moreBody() error {
	x.ar, x.aw = 0, 0
	return x.readAnswer(x.idleBy(), 0)
}

// bigAnswer changes to a large buffer for a body that is known to be long or has proved to be.
func (x *conn) bigAnswer() {
	if len(x.ans.B) < sock.BigSize {
		x.s.Bufs.Put(x.ans)
		x.ans = x.s.Bufs.GetBig()
		x.ar, x.aw = 0, 0
	}
}

func (x *conn) passLength(b []byte) bodyEnd {
	left := x.resp.Length
	n := min(int64(x.aw-x.ar), left)
	piece := x.ans.B[x.ar : x.ar+int(n)]
	x.ar += int(n)
	left -= n
	x.ex.bytesOut += n
	if end := x.headAnd(b, piece); end != bodyWhole {
		return end
	}
	if left > sock.BufSize {
		x.bigAnswer()
	}
	for left > 0 {
		if err := x.moreBody(); err != nil {
			return x.bodyError(err)
		}
		n := min(int64(x.aw), left)
		x.ar = int(n)
		left -= n
		x.ex.bytesOut += n
		if end := x.toClient(x.ans.B[:n]); end != bodyWhole {
			return end
		}
	}
	return bodyWhole
}

func (x *conn) bodyError(err error) bodyEnd {
	if err == errGone {
		return clientGone
	}
	return bodyBroken
}

func (x *conn) passChunks(b []byte) bodyEnd {
	for {
		n, used, done, cerr := x.abody.Next(x.ans.B[x.ar:x.aw])
		piece := x.ans.B[x.ar : x.ar+n]
		x.ar += used
		x.ex.bytesOut += int64(n)
		end := x.headAnd(b, piece) // b is the head at first and empty after it
		if end == bodyWhole && done {
			end = x.toClient(x.abody.Trailer())
		}
		switch {
		case end != bodyWhole:
			return end
		case cerr != nil: // what came before the fault went on, without an end
			return bodyBroken
		case done:
			return bodyWhole
		}
		b = b[:0:0]
		if x.aw == len(x.ans.B) {
			x.bigAnswer()
		}
		if err := x.moreBody(); err != nil {
			return x.bodyError(err)
		}
	}
}

// passUntilClose relays a body that ends with the connection. For an HTTP/1.1 client it is framed anew, so that its end can be told
// from a broken one and the connection goes on.
func (x *conn) passUntilClose(b []byte, chunked bool) bodyEnd {
	for first := true; ; first = false {
		piece := x.ans.B[x.ar:x.aw]
		x.ar = x.aw
		x.ex.bytesOut += int64(len(piece))
		if !first {
			b = b[:0]
		}
		if chunked && len(piece) > 0 {
			b = append(strconv.AppendUint(b, uint64(len(piece)), 16), "\r\n"...)
			b = append(append(b, piece...), "\r\n"...)
		} else {
			b = append(b, piece...)
		}
		if end := x.toClient(b); end != bodyWhole {
			return end
		}
		err := x.moreBody()
		if errors.Is(err, io.EOF) {
			if !chunked {
				return bodyWhole
			}
			return x.toClient([]byte("0\r\n\r\n"))
		}
		if err != nil {
			return x.bodyError(err)
		}
	}
}
