package config

import (
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/discovery"
)

// Bounds of single values.
const (
	nameBytesMax     = 253 // of names and hosts (RFC 1035 2.3.4)
	pathBytesMax     = 4096
	socketBytesMax   = 107 // sun_path of Linux without its final zero
	durationMax      = 365 * 24 * time.Hour
	durationMin      = time.Millisecond // finer times would keep a proxy busy with itself
	wholeNumberMax   = math.MaxInt32
	digitsOfFloatMax = 20
)

// name is a word of ours that also stands in metric labels and hop records, where "@,;=:" separate.
func name(what string) kind[string] {
	return kind[string]{
		want:   fmt.Sprintf("%s (1 to %d letters, digits, \".\", \"_\", \"-\")", what, nameBytesMax),
		parse:  func(s string) (string, bool) { return s, s != "" && isName(s) },
		text:   same,
		quoted: true,
	}
}

// optionalName is a name or "".
func optionalName(what string) kind[string] {
	k := name(what + " or \"\"")
	k.parse = func(s string) (string, bool) { return s, isName(s) }
	return k
}

func isName(s string) bool {
	return len(s) <= nameBytesMax && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	})
}

func same(s string) string { return s }

// host is a value of the field Host without port, in lower case. An IPv6 literal may have brackets.
var host = kind[string]{
	want:   "a host name without port, or an IP address",
	quoted: true,
	text:   same,
	parse: func(s string) (string, bool) {
		literal := s
		if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") && strings.Contains(s, ":") {
			literal = s[1 : len(s)-1]
		}
		if a, err := netip.ParseAddr(literal); err == nil && a.Zone() == "" {
			return a.String(), true
		}
		s = strings.TrimSuffix(strings.ToLower(s), ".")
		return s, s != "" && isName(s)
	},
}

// words is one of a list of words. later are words that the design knows and this version refuses.
func words[T comparable](later []string, table ...word[T]) kind[T] {
	names := make([]string, len(table))
	for i, w := range table {
		names[i] = w.name
	}
	want := names[len(names)-1]
	if len(names) > 1 {
		want = strings.Join(names[:len(names)-1], ", ") + " or " + want
	}
	return kind[T]{
		want:   want,
		later:  later,
		quoted: true,
		parse: func(s string) (v T, ok bool) {
			for _, w := range table {
				if w.name == s {
					return w.value, true
				}
			}
			return v, false
		},
		text: func(v T) string {
			for _, w := range table {
				if w.value == v {
					return w.name
				}
			}
			return ""
		},
	}
}

type word[T any] struct {
	name  string
	value T
}

func oneOf(names ...string) kind[string] {
	table := make([]word[string], len(names))
	for i, n := range names {
		table[i] = word[string]{n, n}
	}
	return words(nil, table...)
}

// whole is a whole number within bounds.
func whole[T int | uint16](low, high T) kind[T] {
	want := fmt.Sprintf("a whole number from %d to %d", low, high)
	if int(high) == wholeNumberMax {
		want = fmt.Sprintf("a whole number of at least %d", low)
	}
	return kind[T]{
		want: want,
		parse: func(s string) (T, bool) {
			v, err := strconv.ParseUint(s, 10, 31)
			return T(v), err == nil && int(v) >= int(low) && int(v) <= int(high)
		},
		text: func(v T) string { return strconv.Itoa(int(v)) },
	}
}

// percent is a whole number of percent.
func percent(low, high int) kind[int] {
	k := whole(low, high)
	k.want = fmt.Sprintf("percent, a whole number from %d to %d", low, high)
	return k
}

func port(what string, low uint16) kind[uint16] {
	k := whole[uint16](low, math.MaxUint16)
	k.want = fmt.Sprintf("%s, a number from %d to 65535", what, low)
	return k
}

// number is a decimal fraction within bounds.
func number(low, high float64) kind[float64] {
	return kind[float64]{
		want: fmt.Sprintf("a number from %g to %g", low, high),
		parse: func(s string) (float64, bool) {
			if len(s) > digitsOfFloatMax || strings.Trim(s, "0123456789.") != "" {
				return 0, false // 1e1, .inf and 0x1p1 are not meant
			}
			v, err := strconv.ParseFloat(s, 64)
			return v, err == nil && v >= low && v <= high
		},
		text: func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) },
	}
}

var truth = kind[bool]{
	want:  "true or false",
	parse: func(s string) (bool, bool) { return s == "true", s == "true" || s == "false" },
	text:  strconv.FormatBool,
}

// duration is a positive time.
var duration = kind[time.Duration]{
	want:   "a positive duration of at least 1ms, such as 15s",
	quoted: true,
	parse: func(s string) (time.Duration, bool) {
		v, err := time.ParseDuration(s)
		return v, err == nil && v >= durationMin && v <= durationMax
	},
	text: durationText,
}

// durationOrZero is a time where 0s means off.
var durationOrZero = kind[time.Duration]{
	want:   "a duration such as 15s, or 0s",
	quoted: true,
	parse: func(s string) (time.Duration, bool) {
		v, err := time.ParseDuration(s)
		return v, err == nil && (v == 0 || v >= durationMin && v <= durationMax)
	},
	text: durationText,
}

// durationText is a duration without the zero parts that Go prints: 5m, not 5m0s.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// units of sizes, largest first.
var units = []struct {
	name  string
	bytes int
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

func sizeText(v int) string {
	for _, u := range units {
		if v >= u.bytes && v%u.bytes == 0 {
			return strconv.Itoa(v/u.bytes) + u.name
		}
	}
	return strconv.Itoa(v)
}

// size is a number of bytes.
func size(low, high int) kind[int] {
	return kind[int]{
		want:   fmt.Sprintf("a size from %s to %s, such as 64KiB", sizeText(low), sizeText(high)),
		quoted: true,
		text:   sizeText,
		parse: func(s string) (int, bool) {
			factor := 1
			for _, u := range units {
				if digits, ok := strings.CutSuffix(s, u.name); ok {
					s, factor = digits, u.bytes
					break
				}
			}
			v, err := strconv.ParseUint(s, 10, 31)
			if err != nil || v > uint64(high/factor) {
				return 0, false
			}
			return int(v) * factor, int(v)*factor >= low
		},
	}
}

// listen is where a listener listens. A bare port means the loopback addresses of both families.
func listen(optional bool) kind[[]netip.AddrPort] {
	return kind[[]netip.AddrPort]{
		want:   "a port or address:port",
		quoted: true,
		parse: func(s string) ([]netip.AddrPort, bool) {
			if s == "" {
				return nil, optional
			}
			if strings.Trim(s, "0123456789") == "" {
				v, err := strconv.ParseUint(s, 10, 16)
				return loopback(uint16(v)), err == nil && v > 0
			}
			a, err := netip.ParseAddrPort(s)
			return []netip.AddrPort{a}, err == nil
		},
		text: func(v []netip.AddrPort) string {
			switch {
			case len(v) == 0:
				return ""
			case slices.Equal(v, loopback(v[0].Port())):
				return strconv.Itoa(int(v[0].Port()))
			}
			return v[0].String()
		},
	}
}

// endpointAddress is where connections go: an IP address with a port.
var endpointAddress = kind[netip.AddrPort]{
	want:   "IP:port with a port from 1 to 65535",
	quoted: true,
	text:   netip.AddrPort.String,
	parse: func(s string) (netip.AddrPort, bool) {
		a, err := netip.ParseAddrPort(s)
		// A mapped address and the IPv4 address in it are one endpoint.
		a = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
		return a, err == nil && a.Port() != 0 && !a.Addr().IsUnspecified() && !a.Addr().IsMulticast() && isName(a.Addr().Zone())
	},
}

// optionalAddress is an endpointAddress or "".
var optionalAddress = kind[netip.AddrPort]{
	want:   endpointAddress.want + ", or \"\"",
	quoted: true,
	parse: func(s string) (netip.AddrPort, bool) {
		if s == "" {
			return netip.AddrPort{}, true
		}
		return endpointAddress.parse(s)
	},
	text: func(a netip.AddrPort) string {
		if !a.IsValid() {
			return ""
		}
		return a.String()
	},
}

var address = kind[netip.Addr]{
	want:   "an IP address without port",
	quoted: true,
	text:   netip.Addr.String,
	parse: func(s string) (netip.Addr, bool) {
		a, err := netip.ParseAddr(s)
		return a.Unmap(), err == nil && a.Zone() == "" && !a.IsUnspecified()
	},
}

// network is a CIDR. Bits behind the prefix are a typing error more often than not.
var network = kind[netip.Prefix]{
	want:   "a network such as 10.0.0.0/8 without bits behind the prefix",
	quoted: true,
	text:   netip.Prefix.String,
	parse: func(s string) (netip.Prefix, bool) {
		p, err := netip.ParsePrefix(s)
		return p, err == nil && p == p.Masked()
	},
}

// path is a path of the file system, made absolute from dir, the folder of the configuration. words stand for themselves.
func path(dir, want string, bytesMax int, words ...string) kind[string] {
	return kind[string]{
		want:   fmt.Sprintf("%s of at most %d bytes", want, bytesMax),
		quoted: true,
		text:   same,
		parse: func(s string) (string, bool) {
			if slices.Contains(words, s) {
				return s, true
			}
			if s == "" || strings.ContainsRune(s, 0) {
				return "", false
			}
			if !filepath.IsAbs(s) {
				s = filepath.Join(dir, s)
			}
			return s, len(s) <= bytesMax
		},
	}
}

// checkPath is what an active check asks for.
var checkPath = kind[string]{
	want:   "a path that starts with / and has no white space, or \"\"",
	quoted: true,
	text:   same,
	parse: func(s string) (string, bool) {
		bad := strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '#' })
		return s, s == "" || s[0] == '/' && !bad && len(s) <= pathBytesMax
	},
}

// Words of the design; the first list of each is what later versions serve.
var (
	portProtocol = words(laterProtocols, word[discovery.Protocol]{"auto", discovery.Auto}, word[discovery.Protocol]{"http", discovery.HTTP}, word[discovery.Protocol]{"tcp", discovery.TCP})
	ownProtocol  = words(laterProtocols, word[discovery.Protocol]{"http", discovery.HTTP}, word[discovery.Protocol]{"tcp", discovery.TCP})
	healthWord   = words(nil, word[discovery.Health]{"healthy", discovery.Healthy}, word[discovery.Health]{"unhealthy", discovery.Unhealthy}, word[discovery.Health]{"draining", discovery.Draining})
	levelWord    = words(nil, word[discovery.Level]{"region", discovery.LevelRegion}, word[discovery.Level]{"zone", discovery.LevelZone})
	captureWord  = words(laterCapture, word[Capture]{"explicit", CaptureExplicit})
	spillWord    = words(laterSpill, word[discovery.SpillMode]{"health", discovery.SpillHealth}, word[discovery.SpillMode]{"last_resort", discovery.SpillLastResort})
	balanceWord  = words(laterBalance, word[discovery.BalanceMethod]{"p2c", discovery.P2C}, word[discovery.BalanceMethod]{"round_robin", discovery.RoundRobin},
		word[discovery.BalanceMethod]{"weighted_round_robin", discovery.WeightedRoundRobin}, word[discovery.BalanceMethod]{"random", discovery.Random})
	tierWord = words(nil, word[discovery.TierLevel]{"sub_zone", discovery.TierSubZone}, word[discovery.TierLevel]{"zone", discovery.TierZone},
		word[discovery.TierLevel]{"region", discovery.TierRegion})
	crossWord = words(nil, word[discovery.CrossTier]{"resend", discovery.CrossResend}, word[discovery.CrossTier]{"never", discovery.CrossNever}, word[discovery.CrossTier]{"always", discovery.CrossAlways})
	retryWord = words(nil, word[discovery.RetryOn]{"reset_before_response", discovery.OnResetBeforeResponse}, word[discovery.RetryOn]{"gateway_error", discovery.OnGatewayError})
)
