package codec

import "spillway/proxy/head"

// Request is the head of a request. Spans are ranges of Arena.
type Request struct {
	head.Head
	Method     Method
	MethodSpan head.Span
	Target     head.Span // the request target as it came
	Form       Form
	Path       head.Span // what is sent on of the target, byte for byte; in absolute form it may lack the path, see Append
	Authority  head.Span // host and port: of the target in absolute and authority form, else the value of Host; empty without one
	Minor      uint8     // 0 or 1, of HTTP/1.x
	Framing    Framing   // NoBody, Length or Chunked
	Length     int64     // bytes of the body, with Length

	KeepAlive             bool // the client expects the connection to go on
	Connection10KeepAlive bool // HTTP/1.0, and it asked for that: it has to be told
	Upgrade               bool // asks for another protocol that may be passed on; h2c never is
	Expect100             bool // waits for 100 before it sends its body
	TETrailers            bool // takes trailers
}

// Parse parses a whole head, from the first byte of the request line to the empty line, which HeadEnd finds. buf becomes the arena and
// r.Fields is used again. After an error only Arena is of use.
func (r *Request) Parse(buf []byte, lim Limits) *Error {
	*r = Request{Head: head.Head{Arena: buf, Fields: r.Fields[:0]}}
	if len(buf) > lim.headMax() {
		return errHeadSize
	}
	pos, err := r.requestLine(buf)
	if err != nil {
		return err
	}
	var f facts
	if err = scan(&r.Head, pos, lim.fieldsMax(), &f); err != nil {
		return err
	}
	if err = f.framed(r.Minor); err != nil {
		return err
	}
	if err = r.destination(&f); err != nil {
		return err
	}
	if err = f.options(&r.Head); err != nil {
		return err
	}
	switch {
	case f.seen.Has(head.TransferEncoding):
		r.Framing = Chunked
	case f.length > 0:
		r.Framing, r.Length = Length, f.length
	}
	if r.Method == CONNECT && r.Framing != NoBody {
		return errConnectBody // RFC 9110 9.3.6: what it would mean is not defined
	}
	r.terms(&f)
	return nil
}

// requestLine parses "METHOD SP target SP HTTP/1.x CRLF" and returns where the first field begins.
func (r *Request) requestLine(buf []byte) (int, *Error) {
	i := 0
	for i < len(buf) && class[buf[i]]&isToken != 0 {
		i++
	}
	switch {
	case i == len(buf):
		return 0, errStartLine
	case i == 0 && buf[0] == '\r':
		return 0, errEmptyLine
	case i == 0 || buf[i] != ' ':
		return 0, errMethod
	}
	r.MethodSpan = span(0, i)
	r.Method = method(buf[:i])
	from := i + 1
	for i = from; i < len(buf) && class[buf[i]]&isTarget != 0; {
		i++
	}
	switch {
	case i == len(buf) || i == from || buf[i] == '\r' || buf[i] == '\n':
		return 0, errStartLine // RFC 9112 3: no HTTP/0.9, no white space but single spaces
	case buf[i] != ' ':
		return 0, errTarget
	}
	r.Target = span(from, i)
	minor, err := version(buf[i+1:])
	if err != nil {
		return 0, err
	}
	r.Minor = minor
	i += 1 + len("HTTP/1.1")
	if i+2 > len(buf) || buf[i] != '\r' || buf[i+1] != '\n' {
		return 0, errVersion
	}
	return i + 2, r.target(buf)
}

// version reads "HTTP/1.1" or "HTTP/1.0" at the front of b.
func version(b []byte) (minor uint8, err *Error) {
	const n = len("HTTP/1.1")
	if len(b) < n || string(b[:5]) != "HTTP/" || class[b[5]]&isDigit == 0 || b[6] != '.' || class[b[7]]&isDigit == 0 {
		return 0, errVersion
	}
	if b[5] != '1' || b[7] > '1' {
		return 0, errVersionNot
	}
	return b[7] - '0', nil
}

// terms takes from the fields what concerns the connection rather than the resource.
func (r *Request) terms(f *facts) {
	r.KeepAlive = !f.close && (r.Minor == 1 || f.keep)
	if r.Minor == 0 {
		r.Connection10KeepAlive = r.KeepAlive
		if f.seen.Has(head.Expect) {
			leaveOut(&r.Head, head.SetOf(head.Expect)) // RFC 9110 10.1.1: it does not know 100
		}
		return // RFC 9110 7.8: no upgrade from 1.0; and no trailers, which need chunks
	}
	if f.raise && f.seen.Has(head.Upgrade) {
		r.Upgrade = mayUpgrade(&r.Head)
	}
	if f.seen.Has(head.TE) {
		r.TETrailers = hasElement(&r.Head, head.TE, "trailers")
	}
	if f.seen.Has(head.Expect) && r.Framing != NoBody {
		r.Expect100 = r.expects()
	}
}

func (r *Request) expects() bool {
	for i := range r.Fields {
		f := &r.Fields[i]
		if f.ID == head.Expect && !f.Hop && head.EqualFold(r.Bytes(f.Value), "100-continue") {
			return true
		}
	}
	return false
}

// mayUpgrade tells whether what Upgrade offers may be passed on. HTTP/2 by upgrade would let requests through that nobody here has
// looked at: one such protocol in the list, and the request is served as HTTP/1.1.
func mayUpgrade(h *head.Head) bool {
	any := false
	for i := range h.Fields {
		if h.Fields[i].ID != head.Upgrade {
			continue
		}
		var elem []byte
		for list := h.Bytes(h.Fields[i].Value); len(list) > 0; {
			if elem, list = element(list); len(elem) == 0 {
				continue
			}
			name := elem
			for j, c := range elem {
				if c == '/' {
					name = elem[:j]
					break
				}
			}
			if len(name) == 0 || !all(name, isToken) || len(name) >= 2 && head.EqualFold(name[:2], "h2") || head.EqualFold(name, "http") {
				return false
			}
			any = true
		}
	}
	return any
}
