package metric

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spillway/discovery"
	"spillway/proxy/answer"
	"spillway/proxy/bulkhead"
	"spillway/proxy/decision"
)

// docs/metrics.md lists what a scrape shows, kinds, labels and closed lists of values included: neither more nor less.
func TestDocumentListsWhatIsShown(t *testing.T) {
	b, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	document := string(b)
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge|histogram) \\|([^|]*)\\|")
	byCluster, _, ok := strings.Cut(document, "## Of the process")
	if !ok {
		t.Fatal("no part about the process")
	}
	said := map[string]string{}
	ofProcess, _, _ := strings.Cut(document[len(byCluster):], "## Codes")
	for _, part := range []struct{ text, labels string }{{byCluster, "`service` `destination_datacenter` "}, {ofProcess, ""}} {
		for _, r := range row.FindAllStringSubmatch(part.text, -1) {
			said[r[1]] = r[2] + " " + labelsOf(part.labels+r[3])
		}
	}
	shown := map[string]string{}
	families, err := everything().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "go_") || strings.HasPrefix(f.GetName(), "process_") {
			continue
		}
		labels := ""
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels += "`" + l.GetName() + "` "
		}
		shown[f.GetName()] = strings.ToLower(f.GetType().String()) + " " + labelsOf(labels)
	}
	for name := range shown {
		if said[name] != shown[name] {
			t.Errorf("%s is %q, the document says %q", name, shown[name], said[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if shown[name] == "" {
			t.Errorf("%s is in the document alone", name)
		}
	}
	values := slices.Concat(dialNames[:], limitNames[:])
	for r := range decision.ReasonCount {
		values = append(values, r.String())
	}
	for _, v := range values {
		if !strings.Contains(document, "`"+v+"`") {
			t.Errorf("the value %s is not in the document", v)
		}
	}
	_, codes, _ := strings.Cut(document, "## Codes")
	listed := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(codes, -1)
	if len(listed) < 5 {
		t.Errorf("the document lists %d codes", len(listed))
	}
	for _, c := range listed {
		if answer.Parse([]byte(c[1])) == answer.None {
			t.Errorf("%s is no code", c[1])
		}
	}
}

// labelsOf are the label names in a cell, sorted. Its parts end with a semicolon; what stands behind a colon or in brackets tells values.
func labelsOf(cell string) string {
	var names []string
	cell = regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(cell, "")
	for part := range strings.SplitSeq(cell, ";") {
		part, _, _ = strings.Cut(part, ":")
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(part, -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// everything has counted each thing once.
func everything() *Metrics {
	m := New("v1")
	c := m.Cluster("pay", "dc1")
	c.Watch(new(bulkhead.Cluster))
	c.limits[0].Configure(discovery.BulkheadLimits{Connections: 1, Pending: 1, Requests: 1, Retries: 1})
	c.Request(503, answer.Overflow, decision.Nearest, 1)
	m.DiscoveryRejected("services.yaml")
	m.DiscoveryKept("pay", 1)
	m.InboundRefused("untrusted")
	m.RecordDropped("tracestate", "malformed")
	m.Refusal("", answer.NoRoute)
	m.Listener("outbound.listen", func() int64 { return 1 })
	return m
}
