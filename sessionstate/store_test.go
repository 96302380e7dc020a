package sessionstate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pistate/schema"
)

func TestOneStorePerResolvedPath(t *testing.T) { // Y10
	dir := t.TempDir()
	path := filepath.Join(dir, "real", "states.sqlite")
	first, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "real"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(dir, "file.sqlite")); err != nil {
		t.Fatal(err)
	}
	a := newState(t, first, "p", ScopeBranch)
	mustWrite(t, a, at(""), `1`)
	for _, spelling := range []string{
		path, dir + "//real/./states.sqlite", dir + "/real/../link/states.sqlite", dir + "/file.sqlite", "/" + path,
	} {
		st, err := Open(t.Context(), spelling, Options{})
		if err != nil {
			t.Fatalf("%s: %v", spelling, err)
		}
		if st.shared != first.shared {
			t.Errorf("%s is another store", spelling)
		}
		wantValue(t, newState(t, st, "p", ScopeBranch), at(""), `1`) // which is only in memory
		for range 2 {                                                // closing twice gives back one handle
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustWrite(t, a, at("a"), `2`)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Write(t.Context(), at("a"), json.RawMessage(`3`)); !errors.Is(err, schema.Closed) {
		t.Errorf("write after close: %v", err)
	}
	again, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	wantValue(t, newState(t, again, "p", ScopeBranch), at("b"), `2`)
}

func TestReadsTouchNoDiskAfterTheFirstLoad(t *testing.T) { // Y6
	st := openStore(t)
	s := newState(t, st, "p", ScopeBranch)
	mustWrite(t, s, at("a"), `1`)
	wantValue(t, s, at("d"), `1`)
	wantValue(t, s, at("f"), `1`)
	// Another program changes the rows behind our back: what is cached is still what is read.
	sqlite3CLI(t, st.Path(), `UPDATE state SET value = '2'`)
	wantValue(t, s, at("a"), `1`)
	wantValue(t, s, at("d"), `1`)
	st.Refresh() // Y10
	wantValue(t, s, at("a"), `2`)
	wantValue(t, s, at("f"), `2`)
}

func TestCoherentReads(t *testing.T) { // Y12
	st := openStore(t)
	coherent, err := New(st, Config{PluginID: "p", Scope: ScopeSession, Coherent: true})
	if err != nil {
		t.Fatal(err)
	}
	plain := newState(t, st, "p", ScopeSession)
	wantValue(t, coherent, at("a"), "")
	for i := range 5 {
		sqlite3CLI(t, st.Path(), fmt.Sprintf(`INSERT OR REPLACE INTO state VALUES ('p', 's1', '', '%d')`, i))
		wantValue(t, coherent, at("a"), fmt.Sprint(i))
		wantValue(t, plain, at("a"), fmt.Sprint(i)) // which shares the cache
		mustWrite(t, plain, at("a"), fmt.Sprint(-i-1))
		wantValue(t, coherent, at("a"), fmt.Sprint(-i-1))
	}
	sqlite3CLI(t, st.Path(), `DELETE FROM state`)
	wantValue(t, coherent, at("a"), "")
}

// sqlite3CLI runs SQL in the sqlite3 program, as an outsider.
func sqlite3CLI(t testing.TB, path, sql string) string {
	t.Helper()
	bin, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("the sqlite3 program is not installed")
	}
	out, err := exec.Command(bin, "-cmd", ".timeout 5000", path, sql).CombinedOutput()
	if err != nil {
		t.Fatalf("sqlite3: %v\n%s", err, out)
	}
	return string(out)
}

func TestOutsidersReadTheFile(t *testing.T) { // Y4
	st := openStore(t)
	s := newState(t, st, "p", ScopeBranch)
	mustWrite(t, s, at("b"), `{"n":1}`)
	if got := sqlite3CLI(t, st.Path(), `SELECT plugin_id, session_id, branch_id, value, typeof(value) FROM state`); got != "p|s1|a|{\"n\":1}|text\n" {
		t.Errorf("row %q", got)
	}
	if got := sqlite3CLI(t, st.Path(), `PRAGMA journal_mode; PRAGMA integrity_check; SELECT count(*) FROM write_lock`); got != "wal\nok\n0\n" {
		t.Errorf("%q", got)
	}
}

func TestForeignDatabases(t *testing.T) { // Y4
	for name, sql := range map[string]string{
		"other tables":    `CREATE TABLE bookmarks (url TEXT)`,
		"another state":   `CREATE TABLE state (k TEXT PRIMARY KEY, v BLOB); CREATE TABLE write_lock (session_id TEXT PRIMARY KEY, holder TEXT NOT NULL, acquired_at INTEGER NOT NULL)`,
		"only an id of 1": `PRAGMA application_id = 1`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.sqlite")
			sqlite3CLI(t, path, sql)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if st, err := Open(t.Context(), path, Options{}); !errors.Is(err, schema.Incompatible) {
				t.Errorf("opened: %v", err)
				if err == nil {
					st.Close()
				}
			}
			after, err := os.ReadFile(path)
			if err != nil || string(after) != string(before) {
				t.Errorf("the file was changed (%v)", err)
			}
			if _, err := OpenReader(t.Context(), path); !errors.Is(err, schema.Incompatible) {
				t.Errorf("read: %v", err)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(path, []byte("this is no database, and it is long enough to have a header: 0123456789012345678901234567890123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, schema.Corrupt) {
		t.Errorf("junk: %v", err)
	}
}

func TestAnotherProgramsHalfMadeDatabaseIsFinished(t *testing.T) { // Y4, S7
	for _, table := range []string{
		`CREATE TABLE state (plugin_id TEXT NOT NULL, session_id TEXT NOT NULL, branch_id TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (plugin_id, session_id, branch_id))`,
		`CREATE TABLE write_lock (session_id TEXT PRIMARY KEY, holder TEXT NOT NULL, acquired_at INTEGER NOT NULL)`,
	} {
		path := filepath.Join(t.TempDir(), "states.sqlite")
		sqlite3CLI(t, path, table)
		st, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatalf("%s: %v", table, err)
		}
		mustWrite(t, newState(t, st, "p", ScopeSession), at("a"), `1`)
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheSeedsDatabaseIsAccepted(t *testing.T) { // Y4
	path := filepath.Join(t.TempDir(), "states.sqlite")
	sqlite3CLI(t, path, `
		PRAGMA journal_mode=WAL;
		create table if not exists state(plugin_id text not null, session_id text not null, branch_id text not null,
			value text not null, /* JSON */ primary key(plugin_id,session_id,branch_id));
		CREATE TABLE IF NOT EXISTS "write_lock" (session_id TEXT PRIMARY KEY, holder TEXT NOT NULL, acquired_at INTEGER NOT NULL);
		INSERT INTO state VALUES ('p', 's1', '', '1')`)
	st, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	wantValue(t, newState(t, st, "p", ScopeSession), at("a"), `1`)
}

func TestReplacedFile(t *testing.T) { // S9
	st := openStore(t)
	s := newState(t, st, "p", ScopeSession)
	mustWrite(t, s, at("a"), `1`)
	if err := os.Rename(st.Path(), st.Path()+".old"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Write(t.Context(), at("a"), json.RawMessage(`2`)); !errors.Is(err, schema.Replaced) {
			t.Fatalf("write to a file that was moved away: %v", err)
		}
	}
	if _, _, err := s.Read(t.Context(), at("a")); !errors.Is(err, schema.Replaced) {
		t.Errorf("first read of a file that was moved away: %v", err)
	}
	if again, err := Open(t.Context(), st.Path(), Options{}); !errors.Is(err, schema.Replaced) {
		t.Errorf("opened beside a handle of the old file: %v", err)
		if err == nil {
			again.Close()
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), st.Path(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	s = newState(t, again, "p", ScopeSession)
	wantValue(t, s, at("a"), "")
	mustWrite(t, s, at("a"), `3`)
}

func TestManyGoroutines(t *testing.T) { // Y5, Y6
	st := openStore(t)
	s := newState(t, st, "p", ScopeBranch)
	var wg sync.WaitGroup
	for g := range 8 {
		sc := At(fmt.Sprint("s", g%4), []string{"d", "f", "b", ""}[g%4], TreeOf(forked))
		wg.Go(func() {
			for i := range 50 {
				if err := s.Write(t.Context(), sc, json.RawMessage(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
				if _, found, err := s.Read(t.Context(), sc); err != nil || !found {
					t.Error(found, err)
				}
				if i%20 == 0 {
					st.Refresh()
				}
			}
		})
	}
	wg.Wait()
}

func TestIncrementsAreNotLost(t *testing.T) { // Y12
	st := openStore(t)
	s := newState(t, st, "p", ScopeSession)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for done := 0; done < 25; {
				v, _, err := s.Read(t.Context(), at("a"))
				if err != nil {
					t.Error(err)
					return
				}
				n := 0
				if v != nil {
					if err := json.Unmarshal(v, &n); err != nil {
						t.Error(err)
						return
					}
				}
				switch err := s.CompareAndWrite(t.Context(), at("a"), v, json.RawMessage(fmt.Sprint(n+1))); {
				case err == nil:
					done++
				case !errors.Is(err, schema.Conflict):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	wantValue(t, s, at("a"), `100`)
}

func TestCacheIsBounded(t *testing.T) { // Y6
	path := filepath.Join(t.TempDir(), "states.sqlite")
	st, err := Open(t.Context(), path, Options{CacheBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	s := newState(t, st, "p", ScopeSession)
	value := fmt.Sprintf("%q", strings.Repeat("x", 298))
	for i := range 20 {
		sc := At(fmt.Sprint("s", i), "", nil)
		mustWrite(t, s, sc, value)
		wantValue(t, s, sc, value)
		if got := st.cache.bytes.Load(); got > 1000+300 {
			t.Fatalf("the cache holds %d bytes", got)
		}
	}
	big := fmt.Sprintf("%q", strings.Repeat("y", 5000))
	mustWrite(t, s, At("s1", "", nil), big)
	for range 3 {
		wantValue(t, s, At("s1", "", nil), big)
		wantValue(t, s, At("s2", "", nil), value)
	}
	st.Refresh()
	if got := st.cache.bytes.Load(); got != 0 {
		t.Errorf("an empty cache holds %d bytes", got)
	}
	if _, err := Open(t.Context(), path, Options{CacheBytes: -1}); !errors.Is(err, schema.Invalid) {
		t.Errorf("a negative cache: %v", err)
	}
}

func TestClosedHandle(t *testing.T) { // Y10
	st := openStore(t)
	other, err := Open(t.Context(), st.Path(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newState(t, other, "p", ScopeSession)
	mustWrite(t, s, at("a"), `1`)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, rerr := s.Read(t.Context(), at("a")) // though it is cached
	werr := s.Write(t.Context(), at("a"), json.RawMessage(`2`))
	herr := other.Hold(t.Context(), "s1", func(context.Context) error { return nil })
	ferr := other.ForceRefresh(t.Context(), "s1")
	_, serr := other.Status(t.Context(), "")
	for op, err := range map[string]error{"read": rerr, "write": werr, "hold": herr, "refresh": ferr, "status": serr} {
		if !errors.Is(err, schema.Closed) {
			t.Errorf("%s: %v", op, err)
		}
	}
	wantValue(t, newState(t, st, "p", ScopeSession), at("a"), `1`)
}
