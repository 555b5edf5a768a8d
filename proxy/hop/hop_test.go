package hop

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseRecord(t *testing.T) {
	long := strings.Repeat("n", nameMax)
	for _, row := range []struct {
		text string
		want Chain
	}{
		{"1;p=;v=a;d=1;e=0", Chain{IDs: []byte("a"), Depth: 1}},
		{"1;p=pay@dc2,ledger@dc1;v=a,b-1.x_y;d=3;e=42", Chain{Hops: []byte("pay@dc2,ledger@dc1"), IDs: []byte("a,b-1.x_y"), Depth: 3, Epoch: 42}},
		{"1;p=;d=0", Chain{}},
		{"1;d=2147483647;p=", Chain{Depth: 2147483647}},
		{"1;p=;v=;d=1", Chain{Depth: 1}},
		{"1;p=;v=a;d=1;e=18446744073709551615;f=1", Chain{IDs: []byte("a"), Depth: 1, Epoch: 18446744073709551615, Forced: true}},
		{"1;p=;d=1;f=0;later=x.y", Chain{Depth: 1}},
		{"1;p=" + long + "@dc;d=1", Chain{Hops: []byte(long + "@dc"), Depth: 1}},
	} {
		got, f := ParseRecord([]byte(row.text))
		if f != None || show(got) != show(row.want) {
			t.Errorf("%s: %s, %v", row.text, show(got), f)
		}
	}
	for _, text := range []string{
		"", "1", "1;", "2;p=;d=1", "01;p=;d=1", " 1;p=;d=1", "1;p=", "1;d=1", "1;p=;d=", "1;p=;d=-1", "1;p=;d=+1", "1;p=;d=01", "1;p=;d=1.0",
		"1;p=;d=2147483648", "1;p=;d=99999999999999999999999", "1;p=;d=1;", "1;p=;d=1;;", "1;p=;p=;d=1", "1;p=;d=1;d=1", "1;p=;d=1;e=18446744073709551616",
		"1;p=pay;d=1", "1;p=@dc2;d=1", "1;p=pay@;d=1", "1;p=pay@dc2,;d=1", "1;p=,pay@dc2;d=1", "1;p=pay@dc2,,a@b;d=1", "1;p=a@b@c;d=1", "1;p=p y@dc2;d=1",
		"1;p=pay@dc2 ;d=1", "1;p=p\xe4y@dc2;d=1", "1;p=;v=,;d=1", "1;p=;v=a,;d=1", "1;p=;v=a b;d=1", "1;p=;d=1;f=2", "1;p=;d=1;f=", "1;p=;d=1;=x", "1;p=;d=1;x", "1;p=a=b;d=1",
		"1;P=;d=1", "1;p=" + long + "n@dc;d=1", "1;p=pay@dc2;ledger@dc1;d=1", "1,p=,d=1",
	} {
		if got, f := ParseRecord([]byte(text)); f != Malformed || got.Hops != nil || got.Depth != 0 {
			t.Errorf("%q: %+v, %v", text, got, f)
		}
	}
	if _, f := ParseRecord([]byte("1;d=1;p=" + strings.Repeat("a@b,", 130) + "a@b")); f != Oversized {
		t.Error("a record over the limit is taken")
	}
}

func TestParseMember(t *testing.T) {
	for text, want := range map[string]Chain{
		"1:1:":                   {Depth: 1},
		"1:0:":                   {},
		"1:3:pay@dc2;ledger@dc1": {Hops: []byte("pay@dc2;ledger@dc1"), Depth: 3},
	} {
		if got, f := ParseMember([]byte(text)); f != None || show(got) != show(want) {
			t.Errorf("%s: %s, %v", text, show(got), f)
		}
	}
	for _, text := range []string{"", "1", "1:", "1:1", "2:1:", "1::", "1:x:", "1:-1:", "1:1:pay", "1:1:pay@dc2,a@b", "1:1:pay@dc2;", "1:1:;pay@dc2", "1:1: ", "1:1:a:b@c", "1:1:a=b@c"} {
		if got, f := ParseMember([]byte(text)); f != Malformed || got.Hops != nil || got.Depth != 0 {
			t.Errorf("%q: %+v, %v", text, got, f)
		}
	}
	if _, f := ParseMember([]byte("1:1:" + strings.Repeat("a@b;", 63) + "a@b")); f != Oversized {
		t.Error("a member over the limit is taken")
	}
}

func TestTracestate(t *testing.T) {
	for _, row := range []struct {
		list, value string
		count       int
		others      string
	}{
		{"", "", 0, ""},
		{"spillway=1:1:", "1:1:", 1, ""},
		{"a=1,spillway=1:2:x@y , b=2", "1:2:x@y", 1, ",a=1,b=2"},
		{"spillway=1:1:,spillway=1:2:", "1:1:", 2, ""},
		{"\t spillway=x\t,,c=3", "x", 1, ",c=3"},
		{"spillways=1,Spillway=2,spillway@x=3,spillway", "", 0, ",spillways=1,Spillway=2,spillway@x=3,spillway"},
		{"spillway=", "", 1, ""},
	} {
		value, count := Find([]byte(row.list))
		others, n := AppendOthers(nil, []byte(row.list), 1)
		if string(value) != row.value || count != row.count || string(others) != row.others || n != 1+strings.Count(row.others, ",") {
			t.Errorf("%q: %q, %d, %q, %d", row.list, value, count, others, n)
		}
	}
	many := strings.Repeat("a=1,", 40)
	if others, n := AppendOthers(nil, []byte(many), 1); n != membersMax || len(others) != 4*(membersMax-1) {
		t.Errorf("%d members, %d bytes", n, len(others))
	}
}

func TestGuard(t *testing.T) {
	c := Chain{Hops: []byte("pay@dc2,pay2@dc2;ledger@dc1,pay@dc1"), IDs: []byte("a,b")}
	for service, want := range map[string]int{"pay": 2, "pay2": 1, "ledger": 1, "pa": 0, "y": 0, "": 0, "dc2": 0} {
		if got := c.Count(service); got != want {
			t.Errorf("%s: %d hops, want %d", service, got, want)
		}
	}
	for id, want := range map[string]bool{"a": true, "b": true, "": false, "ab": false, "a,b": false} {
		if c.Passed(id) != want {
			t.Errorf("passed %q: %v", id, !want)
		}
	}
	if s, d := c.Last(); string(s) != "pay" || string(d) != "dc1" {
		t.Errorf("the last hop is %s@%s", s, d)
	}
	if s, d := new(Chain).Last(); s != nil || d != nil {
		t.Errorf("no hop is %s@%s", s, d)
	}
	passed, f := ParseRecord(c.AppendPassed(nil, "gw"))
	if f != None || show(passed) != show(Chain{Hops: []byte("pay@dc2,pay2@dc2,ledger@dc1,pay@dc1"), IDs: []byte("a,b,gw")}) {
		t.Errorf("handed on: %s, %v", show(passed), f)
	}
	g := Guard{Datacenter: "dc1", Limit: 2, DepthMax: 3}
	if !g.HomeOnly(&c, "pay") || g.HomeOnly(&c, "ledger") || (&Guard{Limit: 0}).HomeOnly(&c, "pay") {
		t.Error("HomeOnly is wrong")
	}
	if g.Limit = 0; !g.HomeOnly(&Chain{}, "pay") {
		t.Error("a limit of 0 allows a hop")
	}
	if g.TooDeep(&Chain{Depth: 2}) || !g.TooDeep(&Chain{Depth: 3}) {
		t.Error("TooDeep is wrong")
	}
}

var names = rapid.StringMatching(`[a-zA-Z0-9._-]{1,60}`)

// TestRoundTrip: what a proxy writes the next one reads, through an application too. What does not fit loses the oldest hops first, then the
// oldest ids; depth, epoch and the newest id stay.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hops := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return names.Draw(t, "s") + "@" + names.Draw(t, "d") }), 0, 12).Draw(t, "hops")
		ids := rapid.SliceOfN(names, 0, 12).Draw(t, "ids")
		c := Chain{Hops: []byte(strings.Join(hops, ";")), IDs: []byte(strings.Join(ids, ",")), Depth: rapid.IntRange(0, 1<<30).Draw(t, "depth"),
			Epoch: rapid.Uint64().Draw(t, "epoch"), Forced: rapid.Bool().Draw(t, "forced")}
		own, service, dc := names.Draw(t, "own"), names.Draw(t, "service"), rapid.SampledFrom([]string{"", "dc2"}).Draw(t, "dc")
		if dc != "" {
			hops = append(hops, service+"@"+dc)
		}
		ids = append(ids, own)
		text := c.AppendRecord([]byte("head"), own, service, dc)[4:]
		got, f := ParseRecord(text)
		if f != None || len(text) > RecordMax {
			t.Fatalf("%q (%d bytes): %v", text, len(text), f)
		}
		if got.Depth != c.Depth+1 || got.Epoch != c.Epoch || got.Forced != c.Forced || !got.Passed(own) {
			t.Fatalf("%q: %+v", text, got)
		}
		kept := checkTail(t, string(got.Hops), ",", hops)
		keptIDs := checkTail(t, string(got.IDs), ",", ids)
		if kept > 0 && keptIDs < len(ids) {
			t.Fatalf("ids were dropped before hops: %q", text)
		}
		if kept < len(hops) && len(text)+len(hops[len(hops)-kept-1])+1 <= RecordMax {
			t.Fatalf("one hop more would have fitted: %q", text)
		}

		member := got.AppendMember(nil)
		value, n := Find(member)
		if n != 1 || len(value) > MemberMax {
			t.Fatalf("%q", member)
		}
		back, f := ParseMember(value)
		if f != None || back.Depth != got.Depth {
			t.Fatalf("%q: %v", value, f)
		}
		checkTail(t, string(back.Hops), ";", hops)
	})
}

// checkTail checks that the list is the end of all, and returns how many of it are there.
func checkTail(t *rapid.T, list, separator string, all []string) int {
	if list == "" {
		return 0
	}
	got := strings.Split(list, separator)
	if want := all[max(0, len(all)-len(got)):]; strings.Join(got, separator) != strings.Join(want, separator) {
		t.Fatalf("%q, want the end of %q", got, all)
	}
	return len(got)
}

func TestNoAllocation(t *testing.T) {
	text := []byte("1;p=pay@dc2,ledger@dc1;v=order-7d9f;d=3;e=42")
	state := []byte("a=1,spillway=1:3:pay@dc2;ledger@dc1,b=2")
	g := Guard{ID: "a", Datacenter: "dc1", Limit: 1, DepthMax: 32}
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() {
		c, _ := ParseRecord(text)
		v, _ := Find(state)
		m, _ := ParseMember(v)
		if g.HomeOnly(&c, "order") || g.TooDeep(&m) || c.Passed(g.ID) {
			t.Fatal("wrong")
		}
		buf = m.AppendRecord(buf[:0], "a", "order", "dc2")
		buf, _ = AppendOthers(c.AppendMember(buf[:0]), state, 1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte("1;p=pay@dc2,ledger@dc1;v=ID,ID;d=3;e=42;f=1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		c, fault := ParseRecord(b)
		if !bytes.Equal(b, before) {
			t.Fatal("the input was changed")
		}
		if fault != None {
			return
		}
		again, fault := ParseRecord(c.AppendRecord(nil, "me", "s", "d"))
		if fault != None || !again.Passed("me") || again.Count("s") == 0 {
			t.Fatalf("%q: %+v, %v", b, again, fault)
		}
	})
}

func FuzzTracestate(f *testing.F) {
	f.Add([]byte("a=1, spillway=1:3:pay@dc2;ledger@dc1,b=2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, n := Find(b)
		others, _ := AppendOthers(nil, b, 1)
		if _, left := Find(others); left != 0 {
			t.Fatalf("%q: ours is left in %q", b, others)
		}
		c, fault := ParseMember(v)
		if n == 0 || fault != None {
			return
		}
		v, n = Find(c.AppendMember(nil))
		if again, fault := ParseMember(v); n != 1 || fault != None || again.Depth != c.Depth || !bytes.Equal(again.Hops, c.Hops) {
			t.Fatalf("%q: %+v, %v", b, again, fault)
		}
	})
}

func show(c Chain) string {
	return fmt.Sprintf("hops %s ids %s depth %d epoch %d forced %v", c.Hops, c.IDs, c.Depth, c.Epoch, c.Forced)
}
