package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// column is one column of a table.
type column struct {
	key   string // its name in JSON; empty: only people see it
	title string // its head for people; empty: only JSON has it
	left  bool   // text, aligned left
}

// cell is one value: as JSON has it and as people read it. A nil value is left out of JSON.
type cell struct {
	value any
	text  string
}

// row is one measured line with its verdict.
type row struct {
	cells []cell // as many as the table has columns
	ok    bool
	why   string // what misses; or a remark where the row is good
}

// table is some rows of a scenario under one head.
type table struct {
	columns []column
	rows    []row
}

// number makes a cell of a value with that many digits after the point.
func number(v float64, digits int) cell {
	text := fmt.Sprintf("%.*f", digits, v)
	return cell{json.Number(text), text}
}

// count makes a cell of a whole number.
func count(n int) cell { return cell{n, fmt.Sprint(n)} }

// word makes a cell of a text.
func word(s string) cell { return cell{s, s} }

// blank is a cell without a value.
func blank() cell { return cell{} }

// rate is part of whole in percent, 0 where the whole is.
func rate(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// verdict is how a row's result is printed.
func (r row) verdict() string {
	switch {
	case !r.ok && r.why == "":
		return "not ok"
	case !r.ok:
		return "not ok: " + r.why
	case r.why != "":
		return "ok, " + r.why
	}
	return "ok"
}

// render writes the table with aligned columns, the verdict last.
func (t table) render(w io.Writer) {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = utf8.RuneCountInString(c.title)
		for _, r := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r.cells[i].text))
		}
	}
	line := func(cells []string, last string) {
		var b strings.Builder
		for i, c := range t.columns {
			if c.title == "" {
				continue
			}
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cells[i]))
			if c.left {
				b.WriteString("  " + cells[i] + gap)
			} else {
				b.WriteString("  " + gap + cells[i])
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String()+"  "+last, " "))
	}
	titles, rules := make([]string, len(t.columns)), make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i], rules[i] = c.title, strings.Repeat("-", widths[i])
	}
	line(titles, "")
	line(rules, "--")
	for _, r := range t.rows {
		texts := make([]string, len(r.cells))
		for i, c := range r.cells {
			texts[i] = c.text
		}
		line(texts, r.verdict())
	}
}

// objects are the rows as JSON objects, keys in the order of the columns.
func (t table) objects() ([]json.RawMessage, error) {
	var out []json.RawMessage
	for _, r := range t.rows {
		var b bytes.Buffer
		b.WriteByte('{')
		add := func(key string, value any) error {
			text, err := json.Marshal(value)
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			if b.Len() > 1 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%q:%s", key, text)
			return nil
		}
		for i, c := range t.columns {
			if c.key == "" || r.cells[i].value == nil {
				continue
			}
			if err := add(c.key, r.cells[i].value); err != nil {
				return nil, err
			}
		}
		if err := add("ok", r.ok); err != nil {
			return nil, err
		}
		if r.why != "" {
			if err := add("remark", r.why); err != nil {
				return nil, err
			}
		}
		b.WriteByte('}')
		out = append(out, b.Bytes())
	}
	return out, nil
}
