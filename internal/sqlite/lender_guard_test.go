package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pistate/schema"
)

// G3: no call of a function goes on for long. SQLite looks at a context between its instructions, of which a call
// is one, so that those whose time grows faster than what they are given would not end with it.
func TestLenderBoundedFunctions(t *testing.T) {
	b := borrowTest(t)
	for _, call := range []string{
		"instr('a', 'b')", "replace('a', 'b', 'c')", "trim('a')", "ltrim('a', 'b')", "rtrim('a', 'b')", "'a' LIKE 'b'", "like('a', 'b')",
		"'a' REGEXP 'b'", "regexp('a', 'b')", "decimal_mul('1', '2')", "json_patch('{}', '{}')", "unhex('a', 'b')",
		"iNsTr('a', 'b')", "load_extension('x')", "sqlite_log(1, 'x')",
	} {
		for _, sql := range []string{
			"SELECT " + call,
			"CREATE VIEW temp.v AS WITH c AS (SELECT " + call + ") SELECT * FROM c; SELECT * FROM temp.v",
			"CREATE TEMP TRIGGER g AFTER INSERT ON item BEGIN SELECT " + call + "; END; INSERT INTO item (name) VALUES ('a')",
			"CREATE TEMP TABLE g (a DEFAULT (" + call + ")); INSERT INTO g DEFAULT VALUES",
		} {
			if n := b.script(sql); n >= 0 || !strings.Contains(b.why(), "function") {
				t.Errorf("%s: %d: %s", sql, n, b.why())
			}
			b.script("DROP VIEW IF EXISTS temp.v; DROP TRIGGER IF EXISTS temp.g; DROP TABLE IF EXISTS temp.g")
		}
	}
	if _, values := b.do("SELECT 'run:1' GLOB 'run:?*'"); values[0] != int64(1) {
		t.Errorf("GLOB gives %v", values)
	}
	if n := b.script("SELECT 'a' GLOB '" + strings.Repeat("*a", maxPattern) + "'"); n >= 0 {
		t.Error("a pattern can be as long as it likes")
	}
}

// A context that is over ends a wait for a lock as it ends everything else: the database isn't busy then.
func TestLenderLockWaitEnds(t *testing.T) {
	b := borrowTest(t)
	other := raw(t, b.path, "BEGIN IMMEDIATE")
	begin := b.ok(b.prepare("BEGIN IMMEDIATE"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	n := b.Run(ctx, begin, nil, b.buf)
	if err := crossedError(b.path, n, b.why()); !errors.Is(err, schema.Canceled) || !errors.Is(err, codeInterrupted) || !strings.Contains(b.why(), "deadline") {
		t.Errorf("%d: %v", n, err)
	}
	must(t, other.Exec("ROLLBACK"))
	if n := b.Run(t.Context(), begin, nil, b.buf); n < 0 {
		t.Errorf("afterwards: %d: %s", n, b.why())
	}
}

// So it is natively.
func TestOpenLockWaitEnds(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	must(t, openTest(t, path).Close())
	owner := raw(t, path, "PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, path, testSchema)
	wantCode(t, err, schema.Canceled)
	must(t, owner.Exec("ROLLBACK"))
}
