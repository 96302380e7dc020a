package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"pistate/schema"
)

func TestEveryCodeHasAnExitCode(t *testing.T) {
	for _, code := range schema.Codes() {
		if _, ok := exitCodes[code]; !ok {
			t.Errorf("%s has no exit code", code)
		}
		wrapped := fmt.Errorf("while testing: %w", &schema.Error{Code: code})
		if got := ExitCode(wrapped); got != exitCodes[code] {
			t.Errorf("%s: exit code %d", code, got)
		}
	}
	for err, want := range map[error]int{
		nil:                             ExitOK,
		ErrFailedCheck:                  ExitFailedCheck,
		errors.New("of no known kind"):  ExitStorage,
		&Silent{schema.NotFound}:        ExitAbsent,
		ErrUnread:                       ExitUnread,
		errors.Join(nil, schema.Locked): ExitRefused,
	} {
		if got := ExitCode(err); got != want {
			t.Errorf("%v: exit code %d, want %d", err, got, want)
		}
	}
}

// What nobody reads any more is no fault, and nobody is told; any other failure to print is.
func TestPrintingFails(t *testing.T) {
	for err, want := range map[error]int{syscall.EPIPE: ExitUnread, syscall.ENOSPC: ExitStorage} {
		var stderr strings.Builder
		p := Program{Name: "test", Version: "1", Grammar: &echoGrammar{}}
		code := p.Run(context.Background(), []string{"echo"}, strings.NewReader(""), brokenWriter{&os.PathError{Op: "write", Err: err}}, &stderr)
		if code != want || (stderr.Len() == 0) != (want == ExitUnread) {
			t.Errorf("%v: exit code %d, want %d: %q", err, code, want, stderr.String())
		}
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestEscape(t *testing.T) { // V3
	for in, want := range map[string]string{
		"plain":                     "plain",
		"ä 漢 🙂":                     "ä 漢 🙂",
		"\x1b]52;c;AAAA\x07\x1b[2J": `\x1b]52;c;AAAA\a\x1b[2J`,
		"a\u202eb":                  `a\u202eb`,
		"\x9b31m":                   `\x9b31m`,
		"\u009b31m":                 `\u009b31m`,
		"two\nlines":                "two\nlines",
		"tab\tand\rreturn":          `tab\tand\rreturn`,
		"\xff":                      `\xff`,
		"\U000e0001":                `\U000e0001`,
	} {
		if got := Escape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestJSONIsExactAndHarmless(t *testing.T) {
	for _, text := range []string{"plain", "<&>", "\x1b[2J\x7f", "\u009b\u202e\u2028", "\U000e0001 🙂 ä", "\x00"} {
		var b strings.Builder
		if err := JSON(&b, text); err != nil {
			t.Fatal(err)
		}
		if line := strings.TrimSuffix(b.String(), "\n"); Escape(line) != line {
			t.Errorf("%q is printed as %q", text, line)
		}
		var back string
		if err := json.Unmarshal([]byte(b.String()), &back); err != nil || back != text {
			t.Errorf("%q comes back as %q, %v", text, back, err)
		}
	}
}

func TestTableRowsStayOnOneLine(t *testing.T) {
	var b strings.Builder
	table := NewTable(&b, "A", "B")
	table.Row("x\ny\x1b", 12)
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := "A         B\nx\\ny\\x1b  12\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestAgoAndSize(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	for d, want := range map[time.Duration]string{
		0: "0ms ago", 900 * time.Millisecond: "900ms ago", 90 * time.Second: "90s ago", 3 * time.Minute: "3m ago",
		5 * time.Hour: "5h ago", 72 * time.Hour: "3d ago", -30 * time.Second: "in 30s",
	} {
		if got := Ago(now.Add(-d), now); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	if got := Ago(time.UnixMilli(math.MaxInt64), now); got != "in 106751d" {
		t.Errorf("the end of time is %q", got)
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 1 << 62: "4.0 EiB"} {
		if got := Size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
