// Package proxyproto reads and writes the PROXY protocol, version 2 (haproxy.org, proxy-protocol.txt, section 2.2), in front of TCP
// connections between proxies.
//
// Its job: the header, and in it the TLVs that name the address which the connection was for and the hop record of its call chain.
// Not its job: reading from a connection, whether the sender may be believed, version 1 of the protocol.
// It is pure, starts no goroutine, and allocates nothing but what Append's destination lacks. Limits: a header is at most HeaderMax bytes;
// one that announces more is refused before it has come.
package proxyproto

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// TargetTLV is the type of the TLV with the address that the connection was for; it lies in the range left to applications. Its value is
// the address in network order, 4 or 16 bytes, and the port, 2 bytes.
const TargetTLV = 0xE5

// HopTLV is the type of the TLV with the hop record, as text (proxy/hop).
const HopTLV = 0xE6

// hopBytesMax bounds a hop record, in bytes.
const hopBytesMax = 512

// HeaderMax bounds a header, in bytes: one with IPv6 addresses, a target and the longest hop record. Without the record a header is far
// under the 536 bytes that the protocol's authors advise.
const HeaderMax = fixed + 2*size6 + 3 + size6 + 3 + hopBytesMax

const (
	signature = "\r\n\r\n\x00\r\nQUIT\n"
	fixed     = len(signature) + 4 // version and command, family, length

	commandLocal = 0x20
	commandProxy = 0x21
	familyNone   = 0x00
	familyTCP4   = 0x11
	familyTCP6   = 0x21

	size4 = 4 + 2 // an address and its port
	size6 = 16 + 2
)

// Header is what stands in front of a connection. Source and Destination are zero in a header that speaks for its sender alone, such as
// that of a health check. Target is zero and Hop empty without their TLVs. Addresses have no zone, and IPv4 ones are not mapped into IPv6.
type Header struct {
	Source, Destination, Target netip.AddrPort
	Hop                         string // the last one, where there are several
	Hops                        int    // how many hop records there were; Append ignores it
}

// The reasons for which a header is refused.
var (
	ErrSignature = errors.New("proxy header: no signature of version 2")
	ErrVersion   = errors.New("proxy header: version or command unknown")
	ErrFamily    = errors.New("proxy header: neither TCP over IPv4 or IPv6 nor unspecified")
	ErrLength    = errors.New("proxy header: too long")
	ErrShort     = errors.New("proxy header: shorter than its addresses")
	ErrTLV       = errors.New("proxy header: malformed TLV")
	ErrTarget    = errors.New("proxy header: malformed or repeated target")
)

// Append appends the header. With a source or destination that is not valid it is a local one: without addresses, yet with the target. A
// hop record over 512 bytes is left out.
func Append(dst []byte, h Header) []byte {
	start := len(dst)
	dst = append(dst, signature...)
	src, to := h.Source.Addr().Unmap(), h.Destination.Addr().Unmap()
	switch {
	case !src.IsValid() || !to.IsValid():
		dst = append(dst, commandLocal, familyNone, 0, 0)
	case src.Is4() && to.Is4():
		dst = append(dst, commandProxy, familyTCP4, 0, 0)
		dst = appendPorts(appendAddr(appendAddr(dst, src), to), h)
	default:
		dst = append(dst, commandProxy, familyTCP6, 0, 0)
		dst = appendPorts(append16(append16(dst, src), to), h)
	}
	if a := h.Target.Addr().Unmap(); a.IsValid() {
		size := size6
		if a.Is4() {
			size = size4
		}
		dst = appendAddr(append(dst, TargetTLV, 0, byte(size)), a)
		dst = binary.BigEndian.AppendUint16(dst, h.Target.Port())
	}
	if n := len(h.Hop); n > 0 && n <= hopBytesMax {
		dst = append(append(dst, HopTLV, byte(n>>8), byte(n)), h.Hop...)
	}
	binary.BigEndian.PutUint16(dst[start+fixed-2:], uint16(len(dst)-start-fixed))
	return dst
}

func appendAddr(dst []byte, a netip.Addr) []byte {
	if a.Is4() {
		b := a.As4()
		return append(dst, b[:]...)
	}
	return append16(dst, a)
}

func append16(dst []byte, a netip.Addr) []byte {
	b := a.As16()
	return append(dst, b[:]...)
}

func appendPorts(dst []byte, h Header) []byte {
	dst = binary.BigEndian.AppendUint16(dst, h.Source.Port())
	return binary.BigEndian.AppendUint16(dst, h.Destination.Port())
}

// Parse parses a header at the front of buf; n is its length. n = 0 without an error means that more bytes are needed, never more than
// HeaderMax. What cannot become a header is an error at once.
func Parse(buf []byte) (h Header, n int, err error) {
	for i := range min(len(buf), len(signature)) {
		if buf[i] != signature[i] {
			return Header{}, 0, ErrSignature
		}
	}
	if len(buf) > 12 && buf[12] != commandLocal && buf[12] != commandProxy {
		return Header{}, 0, ErrVersion
	}
	if len(buf) < fixed {
		return Header{}, 0, nil
	}
	n = fixed + int(binary.BigEndian.Uint16(buf[fixed-2:]))
	if n > HeaderMax {
		return Header{}, 0, ErrLength
	}
	if len(buf) < n {
		return Header{}, 0, nil
	}
	h, rest, err := addresses(buf[13], buf[fixed:n])
	if err != nil {
		return Header{}, 0, err
	}
	if buf[12] == commandLocal {
		h = Header{} // the connection's own addresses hold
	}
	if err = h.tlvs(rest); err != nil {
		return Header{}, 0, err
	}
	return h, n, nil
}

// addresses reads the address block of a family.
func addresses(family byte, b []byte) (h Header, rest []byte, err error) {
	size := 0
	switch family {
	case familyNone:
		return h, b, nil
	case familyTCP4:
		size = 4
	case familyTCP6:
		size = 16
	default:
		return h, nil, ErrFamily
	}
	if len(b) < 2*size+4 {
		return h, nil, ErrShort
	}
	h.Source = netip.AddrPortFrom(addr(b[:size]), binary.BigEndian.Uint16(b[2*size:]))
	h.Destination = netip.AddrPortFrom(addr(b[size:2*size]), binary.BigEndian.Uint16(b[2*size+2:]))
	return h, b[2*size+4:], nil
}

// addr is the address in b, which has 4 or 16 bytes.
func addr(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a.Unmap()
}

// tlvs reads the TLVs that are ours. Others are skipped.
func (h *Header) tlvs(b []byte) error {
	for len(b) > 0 {
		if len(b) < 3 {
			return ErrTLV
		}
		size := int(binary.BigEndian.Uint16(b[1:]))
		if len(b) < 3+size {
			return ErrTLV
		}
		value := b[3 : 3+size]
		switch b[0] {
		case TargetTLV:
			if h.Target.IsValid() || size != size4 && size != size6 {
				return ErrTarget
			}
			h.Target = netip.AddrPortFrom(addr(value[:size-2]), binary.BigEndian.Uint16(value[size-2:]))
		case HopTLV:
			h.Hop = string(value)
			h.Hops++
		}
		b = b[3+size:]
	}
	return nil
}
