package head

// ID is the name of a field that the proxy knows. There are fewer than 64, so that a Set is one word.
type ID uint8

// The known names; Name gives the spelling. SpillwayOther is every x-spillway-* field without an ID of its own.
const (
	Unknown ID = iota
	Connection
	ContentLength
	TransferEncoding
	Host
	KeepAlive
	ProxyConnection
	TE
	Trailer
	Upgrade
	HTTP2Settings
	Expect
	MaxForwards
	XForwardedFor
	XForwardedProto
	XRequestID
	IdempotencyKey
	RetryAfter
	Date
	UserAgent
	SpillwayHop
	SpillwayLoad
	SpillwayTarget
	SpillwayReason
	SpillwayCriticality
	SpillwayOther
	TraceParent
	TraceState
	ProxyAuthenticate
	ProxyAuthorization
	ProxyAuthenticationInfo
	ContentType
	ContentEncoding
	ContentRange
	Authorization
	Cookie
	SetCookie
	Range
	IDCount // number of IDs, for tables indexed by ID
)

var names = [IDCount]string{
	Connection:              "connection",
	ContentLength:           "content-length",
	TransferEncoding:        "transfer-encoding",
	Host:                    "host",
	KeepAlive:               "keep-alive",
	ProxyConnection:         "proxy-connection",
	TE:                      "te",
	Trailer:                 "trailer",
	Upgrade:                 "upgrade",
	HTTP2Settings:           "http2-settings",
	Expect:                  "expect",
	MaxForwards:             "max-forwards",
	XForwardedFor:           "x-forwarded-for",
	XForwardedProto:         "x-forwarded-proto",
	XRequestID:              "x-request-id",
	IdempotencyKey:          "idempotency-key",
	RetryAfter:              "retry-after",
	Date:                    "date",
	UserAgent:               "user-agent",
	SpillwayHop:             "x-spillway-hop",
	SpillwayLoad:            "x-spillway-load",
	SpillwayTarget:          "x-spillway-target",
	SpillwayReason:          "x-spillway-reason",
	SpillwayCriticality:     "x-spillway-criticality",
	TraceParent:             "traceparent",
	TraceState:              "tracestate",
	ProxyAuthenticate:       "proxy-authenticate",
	ProxyAuthorization:      "proxy-authorization",
	ProxyAuthenticationInfo: "proxy-authentication-info",
	ContentType:             "content-type",
	ContentEncoding:         "content-encoding",
	ContentRange:            "content-range",
	Authorization:           "authorization",
	Cookie:                  "cookie",
	SetCookie:               "set-cookie",
	Range:                   "range",
}

// Name is the name in lower case; empty for Unknown and SpillwayOther.
func (id ID) Name() string { return names[id] }

// spillwayPrefix begins the names of the fields that proxies exchange among themselves.
const spillwayPrefix = "x-spillway-"

// slots is a hash table of the known names without collisions; slot gives the place of a name.
var slots = makeSlots()

const slotCount = 128

// slot hashes a name that is not empty by its length, its first and its last byte. The factors were found by trying: they give each
// known name a slot of its own.
func slot(length int, first, last byte) uint8 {
	return (5*uint8(length) + first + 25*last) % slotCount
}

func makeSlots() (t [slotCount]ID) {
	for id, name := range names {
		if name == "" {
			continue
		}
		s := slot(len(name), name[0], name[len(name)-1])
		if t[s] != Unknown {
			panic("head: two known names share a slot: " + name + " and " + names[t[s]])
		}
		t[s] = ID(id)
	}
	return t
}

// Lookup finds the ID of a field name in any case. It takes one look into a table and one comparison, whatever the name.
func Lookup(name []byte) ID {
	if len(name) == 0 {
		return Unknown
	}
	if id := slots[slot(len(name), lower[name[0]], lower[name[len(name)-1]])]; id != Unknown && EqualFold(name, names[id]) {
		return id
	}
	if len(name) > len(spillwayPrefix) && EqualFold(name[:len(spillwayPrefix)], spillwayPrefix) {
		return SpillwayOther
	}
	return Unknown
}

// lower is the lower case of each ASCII letter; other bytes are themselves.
var lower = makeLower()

func makeLower() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
		if 'A' <= i && i <= 'Z' {
			t[i] = byte(i) + 'a' - 'A'
		}
	}
	return t
}

// EqualFold tells whether b is lowered, a text in lower case, when the case of b's ASCII letters is ignored.
func EqualFold(b []byte, lowered string) bool {
	if len(b) != len(lowered) {
		return false
	}
	for i, c := range b {
		if lower[c] != lowered[i] {
			return false
		}
	}
	return true
}

// EqualFoldBytes tells whether a and b are equal when the case of ASCII letters is ignored.
func EqualFoldBytes(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i, c := range a {
		if lower[c] != lower[b[i]] {
			return false
		}
	}
	return true
}

// Set is a set of IDs.
type Set uint64

// The number of IDs must stay under 64: this fails to compile otherwise.
const _ = uint(63 - IDCount)

// Has tells whether id is in the set.
func (s Set) Has(id ID) bool { return s>>(id&63)&1 != 0 }

// With is the set and id.
func (s Set) With(id ID) Set { return s | 1<<(id&63) }

// SetOf is the set of ids.
func SetOf(ids ...ID) Set {
	var s Set
	for _, id := range ids {
		s = s.With(id)
	}
	return s
}

// SpillwaySet is every x-spillway-* field.
const SpillwaySet Set = 1<<SpillwayHop | 1<<SpillwayLoad | 1<<SpillwayTarget | 1<<SpillwayReason | 1<<SpillwayCriticality | 1<<SpillwayOther
