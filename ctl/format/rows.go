package format

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Format is one of the forms of output.
type Format string

// Formats.
const (
	FormatTable  Format = "table"
	FormatPretty Format = "pretty_table"
	FormatJSON   Format = "json"
	FormatCSV    Format = "csv"
	FormatErlang Format = "erlang" // of lists
)

// Lookup finds a format by its name.
func Lookup(name string) (Format, bool) {
	switch f := Format(name); f {
	case FormatTable, FormatPretty, FormatJSON, FormatCSV, FormatErlang:
		return f, true
	}
	return "", false
}

// Machine says whether the form is for programs: then no banner comes before it.
func (f Format) Machine() bool { return f == FormatJSON || f == FormatCSV }

// Bold is a title on a terminal. It is RabbitMQ's form even into a pipe.
func Bold(s string) string { return "\x1b[1m" + s + "\x1b[0m" }

// Rows writes a list of rows. It is used by one goroutine, and ended by Close.
type Rows struct {
	w       io.Writer
	format  Format
	columns []string
	headers bool
	whole   bool
	rows    int
	kept    [][]string // pretty_table: widths are known at the end
	terms   []term     // erlang: one term for all
}

// NewRows begins a list; headers: a table has a row of column names (csv always has one). whole: the command knows all rows
// before it writes the first, which RabbitMQ's tools let show when there are none.
func NewRows(w io.Writer, f Format, columns []string, headers, whole bool) *Rows {
	return &Rows{w: w, format: f, columns: columns, headers: headers, whole: whole}
}

// Row writes one row; values are in the order of the columns.
func (r *Rows) Row(values []any) error {
	first := r.rows == 0
	r.rows++
	var text string
	switch r.format {
	case FormatJSON:
		object := make(Map, len(r.columns))
		for i, c := range r.columns {
			object[i] = Pair{c, values[i]}
		}
		line, err := JSON(object)
		if err != nil {
			return err
		}
		text = "," + string(line) + "\n"
		if first {
			text = "[\n" + text[1:]
		}
	case FormatCSV:
		if first {
			text = csvLine(r.columns)
		}
		text += csvLine(texts(values, Text))
	case FormatPretty:
		r.kept = append(r.kept, texts(values, prettyText))
		return nil
	case FormatErlang:
		row := make(Map, len(r.columns))
		for i, c := range r.columns {
			row[i] = Pair{c, values[i]}
		}
		r.terms = append(r.terms, termOf(row))
		return nil
	default:
		if first && r.headers {
			text = strings.Join(r.columns, "\t") + "\n"
		}
		text += strings.Join(texts(values, Text), "\t") + "\n"
	}
	return write(r.w, text)
}

// Close ends the list.
func (r *Rows) Close() error {
	switch {
	case r.format == FormatErlang:
		return write(r.w, listTerm(r.terms).layout(0, 0)+"\n")
	case r.format == FormatJSON && r.rows > 0:
		return write(r.w, "]\n")
	case r.format == FormatJSON && r.whole:
		return write(r.w, "[]\n")
	case r.format == FormatJSON:
		return write(r.w, "[\n]\n")
	case r.format == FormatTable && r.rows == 0 && r.whole:
		return write(r.w, "\n")
	case r.format == FormatPretty && r.rows > 0:
		return write(r.w, r.pretty())
	}
	return nil
}

// pretty draws the rows with a terminal's line characters (DEC special graphics), as RabbitMQ's tools do.
func (r *Rows) pretty() string {
	widths := make([]int, len(r.columns))
	for _, row := range append([][]string{r.columns}, r.kept...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	rule := func(left, middle, right string) string {
		parts := make([]string, len(widths))
		for i, w := range widths {
			parts[i] = strings.Repeat("q", w+2)
		}
		return "\x1b(0" + left + strings.Join(parts, middle) + right + "\x1b(B\n"
	}
	const bar = "\x1b(0x\x1b(B"
	line := func(cells []string, title bool) string {
		var b strings.Builder
		for i, cell := range cells {
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if title {
				cell = Bold(cell)
			}
			b.WriteString(bar + " " + cell + padding + " ")
		}
		return b.String() + bar + "\n"
	}
	var b strings.Builder
	b.WriteString(rule("l", "w", "k"))
	b.WriteString(line(r.columns, true))
	for _, row := range r.kept {
		b.WriteString(rule("t", "n", "u") + line(row, false))
	}
	b.WriteString(rule("m", "v", "j"))
	return b.String()
}

func texts(values []any, text func(any) string) []string {
	cells := make([]string, len(values))
	for i, v := range values {
		cells[i] = text(v)
	}
	return cells
}

func csvLine(cells []string) string {
	quoted := make([]string, len(cells))
	for i, c := range cells {
		quoted[i] = `"` + strings.ReplaceAll(c, `"`, `""`) + `"`
	}
	return strings.Join(quoted, ",") + "\n"
}

func write(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
