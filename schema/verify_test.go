package schema

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

func TestVerifyFresh(t *testing.T) {
	if err := VerifyState(openState(t)); err != nil {
		t.Error(err)
	}
	if err := VerifySession(openMemory(t, SessionDDL())); err != nil {
		t.Error(err)
	}
}

// S4: another kind of file gets its own text, not a list of all that it lacks.
func TestVerifyAnotherKind(t *testing.T) {
	state := func(m memory) error { return VerifyState(m) }
	session := func(m memory) error { return VerifySession(m) }
	notes := "CREATE TABLE notes (id INTEGER PRIMARY KEY);"
	for _, c := range []struct {
		name   string
		verify func(memory) error
		ddl    string
		want   string
	}{
		{"state: empty", state, "", "an empty database, without any table. Nothing was changed."},
		{"state: session state", state, SessionDDL(), "a session-state database, not a workflow database. Nothing was changed."},
		{"state: foreign", state, notes, "application id 0x00000000, not 0x50495746: not a workflow database. Nothing was changed."},
		{"state: foreign with an application id", state, notes + "PRAGMA application_id = -2", "application id 0xfffffffe, not 0x50495746: not a workflow database."},
		{"state: no application id", state, StateDDL() + "PRAGMA user_version = 1", "application id 0x00000000, not 0x50495746: not a workflow database."},
		{"state: only marks", state, "PRAGMA application_id = 0x50495746; PRAGMA user_version = 1", "a workflow database of another version:\n  table blobs: missing\n"},

		{"session: empty", session, "", "an empty database, without any table. Nothing was changed. Set sessionState.databasePath"},
		{"session: workflow state", session, StateDDL() + "PRAGMA application_id = 0x50495746", "a workflow database (application id 0x50495746), not session state. Nothing was changed."},
		{"session: foreign", session, notes, "no table state and no table write_lock: not a session-state database. Nothing was changed."},
		{"session: one of two tables", session, "CREATE TABLE state (a)", "other tables than those of session state:\n  table write_lock: missing\n  table state: column plugin_id: missing\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.verify(openMemory(t, c.ddl))
			if !errors.Is(err, Incompatible) || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%s\ndoes not begin with\n%s", err, c.want)
			}
		})
	}
}

// S4: the whole text of an error, which is all that a user sees.
func TestVerifyErrorText(t *testing.T) {
	m := openState(t)
	m.exec(t, `
		ALTER TABLE blobs ADD COLUMN seen_at INTEGER;
		DROP TRIGGER blobs_no_delete;
		PRAGMA user_version = 2`)
	want := `a workflow database of another version:
  user version: expected 1, found 2
  trigger blobs_no_delete: missing
  table blobs: column seen_at: unexpected
Nothing was changed. To keep this state, use the program that made it. Alpha state is not converted: to begin anew, stop every program that uses the file, and move it away together with its -wal and -shm files.`
	err := VerifyState(m)
	if err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
	if CodeOf(err) != Incompatible {
		t.Errorf("code %q", CodeOf(err))
	}
}

func TestVerifyErrorIsBounded(t *testing.T) {
	m := openState(t)
	for i := range maxDifferences + 3 {
		m.exec(t, fmt.Sprintf("CREATE VIEW v%d AS SELECT 1", i))
	}
	err := VerifyState(m)
	if err == nil || strings.Count(err.Error(), "\n") != maxDifferences+2 || !strings.Contains(err.Error(), "\n  and 3 more\n") {
		t.Errorf("not bounded: %v", err)
	}
}

// S3: the marks in the header, and the one row of schema_meta.
func TestVerifyIdentity(t *testing.T) {
	m := openState(t)
	// The schema itself refuses most of this; a file that was made on purpose doesn't.
	m.exec(t, "PRAGMA ignore_check_constraints = ON")
	unlock, lock := "", ""
	for _, o := range readShape(t, m) {
		if o.Type == "trigger" && o.Table == "schema_meta" {
			unlock += "DROP TRIGGER " + o.Name + ";"
			lock += o.SQL + ";"
		}
	}
	digest := fmt.Sprintf("%x", StateDigest())
	for _, c := range []struct{ name, sql, want string }{
		{"application id", "PRAGMA application_id = 0x50495747", "application id 0x50495747, not 0x50495746: not a workflow database."},
		{"newer user version", "PRAGMA user_version = 2", "\n  user version: expected 1, found 2\n"},
		{"no user version", "PRAGMA user_version = 0", "\n  user version: expected 1, found 0\n"},
		{"name", "UPDATE schema_meta SET name = 'x'", "\n  schema_meta: name: expected " + StateName + ", found x\n"},
		{"hostile name", "UPDATE schema_meta SET name = char(27) || '[2J'", `found "\x1b[2J"`},
		{"version", "UPDATE schema_meta SET version = 2", "\n  schema_meta: version: expected 1, found 2\n"},
		{"digest", "UPDATE schema_meta SET ddl_digest = zeroblob(32)", "\n  schema_meta: ddl_digest: expected " + digest + ", found " + strings.Repeat("0", 64) + "\n"},
		{"short digest", "UPDATE schema_meta SET ddl_digest = x'ab'", "found ab\n"},
		{"long digest", "UPDATE schema_meta SET ddl_digest = CAST(ddl_digest || x'ab' AS BLOB)", "expected " + digest + ", found " + digest + "ab\n"},
		{"no row", "DELETE FROM schema_meta", "\n  schema_meta: expected 1 row, found 0\n"},
		{"two rows", "INSERT INTO schema_meta SELECT 'x', version, ddl_digest, app_version, created_at, updated_at FROM schema_meta", "\n  schema_meta: expected 1 row, found 2\n"},
		{"no table", "DROP TABLE schema_meta", "\n  table schema_meta: missing\n"},
		{"column renamed", "ALTER TABLE schema_meta RENAME COLUMN name TO title", "\n  table schema_meta: column title: unexpected\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m.exec(t, "BEGIN;"+unlock+c.sql)
			if c.name != "no table" {
				m.exec(t, lock)
			}
			err := VerifyState(m)
			m.exec(t, "ROLLBACK")
			if !errors.Is(err, Incompatible) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
	if err := VerifyState(m); err != nil {
		t.Error(err)
	}
}

// A schema that contradicts itself makes every query fail, the ones of the verification too. SQLite's error
// names the object, and it comes through. (C47: a dangling index)
func TestVerifyContradiction(t *testing.T) {
	path := t.TempDir() + "/state.sqlite"
	db, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	m := memory{db, nil}
	m.exec(t, SessionDDL()+`
		PRAGMA writable_schema = ON;
		INSERT INTO sqlite_schema VALUES ('index', 'dangling', 'nothing', 2, 'CREATE INDEX dangling ON nothing (x)')`)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = sqlite3.Open(path); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, err := range map[string]error{
		"state":   VerifyState(memory{db, map[string]*sqlite3.Stmt{}}),
		"session": VerifySession(memory{db, map[string]*sqlite3.Stmt{}}),
	} {
		if !errors.Is(err, sqlite3.CORRUPT) || !strings.Contains(err.Error(), "dangling") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What SQLite keeps for itself in any database makes no difference.
func TestVerifyIgnoresStatistics(t *testing.T) {
	m := openMemory(t, SessionDDL(), `
		INSERT INTO state VALUES ('p', 's', '', '1'); ANALYZE;
		CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT); DROP TABLE t;`)
	if err := VerifySession(m); err != nil {
		t.Error(err)
	}
	m.exec(t, `PRAGMA writable_schema = ON;
		INSERT INTO sqlite_schema VALUES
			('table', 'sqlite_stat9', 'sqlite_stat9', 2, 'CREATE TABLE sqlite_stat9 (a)'),
			('trigger', 'sqlite_stat1', 'state', 0, 'CREATE TRIGGER sqlite_stat1 AFTER INSERT ON state BEGIN SELECT 1; END')`)
	err := VerifySession(m)
	for _, line := range []string{"table sqlite_stat9: unexpected", "trigger sqlite_stat1: unexpected"} {
		if err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%s is not in: %v", line, err)
		}
	}
}

// Y4: other programs create the two tables too, in their own way.
func TestVerifySessionOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		ddl, want string // want: what the error contains; "" if it is session state
	}{
		"one line": {"CREATE TABLE state (plugin_id TEXT NOT NULL, session_id TEXT NOT NULL, branch_id TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (plugin_id, session_id, branch_id));" +
			"CREATE TABLE write_lock (session_id TEXT PRIMARY KEY, holder TEXT NOT NULL, acquired_at INTEGER NOT NULL)", ""},
		"quotes, lower case": {"create table if not exists \"state\"(\"plugin_id\" text not null,`session_id` text not null,[branch_id] text not null,value text not null,primary key(\"plugin_id\",session_id,branch_id));" +
			"create table if not exists main.[write_lock] /* lock */ (session_id text primary key,holder text not null,acquired_at integer not null)", ""},
		"marks of its own":    {SessionDDL() + "PRAGMA application_id = 7; PRAGMA user_version = 3", ""},
		"renamed there, back": {SessionDDL() + "ALTER TABLE state RENAME TO s; ALTER TABLE s RENAME TO state; ALTER TABLE state RENAME COLUMN value TO v; ALTER TABLE state RENAME COLUMN v TO value", ""},
		"a table more":        {SessionDDL() + "CREATE TABLE history (a TEXT)", "table history: unexpected"},
		"an index more":       {SessionDDL() + "CREATE INDEX by_session ON state (session_id)", "index by_session: unexpected"},
		"a trigger more":      {SessionDDL() + "CREATE TRIGGER g AFTER INSERT ON state BEGIN DELETE FROM write_lock; END", "trigger g: unexpected"},
		"a view more":         {SessionDDL() + "CREATE VIEW v AS SELECT * FROM state", "view v: unexpected"},
		"strict":              {strings.Replace(SessionDDL(), "\n);", "\n) STRICT;", 1), "table state: STRICT: unexpected"},
		"one table less":      {SessionDDL() + "DROP TABLE write_lock", "table write_lock: missing"},
		"nothing like it": {"CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT); CREATE TABLE write_lock (id INTEGER)",
			"table state: column plugin_id: missing"},
	} {
		t.Run(name, func(t *testing.T) {
			err := VerifySession(openMemory(t, c.ddl))
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!errors.Is(err, Incompatible) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func BenchmarkVerifyState(b *testing.B) {
	m := openState(b)
	stateShape()
	for b.Loop() {
		if err := VerifyState(m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifySession(b *testing.B) {
	m := openMemory(b, SessionDDL())
	sessionShape()
	for b.Loop() {
		if err := VerifySession(m); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExpectedShape is what a process pays once.
func BenchmarkExpectedShape(b *testing.B) {
	for b.Loop() {
		shapeOf(StateDDL())
	}
}

// BenchmarkMismatch is the way of an error.
func BenchmarkMismatch(b *testing.B) {
	m := openState(b)
	m.exec(b, "CREATE VIEW v AS SELECT 1; ALTER TABLE blobs ADD COLUMN seen_at INTEGER")
	for b.Loop() {
		if VerifyState(m) == nil {
			b.Fatal("accepted")
		}
	}
}
