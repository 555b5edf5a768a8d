// Package detect tells which protocol a client speaks by the first bytes that it sends.
//
// Its job: a verdict from a prefix, as early as it can be certain.
// Not its job: reading the bytes, how long to wait for more of them, what is done with a protocol; whether the message is well formed.
// It is pure, starts no goroutine and allocates nothing. Limits: it looks at FirstMax bytes and always has a verdict from there on.
package detect

// Protocol is a verdict.
type Protocol uint8

// The verdicts. NeedMore: the bytes so far can still become several of the others.
const (
	NeedMore Protocol = iota
	HTTP1
	HTTP2
	TLS
	ProxyV2
	Unknown
)

// FirstMax is the number of bytes after which there is a verdict, whatever they are.
const FirstMax = 24

const (
	preface   = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" // RFC 9113 3.4
	certain   = len("PRI * HTTP/2.0\r\n")          // of it: no HTTP/1 request begins like that
	signature = "\r\n\r\n\x00\r\nQUIT\n"           // the PROXY protocol, version 2, section 2.2
	scheme    = "http"

	emptyLinesMax = 4 // before a request line (RFC 9112 2.2)
)

// First tells the protocol by the first bytes of a connection. Once it has a verdict, more bytes do not change it.
func First(buf []byte) Protocol {
	p := first(buf[:min(len(buf), FirstMax)])
	if p == NeedMore && len(buf) >= FirstMax {
		return HTTP1 // only a request line can be open for so long
	}
	return p
}

func first(buf []byte) Protocol {
	if len(buf) == 0 {
		return NeedMore
	}
	switch buf[0] {
	case signature[0]:
		return emptyLines(buf)
	case 0x16:
		return tls(buf)
	case preface[0]:
		switch n := common(buf, preface); {
		case n >= certain:
			return HTTP2
		case n == len(buf):
			return NeedMore
		}
	}
	return request(buf)
}

// common is the length of the prefix that b and text share.
func common(b []byte, text string) int {
	n := 0
	for n < len(b) && n < len(text) && b[n] == text[n] {
		n++
	}
	return n
}

// tls looks at a record header: type handshake, then version 3.0 to 3.4 (RFC 8446 5.1).
func tls(buf []byte) Protocol {
	switch {
	case len(buf) > 1 && buf[1] != 3, len(buf) > 2 && buf[2] > 4:
		return Unknown
	case len(buf) < 3:
		return NeedMore
	}
	return TLS
}

// emptyLines looks at what begins with CR: a PROXY header, or a request behind empty lines.
func emptyLines(buf []byte) Protocol {
	n := common(buf, signature)
	switch {
	case n == len(signature):
		return ProxyV2
	case n == len(buf):
		return NeedMore
	}
	skip := 0
	for skip < 2*emptyLinesMax && len(buf) >= skip+2 && buf[skip] == '\r' && buf[skip+1] == '\n' {
		skip += 2
	}
	rest := buf[skip:]
	switch {
	case skip == 0:
		return Unknown
	case len(rest) == 0, skip < 2*emptyLinesMax && len(rest) == 1 && rest[0] == '\r':
		return NeedMore
	}
	return request(rest)
}

// request looks at a request line. A method that HTTP itself has is enough; other words open lines of other protocols too, so that the
// target has to look like one. A word without an end counts as a method: nothing else sends one that long.
func request(buf []byte) Protocol {
	i := 0
	for i < len(buf) && i < FirstMax && tokens[buf[i]] {
		i++
	}
	switch {
	case i == FirstMax:
		return HTTP1
	case i == len(buf):
		return NeedMore
	case i == 0 || buf[i] != ' ':
		return Unknown
	}
	switch string(buf[:i]) {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH":
		return HTTP1
	}
	target := buf[i+1:]
	if len(target) == 0 {
		return NeedMore
	}
	if target[0] == '/' || target[0] == '*' {
		return HTTP1
	}
	for j := range len(scheme) {
		if j == len(target) {
			return NeedMore
		}
		if target[j]|0x20 != scheme[j] {
			return Unknown
		}
	}
	return HTTP1
}

// tokens are the bytes of a method (RFC 9110 5.6.2).
var tokens = makeTokens()

func makeTokens() (t [256]bool) {
	const chars = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for i := range len(chars) {
		t[chars[i]] = true
	}
	return t
}
