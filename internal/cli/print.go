package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape makes stored text harmless to a terminal: what is not printable (control characters, directional
// overrides, invalid UTF-8) is written as a Go escape. A line break in a message stays one.
func Escape(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || unicode.IsPrint(r):
			b.WriteString(s[i : i+n])
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		i += n
	}
	return b.String()
}

func clean(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// cell is Escape for text that must stay on one line.
func cell(s string) string { return strings.ReplaceAll(Escape(s), "\n", `\n`) }

// Table prints aligned columns.
type Table struct{ w *tabwriter.Writer }

// NewTable begins a table with its headings.
func NewTable(w io.Writer, headings ...string) *Table {
	t := &Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t.w, strings.Join(headings, "\t"))
	return t
}

// Row adds a row; its cells are printed as fmt.Print does, and escaped.
func (t *Table) Row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = cell(fmt.Sprint(c))
	}
	fmt.Fprintln(t.w, strings.Join(text, "\t"))
}

// Flush prints the table.
func (t *Table) Flush() error { return t.w.Flush() }

// JSON prints one value on one line. What a terminal might act on is written as a JSON escape, so that the
// document says the same.
func JSON(w io.Writer, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(escapeJSON(buf.Bytes()))
	return err
}

// escapeJSON escapes what is not printable and not ASCII: outside strings a document has none of that.
func escapeJSON(doc []byte) []byte {
	safe := func(r rune) bool { return r < 0x7f || unicode.IsPrint(r) }
	if bytes.IndexFunc(doc, func(r rune) bool { return !safe(r) }) < 0 {
		return doc
	}
	var b bytes.Buffer
	for _, r := range string(doc) {
		switch {
		case safe(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// Time is a moment for programs, in both forms that they like.
type Time struct {
	RFC3339 string `json:"rfc3339"`
	Ms      int64  `json:"ms"`
}

// TimeOf returns the JSON form of a moment.
func TimeOf(t time.Time) Time {
	return Time{t.UTC().Format("2006-01-02T15:04:05.000Z07:00"), t.UnixMilli()}
}

// Ago is a moment for people, as of now: "12s ago", "3h ago", "in 5m".
func Ago(t, now time.Time) string {
	d := now.Sub(t)
	if d < 0 {
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// Size is a number of bytes for people.
func Size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for value >= unit && prefix < 5 {
		value /= unit
		prefix++
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTPE"[prefix])
}
