package locality

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"spillway/discovery"
)

var rewrite = flag.Bool("rewrite", false, "write what the code says into testdata")

// script runs the lines "input -> output" of a file. Lines without an arrow set something and give no output; # begins a comment.
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
		fields := strings.Fields(input)
		if fields[0] == "nothing" {
			fields = nil
		}
		got, err := step(fields)
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

// place reads "region/zone/sub_zone"; - and what is left out are unknown.
func place(text string) (l discovery.Locality) {
	for i, part := range strings.Split(text, "/") {
		if part == "-" {
			part = ""
		}
		*[]*string{&l.Region, &l.Zone, &l.SubZone}[i] = part
	}
	return l
}

func levels(text string) (out []discovery.TierLevel) {
	for _, name := range strings.Split(text, ",") {
		switch name {
		case "region":
			out = append(out, discovery.TierRegion)
		case "zone":
			out = append(out, discovery.TierZone)
		case "sub_zone":
			out = append(out, discovery.TierSubZone)
		}
	}
	return out
}

// TestArrange runs testdata/arrange.txt: "home PLACE key=value..." and "PLACE... -> tier; tier", a tier being
// "number datacenter[*]: members", * for the own datacenter.
func TestArrange(t *testing.T) {
	var p Place
	script(t, "testdata/arrange.txt", func(fields []string) (string, error) {
		if len(fields) > 0 && fields[0] == "home" {
			p = Place{Home: place(fields[1])}
			for _, f := range fields[2:] {
				switch key, value, _ := strings.Cut(f, "="); {
				case f == "level=zone":
					p.Level = discovery.LevelZone
				case key == "tiers":
					p.Levels = levels(value)
				case key == "order":
					p.Order = strings.Split(value, ",")
				default:
					return "", fmt.Errorf("unknown word %s", f)
				}
			}
			return "", nil
		}
		var all []discovery.Locality
		for _, f := range fields {
			all = append(all, place(f))
		}
		var out []string
		for _, tier := range Arrange(p, all) {
			s := fmt.Sprintf("%d %s", tier.Number, tier.Datacenter)
			if tier.Home {
				s += "*"
			}
			out = append(out, s+": "+strings.Trim(fmt.Sprint(tier.Members), "[]"))
		}
		return strings.Join(out, "; "), nil
	})
}

func number(t string) int {
	n, err := strconv.Atoi(t)
	if err != nil {
		return -1
	}
	return n
}

// states reads tiers of the form datacenter:usable/total[:down].
func states(fields []string) (out []State, err error) {
	for _, f := range fields {
		parts := strings.Split(f, ":")
		if len(parts) < 2 {
			return nil, fmt.Errorf("a tier is datacenter:usable/total[:down], not %s", f)
		}
		usable, total, _ := strings.Cut(parts[1], "/")
		s := State{Datacenter: parts[0], Usable: number(usable), Total: number(total), Down: len(parts) > 2 && parts[2] == "down"}
		if s.Usable < 0 || s.Usable > s.Total {
			return nil, fmt.Errorf("numbers of %s", f)
		}
		out = append(out, s)
	}
	return out, nil
}

// said is one share as scripts write it: percent, ! for panic, >N for merged into N.
func said(s Share) string {
	out := strconv.FormatFloat(float64(int(s.Load*10000+0.5))/100, 'f', -1, 64)
	if s.Panic {
		out += "!"
	}
	if s.Merged >= 0 {
		out = fmt.Sprintf(">%d", s.Merged)
	}
	return out
}

// TestSplit runs testdata/split*.txt: "policy key=value..." and "tier... -> share...".
func TestSplit(t *testing.T) {
	for _, file := range []string{"testdata/split.txt", "testdata/split-panic.txt", "testdata/split-merge.txt", "testdata/split-envoy.txt"} {
		p := discovery.LocalityPolicy{}
		script(t, file, func(fields []string) (string, error) {
			if len(fields) > 0 && fields[0] == "policy" {
				p = discovery.LocalityPolicy{Overprovisioning: 140, PanicThreshold: 50, TierEndpointsMin: 2}
				for _, f := range fields[1:] {
					switch key, value, _ := strings.Cut(f, "="); {
					case f == "spill=last_resort":
						p.Spill = discovery.SpillLastResort
					case key == "factor":
						p.Overprovisioning = number(value)
					case key == "panic":
						p.PanicThreshold = number(value)
					case key == "min":
						p.TierEndpointsMin = number(value)
					default:
						return "", fmt.Errorf("unknown word %s", f)
					}
				}
				return "", nil
			}
			tiers, err := states(fields)
			if err != nil {
				return "", err
			}
			var out []string
			for _, s := range Split(p, tiers, nil) {
				out = append(out, said(s))
			}
			return strings.Join(out, " "), nil
		})
	}
}
