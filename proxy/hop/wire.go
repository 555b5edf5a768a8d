package hop

import (
	"bytes"
	"math"
	"strconv"
)

const version = "1"

// known are the keys that may stand in a record once; required are the bits of p and d.
var known = []byte("pdvef")

const required = 1<<0 | 1<<1

// ParseRecord reads the value of x-spillway-hop: "1;p=pay@dc2,ledger@dc1;v=ID,ID;d=3;e=42". p and d are required, f=1 means forced, keys
// that are not known are passed over, so that a later version can add some.
func ParseRecord(b []byte) (Chain, Fault) {
	if len(b) > RecordMax {
		return Chain{}, Oversized
	}
	first, rest, more := cut(b, ';')
	if string(first) != version || !more {
		return Chain{}, Malformed
	}
	var c Chain
	var seen uint
	for more {
		var part []byte
		part, rest, more = cut(rest, ';')
		key, value, ok := cut(part, '=')
		if !ok || !isName(key) || bytes.IndexByte(value, '=') >= 0 {
			return Chain{}, Malformed
		}
		if i := bytes.Index(known, key); i >= 0 && len(key) == 1 {
			if seen>>i&1 != 0 {
				return Chain{}, Malformed
			}
			seen |= 1 << i
		}
		switch string(key) {
		case "p":
			c.Hops, ok = value, isHops(value, ',')
		case "v":
			c.IDs, ok = value, isIDs(value)
		case "d":
			var n uint64
			n, ok = number(value, math.MaxInt32)
			c.Depth = int(n)
		case "e":
			c.Epoch, ok = number(value, math.MaxUint64)
		case "f":
			c.Forced = string(value) == "1"
			ok = c.Forced || string(value) == "0"
		}
		if !ok {
			return Chain{}, Malformed
		}
	}
	if seen&required != required {
		return Chain{}, Malformed
	}
	return c, None
}

// AppendRecord appends the record for the next proxy: the chain with one outbound pass more, through the proxy with the id, and with a hop
// for the service where datacenter is not empty.
func (c *Chain) AppendRecord(dst []byte, id, service, datacenter string) []byte {
	return c.record(dst, id, service, datacenter, min(c.Depth, math.MaxInt32-1)+1)
}

// AppendPassed appends the record for the next proxy by one that only hands the request on, such as a gateway: the chain as it is, and the id.
func (c *Chain) AppendPassed(dst []byte, id string) []byte {
	return c.record(dst, id, "", "", c.Depth)
}

func (c *Chain) record(dst []byte, id, service, datacenter string, depth int) []byte {
	from := len(dst)
	dst = append(dst, version+";p="...)
	hops := len(dst)
	dst = appendList(dst, c.Hops, ',')
	if datacenter != "" {
		if len(c.Hops) > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, service...), '@'), datacenter...)
	}
	ids := len(dst) + len(";v=")
	dst = append(dst, ";v="...)
	if len(c.IDs) > 0 {
		dst = append(append(dst, c.IDs...), ',')
	}
	own := len(dst)
	dst = append(dst, id...)
	dst = strconv.AppendInt(append(dst, ";d="...), int64(depth), 10)
	dst = strconv.AppendUint(append(dst, ";e="...), c.Epoch, 10)
	if c.Forced {
		dst = append(dst, ";f=1"...)
	}
	// The ids stand behind the hops: cut there first, so that their place is still the one noted; of the two, hops give way.
	over := len(dst) - from - RecordMax
	dst = dropOldest(dst, ids, own, over-(ids-len(";v=")-hops))
	return dropOldest(dst, hops, ids-len(";v="), len(dst)-from-RecordMax)
}

// ParseMember reads the value of the member in tracestate: "1:3:pay@dc2;ledger@dc1".
func ParseMember(b []byte) (Chain, Fault) {
	if len(b) > MemberMax {
		return Chain{}, Oversized
	}
	first, rest, ok := cut(b, ':')
	depth, hops, ok2 := cut(rest, ':')
	n, ok3 := number(depth, math.MaxInt32)
	if string(first) != version || !ok || !ok2 || !ok3 || !isHops(hops, ';') {
		return Chain{}, Malformed
	}
	return Chain{Hops: hops, Depth: int(n)}, None
}

// AppendMember appends the member with its key, as it goes to an application: the chain as it is.
func (c *Chain) AppendMember(dst []byte) []byte {
	dst = append(dst, Key...)
	dst = append(dst, '=')
	from := len(dst)
	dst = strconv.AppendInt(append(dst, version+":"...), int64(c.Depth), 10)
	dst = append(dst, ':')
	hops := len(dst)
	dst = appendList(dst, c.Hops, ';')
	return dropOldest(dst, hops, len(dst), len(dst)-from-MemberMax)
}

func appendList(dst, list []byte, separator byte) []byte {
	for _, b := range list {
		if b == ',' || b == ';' {
			b = separator
		}
		dst = append(dst, b)
	}
	return dst
}

// dropOldest takes elements off the front of the list dst[from:to] until at least over bytes are gone or the list is empty.
func dropOldest(dst []byte, from, to, over int) []byte {
	if over <= 0 {
		return dst
	}
	cut := from
	for cut < to && cut-from < over {
		one, _ := next(dst[cut:to])
		cut = min(cut+len(one)+1, to)
	}
	return append(dst[:from], dst[cut:]...)
}

// isHops tells whether b is a list of NAME@NAME; the empty one is.
func isHops(b []byte, separator byte) bool {
	for more := len(b) > 0; more; {
		var one []byte
		one, b, more = cut(b, separator)
		if at := bytes.IndexByte(one, '@'); at < 0 || !isName(one[:at]) || !isName(one[at+1:]) {
			return false
		}
	}
	return true
}

// isIDs tells whether b is a list of names; the empty one is.
func isIDs(b []byte) bool {
	for more := len(b) > 0; more; {
		var one []byte
		if one, b, more = cut(b, ','); !isName(one) {
			return false
		}
	}
	return true
}

// cut is bytes.Cut at one byte.
func cut(b []byte, separator byte) (before, after []byte, found bool) {
	if i := bytes.IndexByte(b, separator); i >= 0 {
		return b[:i], b[i+1:], true
	}
	return b, nil, false
}

// isName tells whether b can be a name of the configuration.
func isName(b []byte) bool {
	if len(b) == 0 || len(b) > nameMax {
		return false
	}
	for _, c := range b {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// number reads a decimal number of at most bound, without sign and without a zero in front.
func number(b []byte, bound uint64) (n uint64, ok bool) {
	if len(b) == 0 || len(b) > 20 || len(b) > 1 && b[0] == '0' {
		return 0, false
	}
	for _, c := range b {
		d := uint64(c - '0')
		if c < '0' || c > '9' || n > (bound-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}
