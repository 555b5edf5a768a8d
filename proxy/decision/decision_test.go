package decision

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"spillway/discovery"
	"spillway/proxy/balance"
	"spillway/proxy/locality"
)

var defaults = discovery.LocalityPolicy{Overprovisioning: 140, PanicThreshold: 50, TierEndpointsMin: 2}

// states reads tiers of the form datacenter:usable/total[:down].
func states(t *testing.T, fields []string) (out []locality.State) {
	for _, f := range fields {
		parts := strings.Split(f, ":")
		s := locality.State{Datacenter: parts[0], Down: len(parts) > 2 && parts[2] == "down"}
		if _, err := fmt.Sscanf(parts[1], "%d/%d", &s.Usable, &s.Total); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		out = append(out, s)
	}
	return out
}

// TestWhy runs testdata/why.txt: "spill MODE", and "tier... -> reason..." with - for a tier that gets nothing.
func TestWhy(t *testing.T) {
	text, err := os.ReadFile("testdata/why.txt")
	if err != nil {
		t.Fatal(err)
	}
	p, steps := defaults, 0
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if mode, ok := strings.CutPrefix(line, "spill "); ok {
			p.Spill = discovery.SpillHealth
			if mode == "last_resort" {
				p.Spill = discovery.SpillLastResort
			}
			continue
		}
		steps++
		input, want, _ := strings.Cut(line, "->")
		st := states(t, strings.Fields(input))
		shares := locality.Split(p, st, nil)
		var got []string
		for k, s := range shares {
			word := "-"
			if s.Load > 0 {
				word = Why(st, shares, p, k, false).String()
			}
			got = append(got, word)
			if r := Why(st, shares, p, k, true); r != Retry {
				t.Errorf("line %d: a further try is %s", i+1, r)
			}
		}
		if g, w := strings.Join(got, " "), strings.Join(strings.Fields(want), " "); g != w {
			t.Errorf("line %d: %s\n got %s\nwant %s", i+1, strings.TrimSpace(input), g, w)
		}
	}
	if steps < 10 {
		t.Errorf("only %d steps", steps)
	}
}

func TestReasonNames(t *testing.T) {
	want := []string{"nearest", "spill_health", "tier_down", "retry", "last_resort", "unknown", "unknown"}
	for i, w := range want {
		if got := Reason(i).String(); got != w {
			t.Errorf("%d is %s, want %s", i, got, w)
		}
	}
	if ReasonCount != 5 {
		t.Errorf("%d reasons", ReasonCount)
	}
}

// made makes a record as a data path would: from states and the moment of the chosen tier.
func made(r Record, st []locality.State, moments []balance.Moment) Record {
	shares := locality.Split(r.Policy, st, nil)
	numbers := make([]int, len(st))
	for i := range numbers {
		numbers[i] = i
	}
	r.Fill(numbers, st, shares)
	if r.Tier = locality.Pick(shares, r.U); r.Tier < 0 {
		return r
	}
	r.Reason = Why(st, shares, r.Policy, r.Tier, false)
	r.Datacenter = st[r.Tier].Datacenter
	r.Balance = moments[r.Tier]
	for k := range r.Balance.Candidates {
		r.Candidates = append(r.Candidates, fmt.Sprintf("10.0.%d.%d:80", r.Tier, k))
	}
	if at := r.Pick(); at >= 0 {
		r.Endpoint = r.Candidates[at]
	}
	return r
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		name  string
		tiers string
		p     discovery.LocalityPolicy
		u     float64
		want  []string
	}{
		{"nearest", "dc1:4/4 dc2:4/4", defaults, 0.5, []string{
			"tier 0 dc1: 4/4 usable, share 100.0 %, chosen",
			"tier 1 dc2: 4/4 usable, share 0.0 %",
			"goes to 10.0.0.0:80 in dc1: nearest"}},
		{"spill", "dc1:2/4 dc2:4/4", defaults, 0.7, []string{
			"tier 0 dc1: 2/4 usable, share 70.0 %",
			"tier 1 dc2: 4/4 usable, share 30.0 %, chosen",
			"goes to 10.0.1.0:80 in dc2: spill_health"}},
		{"down, merged", "dc1:4/4:down dc2:1/3 dc2:2/2", defaults, 0, []string{
			"tier 0 dc1: 4/4 usable, share 0.0 %, down: no connect succeeded since its endpoints refused",
			"tier 1 dc2: 1/3 usable, share 0.0 %, fewer than 2 usable: merged into tier 2",
			"tier 2 dc2: 2/2 usable, share 100.0 %, chosen",
			"goes to 10.0.2.0:80 in dc2: tier_down"}},
		{"panic", "dc1:0/1 dc2:0/3", defaults, 0.2, []string{
			"tier 0 dc1: 0/1 usable, share 25.0 %, panic: under 50 % usable, so chosen from all its endpoints, chosen",
			"tier 1 dc2: 0/3 usable, share 75.0 %, panic: under 50 % usable, so chosen from all its endpoints",
			"goes to 10.0.0.0:80 in dc1: nearest"}},
		{"nothing", "dc1:4/4:down", defaults, 0.2, []string{
			"tier 0 dc1: 4/4 usable, share 0.0 %, down: no connect succeeded since its endpoints refused",
			"goes nowhere: no tier can serve"}},
		{"no tier", "", defaults, 0.2, []string{"goes nowhere: no tier can serve"}},
	} {
		st := states(t, strings.Fields(c.tiers))
		moments := make([]balance.Moment, len(st))
		for i := range moments {
			moments[i].Candidates = []balance.Candidate{{Weight: 1}}
		}
		r := made(Record{Policy: c.p, U: c.u}, st, moments)
		if got := r.Lines(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
		}
		if err := Replay(r); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// drawn is a decision of a drawn situation.
func drawn(t *rapid.T) Record {
	r := Record{Service: "pay", Host: "pay:80", U: rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "u"),
		Seed1: rapid.Uint64().Draw(t, "seed1"), Seed2: rapid.Uint64().Draw(t, "seed2"),
		Policy: discovery.LocalityPolicy{
			Spill:            rapid.SampledFrom([]discovery.SpillMode{discovery.SpillHealth, discovery.SpillLastResort}).Draw(t, "spill"),
			Overprovisioning: rapid.SampledFrom([]int{100, 140}).Draw(t, "factor"),
			PanicThreshold:   rapid.SampledFrom([]int{0, 50}).Draw(t, "panic"),
			TierEndpointsMin: rapid.IntRange(1, 3).Draw(t, "min"),
		}}
	n := rapid.IntRange(0, 5).Draw(t, "tiers")
	st, moments := make([]locality.State, n), make([]balance.Moment, n)
	for i := range n {
		total := rapid.IntRange(0, 6).Draw(t, "total")
		st[i] = locality.State{Datacenter: fmt.Sprint("dc", i/2), Total: total, Usable: rapid.IntRange(0, total).Draw(t, "usable"),
			Down: rapid.IntRange(0, 4).Draw(t, "down") == 0}
		moments[i] = balance.Moment{Method: discovery.BalanceMethod(rapid.IntRange(0, 3).Draw(t, "method")), Cursor: rapid.Uint64().Draw(t, "cursor")}
		for range rapid.IntRange(1, 5).Draw(t, "candidates") {
			moments[i].Candidates = append(moments[i].Candidates, balance.Candidate{Weight: rapid.IntRange(1, 9).Draw(t, "weight"),
				InFlight: int64(rapid.IntRange(0, 4).Draw(t, "in flight")), Latency: rapid.Float64Range(1e-4, 2).Draw(t, "latency")})
		}
	}
	return made(r, st, moments)
}

// TestReplay: every decision can be made again from its record, also after a way through JSON.
func TestReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawn(t)
		if err := Replay(r); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(r.Lines(), "\n"))
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var back Record
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if again, _ := json.Marshal(back); string(again) != string(text) {
			t.Fatalf("%s\n%s", text, again)
		}
		if err := Replay(back); err != nil {
			t.Fatalf("after JSON: %v", err)
		}
	})
}

// TestReplayFinds: a record that was changed afterwards does not explain itself.
func TestReplayFinds(t *testing.T) {
	st := []locality.State{{Datacenter: "dc1", Total: 4, Usable: 2}, {Datacenter: "dc2", Total: 4, Usable: 4}}
	one := balance.Moment{Candidates: []balance.Candidate{{Weight: 1, Latency: 0.01}, {Weight: 1, Latency: 0.1}}}
	good := made(Record{Policy: defaults, U: 0.9}, st, []balance.Moment{one, one})
	if err := Replay(good); err != nil || good.Tier != 1 || good.Reason != SpillHealth || good.Endpoint != "10.0.1.0:80" {
		t.Fatalf("%v: %+v", err, good)
	}
	for name, change := range map[string]func(*Record){
		"state":       func(r *Record) { r.Tiers[0].Usable = 3 },
		"impossible":  func(r *Record) { r.Tiers[0].Usable = 5 },
		"negative":    func(r *Record) { r.Tiers[0].Usable = -1 },
		"share":       func(r *Record) { r.Tiers[0].Share = 0.69 },
		"panic":       func(r *Record) { r.Tiers[0].Panic = true },
		"merged":      func(r *Record) { r.Tiers[0].Merged = 1 },
		"down":        func(r *Record) { r.Tiers[1].Down = true },
		"draw":        func(r *Record) { r.U = 0.1 },
		"tier":        func(r *Record) { r.Tier = 0 },
		"no tier":     func(r *Record) { r.Tier = -1 },
		"far tier":    func(r *Record) { r.Tier = 2 },
		"near tier":   func(r *Record) { r.Tier = -2 },
		"reason":      func(r *Record) { r.Reason = Nearest },
		"factor":      func(r *Record) { r.Policy.Overprovisioning = 100 },
		"mode":        func(r *Record) { r.Policy.Spill = discovery.SpillLastResort },
		"datacenter":  func(r *Record) { r.Datacenter = "dc1" },
		"endpoint":    func(r *Record) { r.Endpoint = r.Candidates[1] },
		"no endpoint": func(r *Record) { r.Endpoint = "" },
		"latency":     func(r *Record) { r.Balance.Candidates[0].Latency = 1 },
		"in flight":   func(r *Record) { r.Balance.Candidates[0].InFlight = 99 },
		"tried":       func(r *Record) { r.Tried = r.Candidates[:1] },
		"candidates":  func(r *Record) { r.Candidates = r.Candidates[:1] },
	} {
		bad := good
		bad.Tiers = append([]Tier(nil), good.Tiers...)
		bad.Candidates = append([]string(nil), good.Candidates...)
		bad.Balance.Candidates = append([]balance.Candidate(nil), good.Balance.Candidates...)
		change(&bad)
		if err := Replay(bad); err == nil {
			t.Errorf("%s: nothing found", name)
		}
	}
}

// TestReplayFurtherTries: the tier of a further try follows from the tries before, so that only what is left can be looked at.
func TestReplayFurtherTries(t *testing.T) {
	st := []locality.State{{Datacenter: "dc1", Total: 2, Usable: 2}, {Datacenter: "dc2", Total: 2, Usable: 2}}
	two := balance.Moment{Candidates: []balance.Candidate{{Weight: 1}, {Weight: 1}}}
	r := made(Record{Policy: defaults, U: 0.9}, st, []balance.Moment{two, two})
	again := r
	again.Attempt, again.Reason, again.Tried = 2, Retry, []string{r.Endpoint}
	again.Endpoint = again.Candidates[again.Pick()]
	if again.Endpoint == r.Endpoint {
		t.Fatal("the same endpoint again")
	}
	if err := Replay(again); err != nil {
		t.Error(err)
	}
	elsewhere := Record{Policy: defaults, U: r.U, Tiers: r.Tiers, Tier: 1, Attempt: 2, Reason: TierDown, Endpoint: "10.0.1.1:80", Datacenter: "dc2"}
	if err := Replay(elsewhere); err != nil {
		t.Error(err)
	}
	elsewhere.Reason = Nearest
	if err := Replay(elsewhere); err == nil {
		t.Error("a farther tier is the nearest")
	}
	elsewhere.Reason, elsewhere.Attempt = TierDown, 1
	if err := Replay(elsewhere); err == nil {
		t.Error("a first try goes elsewhere than its draw")
	}
}

func TestJSONRefuses(t *testing.T) {
	for _, r := range []Record{{Reason: ReasonCount}, {Policy: discovery.LocalityPolicy{Spill: 9}}, {Balance: balance.Moment{Method: 9}},
		{Candidates: []string{"a"}}} {
		if text, err := json.Marshal(r); err == nil {
			t.Errorf("%s", text)
		}
	}
	good, err := json.Marshal(Record{})
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{`"health"`, `"p2c"`, `"nearest"`, `"0"`} {
		var r Record
		if err := json.Unmarshal([]byte(strings.Replace(string(good), word, `"best"`, 1)), &r); err == nil {
			t.Errorf("%s may be best", word)
		}
	}
}

// FuzzReplay: a record that came from outside is judged, never trusted: no input may panic.
func FuzzReplay(f *testing.F) {
	st := []locality.State{{Datacenter: "dc1", Total: 4, Usable: 2}, {Datacenter: "dc2", Total: 4, Usable: 4, Down: true}}
	one := balance.Moment{Method: discovery.WeightedRoundRobin, Candidates: []balance.Candidate{{Weight: 1}, {Weight: 1 << 40}, {Weight: -1}}}
	for _, u := range []float64{0, 0.9} {
		text, err := json.Marshal(made(Record{Policy: defaults, U: u, Tried: []string{"x"}}, st, []balance.Moment{one, one}))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r Record
		if json.Unmarshal(text, &r) != nil {
			return
		}
		r.Lines()
		first := Replay(r)
		if second := Replay(r); (first == nil) != (second == nil) {
			t.Errorf("%v, then %v", first, second)
		}
	})
}

func TestWhyAllocatesNothing(t *testing.T) {
	st := []locality.State{{Datacenter: "dc1", Total: 4, Usable: 2}, {Datacenter: "dc2", Total: 4, Usable: 4}}
	shares := locality.Split(defaults, st, nil)
	sum := Reason(0)
	if n := testing.AllocsPerRun(100, func() { sum += Why(st, shares, defaults, 1, false) }); n != 0 || sum == 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkWhy(b *testing.B) {
	st := []locality.State{{Datacenter: "dc1", Total: 4, Usable: 2}, {Datacenter: "dc2", Total: 4, Usable: 4}}
	shares := locality.Split(defaults, st, nil)
	b.ReportAllocs()
	for b.Loop() {
		Why(st, shares, defaults, 1, false)
	}
}

func BenchmarkReplay(b *testing.B) {
	st := []locality.State{{Datacenter: "dc1", Total: 4, Usable: 2}, {Datacenter: "dc2", Total: 4, Usable: 4}}
	one := balance.Moment{Candidates: make([]balance.Candidate, 4)}
	r := made(Record{Policy: defaults, U: 0.9, Seed1: rand.New(rand.NewPCG(1, 1)).Uint64()}, st, []balance.Moment{one, one})
	b.ReportAllocs()
	for b.Loop() {
		if err := Replay(r); err != nil {
			b.Fatal(err)
		}
	}
}
