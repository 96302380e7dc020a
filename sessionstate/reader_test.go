package sessionstate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pistate/schema"
)

func TestStatusCreatesNothing(t *testing.T) { // Y10
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "states.sqlite"), filepath.Join(dir, "no", "such", "dir.sqlite")} {
		if _, err := OpenReader(t.Context(), path); !errors.Is(err, schema.NotFound) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("created %v", entries)
	}
}

func TestStatusCountsRows(t *testing.T) { // Y10
	st := openStore(t)
	for _, plugin := range []string{"a", "b"} {
		for i := range 3 {
			mustWrite(t, newState(t, st, plugin, ScopeSession), At(fmt.Sprint("s", i), "", nil), `"ä"`)
		}
	}
	mustWrite(t, newState(t, st, "a", ScopeBranch), at("a"), `10`)
	status, err := st.Status(t.Context(), "")
	if err != nil || fmt.Sprint(status.Plugins) != "[{a 3 4 14} {b 3 3 12}]" {
		t.Errorf("%v, %v", status.Plugins, err)
	}
	status, err = st.Status(t.Context(), "s1")
	if err != nil || fmt.Sprint(status.Plugins) != "[{a 1 2 6} {b 1 1 4}]" {
		t.Errorf("of one session: %v, %v", status.Plugins, err)
	}
}

func TestRowsArePaged(t *testing.T) { // V2
	st := openStore(t)
	seen := map[string]bool{}
	for p := range 3 {
		for s := range 4 {
			plugin, session := fmt.Sprint("p", p), fmt.Sprint("s", s)
			mustWrite(t, newState(t, st, plugin, ScopeSession), At(session, "", nil), `1`)
			mustWrite(t, newState(t, st, plugin, ScopeBranch), At(session, "a", TreeOf(forked)), `1`)
		}
	}
	r, err := OpenReader(t.Context(), st.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, c := range []struct {
		filter Filter
		want   int
	}{{Filter{}, 24}, {Filter{Plugin: "p1"}, 8}, {Filter{Session: "s2"}, 6}, {Filter{"p0", "s0"}, 2}, {Filter{Plugin: "x"}, 0}} {
		clear(seen)
		after := Row{}
		for {
			page, err := r.Rows(t.Context(), c.filter, after, 5, false)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range page {
				if row.Value != nil || row.Bytes != 1 {
					t.Errorf("%+v", row)
				}
				if seen[row.Cursor()] {
					t.Errorf("%+v twice", row)
				}
				seen[row.Cursor()] = true
			}
			if len(page) < 5 {
				break
			}
			if after, err = ParseCursor(page[4].Cursor()); err != nil {
				t.Fatal(err)
			}
		}
		if len(seen) != c.want {
			t.Errorf("%+v: %d rows, want %d", c.filter, len(seen), c.want)
		}
	}
	sessions, err := r.Sessions(t.Context(), "s1", 2)
	if err != nil || fmt.Sprint(sessions) != "[{s2 3 6 6 false} {s3 3 6 6 false}]" {
		t.Errorf("%v, %v", sessions, err)
	}
	for _, limit := range []int{0, -1} {
		if _, err := r.Rows(t.Context(), Filter{}, Row{}, limit, false); !errors.Is(err, schema.Invalid) {
			t.Errorf("limit %d: %v", limit, err)
		}
		if _, err := r.Sessions(t.Context(), "", limit); !errors.Is(err, schema.Invalid) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	for _, cursor := range []string{"x", "!", "W10", "bnVsbA"} {
		if _, err := ParseCursor(cursor); !errors.Is(err, schema.Invalid) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

func TestDeepCheckFindsForeignRows(t *testing.T) { // M1
	st := openStore(t)
	mustWrite(t, newState(t, st, "p", ScopeSession), at("a"), `1`)
	sqlite3CLI(t, st.Path(), `INSERT INTO state VALUES
		('P', 's1', '', '1'), ('p', '', '', '1'), ('p', 's2', '', ''), ('p', 's3', '', 'x'), ('p', 's4', '', x'31'),
		('p', 's5', '', CAST(x'22ff22' AS TEXT)), ('p', 's6', '', '"' || char(8238) || '"');
		INSERT INTO write_lock VALUES ('s1', 'me', 1), ('s2', 'pid:1', 'now')`)
	report, err := Check(t.Context(), st.Path(), CheckOptions{Deep: true})
	if err != nil {
		t.Fatal(err)
	}
	findings := map[string][]string{}
	for _, o := range report.Outcomes {
		findings[o.Name] = o.Findings
	}
	for check, want := range map[string][]string{
		"rows": {
			`plugin "P", session "s1", branch "": plugin id`, `plugin "p", session "", branch "": session id is empty`,
			`session "s2", branch "": the value is not JSON`, `session "s3", branch "": the value is not JSON`,
			`session "s4", branch "": the value is a blob`, `session "s5", branch "": the value is not JSON`,
		},
		"locks": {`session "s1": the holder "me"`, `session "s2": the time of the lock is a text`},
	} {
		if len(findings[check]) != len(want) {
			t.Errorf("%s: %q", check, findings[check])
		}
		for _, w := range want {
			if !slices.ContainsFunc(findings[check], func(f string) bool { return strings.Contains(f, w) }) {
				t.Errorf("%s: nothing about %s in %q", check, w, findings[check])
			}
		}
	}
}
