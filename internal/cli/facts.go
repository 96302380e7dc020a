package cli

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// factWidth is the room for the name of a fact.
const factWidth = 12

// Fact prints a line with a name and what there is to say, unless that is nothing.
func (e *Env) Fact(name string, value any) {
	style := Plain
	if s, ok := value.(Styled); ok {
		value, style = s.Value, s.Style
	}
	text := cell(fmt.Sprint(value))
	if text == "" {
		return
	}
	if e.Terminal.Width > 0 {
		text = ansi.Truncate(text, e.Terminal.Width-factWidth, "…")
	}
	label := name + strings.Repeat(" ", max(factWidth-len(name), 1))
	fmt.Fprintf(e.Stdout, "%s%s\n", e.Terminal.Paint(Bold, label), e.Terminal.Paint(style, text))
}

// Line prints pieces of text on one line, which is cut where it has to end.
func (e *Env) Line(pieces ...Styled) {
	left := e.Terminal.Width
	for i, p := range pieces {
		text := cell(fmt.Sprint(p.Value))
		if i > 0 {
			text = strings.Repeat(" ", gap) + text
		}
		if e.Terminal.Width > 0 {
			text = ansi.Truncate(text, left, "…")
			left -= ansi.StringWidth(text)
		}
		fmt.Fprint(e.Stdout, e.Terminal.Paint(p.Style, text))
	}
	fmt.Fprintln(e.Stdout)
}

// Section begins a part of a longer document.
func (e *Env) Section(name string) {
	fmt.Fprintf(e.Stdout, "\n%s\n", e.Terminal.Paint(Bold, strings.ToUpper(name)))
}

// Item prints a mark and a text beside it, on as many lines as the text needs.
func (e *Env) Item(mark Styled, text string) {
	const indent = 8
	label := fmt.Sprint(mark.Value)
	text = Escape(text)
	if e.Terminal.Width > 0 {
		text = ansi.Wrap(text, max(e.Terminal.Width-indent, indent), "")
	}
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			label = ""
		}
		fmt.Fprintf(e.Stdout, "%s%s%s\n", e.Terminal.Paint(mark.Style, label), strings.Repeat(" ", max(indent-len(label), 0)), line)
	}
}
