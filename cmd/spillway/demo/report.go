package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// scenario is what one scenario showed.
type scenario struct {
	Name    string
	Shows   string // one sentence: what is shown
	Means   string // one sentence: what the result means
	Error   string // why it could not be shown to its end
	tables  []*table
	rowsMin int // rows that a complete scenario has
	took    time.Duration
}

// report is everything that was shown.
type report struct{ Scenarios []*scenario }

// ok tells whether the scenario was played to its end and every row is as promised.
func (s *scenario) ok() bool {
	rows := 0
	for _, t := range s.tables {
		for _, r := range t.rows {
			if !r.ok {
				return false
			}
			rows++
		}
	}
	return s.Error == "" && rows > 0 && rows >= s.rowsMin
}

// table adds an empty table to the scenario.
func (s *scenario) table(columns []column) *table {
	t := &table{columns: columns}
	s.tables = append(s.tables, t)
	return t
}

// render writes the scenario for people.
func (s *scenario) render(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", s.Name, s.Shows)
	for _, t := range s.tables {
		if len(t.rows) > 0 {
			fmt.Fprintln(w)
			t.render(w)
		}
	}
	fmt.Fprintln(w)
	switch {
	case s.Error != "":
		fmt.Fprintf(w, "  FAILED after %.1f s: %s\n", s.took.Seconds(), s.Error)
	case s.ok():
		fmt.Fprintf(w, "  OK in %.1f s. %s\n", s.took.Seconds(), s.Means)
	default:
		fmt.Fprintf(w, "  NOT OK in %.1f s: a row misses what is promised.\n", s.took.Seconds())
	}
	fmt.Fprintln(w)
}

// MarshalJSON is the scenario in the published form: name, ok and rows, and the error where there was one.
func (s *scenario) MarshalJSON() ([]byte, error) {
	rows := []json.RawMessage{}
	for _, t := range s.tables {
		r, err := t.objects()
		if err != nil {
			return nil, err
		}
		rows = append(rows, r...)
	}
	return json.Marshal(struct {
		Name    string            `json:"name"`
		OK      bool              `json:"ok"`
		Seconds json.Number       `json:"seconds"`
		Error   string            `json:"error,omitempty"`
		Rows    []json.RawMessage `json:"rows"`
	}{s.Name, s.ok(), json.Number(fmt.Sprintf("%.1f", s.took.Seconds())), s.Error, rows})
}

// write prints the report as one JSON document.
func (r report) write(w io.Writer) error {
	text, err := json.MarshalIndent(struct {
		Scenarios []*scenario `json:"scenarios"`
	}{r.Scenarios}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}
