package hop

import "bytes"

// Key is the key of the member in tracestate (W3C Trace Context, 3.3).
const Key = "spillway"

// membersMax is how many members a tracestate may have (W3C Trace Context, 3.3.1.1).
const membersMax = 32

// Find finds our member in the value of one tracestate field: the value of the first one, and how many there are.
func Find(list []byte) (value []byte, count int) {
	for more := true; more; {
		var one []byte
		one, list, more = cut(list, ',')
		if v, ours := member(one); ours {
			if count++; count == 1 {
				value = v
			}
		}
	}
	return value, count
}

// AppendOthers appends the members of one tracestate field but ours, each with a comma in front, byte for byte. n is how many members stand
// already; those beyond membersMax are left out, as they are the oldest.
func AppendOthers(dst, list []byte, n int) ([]byte, int) {
	for more := true; more; {
		var one []byte
		one, list, more = cut(list, ',')
		if _, ours := member(one); ours || n >= membersMax || len(trim(one)) == 0 {
			continue
		}
		dst = append(append(dst, ','), trim(one)...)
		n++
	}
	return dst, n
}

// member gives the value of a member that is ours.
func member(b []byte) (value []byte, ours bool) {
	b = trim(b)
	if len(b) <= len(Key) || b[len(Key)] != '=' || string(b[:len(Key)]) != Key {
		return nil, false
	}
	return b[len(Key)+1:], true
}

func trim(b []byte) []byte { return bytes.Trim(b, " \t") }
