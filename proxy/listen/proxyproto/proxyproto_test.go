package proxyproto

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const sig = "0d0a0d0a000d0a515549540a"

// Headers as they stand on the wire, in hexadecimal; spaces are for the reader.
var wire = []struct {
	what, hex      string
	src, dst, want string // want: the target, or the error
	err            error
}{
	{"TCP over IPv4", sig + "21 11 000c c0000201 c0000202 1f90 01bb", "192.0.2.1:8080", "192.0.2.2:443", "", nil},
	{"with the target", sig + "21 11 0015 c0000201 c0000202 1f90 01bb e50006 0a010001 1f91", "192.0.2.1:8080", "192.0.2.2:443", "10.1.0.1:8081", nil},
	{"TCP over IPv6, target in IPv6", sig + "21 21 0039 20010db8000000000000000000000001 20010db8000000000000000000000002 0001 0002" +
		"e50012 fd000000000000000000000000000009 0050", "[2001:db8::1]:1", "[2001:db8::2]:2", "[fd00::9]:80", nil},
	{"IPv4 mapped into IPv6 is IPv4", sig + "21 21 0024 00000000000000000000ffffc0000201 20010db8000000000000000000000002 0001 0002",
		"192.0.2.1:1", "[2001:db8::2]:2", "", nil},
	{"local, as a health check sends it", sig + "20 00 0000", "", "", "", nil},
	{"local with addresses, which do not count, and a target, which does", sig + "20 11 0015 c0000201 c0000202 1f90 01bb e50006 0a010001 1f91", "", "", "10.1.0.1:8081", nil},
	{"of no family", sig + "21 00 0000", "", "", "", nil},
	{"other TLVs are skipped", sig + "21 11 001b c0000201 c0000202 1f90 01bb 040003 000000 e50006 0a010001 1f91", "192.0.2.1:8080", "192.0.2.2:443", "10.1.0.1:8081", nil},

	{"version 1", "50524f585920", "", "", "", ErrSignature},
	{"version 3", sig + "31", "", "", "", ErrVersion},
	{"an unknown command", sig + "22", "", "", "", ErrVersion},
	{"UDP", sig + "21 12 000c c0000201 c0000202 1f90 01bb", "", "", "", ErrFamily},
	{"a UNIX socket", sig + "21 31 00d8" + strings.Repeat("00", 216), "", "", "", ErrFamily},
	{"longer than a header may be, refused before it came", sig + "21 11 023d", "", "", "", ErrLength},
	{"shorter than its addresses", sig + "21 11 000b c0000201 c0000202 1f90 01", "", "", "", ErrShort},
	{"a TLV without a length", sig + "21 00 0002 e500", "", "", "", ErrTLV},
	{"a TLV longer than the header", sig + "21 00 0004 e50006 0a", "", "", "", ErrTLV},
	{"a target of no address's size", sig + "21 00 0008 e50005 0a010001 1f", "", "", "", ErrTarget},
	{"two targets", sig + "21 00 0012 e50006 0a010001 1f91 e50006 0a010001 1f91", "", "", "", ErrTarget},
	{"an empty target", sig + "21 00 0003 e50000", "", "", "", ErrTarget},
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func text(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func TestParse(t *testing.T) {
	for _, c := range wire {
		t.Run(c.what, func(t *testing.T) {
			b := unhex(t, c.hex)
			h, n, err := Parse(append(b, "behind it"...))
			if c.err != nil {
				if !errors.Is(err, c.err) || n != 0 || h != (Header{}) {
					t.Errorf("Parse = %v, %d, %v; want the error %v and nothing else", h, n, err, c.err)
				}
				return
			}
			if err != nil || n != len(b) {
				t.Fatalf("Parse took %d bytes of %d, error %v", n, len(b), err)
			}
			if text(h.Source) != c.src || text(h.Destination) != c.dst || text(h.Target) != c.want {
				t.Errorf("Parse = %v, want %s, %s, %s", h, c.src, c.dst, c.want)
			}
			for cut := range n {
				if _, m, err := Parse(b[:cut]); m != 0 || err != nil {
					t.Fatalf("of %d bytes: n = %d, error %v; want more", cut, m, err)
				}
			}
		})
	}
}

// TestHop: the record is carried as it is, several are counted, the longest one fits and what is over is left out.
func TestHop(t *testing.T) {
	v6 := netip.MustParseAddrPort("[2001:db8::1]:1")
	for _, n := range []int{0, 1, hopBytesMax, hopBytesMax + 1} {
		b := Append(nil, Header{Source: v6, Destination: v6, Target: v6, Hop: strings.Repeat("x", n)})
		h, m, err := Parse(b)
		if want := n % (hopBytesMax + 1); err != nil || m != len(b) || len(h.Hop) != want || h.Hops != min(want, 1) || len(b) > HeaderMax {
			t.Errorf("%d bytes: %d came, %d records, header of %d, %v", n, len(h.Hop), h.Hops, len(b), err)
		}
	}
	h, _, err := Parse(unhex(t, sig+"21 00 0009 e60001 61 e60002 6262"))
	if err != nil || h.Hop != "bb" || h.Hops != 2 {
		t.Errorf("two records: %+v, %v", h, err)
	}
}

func TestLongest(t *testing.T) {
	b := unhex(t, sig+"21 00 023c")
	b = append(b, 0x04, 0x02, 0x39) // a TLV of padding up to the bound
	b = append(b, make([]byte, HeaderMax-len(b))...)
	if _, n, err := Parse(b); n != HeaderMax || err != nil {
		t.Errorf("Parse took %d bytes, error %v", n, err)
	}
}

func drawAddrPort(t *rapid.T, label string) netip.AddrPort {
	size := rapid.SampledFrom([]int{0, 4, 16}).Draw(t, label+" size")
	if size == 0 {
		return netip.AddrPort{}
	}
	a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, label))
	return netip.AddrPortFrom(a.Unmap(), rapid.Uint16().Draw(t, label+" port"))
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Header{Source: drawAddrPort(t, "source"), Destination: drawAddrPort(t, "destination"), Target: drawAddrPort(t, "target"),
			Hop: rapid.StringN(0, 128, hopBytesMax).Draw(t, "hop")}
		h.Hops = min(len(h.Hop), 1)
		before := []byte("before")
		b := Append(before, h)
		if !bytes.HasPrefix(b, before) {
			t.Fatal("Append changed what was there")
		}
		if b = b[len(before):]; len(b) > HeaderMax {
			t.Fatalf("%d bytes", len(b))
		}
		got, n, err := Parse(b)
		if !h.Source.IsValid() || !h.Destination.IsValid() {
			h.Source, h.Destination = netip.AddrPort{}, netip.AddrPort{}
		}
		if err != nil || n != len(b) || got != h {
			t.Fatalf("Parse = %v, %d of %d bytes, %v; want %v", got, n, len(b), err, h)
		}
	})
}

func TestNoAllocation(t *testing.T) {
	h := Header{Source: netip.MustParseAddrPort("192.0.2.1:1"), Destination: netip.MustParseAddrPort("[2001:db8::1]:2"), Target: netip.MustParseAddrPort("10.1.0.1:80")}
	b := make([]byte, 0, HeaderMax)
	if n := testing.AllocsPerRun(100, func() {
		b = Append(b[:0], h)
		if _, n, err := Parse(b); n == 0 || err != nil {
			t.Fatal("not parsed")
		}
	}); n != 0 {
		t.Errorf("a header allocates %v times", n)
	}
}

func FuzzProxy(f *testing.F) {
	for _, c := range wire {
		f.Add(unhex(f, c.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := Parse(b)
		switch {
		case err != nil:
			if n != 0 || h != (Header{}) {
				t.Fatalf("an error, and %v, %d", h, n)
			}
			if m, _, again := Parse(append(bytes.Clone(b), 0)); again == nil || m != (Header{}) {
				t.Fatal("an error that one more byte ends")
			}
		case n == 0:
			if len(b) >= HeaderMax {
				t.Fatalf("wants more than %d bytes", len(b))
			}
		default:
			if n > len(b) || n > HeaderMax {
				t.Fatalf("took %d bytes of %d", n, len(b))
			}
			if again, _, err := Parse(Append(nil, h)); err != nil || h.Source.IsValid() && again != h || again.Target != h.Target {
				t.Fatalf("%v becomes %v, %v", h, again, err)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	a := netip.MustParseAddrPort("10.1.0.1:80")
	in := Append(nil, Header{Source: a, Destination: a, Target: a, Hop: "1;p=;v=a;d=1;e=0"})
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Parse(in); err != nil {
			b.Fatal(err)
		}
	}
}
