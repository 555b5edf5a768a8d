// Package head is one request or response head, shared by all HTTP versions: fields stay ranges of the buffer they were read into.
//
// Its job: where the fields of a head are, which of them the proxy knows by name, which of them are not passed on.
// Not its job: reading or writing a head (proxy/http1/codec), deciding what a field means for the request.
// It is pure, starts no goroutine and allocates nothing. Limits: an arena is smaller than 4 GiB (offsets are 32 bits); how many fields
// a head may have is for the codec that fills it to say.
package head

// Span is a range of an arena: Len bytes from Off.
type Span struct{ Off, Len uint32 }

// End is the offset of the first byte after the range.
func (s Span) End() uint32 { return s.Off + s.Len }

// Field is one field line.
type Field struct {
	Name  Span // as it was spelled
	Value Span // without white space around it
	ID    ID   // Unknown: not a name that the proxy knows
	Hop   bool // hop-by-hop, nominated by Connection, or a repeat: not passed on
}

// Head is the fields of one head, in the order in which they came. Spans are ranges of Arena, which belongs to whoever read it:
// a Head is good as long as nobody writes to the arena.
type Head struct {
	Arena  []byte
	Fields []Field
}

// Bytes are the bytes of s. They are part of the arena, not a copy.
func (h *Head) Bytes(s Span) []byte { return h.Arena[s.Off : s.Off+s.Len : s.Off+s.Len] }

// Get is the value of the first field with the name, also when it is not passed on. ok is false where there is none.
func (h *Head) Get(id ID) (value []byte, ok bool) {
	for i := range h.Fields {
		if h.Fields[i].ID == id {
			return h.Bytes(h.Fields[i].Value), true
		}
	}
	return nil, false
}

// Count is the number of fields with the name.
func (h *Head) Count(id ID) int {
	n := 0
	for i := range h.Fields {
		if h.Fields[i].ID == id {
			n++
		}
	}
	return n
}
