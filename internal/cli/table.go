package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// gap is the space between two columns.
const gap = 2

// maxHeld is how many rows a table looks at before it decides on the widths of its columns. A longer table is
// printed in parts, so that its memory does not grow with it.
const maxHeld = 1000

// Table prints aligned columns. Where lines have a width, cells are cut so that no line is longer.
type Table struct {
	w        io.Writer
	term     Terminal
	headings []string
	cut      [][]string // the headings of the columns that are cut first, group by group
	optional []string   // the headings of the columns that are left out where there is no room
	widths   []int      // of the columns, as far as they were printed
	rows     [][]tableCell
	printed  bool
	err      error
}

// tableCell is a cell as it will be printed.
type tableCell struct {
	text  string
	style Style
}

// NewTable begins a table with its headings, of lines that may be as long as they like.
func NewTable(w io.Writer, headings ...string) *Table {
	return &Table{w: w, headings: headings, widths: make([]int, len(headings))}
}

// Table begins a table on the standard output.
func (e *Env) Table(headings ...string) *Table {
	t := NewTable(e.Stdout, headings...)
	t.term = e.Terminal
	return t
}

// Cut names columns that can do with less: they are cut before the others. Of several groups of them, the
// one that was named first gives way first.
func (t *Table) Cut(headings ...string) *Table {
	t.cut = append(t.cut, headings)
	return t
}

// Optional names columns that are left out, the first of them first, if that keeps others from being cut short.
func (t *Table) Optional(headings ...string) *Table {
	t.optional = headings
	return t
}

// Row adds a row; its cells are printed as fmt.Print does, and escaped. A [Styled] cell is printed in its
// style.
func (t *Table) Row(cells ...any) {
	row := make([]tableCell, len(cells))
	for i, c := range cells {
		style := Plain
		if s, ok := c.(Styled); ok {
			c, style = s.Value, s.Style
		}
		row[i] = tableCell{cell(fmt.Sprint(c)), style}
	}
	if t.rows = append(t.rows, row); len(t.rows) == maxHeld {
		t.print()
	}
}

// Err returns the error of printing what was printed so far, for a list that is long.
func (t *Table) Err() error { return t.err }

// Flush prints the table, or what is left of it.
func (t *Table) Flush() error {
	if len(t.rows) > 0 || !t.printed {
		t.print()
	}
	return t.err
}

func (t *Table) print() {
	if !t.printed {
		heading := make([]tableCell, len(t.headings))
		for i, h := range t.headings {
			heading[i] = tableCell{h, Bold}
		}
		t.rows = slices.Insert(t.rows, 0, heading)
	}
	for _, row := range t.rows {
		for i, c := range row {
			t.widths[i] = max(t.widths[i], ansi.StringWidth(c.text))
		}
	}
	widths := t.fit()
	var b strings.Builder
	for _, row := range t.rows {
		t.line(&b, row, widths)
	}
	if _, err := io.WriteString(t.w, b.String()); t.err == nil {
		t.err = err
	}
	t.rows, t.printed = t.rows[:0], true
}

// leftOut stands for the width of a column that is not printed.
const leftOut = -1

func (t *Table) line(b *strings.Builder, row []tableCell, widths []int) {
	pending := 0 // spaces, which are not printed at the end of a line
	for i, c := range row {
		if widths[i] == leftOut {
			continue
		}
		text := c.text
		width := ansi.StringWidth(text)
		if width > widths[i] {
			text = ansi.Truncate(text, widths[i], "…")
			width = ansi.StringWidth(text)
		}
		if text != "" {
			b.WriteString(strings.Repeat(" ", pending))
			b.WriteString(t.term.Paint(c.style, text))
			pending = 0
		}
		pending += widths[i] - width + gap
	}
	b.WriteByte('\n')
}

// The widths below which a column is not cut, unless there is no other way.
const (
	enough = 12 // of the columns that can do with less
	little = 4  // of any column
)

// fit returns the widths with which a line fits: the columns that can do with less give way first, then
// some are left out, and at last all are cut, the widest first.
func (t *Table) fit() []int {
	f := fitting{slices.Clone(t.widths), t.term.Width}
	if t.term.Width == 0 {
		return f.widths
	}
	all := t.columns(t.headings)
	cut := func(least int) {
		for _, group := range t.cut {
			f.shrink(t.columns(group), func(i int) int { return max(len(t.headings[i]), least) })
		}
	}
	cut(enough)
	for _, i := range t.columns(t.optional) {
		if f.over() > 0 {
			f.widths[i] = leftOut
		}
	}
	cut(little)
	f.shrink(all, func(i int) int { return max(len(t.headings[i]), little) })
	f.shrink(all, func(int) int { return 1 })
	return f.widths
}

// columns returns the places of the columns with these headings, in the order in which they are named.
func (t *Table) columns(headings []string) (columns []int) {
	for _, h := range headings {
		if i := slices.Index(t.headings, h); i >= 0 {
			columns = append(columns, i)
		}
	}
	return columns
}

// fitting are widths of columns that are to fit into a line.
type fitting struct {
	widths []int
	line   int
}

// over returns by how much the line is too long.
func (f *fitting) over() int {
	over := -f.line - gap
	for _, w := range f.widths {
		if w != leftOut {
			over += w + gap
		}
	}
	return over
}

// shrink takes from the widest of some columns until the line fits, or until each has its least width.
func (f *fitting) shrink(columns []int, least func(column int) int) {
	for over := f.over(); over > 0; over-- {
		widest := -1
		for _, i := range columns {
			if f.widths[i] > least(i) && (widest < 0 || f.widths[i] > f.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		f.widths[widest]--
	}
}
