package codec

import (
	"encoding/binary"
	"math/bits"
)

// What a byte may be part of, as bits of class.
const (
	isToken  = 1 << iota // RFC 9110 5.6.2
	isTarget             // visible ASCII but "#": fragments are never sent (RFC 9110 4.2.5)
	isHost               // characters of a reg-name (RFC 3986 3.2.2) without "%"
	isHex
	isDigit
)

var class = makeClass()

func makeClass() (t [256]uint8) {
	set := func(chars string, bit uint8) {
		for i := range len(chars) {
			t[chars[i]] |= bit
		}
	}
	const digits = "0123456789"
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	set(digits+letters+"!#$%&'*+-.^_`|~", isToken)
	set(digits+letters+"-._~!$&'()*+,;=", isHost)
	set(digits+"abcdefABCDEF", isHex)
	set(digits, isDigit)
	for c := 0x21; c < 0x7f; c++ {
		if c != '#' {
			t[c] |= isTarget
		}
	}
	return t
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// controlIn has the high bit of a byte set for the first byte of x that is under 0x20 or is 0x7f; bits of later bytes mean nothing.
// 0 means that there is none.
func controlIn(x uint64) uint64 {
	del := x ^ 0x7f*ones
	return ((x - 0x20*ones) | (del-ones)&^del) &^ x & highs
}

// textEnd is the offset of the first byte from i that is neither visible, nor a space, nor HTAB, nor over 0x7f: where a field value or
// a reason phrase ends. It is len(buf) where there is none.
func textEnd(buf []byte, i int) int {
	for {
		for i+8 <= len(buf) {
			if m := controlIn(binary.LittleEndian.Uint64(buf[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		for i < len(buf) && (buf[i] >= 0x20 && buf[i] != 0x7f) {
			i++
		}
		if i == len(buf) || buf[i] != '\t' {
			return i
		}
		i++
	}
}

// trimmed is buf[from:to] without white space at its end, as the offset of the end.
func trimmed(buf []byte, from, to int) int {
	for to > from && (buf[to-1] == ' ' || buf[to-1] == '\t') {
		to--
	}
	return to
}

// skipSpace is the offset of the first byte from i that is not white space.
func skipSpace(buf []byte, i int) int {
	for i < len(buf) && (buf[i] == ' ' || buf[i] == '\t') {
		i++
	}
	return i
}

// element cuts the next element of a comma-separated list off (RFC 9110 5.6.1), without white space around it. It may be empty.
func element(list []byte) (elem, rest []byte) {
	end := 0
	for end < len(list) && list[end] != ',' {
		end++
	}
	elem = list[:end]
	if end < len(list) {
		end++
	}
	from := skipSpace(elem, 0)
	return elem[from:trimmed(elem, from, len(elem))], list[end:]
}

// all tells whether every byte of b has the bit in class.
func all(b []byte, bit uint8) bool {
	for _, c := range b {
		if class[c]&bit == 0 {
			return false
		}
	}
	return true
}
