package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func figuresOf(t *testing.T) *published {
	t.Helper()
	p, err := loadPublished()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPublishedFigures(t *testing.T) {
	p := figuresOf(t)
	for _, f := range []struct {
		got  figures
		rows int
	}{{p.spill, 10}, {p.nearby, 2}, {p.failover, 3}} {
		if len(f.got.rows) != f.rows || f.got.source != "Envoy 1.39.3" {
			t.Errorf("%d rows of %q, want %d of Envoy 1.39.3", len(f.got.rows), f.got.source, f.rows)
		}
	}
	if got, err := p.nearby.find("configuration", "dc1_first").number("p50_ms"); err != nil || got != 4 {
		t.Errorf("p50_ms of dc1_first is %v (%v), published is 4.0", got, err)
	}
	cases, err := spillCases(p.spill)
	if err != nil {
		t.Fatal(err)
	}
	want := spillCase{factor: "140", dead: 2, usable: 50, expected: 70, published: 69.8}
	if cases[2] != want {
		t.Errorf("third case is %+v, want %+v", cases[2], want)
	}
	for _, c := range failoverCases() {
		if !c.hole && p.failover.find("configuration", c.configuration)["failed"] == "" {
			t.Errorf("%s has no published row", c.configuration)
		}
	}
}

// TestLastResortLine holds the constants to the comment of the published file.
func TestLastResortLine(t *testing.T) {
	text, err := figureFiles.ReadFile("testdata/nearby.tsv")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{lastResortSource, fmt.Sprintf("%d requests", lastResortRequests)}
	for _, l := range lastResortLine() {
		want = append(want, fmt.Sprintf("%d each", l.each))
	}
	for _, w := range want {
		if !strings.Contains(string(text), w) {
			t.Errorf("nearby.tsv does not say %q", w)
		}
	}
}

func TestParseFiguresRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"a row too short": "# Measured with X 1: y\n# a\tb\n1\n",
		"no source":       "# a\tb\n1\t2\n",
		"no rows":         "# Measured with X 1: y\n# a\tb\n",
	} {
		if f, err := parseFigures(text); err == nil {
			t.Errorf("%s: taken as %+v", name, f)
		}
	}
}

func sample() *scenario {
	s := &scenario{Name: "spill", Shows: "what is shown.", Means: "What it means.", took: 1500 * time.Millisecond}
	t := s.table([]column{{key: "configuration", title: "configuration", left: true}, {key: "requests", title: "requests"}, {key: "dc1_percent", title: "dc1 %"}, {title: "people only"}, {key: "json_only"}})
	t.rows = []row{
		{cells: []cell{word("a"), count(6000), number(99.96, 1), word("x"), number(1, 0)}, ok: true},
		{cells: []cell{word("längere"), count(1), blank(), word("y"), blank()}, ok: false, why: "reason"},
	}
	return s
}

func TestTable(t *testing.T) {
	var b strings.Builder
	sample().tables[0].render(&b)
	want := `
  configuration  requests  dc1 %  people only
  -------------  --------  -----  -----------  --
  a                  6000  100.0            x  ok
  längere               1                   y  not ok: reason
`
	if b.String() != want[1:] {
		t.Errorf("got\n%s\nwant%s", b.String(), want)
	}
}

func TestScenarioText(t *testing.T) {
	s := sample()
	var b strings.Builder
	s.render(&b)
	for _, w := range []string{"spill: what is shown.\n", "NOT OK in 1.5 s"} {
		if !strings.Contains(b.String(), w) {
			t.Errorf("%q is missing in\n%s", w, b.String())
		}
	}
	s.tables[0].rows[1].ok = true
	b.Reset()
	s.render(&b)
	if !strings.Contains(b.String(), "OK in 1.5 s. What it means.") {
		t.Errorf("a good scenario reads\n%s", b.String())
	}
	s.Error = "sidecar ended"
	b.Reset()
	s.render(&b)
	if !strings.Contains(b.String(), "FAILED after 1.5 s: sidecar ended") {
		t.Errorf("a broken scenario reads\n%s", b.String())
	}
}

func TestScenarioVerdict(t *testing.T) {
	s := sample()
	if s.ok() {
		t.Error("ok with a row that misses")
	}
	s.tables[0].rows[1].ok = true
	if !s.ok() {
		t.Error("not ok with good rows")
	}
	if s.rowsMin = 3; s.ok() {
		t.Error("ok with a row missing")
	}
	if s.rowsMin, s.Error = 0, "x"; s.ok() {
		t.Error("ok with an error")
	}
	if (&scenario{}).ok() {
		t.Error("ok without any row")
	}
}

// TestJSON holds the form that others read: names, order and types.
func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := (report{Scenarios: []*scenario{sample()}}).write(&b); err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, b.Bytes()); err != nil {
		t.Fatal(err)
	}
	want := `{"scenarios":[{"name":"spill","ok":false,"seconds":1.5,"rows":[` +
		`{"configuration":"a","requests":6000,"dc1_percent":100.0,"json_only":1,"ok":true},` +
		`{"configuration":"längere","requests":1,"ok":false,"remark":"reason"}]}]}`
	if strings.TrimSpace(compact.String()) != want {
		t.Errorf("got\n%s\nwant\n%s", compact.String(), want)
	}
}

// TestColumnsOfFigures: a scenario's rows have every column of its published file.
func TestColumnsOfFigures(t *testing.T) {
	p := figuresOf(t)
	for name, c := range map[string]struct {
		f    figures
		cols []column
	}{"spill": {p.spill, spillColumns("")}, "nearby": {p.nearby, nearbyColumns("")}, "failover": {p.failover, failoverColumns("")}} {
		have := map[string]bool{}
		for _, col := range c.cols {
			have[col.key] = true
		}
		for _, want := range c.f.columns {
			if !have[want] {
				t.Errorf("%s: no column %s", name, want)
			}
		}
	}
}

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values  []float64
		q, want float64
	}{{nil, 0.5, 0}, {[]float64{3}, 0.99, 3}, {[]float64{4, 1, 2, 3}, 0.5, 2.5}, {[]float64{1, 2, 3}, 1, 3}, {[]float64{1, 2, 3}, 0, 1}} {
		if got := quantile(c.values, c.q); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("quantile(%v, %v) = %v, want %v", c.values, c.q, got, c.want)
		}
	}
}

// tallyOf is a tally of good answers by endpoint.
func tallyOf(counts map[string]int) *tally {
	t := newTally()
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		dc, _, _ := strings.Cut(name, "-")
		for range counts[name] {
			t.add(answer{status: 200, endpoint: name, datacenter: dc}, nil, time.Millisecond)
		}
	}
	return t
}

func TestSpillVerdict(t *testing.T) {
	c := spillCase{factor: "140", dead: 2, usable: 50, expected: 70, published: 69.8}
	for _, v := range []struct {
		near, far int
		broken    bool
		ok        bool
	}{{70, 30, false, true}, {72, 28, false, true}, {68, 32, false, true}, {73, 27, false, false}, {67, 33, false, false}, {70, 30, true, false}} {
		got := tallyOf(map[string]int{"dc1-1": v.near, "dc2-1": v.far})
		if v.broken {
			got.add(answer{status: 503, reason: "reset"}, nil, 0)
		}
		if r := spillRow(c, got); r.ok != v.ok || len(r.cells) != len(spillColumns("")) {
			t.Errorf("%d:%d broken=%v is ok=%v (%s), want %v", v.near, v.far, v.broken, r.ok, r.why, v.ok)
		}
	}
}

func TestLastResortVerdict(t *testing.T) {
	two, all := lastResortLine()[0], lastResortLine()[1]
	for _, v := range []struct {
		line lastResort
		got  map[string]int
		ok   bool
	}{
		{two, map[string]int{"dc1-3": 750, "dc1-4": 750}, true},
		{two, map[string]int{"dc1-3": 800, "dc1-4": 700}, false},
		{two, map[string]int{"dc2-3": 750, "dc2-4": 750}, false},
		{all, map[string]int{"dc2-1": 375, "dc2-2": 375, "dc2-3": 376, "dc2-4": 374}, true},
		{all, map[string]int{"dc2-1": 500, "dc2-2": 500, "dc2-3": 500}, false},
	} {
		if r := lastResortRow(v.line, tallyOf(v.got)); r.ok != v.ok || len(r.cells) != len(lastResortColumns()) {
			t.Errorf("%v is ok=%v (%s), want %v", v.got, r.ok, r.why, v.ok)
		}
	}
}

func TestNearbyVerdict(t *testing.T) {
	direct := tallyOf(map[string]int{"dc1-1": 100})
	slow := tallyOf(map[string]int{"dc1-1": 100})
	for i := range slow.took {
		slow.took[i] += 0.2
	}
	pub := figuresOf(t).nearby.rows[0]
	for name, v := range map[string]struct {
		p  pair
		ok bool
	}{
		"as fast":   {pair{direct, tallyOf(map[string]int{"dc1-1": 100})}, true},
		"slower":    {pair{direct, slow}, false},
		"one far":   {pair{direct, tallyOf(map[string]int{"dc1-1": 99, "dc2-1": 1})}, false},
		"none near": {pair{direct, tallyOf(map[string]int{"dc2-1": 100})}, false},
	} {
		rows := v.p.rows(pub, 1)
		if rows[1].ok != v.ok || len(rows[1].cells) != len(nearbyColumns("")) {
			t.Errorf("%s: ok=%v (%s), want %v", name, rows[1].ok, rows[1].why, v.ok)
		}
	}
	if r := overBothRow(tallyOf(map[string]int{"dc1-1": 60, "dc2-1": 40}), pub); r.ok {
		t.Error("60:40 counts as half and half")
	}
}

// TestFailoverVerdict walks through what can become of the requests around a kill.
func TestFailoverVerdict(t *testing.T) {
	fault := time.Unix(1000, 0)
	at := func(after, took float64, method string, a answer, err error) shot {
		done := fault.Add(time.Duration(after * float64(time.Second)))
		return shot{method, done.Add(-time.Duration(took * float64(time.Second))), done, a, err}
	}
	near, far := answer{status: 200, datacenter: nearby}, answer{status: 200, datacenter: faraway}
	before := at(-0.5, 0.001, http.MethodGet, near, nil)
	killed, hole := failoverCase{configuration: "neither"}, failoverCase{configuration: "black_hole", hole: true}
	for name, v := range map[string]struct {
		c      failoverCase
		shots  []shot
		ok     bool
		window string
	}{
		"at once":             {killed, []shot{before, at(0.01, 0.001, http.MethodPost, far, nil)}, true, "none"},
		"late":                {killed, []shot{before, at(0.2, 0.19, http.MethodGet, far, nil)}, false, "none"},
		"never":               {killed, []shot{before, at(0.01, 0.001, http.MethodGet, near, nil)}, false, "none"},
		"spilled before":      {killed, []shot{at(-0.5, 0.001, http.MethodGet, far, nil), at(0.01, 0.001, http.MethodGet, far, nil)}, false, "none"},
		"two lost":            {killed, []shot{before, at(0.01, 0.01, http.MethodGet, answer{status: 503, reason: "reset"}, nil), at(0.02, 0.01, http.MethodPost, answer{}, errors.New("EOF")), at(0.03, 0.01, http.MethodGet, far, nil)}, false, "0.01-0.02"},
		"no endpoint said so": {killed, []shot{before, at(0.01, 0.01, http.MethodGet, answer{status: 200}, nil), at(0.02, 0.01, http.MethodGet, far, nil)}, false, "0.01-0.01"},
		"hole":                {hole, []shot{before, at(2.9, 2.9, http.MethodGet, far, nil)}, true, "none"},
		"hole too long":       {hole, []shot{before, at(3.2, 3.1, http.MethodGet, far, nil)}, false, "none"},
	} {
		o := judge(v.shots, fault)
		r := failoverRow(v.c, o, figureRow{})
		if r.ok != v.ok || o.window().text != v.window || len(r.cells) != len(failoverColumns("")) {
			t.Errorf("%s: ok=%v (%s), failing %s; want %v, %s", name, r.ok, r.why, o.window().text, v.ok, v.window)
		}
	}
}

// TestSecondRun: only POSTs that may have been read allow a row to be measured again.
func TestSecondRun(t *testing.T) {
	lost := func(method, reason string) shot {
		return shot{method: method, answer: answer{status: 503, reason: reason}}
	}
	for _, v := range []struct {
		shots []shot
		again bool
	}{
		{[]shot{{method: http.MethodGet, answer: answer{status: 200, datacenter: nearby}}}, false},
		{[]shot{lost(http.MethodPost, "reset")}, true},
		{[]shot{lost(http.MethodPost, "reset"), lost(http.MethodGet, "reset")}, false},
		{[]shot{lost(http.MethodPost, "connect_failure")}, false},
	} {
		if o := judge(v.shots, time.Time{}); o.secondRun() != v.again {
			t.Errorf("%s: again=%v, want %v", o.why(), o.secondRun(), v.again)
		}
	}
}

func TestProgress(t *testing.T) {
	var b strings.Builder
	p := newProgress(&b, true, "spill")
	p.show("one")
	p.show("too soon")
	p.clear()
	p.clear()
	if got := b.String(); !strings.HasSuffix(got, "one\r\x1b[K") || strings.Contains(got, "soon") {
		t.Errorf("on a terminal: %q", got)
	}
	b.Reset()
	p = newProgress(&b, false, "spill")
	p.show("%d of %d", 1, 2)
	p.clear()
	if got := b.String(); !strings.HasSuffix(got, "1 of 2\n") || strings.Contains(got, "\x1b") {
		t.Errorf("elsewhere: %q", got)
	}
}
