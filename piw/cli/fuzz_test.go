package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode"

	"pistate/internal/cli"
	"pistate/internal/storefixture"
	"pistate/store"
)

// Whatever an agent said, it is text when it is printed, and without --private it is not there.
func FuzzCapturedEntry(f *testing.F) { // C81, V3
	for _, line := range []string{
		`{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"hello\u001b[2J"},{"type":"toolCall","name":"x","arguments":{}}]}}`,
		`{"type":"message","message":{"role":"toolResult","toolName":"read","content":"a\nb","isError":true}}`,
		`{"type":"compaction","summary":"\u202e"}`, `{"type":"custom_message","customType":"x","content":[{"type":"image","mimeType":"image/png"}]}`,
		`{"type":7}`, `{}`, `[]`, "not JSON \x1b", "",
	} {
		f.Add(line, 40)
	}
	f.Fuzz(func(t *testing.T, line string, width int) {
		var b bytes.Buffer
		env := &cli.Env{Stdout: &b, Now: func() time.Time { return storefixture.Now }, Terminal: cli.Terminal{Width: max(width%200, 20)}}
		e := store.CapturedEntry{Sequence: 1, Type: "message", Line: line, CapturedAt: store.MillisOf(storefixture.Now)}
		if err := printEntry(env, output{Private: true}, e, false); err != nil {
			t.Fatal(err)
		}
		for _, r := range b.String() {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q is printed as %q", line, b.String())
			}
		}
		b.Reset()
		if err := printEntry(env, output{}, e, false); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), "\n"); n != 1 {
			t.Fatalf("%q is printed without --private as %q", line, b.String())
		}
	})
}

func FuzzSince(f *testing.F) {
	for _, text := range []string{"90m", "3d", "2026-03-02", "2026-03-02T09:00:00Z", "2026-03-02 09:00:00", "-1d", "d", "9999999999999d", "1h30m"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseSince(text, storefixture.Now)
		if err == nil && text == "" && at != 0 {
			t.Errorf("%d", at)
		}
		if err != nil && cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func TestSince(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"90m": "2026-03-02T10:30:00Z", "2d": "2026-02-28T12:00:00Z", "0s": "2026-03-02T12:00:00Z", "1h30m": "2026-03-02T10:30:00Z",
		"2026-01-01": "2026-01-01T00:00:00Z", "2026-01-01 08:00:00": "2026-01-01T08:00:00Z", "2026-01-01T08:00:00+01:00": "2026-01-01T07:00:00Z",
	} {
		at, err := parseSince(text, now)
		if got := at.Time().UTC().Format(time.RFC3339); err != nil || got != want {
			t.Errorf("%s: %s, want %s (%v)", text, got, want, err)
		}
	}
	for _, text := range []string{"-5m", "-2d", "yesterday", "3 d", "d"} {
		if _, err := parseSince(text, now); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}
