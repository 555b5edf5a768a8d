package codec

import "spillway/proxy/head"

// keepAliveTimeoutMax bounds what a Keep-Alive hint can say, in seconds.
const keepAliveTimeoutMax = 1 << 20

// Response is the head of an answer. Spans are ranges of Arena.
type Response struct {
	head.Head
	Status  int       // 100 to 999
	Reason  head.Span // may be empty
	Minor   uint8     // 0 or 1, of HTTP/1.x
	Framing Framing
	Length  int64 // bytes of the body, with Length

	KeepAlive        bool // the endpoint's connection may be used again after this answer: version, Connection, framing
	KeepAliveTimeout int  // seconds after which the endpoint closes the idle connection, by its own word; 0: it did not say
}

// Parse parses the whole head of an answer to a request of method m, from the status line to the empty line. buf becomes the arena and
// r.Fields is used again. After an error only Arena is of use.
//
// Answers that have no body by their status or method have NoBody whatever their fields say (RFC 9112 6.3); after 101, and after 2xx to
// CONNECT, the connection is a tunnel.
func (r *Response) Parse(buf []byte, lim Limits, m Method) *Error {
	*r = Response{Head: head.Head{Arena: buf, Fields: r.Fields[:0]}}
	if len(buf) > lim.headMax() {
		return errHeadSize
	}
	pos, err := r.statusLine(buf)
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
	if err = f.options(&r.Head); err != nil {
		return err
	}
	r.KeepAlive = !f.close && (r.Minor == 1 || f.keep)
	if f.seen.Has(head.KeepAlive) {
		r.hint()
	}
	r.frame(&f, m)
	return nil
}

// statusLine parses "HTTP/1.x SP 3DIGIT [SP reason] CRLF" and returns where the first field begins. The space is due also before an empty
// reason, yet many servers leave it out, and nothing else can be meant (RFC 9112 4).
func (r *Response) statusLine(buf []byte) (int, *Error) {
	const at = len("HTTP/1.1 ")
	minor, err := version(buf)
	if err != nil {
		return 0, err
	}
	r.Minor = minor
	if len(buf) < at+5 || buf[at-1] != ' ' {
		return 0, errStartLine
	}
	if buf[at] < '1' || buf[at] > '9' || !all(buf[at:at+3], isDigit) {
		return 0, errStatus
	}
	r.Status = int(buf[at]-'0')*100 + int(buf[at+1]-'0')*10 + int(buf[at+2]-'0')
	i := at + 3
	if buf[i] == ' ' {
		i++
	} else if buf[i] != '\r' {
		return 0, errStatus
	}
	end := textEnd(buf, i)
	if end+1 >= len(buf) || buf[end] != '\r' || buf[end+1] != '\n' {
		if e := lineFault(buf, end); e != errControl {
			return 0, e
		}
		return 0, errReason
	}
	r.Reason = span(i, end)
	return end + 2, nil
}

// frame says how the body ends. An answer that has none and claims one all the same leaves doubt about what follows: its connection is
// not used again, and the claim is not passed on where the status forbids it (RFC 9110 8.6, RFC 9112 6.1).
func (r *Response) frame(f *facts, m Method) {
	te := f.seen.Has(head.TransferEncoding)
	switch {
	case r.Status < 200 || r.Status == 204 || m == CONNECT && r.Status < 300:
		leaveOut(&r.Head, head.SetOf(head.ContentLength, head.TransferEncoding))
		if te || f.length > 0 || r.Status == 101 || m == CONNECT {
			r.KeepAlive = false
		}
	case m == HEAD || r.Status == 304:
	case te:
		r.Framing = Chunked
	case f.length > 0:
		r.Framing, r.Length = Length, f.length
	case f.length < 0:
		r.Framing = UntilClose
		r.KeepAlive = false
	}
}

// hint reads "Keep-Alive: timeout=5, max=100" (RFC 2068 19.7.1). timeout=0 and max=0 mean that the endpoint closes.
func (r *Response) hint() {
	value, _ := r.Get(head.KeepAlive)
	var param []byte
	for len(value) > 0 {
		param, value = element(value)
		name, digits := param, param[:0]
		for i, c := range param {
			if c == '=' {
				name = param[:trimmed(param, 0, i)]
				digits = param[skipSpace(param, i+1):]
				break
			}
		}
		n, err := number(digits)
		if err != nil {
			continue
		}
		switch {
		case head.EqualFold(name, "timeout"):
			r.KeepAliveTimeout = int(min(n, keepAliveTimeoutMax))
		case !head.EqualFold(name, "max"):
			continue
		}
		if n == 0 {
			r.KeepAlive = false
		}
	}
}
