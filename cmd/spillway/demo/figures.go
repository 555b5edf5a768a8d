package demo

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
)

// The published figures, as they were published.
//
//go:embed testdata/spill-by-health.tsv testdata/nearby.tsv testdata/failover.tsv
var figureFiles embed.FS

// figureRow is one row of published figures: column to text.
type figureRow map[string]string

// figures is one file of published figures.
type figures struct {
	source  string // who was measured, with version
	columns []string
	rows    []figureRow
}

// published is everything that the scenarios are shown beside.
type published struct{ spill, nearby, failover figures }

// lastResort is nginx's published line with `backup` for dc2 (the last comment of testdata/nearby.tsv): how many requests of
// lastResortRequests each endpoint that is left takes.
type lastResort struct {
	dead       int // of the four endpoints of dc1
	datacenter string
	each       int
}

const (
	lastResortSource   = "nginx 1.31.6"
	lastResortRequests = 1500
)

func lastResortLine() []lastResort { return []lastResort{{2, "dc1", 750}, {4, "dc2", 375}} }

// loadPublished reads the figures that are part of the binary.
func loadPublished() (*published, error) {
	p := &published{}
	for name, to := range map[string]*figures{"spill-by-health": &p.spill, "nearby": &p.nearby, "failover": &p.failover} {
		text, err := figureFiles.ReadFile("testdata/" + name + ".tsv")
		if err != nil {
			return nil, err
		}
		if *to, err = parseFigures(string(text)); err != nil {
			return nil, fmt.Errorf("%s.tsv: %w", name, err)
		}
	}
	return p, nil
}

// parseFigures reads tab-separated figures: comments first, the one with tabs names the columns.
func parseFigures(text string) (figures, error) {
	var f figures
	for n, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		comment, isComment := strings.CutPrefix(line, "#")
		switch {
		case isComment && strings.Contains(comment, "\t"):
			f.columns = strings.Split(strings.TrimSpace(comment), "\t")
		case isComment && f.source == "":
			if _, rest, found := strings.Cut(comment, "Measured with "); found {
				f.source = rest[:strings.IndexAny(rest+":", ":,")]
			}
		case isComment || strings.TrimSpace(line) == "":
		default:
			cells := strings.Split(line, "\t")
			if len(cells) != len(f.columns) {
				return f, fmt.Errorf("line %d has %d columns, the head has %d", n+1, len(cells), len(f.columns))
			}
			row := figureRow{}
			for i, c := range f.columns {
				row[c] = cells[i]
			}
			f.rows = append(f.rows, row)
		}
	}
	if f.source == "" || len(f.rows) == 0 {
		return f, fmt.Errorf("no source or no rows")
	}
	return f, nil
}

// find is the row with that text in the column, empty if there is none.
func (f figures) find(column, text string) figureRow {
	for _, r := range f.rows {
		if r[column] == text {
			return r
		}
	}
	return figureRow{}
}

// number reads one figure.
func (r figureRow) number(column string) (float64, error) {
	v, err := strconv.ParseFloat(r[column], 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is no number", column, r[column])
	}
	return v, nil
}
