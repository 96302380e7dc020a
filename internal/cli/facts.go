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
	text, style := said(value)
	if text == "" {
		return
	}
	if e.Terminal.Width > 0 {
		text = ansi.Truncate(text, e.Terminal.Width-factWidth, "…")
	}
	label := name + strings.Repeat(" ", max(factWidth-len(name), 1))
	fmt.Fprintf(e.Stdout, "%s%s\n", e.Terminal.Paint(Bold, label), e.Terminal.Paint(style, text))
}

// Say is [Env.Fact] for what has to be read to its end: it takes as many lines as it needs.
func (e *Env) Say(name string, value any) {
	text, style := said(value)
	if text == "" {
		return
	}
	e.beside(Styled{name, Bold}, text, style, factWidth)
}

// said returns the text of a value, and how it is painted.
func said(value any) (string, Style) {
	style := Plain
	if s, ok := value.(Styled); ok {
		value, style = s.Value, s.Style
	}
	return cell(fmt.Sprint(value)), style
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
	e.beside(mark, Escape(text), Plain, 8)
}

// beside prints a text beside a label that has so much room.
func (e *Env) beside(label Styled, text string, style Style, room int) {
	name := fmt.Sprint(label.Value)
	for i, line := range Wrap(text, e.Terminal.Width-room) {
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(e.Stdout, "%s%s%s\n", e.Terminal.Paint(label.Style, name), strings.Repeat(" ", max(room-len(name), 0)), e.Terminal.Paint(style, line))
	}
}

// Wrap breaks a text into lines of a width, between words: a command in it can be copied from the screen. Only a
// word that is wider than a line is broken. A width below 1 keeps the lines as they are.
func Wrap(text string, width int) (lines []string) {
	for paragraph := range strings.SplitSeq(text, "\n") {
		if width < 1 || ansi.StringWidth(paragraph) <= width {
			lines = append(lines, paragraph)
			continue
		}
		line := ""
		for i, word := range strings.Split(paragraph, " ") {
			joined := line + " " + word
			if i == 0 {
				joined = word
			}
			if i > 0 && ansi.StringWidth(joined) > width {
				lines = append(lines, line)
				joined = word
			}
			parts := strings.Split(ansi.Hardwrap(joined, width, true), "\n")
			lines = append(lines, parts[:len(parts)-1]...)
			line = parts[len(parts)-1]
		}
		lines = append(lines, line)
	}
	return lines
}
