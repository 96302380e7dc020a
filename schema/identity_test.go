package schema

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestStateSchema freezes what SQLite makes of the DDL: any change of a table, index, trigger or CHECK shows here. (S3)
func TestStateSchema(t *testing.T) {
	m := openState(t)
	var dump strings.Builder
	for _, o := range readShape(t, m) {
		if o.SQL == "" {
			fmt.Fprintf(&dump, "-- %s on %s, made by SQLite\n\n", o.Name, o.Table)
			continue
		}
		dump.WriteString(o.SQL + ";\n\n")
	}
	golden(t, "state.golden", dump.String())
}

// TestStateDigest freezes the digest that databases carry: comments count too. (S3, S4)
func TestStateDigest(t *testing.T) {
	digest := StateDigest()
	golden(t, "digest.golden", hex.EncodeToString(digest[:])+"\n")
}

// TestCreateState reads back what CreateState writes. (S3)
func TestCreateState(t *testing.T) {
	m := openMemory(t)
	m.exec(t, "BEGIN IMMEDIATE") // the pragmas must belong to the transaction
	if err := CreateState(m, "1.2.3 'quoted'", 1700000000123); err != nil {
		t.Fatal(err)
	}
	m.exec(t, "ROLLBACK")
	b := bench{m}
	for _, q := range []string{"PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema"} {
		b.each(t, q, func(r memoryRow) {
			if r.Int64(0) != 0 {
				t.Errorf("%s is %d after a rollback", q, r.Int64(0))
			}
		})
	}

	m.exec(t, "BEGIN IMMEDIATE")
	if err := CreateState(m, "1.2.3 'quoted'", 1700000000123); err != nil {
		t.Fatal(err)
	}
	m.exec(t, "COMMIT")
	digest := StateDigest()
	for q, want := range map[string]string{
		"PRAGMA application_id":                                   "1346983750",
		"PRAGMA user_version":                                     "1",
		"SELECT count(*) FROM schema_meta":                        "1",
		"SELECT name || version FROM schema_meta":                 "pi-workflows.state1",
		"SELECT app_version FROM schema_meta":                     "1.2.3 'quoted'",
		"SELECT created_at || ' ' || updated_at FROM schema_meta": "1700000000123 1700000000123",
		"SELECT lower(hex(ddl_digest)) FROM schema_meta":          hex.EncodeToString(digest[:]),
		"PRAGMA integrity_check":                                  "ok",
		"SELECT count(*) FROM pragma_foreign_key_check":           "0",
	} {
		b.each(t, q, func(r memoryRow) {
			if got := r.Text(0); got != want {
				t.Errorf("%s: %q, expected %q", q, got, want)
			}
		})
	}
}

// TestCreateStateFails passes on what the transaction says.
func TestCreateStateFails(t *testing.T) {
	m := openState(t)
	if err := CreateState(m, "test", 1); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("the second creation: %v", err)
	}
}

// TestFixtureIsSound: the rows that the tests spoil pass SQLite's own checks.
func TestFixtureIsSound(t *testing.T) {
	b := openBench(t)
	b.each(t, "PRAGMA integrity_check", func(r memoryRow) {
		if r.Text(0) != "ok" {
			t.Error(r.Text(0))
		}
	})
	b.each(t, "SELECT * FROM pragma_foreign_key_check", func(r memoryRow) {
		t.Errorf("table %s: broken reference to %s", r.Text(0), r.Text(2))
	})
}

// TestSessionDDL: exactly the two tables that other programs share, whoever came first. (Y4)
func TestSessionDDL(t *testing.T) {
	m := openMemory(t, SessionDDL(), SessionDDL())
	var tables []string
	for _, o := range readShape(t, m) {
		if o.Type == "table" {
			tables = append(tables, o.SQL)
		}
	}
	want := []string{
		"CREATE TABLE state (plugin_id TEXT NOT NULL, session_id TEXT NOT NULL, branch_id TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (plugin_id, session_id, branch_id))",
		"CREATE TABLE write_lock (session_id TEXT PRIMARY KEY, holder TEXT NOT NULL, acquired_at INTEGER NOT NULL)",
	}
	if len(tables) != len(want) {
		t.Fatalf("tables:\n%q", tables)
	}
	for i := range want {
		got := joinTokens(tokenize(tables[i]))
		if got != joinTokens(tokenize(want[i])) {
			t.Errorf("found    %s\nexpected %s", got, want[i])
		}
	}
	bench{m}.each(t, "SELECT application_id, user_version FROM pragma_application_id, pragma_user_version", func(r memoryRow) {
		if r.Int64(0) != 0 || r.Int64(1) != 0 {
			t.Errorf("application id %d, user version %d: expected none", r.Int64(0), r.Int64(1))
		}
	})
}

// TestCodes freezes the words of errors on the wire and their order.
func TestCodes(t *testing.T) {
	var list strings.Builder
	for _, c := range Codes() {
		list.WriteString(string(c) + "\n")
	}
	golden(t, "codes.golden", list.String())
}

// TestCodesMatch: a code is found through any wrapping, and no other code is.
func TestCodesMatch(t *testing.T) {
	cause := errors.New("cause")
	for _, code := range Codes() {
		plain := Errorf(code, "what: %w", cause)
		plain.Op = "op"
		for name, err := range map[string]error{
			"plain":       plain,
			"wrapped":     fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", plain)),
			"joined":      errors.Join(errors.New("other"), plain),
			"coded cause": &Error{Code: code, Err: errors.New("other")},
			"bare":        fmt.Errorf("outer: %w", code),
		} {
			if CodeOf(err) != code {
				t.Errorf("%s %s: CodeOf is %q", name, code, CodeOf(err))
			}
			for _, other := range Codes() {
				if errors.Is(err, other) != (other == code) {
					t.Errorf("%s %s: errors.Is(err, %s) is %v", name, code, other, other != code)
				}
			}
		}
		if !errors.Is(plain, cause) {
			t.Errorf("%s: the cause is lost", code)
		}
		var e *Error
		if !errors.As(fmt.Errorf("outer: %w", plain), &e) || e.Error() != "op: what: cause" {
			t.Errorf("%s: found %v", code, e)
		}
	}
	if CodeOf(nil) != "" || CodeOf(cause) != Storage {
		t.Errorf("CodeOf(nil) is %q, of an error without code %q", CodeOf(nil), CodeOf(cause))
	}
}
