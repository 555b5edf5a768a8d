package codec

import "bytes"

// HeadEnd looks for the end of a head, which is an empty line, going on from scanned: 0 at first, then what it gave as next. end > 0:
// the head is buf[:end]. Otherwise more bytes are needed. A bare LF or a NUL is an error at once, so that garbage need not fill the
// buffer, and so is an empty line at the front: SkipEmptyLines goes first, again whenever next is 0.
func HeadEnd(buf []byte, scanned int) (end, next int, err *Error) {
	for i := scanned; ; i++ {
		n := bytes.IndexByte(buf[i:], '\n')
		if n < 0 {
			break
		}
		i += n
		switch {
		case i == 0 || buf[i-1] != '\r':
			return 0, 0, errBareLF
		case i == 1:
			return 0, 0, errEmptyLine
		case buf[i-2] == '\n':
			return i + 1, i + 1, nil
		}
	}
	if bytes.IndexByte(buf[scanned:], 0) >= 0 {
		return 0, 0, errNUL
	}
	if len(buf) == 1 && buf[0] == '\r' {
		return 0, 0, nil // the first half of an empty line perhaps
	}
	return 0, len(buf), nil
}

// SkipEmptyLines is the number of bytes to skip before a request line: CRLFs that a client sent in excess (RFC 9112 2.2), at most 4.
func SkipEmptyLines(buf []byte) int {
	n := 0
	for n < 2*emptyLinesMax && len(buf) >= n+2 && buf[n] == '\r' && buf[n+1] == '\n' {
		n += 2
	}
	return n
}
