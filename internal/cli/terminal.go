package cli

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"
)

// Terminal is what the place can show to which a command prints.
type Terminal struct {
	Is    bool // it is a terminal, and not a file or a pipe
	Width int  // of a line, in columns; 0: it may be as long as it likes
	Color bool // text may have colours
}

// The narrowest line that is cut to fit, and the one of a terminal that does not say.
const (
	minWidth     = 20
	defaultWidth = 80
)

// terminalOf finds out what a writer can show. $COLUMNS, if it is set, is the width, of a file or a pipe too.
func terminalOf(w io.Writer, getenv func(string) string) (t Terminal) {
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		t.Is = true
		t.Color = getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
		t.Width = defaultWidth
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			t.Width = width
		}
	}
	if width, err := strconv.Atoi(getenv("COLUMNS")); err == nil && width > 0 {
		t.Width = width
	}
	if t.Width > 0 {
		t.Width = max(t.Width, minWidth)
	}
	return t
}

// Style is how a piece of text stands out.
type Style string

// The styles. Their values are the parameters of the escape sequence.
const (
	Plain Style = ""
	Bold  Style = "1"
	Dim   Style = "2"
	Bad   Style = "31"
	Good  Style = "32"
	Warn  Style = "33"
	Busy  Style = "36"
)

// Paint returns the text in a style, if there are colours.
func (t Terminal) Paint(s Style, text string) string {
	if !t.Color || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Styled is a value to be printed in a style.
type Styled struct {
	Value any
	Style Style
}
