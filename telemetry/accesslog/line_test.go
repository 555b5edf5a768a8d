package accesslog

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestLine(t *testing.T) {
	want := `{"time":"2023-11-14T22:13:20.000000005Z","listener":"outbound","method":"GET","host":"pay","path":"/a","status":503,` +
		`"code":"overflow","hint":"pay@dc2 64/64 connections","service":"pay","datacenter":"dc2","endpoint":"10.0.0.1:80","tier":2,` +
		`"reason":"spill_health","attempts":1,"bytes_in":3,"bytes_out":4,"duration_seconds":0.001500}` + "\n"
	if got := string(appendRecord(nil, record())); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// What says nothing is left out, and nothing else.
func TestShortestLine(t *testing.T) {
	want := `{"time":"1970-01-01T00:00:00.000000000Z","listener":"","method":"","host":"","path":"","status":0,"attempts":0,` +
		`"bytes_in":0,"bytes_out":0,"duration_seconds":0.000000}` + "\n"
	if got := string(appendRecord(nil, &Record{Time: time.Unix(0, 0), Tier: 3, Reason: "nearest", Datacenter: "dc1", Hint: "x"})); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// reference is what encoding/json makes of a value: invalid bytes are replacement characters, what is too long is cut between characters.
func reference(v string) string {
	var b strings.Builder
	for i := 0; i < len(v) && i < valueMax; {
		r, n := utf8.DecodeRuneInString(v[i:])
		b.WriteRune(r)
		i += n
	}
	return b.String()
}

// value draws what clients send: any bytes, text, and what is longer than the bound with a character across it.
func value() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.String(),
		rapid.Map(rapid.IntRange(valueMax-4, valueMax+4), func(n int) string { return strings.Repeat("a", n) + "\u00e9\u20ac\U0001F600" }),
	)
}

// Whatever bytes a client sends, the line is one line of valid JSON and valid UTF-8, with no key twice, and says what the client sent.
func TestAnyBytesAreValidJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := record()
		drawn := map[string]string{}
		for _, key := range []string{"listener", "method", "host", "path", "request_id", "hint", "service", "datacenter", "reason"} {
			drawn[key] = value().Draw(t, key)
		}
		r.Method, r.Host, r.Path, r.RequestID = []byte(drawn["method"]), []byte(drawn["host"]), []byte(drawn["path"]), []byte(drawn["request_id"])
		r.Listener, r.Hint, r.Service, r.Datacenter, r.Reason = drawn["listener"], drawn["hint"], drawn["service"], drawn["datacenter"], drawn["reason"]
		line := appendRecord(nil, r)
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil || !utf8.Valid(line) || bytes.IndexByte(line, '\n') != len(line)-1 {
			t.Fatalf("%v: %q", err, line)
		}
		if i := bytes.IndexFunc(line[:len(line)-1], func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
			t.Fatalf("a control byte at %d: %q", i, line)
		}
		drawn["path"], _, _ = strings.Cut(drawn["path"], "?")
		for key, sent := range drawn {
			if got, _ := m[key].(string); got != reference(sent) {
				t.Fatalf("%s: sent %q, logged %q", key, sent, got)
			}
		}
	})
}

// Every field that exists stands in the line, in this order: people cut columns out of it.
func TestFieldsAndTheirOrder(t *testing.T) {
	r := record()
	r.RequestID = []byte("id")
	d := json.NewDecoder(bytes.NewReader(appendRecord(nil, r)))
	var keys []string
	for depth := 0; ; {
		tok, err := d.Token()
		if err != nil {
			break
		}
		if _, ok := tok.(json.Delim); ok {
			continue
		}
		if depth++; depth%2 == 1 {
			keys = append(keys, tok.(string))
		}
	}
	want := []string{"time", "listener", "method", "host", "path", "request_id", "status", "code", "hint", "service", "datacenter", "endpoint",
		"tier", "reason", "attempts", "bytes_in", "bytes_out", "duration_seconds"}
	if !slices.Equal(keys, want) {
		t.Fatalf("%v", keys)
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.000000", 999: "0.000000", 1000: "0.000001", time.Second: "1.000000", 90*time.Minute + 1500*time.Microsecond: "5400.001500",
		-time.Second: "0.000000", 1<<63 - 1: "9223372036.854775",
	} {
		if got := string(seconds(nil, "", d)); got != want {
			t.Errorf("%d ns: %s, want %s", d, got, want)
		}
	}
}

func TestAddressWithAnyZone(t *testing.T) {
	for text, want := range map[string]string{"10.0.0.1:80": "10.0.0.1:80", "[::1]:80": "[::1]:80", "[fe80::1%a\"\n]:80": "[fe80::1%a\"\n]:80"} {
		var got string
		if err := json.Unmarshal(address(nil, "", netip.MustParseAddrPort(text)), &got); err != nil || got != want {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
}
