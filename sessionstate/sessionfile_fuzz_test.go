package sessionstate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pistate/schema"
)

// FuzzSessionFile gives a file to SessionFile at once, and in pieces with a Sync after each, and compares both with
// each other and with the model.
func FuzzSessionFile(f *testing.F) {
	const header = `{"type":"session","version":3,"id":"s"}` + "\n"
	for _, seed := range []string{
		"", "\n", header, header[:20], header + header,
		header + `{"id":"a","parentId":null}` + "\n" + `{"id":"b","parentId":"a"}` + "\n",
		header + `{"id":"a","parentId":null}` + "\n" + `{"id":"b","parentId":"a","te{"id":"c","parentId":"b"}` + "\n",
		header + `{"id":"a","parentId":"b"}` + "\n" + `{"id":"b","parentId":"a"}` + "\n" + `{"id":"b","parentId":null}`,
		header + `{"id":"a"}` + "\u00a0\n\u2028\n" + `{"id":"b","parentId":"a"}` + "\v",
		"\ufeff" + header + "5\nnull\n[]\n" + `{"id":1}` + "\n" + `{"id":"a","parentId":7}` + "\r\n",
		`{"id":"a"}` + "\n" + header, "junk\n" + header, `{"type":"session","version":2,"id":"s"}`,
		header + `{"id":"a","parentId":"a"}{"id":"b"}`,
	} {
		for _, cuts := range []uint64{0, 0x0102030405060708, 0xfedcba9876543210} {
			f.Add([]byte(seed), cuts)
		}
	}
	path := filepath.Join(f.TempDir(), "session.jsonl")
	f.Fuzz(func(t *testing.T, data []byte, cuts uint64) { compareReadings(t, path, data, cuts) })
}

// Y11: the same, with data that looks like sessions: lines of entries with few ids, in any order, damaged here and
// there.
func TestSessionFileModel(t *testing.T) {
	id := rapid.SampledFrom([]string{`"a"`, `"b"`, `"c"`, `"d"`, `"e"`, `"f"`, `"\u0061"`, `"x\ud83d\ude00"`})
	entry := rapid.Custom(func(t *rapid.T) string {
		members := []string{
			`"type":"message"`, `"id":` + id.Draw(t, "id"),
			`"parentId":` + rapid.OneOf(id, id, id, rapid.Just("null")).Draw(t, "parent"), `"message":{"id":"no","text":"{\"}"}`,
		}
		return "{" + strings.Join(rapid.Permutation(members).Draw(t, "members"), ",") + "}"
	})
	odd := rapid.SampledFrom([]string{
		"", " ", "\u00a0", "\v", "5", "null", "[]", "{}", "junk", `{"id":"a","par`, `"parentId":"a"}`, `{"id":7,"parentId":"a"}`, `{"id":"","parentId":"a"}`,
		`{"id":"g","parentId":5}`, `{"id":"g"}`, `{"type":"session","id":"t","version":3}`, `{"id":"a","parentId":"b","id":"c","parentId":null}`,
	})
	end := rapid.SampledFrom([]string{"\n", "\n", "\n", "\n", "\n", "\n", "\n", "\r\n", "\u00a0\n", "\n\n", "\f\n\u2028\n", ""})
	line := rapid.Custom(func(t *rapid.T) string {
		return rapid.OneOf(entry, entry, entry, odd).Draw(t, "line") + end.Draw(t, "end")
	})
	header := rapid.SampledFrom([]string{
		`{"type":"session","version":3,"id":"s"}` + "\n", "\ufeff" + `{"type":"session","version":3,"id":"s"}` + "\n",
		`{"type":"session","version":3,"id":"s"}`, "",
	})
	path := filepath.Join(t.TempDir(), "session.jsonl")
	rapid.Check(t, func(t *rapid.T) {
		data := header.Draw(t, "header") + strings.Join(rapid.SliceOf(line).Draw(t, "lines"), "")
		compareReadings(t, path, []byte(data), rapid.Uint64().Draw(t, "cuts"))
	})
}

func compareReadings(t rapid.TB, path string, data []byte, cuts uint64) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	whole, wholeErr := OpenSessionFile(path)
	if wholeErr == nil {
		defer whole.Close()
	}
	checkAgainstModel(t, whole, wholeErr, data)

	grown, grownErr := grow(t, path, data, cuts)
	if grown != nil {
		defer grown.Close()
	}
	if errors.Is(grownErr, schema.Replaced) {
		return // a provisional header became another one: right, and nothing to compare
	}
	if schema.CodeOf(grownErr) != schema.CodeOf(wholeErr) {
		t.Fatalf("at once: %v\nin pieces: %v", wholeErr, grownErr)
	}
	if wholeErr != nil {
		return
	}
	if whole.SessionID() != grown.SessionID() || whole.Leaf() != grown.Leaf() {
		t.Fatalf("at once: %q %q, in pieces: %q %q", whole.SessionID(), whole.Leaf(), grown.SessionID(), grown.Leaf())
	}
	if a, b := whole.Entries(), grown.Entries(); !slices.Equal(a, b) {
		t.Fatalf("at once: %q, in pieces: %q", a, b)
	}
	if a, b := whole.Problems(), grown.Problems(); !slices.Equal(a, b) {
		t.Fatalf("at once:\n%v\nin pieces:\n%v", a, b)
	}
	for _, id := range whole.Entries() {
		a, errA := whole.BranchKey(id)
		b, errB := grown.BranchKey(id)
		if a != b || errA != nil || errB != nil {
			t.Fatalf("the key of %q: at once %q, %v, in pieces %q, %v", id, a, errA, b, errB)
		}
	}
}

// grow writes data to path in pieces, each of a length that the next bits of cuts give, and follows the file. It returns
// the last error; the file is nil if it could never be opened.
func grow(t rapid.TB, path string, data []byte, cuts uint64) (f *SessionFile, err error) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	counted := 0
	for {
		size := min(len(data), 1+int(cuts&63))
		cuts = cuts>>5 | cuts<<59
		if _, err := w.Write(data[:size]); err != nil {
			t.Fatal(err)
		}
		data = data[size:]
		if f == nil {
			if f, err = OpenSessionFile(path); err == nil {
				counted = f.log.entries
			}
		} else {
			var added int
			added, err = f.Sync(context.Background())
			counted += added
			if counted != f.log.entries {
				t.Fatalf("Sync counted %d entries, the log has %d", counted, f.log.entries)
			}
		}
		if len(data) == 0 {
			return f, err
		}
	}
}

// checkAgainstModel compares a file that was read at once with the model.
func checkAgainstModel(t rapid.TB, f *SessionFile, err error, data []byte) {
	t.Helper()
	if outsideModel(data) {
		return
	}
	want := modelOf(data)
	if schema.CodeOf(err) != want.code {
		t.Fatalf("error %v, the model says %q", err, want.code)
	}
	if err != nil {
		return
	}
	if f.SessionID() != want.id || f.Leaf() != want.leaf || f.log.entries != want.parsed {
		t.Fatalf("id %q, leaf %q, %d lines; the model says %q, %q, %d", f.SessionID(), f.Leaf(), f.log.entries, want.id, want.leaf, want.parsed)
	}
	if got := f.Entries(); !slices.Equal(got, want.order) || f.Len() != len(want.order) {
		t.Fatalf("entries %q, the model says %q", got, want.order)
	}
	rule := want.rule()
	for _, id := range want.order {
		key, err := f.BranchKey(id)
		if wantKey, _ := rule.BranchKey(id); key != wantKey || err != nil {
			t.Fatalf("BranchKey(%q) = %q, %v, the rule says %q", id, key, err, wantKey)
		}
		above, ok, err := f.ParentKey(key)
		if wantAbove, wantOK, _ := rule.ParentKey(key); above != wantAbove || ok != wantOK || err != nil {
			t.Fatalf("ParentKey(%q) = %q, %v, %v, the rule says %q", key, above, ok, err, wantAbove)
		}
	}
}
