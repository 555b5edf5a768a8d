package codec

import (
	"math"

	"spillway/proxy/head"
)

// Bounds of a chunked body.
const (
	ChunkDigitsMax     = 16       // hexadecimal digits of one size
	ChunkExtensionsMax = 4 << 10  // bytes of extensions in one body
	TrailerMax         = 16 << 10 // bytes of the trailer section
	TrailerFieldsMax   = 256      // fields of the trailer section
)

// Faults of chunked bodies.
var (
	errChunkSize     = malformed("malformed chunk size")
	errChunkHuge     = malformed("chunk size too large")
	errChunkEnd      = malformed("chunk data without CRLF behind it")
	errExtension     = malformed("malformed chunk extension")
	errExtensionSize = tooLarge("chunk extensions too long")
	errTrailerSize   = tooLarge("trailer section too long")
	errTrailerCount  = tooLarge("too many trailer fields")
)

// notTrailing are the fields that a trailer section may not carry on: they frame, route or alter the message, or belong to one
// connection (RFC 9110 6.5.1).
var notTrailing = hopByHop | head.SpillwaySet | head.SetOf(head.ContentLength, head.TransferEncoding, head.Host, head.Trailer, head.Expect,
	head.MaxForwards, head.XForwardedFor, head.XForwardedProto, head.IdempotencyKey, head.ProxyAuthenticate, head.ProxyAuthorization,
	head.ProxyAuthenticationInfo, head.ContentType, head.ContentEncoding, head.ContentRange, head.Authorization, head.Cookie,
	head.SetCookie, head.Range)

// chunkState is what the next byte belongs to.
type chunkState uint8

const (
	inSize      chunkState = iota // digits of a size; the zero value is the start of a body
	inSpace                       // white space behind a size, which only an extension may follow (RFC 9112 7.1.1)
	inExtension                   // dropped
	inSizeLF                      // the LF behind a size
	inData
	inDataCR
	inDataLF
	inTrailer // the first byte behind the last chunk
	inEndLF   // the LF of the final CRLF, without trailer fields
	inFields  // a trailer section, kept until it is whole
	inDone
)

// Chunks decodes a chunked body as it passes (RFC 9112 7.1). It works in place: what it leaves is never longer than what it was given, at
// whatever byte the input is split. The zero value is ready to use.
type Chunks struct {
	Strip bool // true: only the data is left, for HTTP/1.0 clients; false: the chunks are left, without extensions

	state      chunkState
	digits     uint8  // of the size being read
	extensions int    // bytes of extensions so far
	left       uint64 // size being read, then bytes of data to come; at most math.MaxInt64
	err        *Error
	scratch    []byte // trailer section as it came, then as it is sent on; kept for the next body
	trailing   int    // bytes of the trailer section so far
	lines      int    // fields of it so far
	lineStart  int    // where the unfinished line of scratch begins
	trailer    []byte // part of scratch
}

// Reset begins a new body.
func (c *Chunks) Reset(strip bool) { *c = Chunks{Strip: strip, scratch: c.scratch[:0]} }

// Trailer is what has to be sent after the rest of the body once Next said done: the trailer fields that are passed on and the final
// CRLF. It is nil where the body came without trailer fields, as its final CRLF has passed then, and with Strip. It is good until Reset.
func (c *Chunks) Trailer() []byte { return c.trailer }

// Next decodes buf and leaves what is to be sent on in buf[:n]. It used the first consumed bytes; what is behind them, after done, belongs
// to the next message. Errors are final; buf[:n] is then what passed before the fault, and no body that ended.
func (c *Chunks) Next(buf []byte) (n, consumed int, done bool, err *Error) {
	i := 0
	for c.err == nil && c.state != inDone && i < len(buf) {
		switch c.state {
		case inData:
			m := len(buf) - i
			if uint64(m) > c.left {
				m = int(c.left)
			}
			if n != i {
				copy(buf[n:], buf[i:i+m])
			}
			n += m
			i += m
			if c.left -= uint64(m); c.left == 0 {
				c.state = inDataCR
			}
		case inFields:
			i += c.fields(buf[i:])
		default:
			if b := buf[i]; c.step(b) {
				buf[n] = b
				n++
			}
			i++
		}
	}
	if c.err != nil {
		return n, i, false, c.err
	}
	return n, i, c.state == inDone, nil
}

// step takes one byte of the framing and tells whether it is passed on.
func (c *Chunks) step(b byte) (pass bool) {
	pass = !c.Strip
	switch c.state {
	case inSize:
		return c.size(b) && pass
	case inSpace, inExtension:
		return c.extension(b) && pass
	case inSizeLF:
		switch {
		case b != '\n':
			return c.fail(errBareCR)
		case c.left == 0:
			c.state = inTrailer
		default:
			c.state = inData
		}
	case inDataCR:
		if b != '\r' {
			return c.fail(errChunkEnd)
		}
		c.state = inDataLF
	case inDataLF:
		if b != '\n' {
			return c.fail(errChunkEnd)
		}
		c.state, c.digits = inSize, 0
	case inTrailer:
		if b == '\r' {
			c.state = inEndLF
			return pass
		}
		c.state, c.trailing = inFields, 1
		c.scratch = append(c.scratch[:0], b)
		return false
	case inEndLF:
		if b != '\n' {
			return c.fail(errBareCR)
		}
		c.state = inDone
	}
	return pass
}

func (c *Chunks) fail(err *Error) (pass bool) {
	c.err = err
	return false
}

// size takes a byte of a chunk size. Digits pass as they come, leading zeros too, so that nothing grows where the input is split.
func (c *Chunks) size(b byte) (pass bool) {
	if class[b]&isHex != 0 {
		switch {
		case c.digits == ChunkDigitsMax || c.left > math.MaxInt64>>4:
			return c.fail(errChunkHuge)
		case b <= '9':
			c.left = c.left<<4 | uint64(b-'0')
		default:
			c.left = c.left<<4 | uint64(b|0x20-'a'+10)
		}
		c.digits++
		return true
	}
	switch {
	case c.digits == 0:
		return c.fail(errChunkSize)
	case b == '\r':
		c.state = inSizeLF
		return true
	case b == ';':
		c.state = inExtension
	case b == ' ' || b == '\t':
		c.state = inSpace
	case b == '\n':
		return c.fail(errBareLF)
	default:
		return c.fail(errChunkSize)
	}
	return c.extended()
}

// extension takes a byte between a chunk size and its CR. Only the CR passes.
func (c *Chunks) extension(b byte) (pass bool) {
	switch {
	case c.state == inExtension && b == '\r':
		c.state = inSizeLF
		return true
	case b == '\n':
		return c.fail(errBareLF) // readers that take it for the end of the line see another body
	case c.state == inExtension && (b == '\t' || b >= 0x20 && b != 0x7f):
	case c.state == inSpace && (b == ' ' || b == '\t'):
	case c.state == inSpace && b == ';':
		c.state = inExtension
	default:
		return c.fail(errExtension)
	}
	return c.extended()
}

// extended counts a byte that is dropped.
func (c *Chunks) extended() (pass bool) {
	if c.extensions++; c.extensions > ChunkExtensionsMax {
		c.err = errExtensionSize
	}
	return false
}

// fields keeps the trailer section up to its empty line and returns how many bytes of b it took. The first byte is in scratch already.
func (c *Chunks) fields(b []byte) int {
	for i, ch := range b {
		if c.trailing == TrailerMax {
			c.err = errTrailerSize
			return i
		}
		c.trailing++
		c.scratch = append(c.scratch, ch)
		if ch != '\n' {
			continue
		}
		line := c.scratch[c.lineStart:]
		if len(line) == 2 && line[0] == '\r' {
			c.state = inDone
			if !c.Strip {
				c.trailer = c.scratch
			}
			return i + 1
		}
		if c.line(line); c.err != nil {
			return i + 1
		}
	}
	return len(b)
}

// line checks a line of the trailer section, which ends the scratch, and takes it out again if it is not passed on.
func (c *Chunks) line(line []byte) {
	f, next, err := field(line, 0)
	switch {
	case err != nil:
		c.err = err
	case next != len(line):
		c.err = errBareCR
	case c.lines == TrailerFieldsMax:
		c.err = errTrailerCount
	default:
		c.lines++
		if notTrailing.Has(head.Lookup(line[:f.Name.Len])) {
			c.scratch = c.scratch[:c.lineStart]
		}
		c.lineStart = len(c.scratch)
	}
}
