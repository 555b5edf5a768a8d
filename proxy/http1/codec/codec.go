// Package codec reads and writes the heads and chunked bodies of HTTP/1.0 and HTTP/1.1 (RFC 9110, RFC 9112).
//
// Its job: finding the end of a head, parsing it strictly, framing beyond doubt (RFC 9112 6.3), leaving out what is hop-by-hop, and
// rewriting a chunked body as it passes. What is ambiguous is refused, not repaired: of two readers of one message both must see the
// same end.
// Not its job: reading from or writing to a connection, the order of an exchange (proxy/http1), what a status or field asks the proxy to
// do, how a refusal is answered.
// It is pure, starts no goroutine and allocates nothing once the slice of fields and the scratch of trailers have grown to what a
// connection needs. Limits: Limits for a head, OptionsMax for Connection, ChunkDigitsMax, ChunkExtensionsMax and TrailerMax for a chunked
// body.
package codec

// Limits bounds one head.
type Limits struct {
	HeadMax   int // bytes of the whole head; 0: HeadDefaultMax
	FieldsMax int // field lines; 0: FieldsDefaultMax
}

// What bounds a head where Limits say nothing.
const (
	HeadDefaultMax   = 64 << 10 // bytes
	FieldsDefaultMax = 256
)

// OptionsMax bounds the options of the Connection fields of one head: each may have to be compared with every field.
const OptionsMax = 64

// emptyLinesMax bounds the empty lines that are skipped before a request line.
const emptyLinesMax = 4

func (l Limits) headMax() int {
	if l.HeadMax <= 0 {
		return HeadDefaultMax
	}
	return l.HeadMax
}

func (l Limits) fieldsMax() int {
	if l.FieldsMax <= 0 {
		return FieldsDefaultMax
	}
	return l.FieldsMax
}

// Framing is how the end of a body is found (RFC 9112 6.3).
type Framing uint8

// The framings. A Content-Length of 0 is NoBody; the field is passed on nevertheless.
const (
	NoBody Framing = iota
	Length
	Chunked
	UntilClose // answers only
)

// Method is a request method; Other is every method without a constant here, passed on by its spelling.
type Method uint8

// The methods that the proxy tells apart.
const (
	Other Method = iota
	GET
	HEAD
	POST
	PUT
	DELETE
	OPTIONS
	TRACE
	CONNECT
	PATCH
)

// Idempotent tells whether a request may be sent again although it may have been taken (RFC 9110 9.2.2).
func (m Method) Idempotent() bool {
	switch m {
	case GET, HEAD, PUT, DELETE, OPTIONS, TRACE:
		return true
	}
	return false
}

// method finds the constant of a method; methods are case-sensitive (RFC 9110 9.1).
func method(b []byte) Method {
	switch string(b) {
	case "GET":
		return GET
	case "HEAD":
		return HEAD
	case "POST":
		return POST
	case "PUT":
		return PUT
	case "DELETE":
		return DELETE
	case "OPTIONS":
		return OPTIONS
	case "TRACE":
		return TRACE
	case "CONNECT":
		return CONNECT
	case "PATCH":
		return PATCH
	}
	return Other
}

// Form is the form of a request target (RFC 9112 3.2).
type Form uint8

// The forms.
const (
	Origin Form = iota
	Absolute
	Asterisk
	Authority
)

// Kind says what is wrong with a message.
type Kind uint8

// The kinds.
const (
	Malformed   Kind = iota
	TooLarge         // over a limit
	Unsupported      // well formed, and not served: a version, a transfer coding, a scheme
)

// Error is why a message was refused. The values are made once: refusing allocates nothing.
type Error struct {
	Kind Kind
	What string // the rule that was broken, a phrase such as "white space before the colon"
}

// Error implements error.
func (e *Error) Error() string { return e.What }

func malformed(what string) *Error   { return &Error{Malformed, what} }
func tooLarge(what string) *Error    { return &Error{TooLarge, what} }
func unsupported(what string) *Error { return &Error{Unsupported, what} }

// Faults of any head.
var (
	errBareLF      = malformed("a line ends without CR")
	errBareCR      = malformed("CR without LF")
	errNUL         = malformed("a NUL byte in the head")
	errEmptyLine   = malformed("an empty line where a start line belongs")
	errStartLine   = malformed("malformed start line")
	errVersion     = malformed("malformed HTTP version")
	errVersionNot  = unsupported("an HTTP version other than 1.0 and 1.1")
	errUnfinished  = malformed("the head does not end with an empty line")
	errAfterHead   = malformed("bytes after the end of the head")
	errHeadSize    = tooLarge("the head is too long")
	errFieldsCount = tooLarge("too many fields")
)

// Faults of fields.
var (
	errFold        = malformed("line folding")
	errSpaceColon  = malformed("white space before the colon")
	errNoName      = malformed("a field without a name")
	errName        = malformed("a field name with a character that is not allowed")
	errNoColon     = malformed("a field line without a colon")
	errControl     = malformed("a control character in a field value")
	errOptions     = malformed("too many options in Connection")
	errLengthForm  = malformed("Content-Length is not a number")
	errLengthSize  = malformed("Content-Length is too large")
	errLengthTwice = malformed("Content-Length is given twice and differs")
	errLengthAndTE = malformed("both Transfer-Encoding and Content-Length")
	errTEOld       = malformed("Transfer-Encoding in HTTP/1.0")
	errTETwice     = malformed("Transfer-Encoding is given twice")
	errTEOther     = unsupported("a Transfer-Encoding other than chunked")
)

// Faults of requests and of answers.
var (
	errMethod       = malformed("malformed method")
	errTarget       = malformed("a character in the request target that is not allowed")
	errTargetForm   = malformed("malformed request target")
	errAsterisk     = malformed("the target * with a method other than OPTIONS")
	errConnectForm  = malformed("CONNECT without host and port")
	errConnectBody  = malformed("CONNECT with a body")
	errScheme       = unsupported("a request target with a scheme other than http")
	errHostMissing  = malformed("no Host field")
	errHostTwice    = malformed("more than one Host field")
	errHostForm     = malformed("malformed Host")
	errHostMismatch = malformed("Host differs from the request target")
	errStatus       = malformed("malformed status code")
	errReason       = malformed("a control character in the reason phrase")
)
