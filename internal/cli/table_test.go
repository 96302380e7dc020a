package cli

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

func table(width int, color bool) (*Table, *bytes.Buffer) {
	var b bytes.Buffer
	e := &Env{Stdout: &b, Terminal: Terminal{Width: width, Color: color}}
	t := e.Table("ID", "STATUS", "WHEN", "TITLE", "NOTE").Cut("TITLE", "NOTE").Optional("WHEN")
	t.Row("run-000001", Styled{"running", Busy}, "5m ago", "A title that is rather long", "and a note which is longer")
	t.Row("run-2", Styled{"done", Good}, "", "漢字漢字漢字漢字漢字漢字", "")
	return t, &b
}

func TestTableFitsIntoTheLine(t *testing.T) {
	for width, want := range map[int]string{
		0: "ID          STATUS   WHEN    TITLE                        NOTE\n" +
			"run-000001  running  5m ago  A title that is rather long  and a note which is longer\n" +
			"run-2       done             漢字漢字漢字漢字漢字漢字\n",
		70: "ID          STATUS   WHEN    TITLE                NOTE\n" +
			"run-000001  running  5m ago  A title that is ra…  and a note which is…\n" +
			"run-2       done             漢字漢字漢字漢字漢…\n",
		50: "ID          STATUS   TITLE         NOTE\n" +
			"run-000001  running  A title tha…  and a note …\n" +
			"run-2       done     漢字漢字漢…\n",
		30: "ID        STATUS   TITLE  NOTE\n" +
			"run-000…  running  A ti…  and…\n" +
			"run-2     done     漢字…\n",
	} {
		table, b := table(width, false)
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("at %d:\n%s, want\n%s", width, b, want)
		}
	}
	for width := minWidth; width < 100; width++ {
		table, b := table(width, true)
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := ansi.StringWidth(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("at %d: %d columns: %q", width, n, line)
			}
		}
	}
}

// Of several groups of columns the first gives way to the others.
func TestTableCutsOneGroupAfterAnother(t *testing.T) {
	var b bytes.Buffer
	e := &Env{Stdout: &b, Terminal: Terminal{Width: 60}}
	table := e.Table("RUN", "TITLE", "NOW").Cut("TITLE").Cut("NOW")
	table.Row("run-1", "A title that is rather long", "stuck: it has nobody who takes care of it")
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "RUN    TITLE         NOW\n" +
		"run-1  A title tha…  stuck: it has nobody who takes care of…\n"
	if b.String() != want {
		t.Errorf("\n%s, want\n%s", b.String(), want)
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"", 10, ""},
		{"as long as it likes", 0, "as long as it likes"},
		{"see piw events --resource controller:UID", 20, "see piw events|--resource|controller:UID"}, // not broken at a hyphen
		{"exactly ten", 11, "exactly ten"},
		{"exactly ten", 10, "exactly|ten"},
		{"a sha256:0123456789abcdef b", 10, "a|sha256:012|3456789abc|def b"},
		{"  two spaces  are kept", 14, "  two spaces |are kept"},
		{"one\ntwo three", 5, "one|two|three"},
		{"漢字 漢字漢字", 8, "漢字|漢字漢字"},
	} {
		if got := strings.Join(Wrap(c.text, c.width), "|"); got != c.want {
			t.Errorf("%q at %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestTableOfAnyLength(t *testing.T) {
	var b bytes.Buffer
	table := NewTable(&b, "N", "TEXT")
	const rows = 2*maxHeld + 10
	for i := range rows {
		table.Row(i, "x")
		if len(table.rows) >= maxHeld {
			t.Fatalf("%d rows are held", len(table.rows))
		}
	}
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != rows+1 || strings.Count(b.String(), "TEXT") != 1 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, line := range lines[1:] {
		if want := fmt.Sprintf("%-*d  x", len(line)-3, i); line != want {
			t.Fatalf("%q, want %q", line, want)
		}
	}
	if err := table.Flush(); err != nil || strings.Count(b.String(), "TEXT") != 1 {
		t.Error("flushed again, it begins again")
	}
}

func TestColours(t *testing.T) {
	table, b := table(0, true)
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\x1b[1mID\x1b[0m", "\x1b[36mrunning\x1b[0m", "\x1b[32mdone\x1b[0m"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in %q", want, b)
		}
	}
}

func TestTerminalOfAFile(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for columns, want := range map[string]int{"": 0, "80": 80, "5": minWidth, "0": 0, "-3": 0, "x": 0} {
		got := terminalOf(file, func(name string) string { return map[string]string{"COLUMNS": columns}[name] })
		if got != (Terminal{Width: want}) {
			t.Errorf("%q: %+v", columns, got)
		}
	}
}

func TestLines(t *testing.T) {
	var b bytes.Buffer
	e := &Env{Stdout: &b, Terminal: Terminal{Width: 30}}
	e.Fact("title", "a title that is too long for the line\x1b[2J")
	e.Fact("none", "")
	e.Fact("status", Styled{"x\ny", Bad})
	e.Line(Styled{"head", Bold}, Styled{"and something that is cut off", Dim})
	e.Item(Styled{"wrong", Bad}, "something that needs more than one line")
	e.Say("now", Styled{"it waits for\na person to say", Warn})
	e.Say("none", "")
	want := "title       a title that is t…\n" +
		"status      x\\ny\n" +
		"head  and something that is c…\n" +
		"wrong   something that needs\n" +
		"        more than one line\n" +
		"now         it waits for\\na\n" +
		"            person to say\n"
	if b.String() != want {
		t.Errorf("\n%s, want\n%s", b.String(), want)
	}
}
