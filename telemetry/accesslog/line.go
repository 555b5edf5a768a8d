package accesslog

import (
	"bytes"
	"net/netip"
	"strconv"
	"time"
	"unicode/utf8"

	"spillway/proxy/answer"
)

// appendRecord appends r as one line of JSON. Fields that say nothing are left out: request_id, code with hint, service, and what an
// endpoint alone has (datacenter, endpoint, tier, reason).
func appendRecord(b []byte, r *Record) []byte {
	b = append(b, `{"time":"`...)
	b = r.Time.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000000Z") // RFC 3339, of one width
	b = text(b, `","listener":`, r.Listener)
	b = text(b, `,"method":`, r.Method)
	b = text(b, `,"host":`, r.Host)
	b = text(b, `,"path":`, withoutQuery(r.Path))
	if len(r.RequestID) > 0 {
		b = text(b, `,"request_id":`, r.RequestID)
	}
	b = number(b, `,"status":`, int64(r.Status))
	if r.Code != answer.None {
		b = text(b, `,"code":`, r.Code.String())
		b = text(b, `,"hint":`, r.Hint)
	}
	if r.Service != "" {
		b = text(b, `,"service":`, r.Service)
	}
	if r.Endpoint.IsValid() {
		b = text(b, `,"datacenter":`, r.Datacenter)
		b = address(b, `,"endpoint":`, r.Endpoint)
		b = number(b, `,"tier":`, int64(r.Tier))
		b = text(b, `,"reason":`, r.Reason)
	}
	b = number(b, `,"attempts":`, int64(r.Attempts))
	b = number(b, `,"bytes_in":`, r.BytesIn)
	b = number(b, `,"bytes_out":`, r.BytesOut)
	b = seconds(b, `,"duration_seconds":`, r.Duration)
	return append(b, "}\n"...)
}

// withoutQuery leaves out what often holds secrets.
func withoutQuery(p []byte) []byte {
	if i := bytes.IndexByte(p, '?'); i >= 0 {
		return p[:i]
	}
	return p
}

func number(b []byte, key string, v int64) []byte {
	return strconv.AppendInt(append(b, key...), v, 10)
}

// address writes a key and an address. A zone may hold any byte and is escaped; such an address costs an allocation.
func address(b []byte, key string, a netip.AddrPort) []byte {
	if a.Addr().Zone() != "" {
		return text(b, key, a.String())
	}
	b = append(append(b, key...), '"')
	return append(a.AppendTo(b), '"')
}

// seconds writes d with six decimals, cut. A clock that went back gives 0.
func seconds(b []byte, key string, d time.Duration) []byte {
	micros := max(d, 0).Microseconds()
	b = number(b, key, micros/1e6)
	b = append(b, '.')
	rest := micros % 1e6
	for digit := int64(1e5); digit > 0; digit /= 10 {
		b = append(b, byte('0'+rest/digit%10))
	}
	return b
}

const hex = "0123456789abcdef"

// plain tells which bytes stand in a JSON string as they are (RFC 8259 section 7; DEL is escaped too, for the terminals of those who read).
var plain = func() (t [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// text writes a key and a string. Bytes that are no UTF-8 become replacement characters. A value is cut after valueMax bytes, between
// characters.
func text[T string | []byte](b []byte, key string, v T) []byte {
	b = append(append(b, key...), '"')
	for i := 0; i < len(v) && i < valueMax; {
		if run := plainRun(v, i); run > i {
			b = append(b, v[i:run]...)
			i = run
			continue
		}
		c := v[i]
		if c < utf8.RuneSelf {
			if c == '"' || c == '\\' {
				b = append(b, '\\', c)
			} else {
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			continue
		}
		var few [utf8.UTFMax]byte
		r, n := utf8.DecodeRune(few[:copy(few[:], v[i:])])
		b = utf8.AppendRune(b, r) // utf8.RuneError, one byte wide, for what is no UTF-8
		i += n
	}
	return append(b, '"')
}

// plainRun is where the plain bytes from i on end, at most at valueMax.
func plainRun[T string | []byte](v T, i int) int {
	end := min(len(v), valueMax)
	for i < end && plain[v[i]] {
		i++
	}
	return i
}
