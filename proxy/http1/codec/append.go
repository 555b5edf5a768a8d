package codec

import (
	"strconv"

	"spillway/proxy/head"
)

// RequestOut says what is changed of a request when it is sent on.
type RequestOut struct {
	Drop    head.Set // fields left out besides those that are hop-by-hop
	Extra   []byte   // complete lines "name: value\r\n" put behind the fields
	Host    []byte   // value of Host for a request that has none (HTTP/1.0); empty is valid (RFC 9110 7.2)
	Upgrade bool     // pass Upgrade on
}

// Append appends the head to send: method, target in the form for an origin, HTTP/1.1; the fields in their order, spelling and bytes,
// without what is hop-by-hop or dropped. Host is the authority of an absolute-form target; it is added where it is missing. The fields
// that frame the body stay where they were.
func (r *Request) Append(dst []byte, o RequestOut) []byte {
	dst = append(dst, r.Bytes(r.MethodSpan)...)
	dst = append(dst, ' ')
	dst = r.appendPath(dst)
	dst = append(dst, " HTTP/1.1\r\n"...)
	p := plan{drop: o.Drop}
	switch {
	case r.Form == Absolute:
		p.rewrite = head.SetOf(head.Host)
		p.host = r.Bytes(r.Authority)
		if r.Count(head.Host) == 0 {
			dst = appendLine(dst, "Host", p.host)
		}
	case r.Minor == 0 && r.Count(head.Host) == 0:
		host := o.Host
		if r.Form == Authority {
			host = r.Bytes(r.Authority)
		}
		dst = appendLine(dst, "Host", host)
	}
	upgrade := o.Upgrade && r.Upgrade
	if upgrade {
		p.raise = head.SetOf(head.Upgrade)
	}
	dst = appendFields(dst, &r.Head, &p)
	switch {
	case r.TETrailers && upgrade:
		dst = append(dst, "TE: trailers\r\nConnection: Upgrade, TE\r\n"...)
	case r.TETrailers:
		dst = append(dst, "TE: trailers\r\nConnection: TE\r\n"...)
	case upgrade:
		dst = append(dst, "Connection: Upgrade\r\n"...)
	}
	dst = append(dst, o.Extra...)
	return append(dst, "\r\n"...)
}

// appendPath appends the target: of an absolute-form one what follows the authority, "/" where the path is empty, and "*" where it was
// the target of OPTIONS and nothing follows (RFC 9112 3.2.1, 3.2.4).
func (r *Request) appendPath(dst []byte) []byte {
	path := r.Bytes(r.Path)
	if r.Form == Absolute {
		switch {
		case len(path) == 0 && r.Method == OPTIONS:
			return append(dst, '*')
		case len(path) == 0 || path[0] == '?':
			dst = append(dst, '/')
		}
	}
	return append(dst, path...)
}

// ResponseOut says what is changed of an answer when it is passed on.
type ResponseOut struct {
	Drop         head.Set // fields left out besides those that are hop-by-hop
	Extra        []byte   // complete lines "name: value\r\n" put behind the fields
	Chunked      bool     // a body that ends with the connection is sent on in chunks
	StripFraming bool     // to an HTTP/1.0 client: without Transfer-Encoding and what announces trailers
	Close        bool     // add Connection: close
	KeepAlive    bool     // to an HTTP/1.0 client that asked: add Connection: keep-alive
	Upgrade      bool     // 101: pass Upgrade on; goes before Close and KeepAlive
}

// Append appends the head to send to the client. The version is always HTTP/1.1 (RFC 9110 6.2), the reason phrase stays.
func (r *Response) Append(dst []byte, o ResponseOut) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendUint(dst, uint64(r.Status), 10)
	dst = append(dst, ' ')
	dst = append(dst, r.Bytes(r.Reason)...)
	dst = append(dst, "\r\n"...)
	p := plan{drop: o.Drop}
	if o.StripFraming {
		p.drop |= head.SetOf(head.TransferEncoding, head.Trailer)
	}
	if o.Upgrade {
		p.raise = head.SetOf(head.Upgrade)
	}
	dst = appendFields(dst, &r.Head, &p)
	if o.Chunked && r.Framing == UntilClose {
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	}
	switch {
	case o.Upgrade:
		dst = append(dst, "Connection: Upgrade\r\n"...)
	case o.Close:
		dst = append(dst, "Connection: close\r\n"...)
	case o.KeepAlive:
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	dst = append(dst, o.Extra...)
	return append(dst, "\r\n"...)
}

// plan says which fields are written and how.
type plan struct {
	drop    head.Set
	raise   head.Set // written although they are hop-by-hop
	rewrite head.Set // Host: with the value host
	host    []byte
}

// appendFields appends the fields that are passed on. Those whose line is "name: value" as it came are taken in runs: most heads are one
// or two runs.
func appendFields(dst []byte, h *head.Head, p *plan) []byte {
	a := h.Arena
	var off, end uint32 // the run
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.Hop && !p.raise.Has(f.ID) || p.drop.Has(f.ID) {
			continue
		}
		if f.ID != head.TransferEncoding && !p.rewrite.Has(f.ID) && plain(a, f) {
			if f.Name.Off != end {
				dst = append(dst, a[off:end]...)
				off = f.Name.Off
			}
			end = f.Value.End() + 2
			continue
		}
		dst = append(dst, a[off:end]...)
		off, end = 0, 0
		value := h.Bytes(f.Value)
		dst = append(dst, h.Bytes(f.Name)...)
		dst = append(dst, ": "...)
		switch {
		case f.ID == head.TransferEncoding:
			dst = append(dst, "chunked"...) // its only value, whatever its case was
		case p.rewrite.Has(f.ID):
			dst = append(dst, p.host...)
		default:
			dst = append(dst, value...)
		}
		dst = append(dst, "\r\n"...)
	}
	return append(dst, a[off:end]...)
}

// plain tells whether the line of a field stands in the arena as it is written.
func plain(a []byte, f *head.Field) bool {
	colon, end := f.Name.End(), f.Value.End()
	return f.Value.Off == colon+2 && int(end)+1 < len(a) && a[colon] == ':' && a[colon+1] == ' ' && a[end] == '\r' && a[end+1] == '\n'
}

func appendLine(dst []byte, name string, value []byte) []byte {
	dst = append(append(dst, name...), ": "...)
	return append(append(dst, value...), "\r\n"...)
}
