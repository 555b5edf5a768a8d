package balance

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"spillway/discovery"
)

var rewrite = flag.Bool("rewrite", false, "write what the code says into testdata")

// script runs the lines "input -> output" of a file. Lines without an arrow change something and give no output; # begins a comment.
func script(t *testing.T, file string, step func(fields []string) (string, error)) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	steps := 0
	for i, line := range lines {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		input, want, arrow := strings.Cut(line, "->")
		got, err := step(strings.Fields(input))
		if err != nil {
			t.Fatalf("%s:%d: %v", file, i+1, err)
		}
		want = strings.Join(strings.Fields(want), " ")
		if arrow {
			steps++
			lines[i] = strings.TrimRight(input, " ") + " -> " + got
		}
		if got != want && !*rewrite {
			t.Errorf("%s:%d: %s\n got %s\nwant %s", file, i+1, strings.TrimSpace(input), got, want)
		}
	}
	if steps == 0 {
		t.Errorf("%s: no step", file)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// fresh makes n endpoints that nothing is known of.
func fresh(n int) []*Load {
	out := make([]*Load, n)
	for i := range out {
		out[i] = new(Load)
	}
	return out
}

// named gives endpoints as letters.
func named(picks []int) string {
	var out []string
	for _, i := range picks {
		if i < 0 {
			out = append(out, "none")
		} else {
			out = append(out, string(rune('A'+i)))
		}
	}
	return strings.Join(out, " ")
}

// turnScript is the state of testdata/turns.txt.
type turnScript struct {
	method discovery.BalanceMethod
	cursor *Cursor
	loads  []*Load
	set    *Set
}

func (s *turnScript) step(fields []string) (string, error) {
	switch fields[0] {
	case "round_robin":
		s.method, s.cursor = discovery.RoundRobin, new(Cursor)
	case "weighted_round_robin":
		s.method, s.cursor = discovery.WeightedRoundRobin, new(Cursor)
	case "weights":
		weights := make([]int, len(fields)-1)
		for i, f := range fields[1:] {
			w, err := strconv.Atoi(f)
			if err != nil {
				return "", err
			}
			weights[i] = w
		}
		s.loads = fresh(len(weights))
		s.set = NewSet(s.method, s.loads, weights, s.cursor)
	case "take":
		n, err := strconv.Atoi(fields[1])
		if err != nil {
			return "", err
		}
		var tried []*Load
		for _, f := range fields[2:] {
			if f != "without" {
				tried = append(tried, s.loads[f[0]-'A'])
			}
		}
		picks := make([]int, n)
		for i := range picks {
			picks[i] = s.set.Pick(0, seeded(1), tried)
		}
		return named(picks), nil
	default:
		return "", fmt.Errorf("unknown word %s", fields[0])
	}
	return "", nil
}

// TestTurns runs testdata/turns.txt.
func TestTurns(t *testing.T) {
	var s turnScript
	script(t, "testdata/turns.txt", s.step)
}

// latencyScript is the state of testdata/latency.txt.
type latencyScript struct {
	load   *Load
	now    time.Duration
	median time.Duration
}

func (s *latencyScript) step(fields []string) (string, error) {
	durations := make([]time.Duration, len(fields))
	times := 1
	for i, f := range fields[1:] {
		if n, ok := strings.CutPrefix(f, "x"); ok {
			times, _ = strconv.Atoi(n)
			continue
		}
		d, err := time.ParseDuration(f)
		if err != nil {
			return "", err
		}
		durations[i+1] = d
	}
	switch fields[0] {
	case "median":
		*s = latencyScript{load: new(Load), now: time.Hour, median: durations[1]}
	case "every": // every GAP LATENCY xTIMES
		for range times {
			s.now += durations[1]
			s.load.Observe(int64(s.now), durations[2])
		}
	case "after": // after GAP
		s.now += durations[1]
	default:
		return "", fmt.Errorf("unknown word %s", fields[0])
	}
	if fields[0] == "median" {
		return "", nil
	}
	seconds := s.load.estimate(int64(s.now), s.median.Seconds())
	return strconv.FormatFloat(seconds*1000, 'g', 3, 64) + "ms", nil
}

// TestLatency runs testdata/latency.txt.
func TestLatency(t *testing.T) {
	var s latencyScript
	script(t, "testdata/latency.txt", s.step)
}
