package codec

import (
	"math"

	"spillway/proxy/head"
)

// hopByHop are the fields that concern one connection alone (RFC 9110 7.6.1). Transfer-Encoding is one of them, and is handled with the
// framing.
var hopByHop = head.SetOf(head.Connection, head.KeepAlive, head.ProxyConnection, head.TE, head.Upgrade, head.HTTP2Settings)

// never nominated: without them the message would have another end or another destination. Naming them in Connection is ignored.
var unnominated = head.SetOf(head.Host, head.ContentLength, head.TransferEncoding)

// facts is what a pass over the fields found.
type facts struct {
	seen   head.Set
	host   head.Span // the first Host
	hosts  int
	length int64 // -1: no Content-Length
	close  bool  // Connection options
	keep   bool
	raise  bool
	found  *Error // the first fault of a field's meaning: syntax faults of later lines come first
}

// span is buf[from:to] as offset and length.
func span(from, to int) head.Span { return head.Span{Off: uint32(from), Len: uint32(to - from)} }

// field parses the field line at buf[pos:] and returns where the next line begins.
func field(buf []byte, pos int) (f head.Field, next int, err *Error) {
	i := pos
	for i < len(buf) && class[buf[i]]&isToken != 0 {
		i++
	}
	if i == pos || i == len(buf) || buf[i] != ':' {
		return f, 0, nameFault(buf, pos, i)
	}
	from := skipSpace(buf, i+1)
	end := textEnd(buf, from)
	if end+1 >= len(buf) || buf[end] != '\r' || buf[end+1] != '\n' {
		return f, 0, lineFault(buf, end)
	}
	f.Name = span(pos, i)
	f.Value = span(from, trimmed(buf, from, end))
	return f, end + 2, nil
}

// nameFault says what is wrong with the name of a field line whose token ends at i.
func nameFault(buf []byte, pos, i int) *Error {
	switch {
	case i == len(buf):
		return errUnfinished
	case i == pos && (buf[i] == ' ' || buf[i] == '\t'):
		return errFold // RFC 9112 5.2; the same for white space before the first field, 2.2
	case buf[i] == ' ' || buf[i] == '\t':
		return errSpaceColon // RFC 9112 5.1
	case i == pos && buf[i] == ':':
		return errNoName
	case buf[i] == '\r' || buf[i] == '\n':
		return errNoColon
	}
	return errName
}

// lineFault says what is wrong where a text ends, at i, and no CRLF stands.
func lineFault(buf []byte, i int) *Error {
	switch {
	case i == len(buf) || buf[i] == '\r' && i+1 == len(buf):
		return errUnfinished
	case buf[i] == '\n':
		return errBareLF
	case buf[i] == '\r':
		return errBareCR
	case buf[i] == 0:
		return errNUL
	}
	return errControl
}

// scan parses the field lines from pos to the end of the head, which is the end of the arena.
func scan(h *head.Head, pos, fieldsMax int, f *facts) *Error {
	f.length = -1
	buf := h.Arena
	for {
		if pos+2 > len(buf) {
			return errUnfinished
		}
		if buf[pos] == '\r' {
			switch {
			case buf[pos+1] != '\n':
				return errBareCR
			case pos+2 != len(buf):
				return errAfterHead
			}
			return f.found
		}
		if len(h.Fields) >= fieldsMax {
			return errFieldsCount
		}
		line, next, err := field(buf, pos)
		if err != nil {
			return err
		}
		line.ID = head.Lookup(buf[line.Name.Off:line.Name.End()])
		if line.ID != head.Unknown {
			line.Hop = hopByHop.Has(line.ID)
			f.note(h, &line)
		}
		h.Fields = append(h.Fields, line)
		pos = next
	}
}

// note takes down what a known field says. A repeat that says the same is left out (RFC 9112 6.3, number 5).
func (f *facts) note(h *head.Head, line *head.Field) {
	repeat := f.seen.Has(line.ID)
	f.seen = f.seen.With(line.ID)
	var err *Error
	switch line.ID {
	case head.ContentLength:
		err = f.noteLength(h, line, repeat)
	case head.TransferEncoding:
		// One coding, once: what a list or a repeat means differs among readers.
		switch {
		case repeat:
			err = errTETwice
		case !head.EqualFold(h.Bytes(line.Value), "chunked"):
			err = errTEOther
		}
	case head.Host:
		if f.hosts++; !repeat {
			f.host = line.Value
		}
	}
	if f.found == nil {
		f.found = err
	}
}

// noteLength reads a Content-Length. Zeros in front are cut off, so that nobody behind us takes them for an octal number.
func (f *facts) noteLength(h *head.Head, line *head.Field, repeat bool) *Error {
	n, err := number(h.Bytes(line.Value))
	if err != nil {
		return err
	}
	if repeat && n != f.length {
		return errLengthTwice
	}
	f.length, line.Hop = n, repeat
	for line.Value.Len > 1 && h.Arena[line.Value.Off] == '0' {
		line.Value.Off++
		line.Value.Len--
	}
	return nil
}

// number reads 1*19DIGIT up to math.MaxInt64. Signs, spaces and lists are not numbers.
func number(b []byte) (int64, *Error) {
	if len(b) == 0 || !all(b, isDigit) {
		return -1, errLengthForm
	}
	if len(b) > 19 {
		return -1, errLengthSize
	}
	var n uint64
	for _, c := range b {
		n = n*10 + uint64(c-'0')
	}
	if n > math.MaxInt64 {
		return -1, errLengthSize
	}
	return int64(n), nil
}

// framed checks the fields that frame a body against one another (RFC 9112 6.1, 6.2).
func (f *facts) framed(minor uint8) *Error {
	if f.seen.Has(head.TransferEncoding) {
		if f.seen.Has(head.ContentLength) {
			return errLengthAndTE
		}
		if minor == 0 {
			return errTEOld
		}
	}
	return nil
}

// options reads the Connection fields and marks the fields that they nominate.
func (f *facts) options(h *head.Head) *Error {
	if !f.seen.Has(head.Connection) {
		return nil
	}
	left := OptionsMax
	for i := range h.Fields {
		if h.Fields[i].ID != head.Connection {
			continue
		}
		var option []byte
		for list := h.Bytes(h.Fields[i].Value); len(list) > 0; {
			if option, list = element(list); len(option) == 0 {
				continue
			}
			if left--; left < 0 {
				return errOptions
			}
			switch {
			case head.EqualFold(option, "close"):
				f.close = true
			case head.EqualFold(option, "keep-alive"):
				f.keep = true
			case head.EqualFold(option, "upgrade"):
				f.raise = true
			default:
				nominate(h, option)
			}
		}
	}
	return nil
}

// nominate marks the fields with a name as hop-by-hop.
func nominate(h *head.Head, name []byte) {
	if unnominated.Has(head.Lookup(name)) {
		return
	}
	for i := range h.Fields {
		f := &h.Fields[i]
		if int(f.Name.Len) == len(name) && head.EqualFoldBytes(h.Bytes(f.Name), name) {
			f.Hop = true
		}
	}
}

// leaveOut marks the fields of a set as not passed on.
func leaveOut(h *head.Head, set head.Set) {
	for i := range h.Fields {
		if set.Has(h.Fields[i].ID) {
			h.Fields[i].Hop = true
		}
	}
}

// hasElement tells whether a field with the ID has the element in its list, its parameters aside.
func hasElement(h *head.Head, id head.ID, want string) bool {
	for i := range h.Fields {
		if h.Fields[i].ID != id {
			continue
		}
		var elem []byte
		for list := h.Bytes(h.Fields[i].Value); len(list) > 0; {
			elem, list = element(list)
			for j, c := range elem {
				if c == ';' {
					elem = elem[:trimmed(elem, 0, j)]
					break
				}
			}
			if head.EqualFold(elem, want) {
				return true
			}
		}
	}
	return false
}
