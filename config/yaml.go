package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// document reads the one YAML document of a file. Without it the fault says why; what the file should have held is want.
func document(file string, data []byte, want string) (*yaml.Node, *Fault) {
	if f := characters(file, data); f != nil {
		return nil, f
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	doc, err := next(dec)
	switch {
	case errors.Is(err, io.EOF) || err == nil && (len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" && doc.Content[0].Value == ""):
		return nil, &Fault{File: file, Line: 1, Column: 1, Message: "expected " + want + ", got an empty file"}
	case err != nil:
		return nil, syntax(file, data, err)
	}
	second, err := next(dec)
	if err == nil {
		line, column := place(second)
		return nil, &Fault{File: file, Line: line, Column: column, Message: "expected one YAML document, another one begins here"}
	}
	if !errors.Is(err, io.EOF) {
		return nil, syntax(file, data, err)
	}
	return doc.Content[0], nil
}

// next reads one document. The YAML library reports most of what it meets as errors; where it panics on odd input instead, that is an
// error of the file too: a bad file never ends a running proxy.
func next(dec *yaml.Decoder) (doc *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	doc = &yaml.Node{}
	return doc, dec.Decode(doc)
}

// characters finds the first byte that YAML 1.2 (5.1) has no place for.
func characters(file string, data []byte) *Fault {
	line, column := 1, 1
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		why := ""
		switch {
		case r == utf8.RuneError && n == 1:
			why = "expected UTF-8, got the byte 0x" + strconv.FormatUint(uint64(data[i]), 16)
		case r == '\uFEFF' && i > 0, r < ' ' && r != '\t' && r != '\n' && r != '\r', r >= 0x7f && r < 0xa0 && r != 0x85, r == 0xfffe, r == 0xffff:
			why = fmt.Sprintf("expected text, got the control character %U", r)
		}
		if why != "" {
			return &Fault{File: file, Line: line, Column: column, Message: why}
		}
		i += n
		column++
		if r == '\n' {
			line, column = line+1, 1
		}
	}
	return nil
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

// syntax makes a fault of an error of the YAML library. The library names the line on which the construct begins that it could not
// finish, and counts from 0 where its parser and not its scanner found it; where it stopped is found by counting what it took.
func syntax(file string, data []byte, err error) *Fault {
	text := err.Error()
	m := yamlLine.FindStringSubmatch(text)
	what := strings.TrimPrefix(text, m[0])
	line, column := stopped(data)
	if begin, err := strconv.Atoi(m[1]); err == nil {
		if strings.HasPrefix(what, "did not find expected ") {
			begin++
		}
		if begin < line {
			what += fmt.Sprintf(" (in what begins on line %d)", begin)
		}
	}
	return &Fault{File: file, Line: line, Column: column, Message: "expected YAML: " + what}
}

// stopped finds the line on which the YAML library gives up, and the column of the first character there that is no space.
// It hands the text out byte by byte and sees how much was taken.
func stopped(data []byte) (line, column int) {
	src := &bytewise{data: data}
	dec := yaml.NewDecoder(src)
	for range 2 {
		if _, err := next(dec); err != nil {
			break
		}
	}
	read := bytes.TrimRight(data[:src.at], " \t\r\n")
	start := bytes.LastIndexByte(read, '\n') + 1
	text := read[start:]
	blank := len(text) - len(bytes.TrimLeft(text, " \t"))
	return bytes.Count(read, []byte("\n")) + 1, blank + 1
}

// bytewise is a reader that gives one byte at a time.
type bytewise struct {
	data []byte
	at   int
}

func (b *bytewise) Read(p []byte) (int, error) {
	if b.at == len(b.data) {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	p[0] = b.data[b.at]
	b.at++
	return 1, nil
}
