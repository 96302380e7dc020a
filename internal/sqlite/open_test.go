package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"pistate/schema"
)

// C43: the race between a checkpoint and a reset of the WAL was fixed in SQLite 3.51.3.
func TestVersion(t *testing.T) {
	db := openTest(t, filepath.Join(t.TempDir(), "x.db"))
	var version string
	must(t, db.Read(t.Context(), func(rx *Rx) error {
		return rx.Query("SELECT sqlite_version()", func(r Row) error { version = r.Text(0); return nil })
	}))
	number := 0
	for _, part := range strings.Split(version, ".") {
		n, err := strconv.Atoi(part)
		must(t, err)
		number = number*1000 + n
	}
	if number < 3_051_003 {
		t.Errorf("SQLite %s is too old", version)
	}
}

// S2: the settings of every writing and reading connection.
func TestSettings(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	db := openTest(t, path)
	want := func(name string, c *conn, settings map[string]string) {
		t.Helper()
		for pragma, want := range settings {
			var got string
			must(t, c.run("PRAGMA "+pragma, func(r Row) error { got = r.Text(0); return nil }, nil))
			if got != want {
				t.Errorf("%s: %s = %s, want %s", name, pragma, got, want)
			}
		}
	}
	want("writer", db.writer, map[string]string{
		"foreign_keys": "1", "journal_mode": "wal", "synchronous": "2", "busy_timeout": "5000",
		"wal_autocheckpoint": "1000", "journal_size_limit": "33554432", "recursive_triggers": "1",
		"query_only": "0", "trusted_schema": "0", "cell_size_check": "1",
	})
	reading := map[string]string{"query_only": "1", "busy_timeout": "5000", "trusted_schema": "0", "cell_size_check": "1"}
	if readersOpen {
		must(t, db.Read(t.Context(), func(rx *Rx) error {
			want("reader of a DB", rx.c, reading)
			wantReadOnly(t, rx.c)
			return nil
		}))
	}
	look := func(name, path string) {
		t.Helper()
		r, err := OpenReader(t.Context(), path, verifyTest)
		must(t, err)
		must(t, r.Read(t.Context(), func(rx *Rx) error { want(name, rx.c, reading); return nil }))
		if !r.private {
			wantReadOnly(t, r.conn)
		}
		must(t, r.Close())
	}
	must(t, insert(t.Context(), db, "one"))
	look("live", path)
	crash(t, path, path+"2", "", "-wal")
	look("frozen", path+"2")
	must(t, db.Close())
	look("at rest", path)
	hotJournal(t, path, path+"3")
	look("copied", path+"3")
}

// wantReadOnly checks that a connection was opened read-only, and is not merely told not to write.
func wantReadOnly(t *testing.T, c *conn) {
	t.Helper()
	if ro, _ := inside(c).db.ReadOnly("main"); !ro {
		t.Error("the connection is writable")
	}
	must(t, c.exec("PRAGMA query_only = OFF"))
	defer func() { must(t, c.exec("PRAGMA query_only = ON")) }()
	if err := c.exec("DELETE FROM item"); !errors.Is(err, sqlite3.READONLY) {
		t.Errorf("a reader wrote: %v", err)
	}
}

// S7, C29: processes that make the same database at once all end with one valid database.
func TestCreateAtOnce(t *testing.T) {
	path := filepath.Join(tempDir(t), "new", "x.db")
	const processes = 10
	errs := make(chan error, processes)
	for i := range processes {
		cmd := helper(t, "open", path, strconv.Itoa(i))
		cmd.Stderr = os.Stderr
		must(t, cmd.Start())
		go func() { errs <- cmd.Wait() }()
	}
	for range processes {
		must(t, <-errs)
	}
	wantItems(t, path, processes)
	report, err := Check(t.Context(), path, CheckOptions{}, verifyTest)
	if must(t, err); !report.OK() {
		t.Error(report)
	}
}

func helpOpen(args []string) error {
	ctx := context.Background()
	db, err := Open(ctx, args[0], testSchema)
	if err != nil {
		return err
	}
	return join(insert(ctx, db, args[1]), db.Close())
}

// C29: an opening that finds the database busy tries again, and ends with its context.
func TestOpenBusy(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	must(t, openTest(t, path).Close())
	busy := 3
	ctx, cancel := context.WithCancel(t.Context())
	s := Schema{Create: testSchema.Create, Verify: func(rx *Rx) error {
		if busy--; busy >= 0 {
			return translate(path, reported(sqlite3.BUSY_RECOVERY))
		}
		return verifyTest(rx)
	}}
	db, err := Open(ctx, path, s)
	must(t, err)
	must(t, db.Close())
	s.Verify = func(*Rx) error {
		cancel()
		return translate(path, reported(sqlite3.BUSY_RECOVERY))
	}
	_, err = Open(ctx, path, s)
	wantCode(t, err, schema.Busy)
}

// S4, C47: a database that is not the expected one is refused, and neither it nor anything beside it is
// touched, not even its permissions.
func TestForeignDatabase(t *testing.T) {
	ours := func(t *testing.T, path string) {
		db := openTest(t, path)
		fill(t, db, 10)
		must(t, db.Close())
	}
	for name, build := range map[string]func(t *testing.T, path string){
		"other application": func(t *testing.T, path string) {
			ours(t, path)
			rawExec(t, path, "PRAGMA application_id = 1")
		},
		"no application": func(t *testing.T, path string) {
			ours(t, path)
			rawExec(t, path, "PRAGMA application_id = 0")
		},
		"one index more": func(t *testing.T, path string) {
			ours(t, path)
			rawExec(t, path, "CREATE INDEX extra ON item (data)")
		},
		"only a version": func(t *testing.T, path string) {
			rawExec(t, path, "PRAGMA user_version = 7")
		},
		"rollback journal": func(t *testing.T, path string) {
			rawExec(t, path, "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
		},
		"crashed with its WAL": func(t *testing.T, path string) {
			raw(t, path+".live", "PRAGMA journal_mode = WAL", "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
			crash(t, path+".live", path, "", "-wal", "-shm")
		},
		"crashed with its WAL alone": func(t *testing.T, path string) {
			raw(t, path+".live", "PRAGMA journal_mode = WAL", "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
			crash(t, path+".live", path, "", "-wal")
		},
		"crashed with a hot journal": func(t *testing.T, path string) {
			ours(t, path+".live")
			rawExec(t, path+".live", "PRAGMA application_id = 1")
			hotJournal(t, path+".live", path)
		},
		"text": func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte(strings.Repeat("no database\n", 1000)), 0o644))
		},
		"header and junk": func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte("SQLite format 3\x00junk"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tempDir(t)
			path := filepath.Join(dir, "x.db")
			build(t, path)
			must(t, os.Chmod(path, 0o644))
			before := files(t, dir)
			for range 2 {
				_, err := Open(t.Context(), path, testSchema)
				if !errors.Is(err, schema.Incompatible) && !errors.Is(err, schema.Corrupt) {
					t.Errorf("got %v", err)
				}
				wantUnchanged(t, dir, before)
			}
		})
	}
}

// S4: the same while the owner of the other database has it open.
func TestForeignLiveDatabase(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "x.db")
	owner := raw(t, path, "PRAGMA journal_mode = WAL", "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
	before := files(t, dir)
	delete(before, "x.db-shm") // where readers note what they are reading
	_, err := Open(t.Context(), path, testSchema)
	wantCode(t, err, schema.Incompatible)
	after := files(t, dir)
	for name, was := range before {
		if name != "." && after[name] != was {
			t.Errorf("%s changed", name)
		}
	}
	must(t, owner.Exec("INSERT INTO t VALUES (2)"))
}

// A failing Create leaves a database that can be opened later.
func TestCreateFails(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	broken := errors.New("broken")
	_, err := Open(t.Context(), path, Schema{
		Create: func(tx *Tx) error { return join(tx.Script("CREATE TABLE other (a)"), broken) },
		Verify: verifyTest,
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	_, err = Open(t.Context(), path, Schema{
		Create: func(tx *Tx) error { return tx.Script("CREATE TABLE other (a)") },
		Verify: verifyTest,
	})
	wantCode(t, err, schema.Incompatible)
	must(t, insert(t.Context(), openTest(t, path), "one"))
}

// S7: a database of which another program has made only a part is finished, and nothing else is.
func TestUnfinished(t *testing.T) {
	s := Schema{
		Create: func(tx *Tx) error {
			return tx.Script("CREATE TABLE IF NOT EXISTS a (x); CREATE TABLE IF NOT EXISTS b (x)")
		},
		Unfinished: func(rx *Rx) (bool, error) {
			n, err := countTables(rx)
			return n == 1, err
		},
		Verify: func(rx *Rx) error {
			n, err := countTables(rx)
			if err == nil && n != 2 {
				err = schema.Errorf(schema.Incompatible, "%d tables", n)
			}
			return err
		},
	}
	for tables, code := range []schema.Code{"", "", "", schema.Incompatible} {
		path := filepath.Join(tempDir(t), "x.db")
		for i := range tables {
			rawExec(t, path, fmt.Sprintf("CREATE TABLE %c (x)", 'a'+i))
		}
		db, err := Open(t.Context(), path, s)
		if code != "" {
			wantCode(t, err, code)
			continue
		}
		must(t, err)
		must(t, db.Close())
	}
}

func countTables(rx *Rx) (n int64, err error) {
	_, err = rx.QueryRow("SELECT count(*) FROM sqlite_schema", func(r Row) error { n = r.Int64(0); return nil })
	return n, err
}

// C34: a database is one database, by whatever link it is reached.
func TestLinks(t *testing.T) {
	dir := tempDir(t)
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	must(t, os.Symlink("real", filepath.Join(dir, "dirlink")))
	must(t, os.Symlink("real/x.db", filepath.Join(dir, "link.db")))
	resolve := func(name string) string {
		path, err := Resolve(filepath.Join(dir, name))
		must(t, err)
		return path
	}
	a := openTest(t, resolve("dirlink/x.db"))
	b := openTest(t, resolve("link.db"))
	must(t, insert(t.Context(), a, "one"))
	must(t, insert(t.Context(), b, "two"))
	wantItems(t, resolve("link.db"), 2)
	if a.Path() != b.Path() || a.Path() != filepath.Join(dir, "real/x.db") {
		t.Errorf("%q and %q", a.Path(), b.Path())
	}
	if _, err := os.Lstat(filepath.Join(dir, "link.db-wal")); err == nil {
		t.Error("a WAL lies beside the link")
	}
}

// S10: a link in the place of a companion file gives nothing of its target away.
func TestRestrictFollowsNoLink(t *testing.T) {
	for _, suffix := range []string{"-wal", "-shm"} {
		dir := tempDir(t)
		path, target := filepath.Join(dir, "x.db"), filepath.Join(dir, "target")
		for _, file := range []string{path, target} {
			must(t, os.WriteFile(file, nil, 0o644))
			must(t, os.Chmod(file, 0o644))
		}
		must(t, os.Symlink(target, path+suffix))
		must(t, restrict(path))
		for file, want := range map[string]os.FileMode{path: 0o600, target: 0o644} {
			info, err := os.Stat(file)
			must(t, err)
			if info.Mode().Perm() != want {
				t.Errorf("%s: %s has mode %04o, want %04o", suffix, filepath.Base(file), info.Mode().Perm(), want)
			}
		}
	}
}
