package health

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spillway/discovery"
)

// zero is a source without chance: Float64 gives 0.
type zero struct{}

func (zero) Uint64() uint64 { return 0 }

// still gives no jitter.
func still() *rand.Rand { return rand.New(zero{}) }

func defaults() Config {
	return Config{
		Passive: discovery.PassiveHealth{ConsecutiveFailures: 3, Window: 10 * time.Second, Ejection: 5 * time.Second,
			EjectionMax: 5 * time.Minute, MaxEjectedPercent: 50},
		Active: discovery.ActiveCheck{Interval: time.Second, Timeout: time.Second, UnhealthyAfter: 2, HealthyAfter: 2, CrossDatacenterTime: 3},
	}
}

// script runs the lines of a file in testdata.
type script struct {
	c Config
	s *State
}

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 3 {
		t.Fatalf("testdata: %v %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var sc script
			for i, line := range strings.Split(string(text), "\n") {
				if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
					continue
				}
				do, want, _ := strings.Cut(line, "->")
				fields := strings.Fields(do)
				if fields[0] == "config" {
					sc.config(t, fields[1:])
					continue
				}
				got, want := sc.step(t, fields), strings.Join(strings.Fields(want), " ")
				if strings.HasSuffix(want, "probe=?") {
					got = got[:strings.LastIndex(got, "=")] + "=?"
				}
				if got != want {
					t.Fatalf("%s:%d: %s\ngot  %s\nwant %s", file, i+1, strings.TrimSpace(do), got, want)
				}
			}
		})
	}
}

func (sc *script) config(t *testing.T, fields []string) {
	sc.c, sc.s = defaults(), new(State)
	for _, f := range fields {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "consecutive":
			sc.c.Passive.ConsecutiveFailures = number(t, value)
		case "percent":
			sc.c.Passive.MaxEjectedPercent = number(t, value)
		case "ejection":
			sc.c.Passive.Ejection = duration(t, value)
		case "max":
			sc.c.Passive.EjectionMax = duration(t, value)
		case "check":
			sc.c.Active.Path = value
			sc.s.SetCheck(true)
		case "unhealthy":
			sc.c.Active.UnhealthyAfter = number(t, value)
		case "healthy":
			sc.c.Active.HealthyAfter = number(t, value)
		case "scale":
			scale, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			sc.c.Active.CrossDatacenterTime = scale
		case "cross":
			sc.c.CrossDatacenter = true
		default:
			t.Fatalf("config: unknown key %q", key)
		}
	}
}

// step does one line and describes what came of it.
func (sc *script) step(t *testing.T, fields []string) string {
	now := int64(duration(t, fields[0]))
	var args []string
	for _, f := range fields[2:] {
		_, value, found := strings.Cut(f, "=")
		if !found {
			value = f
		}
		args = append(args, value)
	}
	changed := false
	switch op := fields[1]; op {
	case "look":
	case "success":
		sc.s.OnSuccess(now)
	case "failure":
		ejected := 0
		if len(args) == 2 {
			ejected = number(t, args[0])
		}
		changed = sc.s.OnFailure(now, sc.c, still(), ejected, number(t, args[len(args)-1]))
	case "refused":
		changed = sc.s.OnRefused(now, still())
	case "connected":
		changed = sc.s.OnConnected(now)
	case "check":
		changed = sc.s.OnCheck(now, sc.c, result(t, args[0]))
	case "checks":
		changed = sc.s.SetCheck(args[0] == "on")
	case "drain":
		changed = sc.s.SetDraining(args[0] == "on")
	default:
		t.Fatalf("unknown operation %q", op)
	}
	out := sc.s.Describe(now)
	if changed {
		out += " changed"
	}
	if until := sc.s.Until(now); until != 0 {
		out += fmt.Sprintf(" until=%v", short(until))
	}
	if due := sc.s.ProbeDue(); due != 0 {
		out += fmt.Sprintf(" probe=%v", short(due))
	}
	if sc.s.Usable(now) != (sc.s.Describe(now) == "usable" || sc.s.Describe(now) == "unchecked") {
		t.Fatalf("%v: Usable is %v while it is described as %q", fields, sc.s.Usable(now), out)
	}
	return out
}

// short prints whole seconds as such and everything else in milliseconds.
func short(ns int64) string {
	if d := time.Duration(ns); d%time.Second != 0 {
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	}
	return strconv.FormatInt(ns/int64(time.Second), 10) + "s"
}

func result(t *testing.T, name string) Result {
	for r := Good; r <= Draining; r++ {
		if r.String() == name {
			return r
		}
	}
	t.Fatalf("unknown result %q", name)
	return 0
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func duration(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
