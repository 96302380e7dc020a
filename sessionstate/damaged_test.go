package sessionstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pistate/schema"
)

// An expectedSession is what Pi and the rule make of a file, as NAME.expected.json beside NAME.jsonl says.
type expectedSession struct {
	Refused   string            `json:"refused"`
	SessionID string            `json:"session_id"`
	Entries   int               `json:"entries"`
	Leaf      string            `json:"leaf"`
	Reopened  string            `json:"leaf_after_reopen"`
	Keys      map[string]string `json:"branch_key_of"`
}

func readExpected(t *testing.T, file string) (want expectedSession) {
	t.Helper()
	data, err := os.ReadFile(strings.TrimSuffix(file, ".jsonl") + ".expected.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if want.Leaf == "" {
		want.Leaf = want.Reopened
	}
	return want
}

func openForTest(t *testing.T, path string) *SessionFile {
	t.Helper()
	f, err := OpenSessionFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func checkExpected(t *testing.T, f *SessionFile, want expectedSession) {
	t.Helper()
	if f.SessionID() != want.SessionID || f.Len() != want.Entries || f.Leaf() != want.Leaf {
		t.Errorf("session %q with %d entries at leaf %q, want %q, %d, %q",
			f.SessionID(), f.Len(), f.Leaf(), want.SessionID, want.Entries, want.Leaf)
	}
	got := map[string]string{}
	for _, id := range f.Entries() {
		key, err := f.BranchKey(id)
		if err != nil || !f.Contains(id) {
			t.Errorf("BranchKey(%q): %v", id, err)
		}
		got[id] = key
	}
	if !maps.Equal(got, want.Keys) {
		t.Errorf("keys\n%v\nwant\n%v", got, want.Keys)
	}
}

// Y2, Y11: sessions that Pi wrote: the id, the number of entries, the leaf and every key.
func TestPiSessions(t *testing.T) {
	files, err := filepath.Glob("../testdata/pi-sessions/*.expected.json")
	if err != nil || len(files) != 5 {
		t.Fatalf("%d files with answers (%v), want 5", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".expected.json") + ".jsonl"
		t.Run(filepath.Base(name), func(t *testing.T) {
			f := openForTest(t, name)
			checkExpected(t, f, readExpected(t, name))
			if p := f.Problems(); len(p) > 0 {
				t.Errorf("problems in a sound file: %v", p)
			}
		})
	}
}

// Y2, Y11: a long real session, whose ids come last in their lines, against the plain rule.
func TestLargePiSession(t *testing.T) {
	const name = "../testdata/pi-sessions/large-session-v3.jsonl"
	f := openForTest(t, name)
	if f.Len() != 1018 {
		t.Errorf("%d entries, want 1018", f.Len())
	}
	if p := f.Problems(); len(p) > 0 {
		t.Errorf("problems in a sound file: %v", p)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	checkAgainstModel(t, f, nil, data)
}

// The damaged files that can't be used, and why. Pi would make a version 4 session of version-4 without noticing.
var refusedFiles = map[string]schema.Code{
	"cycle":               schema.Corrupt,
	"cycle-by-repetition": schema.Corrupt,
	"cycle-with-forks":    schema.Corrupt,
	"no-header":           schema.Corrupt, // C13
	"header-is-no-object": schema.Corrupt,
	"header-without-id":   schema.Corrupt,
	"only-junk":           schema.Corrupt,
	"version-none":        schema.Incompatible,
	"version-1":           schema.Incompatible,
	"version-2":           schema.Incompatible,
	"version-4":           schema.Incompatible,
	"empty":               schema.NotFound, // C11
	"blank":               schema.NotFound,
	"header-cut":          schema.NotFound,
}

// What Problems says of the others: line and kind of each.
var damagedProblems = map[string]string{
	"bom-crlf":                "",
	"control-characters":      "3 not_json, 4 not_json",
	"cut-in-character":        "4 unterminated", // C16
	"deep-nesting":            "4 not_json",     // C15
	"duplicate-ids":           "5 duplicate_id, 8 duplicate_id, 10 duplicate_id, 11 duplicate_id",
	"escaped":                 "",
	"header-only":             "",
	"invalid-utf8":            "7 not_json, 8 not_json",
	"junk-before-the-header":  "1 not_json, 2 not_json",
	"late-parents":            "4 late_parent, 5 late_parent, 6 late_parent",
	"late-parents-forked":     "5 late_parent, 6 late_parent, 8 late_parent",
	"long-ids":                "4 bad_id, 6 bad_parent",
	"mended-cycle":            "4 late_parent, 6 duplicate_id",
	"missing-parent":          "3 missing_parent, 5 missing_parent, 6 missing_parent",
	"not-objects":             "3 not_object, 4 not_object, 5 not_object, 6 not_object, 11 not_json, 12 not_json",
	"odd-parents":             "3 bad_parent, 4 bad_parent, 5 bad_parent, 6 bad_parent",
	"other-header":            "3 extra_header",
	"own-parent":              "3 own_parent",
	"references":              "", // C14
	"several-roots":           "", // C10
	"space-at-the-end":        "4 unterminated",
	"space-before-the-header": "",
	"space-in-the-middle":     "3 not_json, 4 not_json, 5 missing_parent, 7 not_json",
	"torn-append":             "3 not_json, 4 missing_parent", // C01
	"two-writers":             "",                             // C03
	"unterminated-torn":       "4 unterminated",               // C16
	"unterminated-whole":      "4 unterminated",
	"without-ids":             "3 bad_id, 4 bad_id, 5 bad_id, 6 bad_id, 7 bad_id, 10 bad_id",
	"written-twice":           "5 extra_header, 6 duplicate_id, 7 duplicate_id, 8 duplicate_id",
}

func kindsOf(problems []Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, fmt.Sprint(p.Line, " ", p.Kind))
	}
	return strings.Join(all, ", ")
}

// Y11: damaged files give the tree that Pi builds from the same bytes, and say what is wrong with them; some are
// refused, with the reason.
func TestDamagedSessions(t *testing.T) {
	files, err := filepath.Glob("../testdata/sessions-damaged/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if want := len(refusedFiles) + len(damagedProblems); len(files) != want {
		t.Errorf("%d files, the tables have %d", len(files), want)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			want := readExpected(t, file)
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if code := refusedFiles[name]; code != "" {
				f, err := OpenSessionFile(file)
				if f != nil || schema.CodeOf(err) != code {
					t.Fatalf("%v, want %s", err, code)
				}
				if !strings.Contains(err.Error(), filepath.Base(file)) {
					t.Errorf("%q doesn't name the file", err)
				}
				if want.Refused == "" && name != "version-4" {
					t.Error("Pi opens it")
				}
				return
			}
			if want.Refused != "" {
				t.Fatalf("Pi refuses it: %s", want.Refused)
			}
			f := openForTest(t, file)
			checkExpected(t, f, want)
			got := kindsOf(f.Problems())
			if wantKinds, ok := damagedProblems[name]; !ok || got != wantKinds {
				t.Errorf("problems %q, want %q", got, wantKinds)
			}

			// However the file is cut in two, the session is the same. Small files are cut everywhere.
			for cut := 0; cut < len(data); cut += 1 + len(data)/2000*50 {
				l := newSessionLog(DefaultMaxLine)
				if err := l.feed(data[:cut]); err != nil {
					t.Fatalf("the first %d bytes: %v", cut, err)
				}
				_ = l.end() // perhaps there is no header yet
				if err := errors.Join(l.feed(data[cut:]), l.end()); err != nil {
					t.Fatalf("cut at %d: %v", cut, err)
				}
				if got := (&SessionFile{log: l}); !slices.Equal(got.Entries(), f.Entries()) || got.Leaf() != f.Leaf() ||
					!slices.Equal(got.Problems(), f.Problems()) {
					t.Fatalf("cut at %d: entries %q, leaf %q, problems %v", cut, got.Entries(), got.Leaf(), got.Problems())
				}
				for id, key := range want.Keys {
					if got, err := l.tree.branchKey(id); got != key || err != nil {
						t.Fatalf("cut at %d: the key of %q is %q, %v, want %q", cut, id, got, err, key)
					}
				}
			}
		})
	}
}
