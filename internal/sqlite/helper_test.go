package sqlite

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"pistate/schema"
)

// helperEnv names the function that this test binary runs instead of the tests: some of them need another
// process, another user, another umask or another mount.
const helperEnv = "PISTATE_TEST_HELPER"

// exitSkip is the exit code of a helper that the machine doesn't allow to do its work.
const exitSkip = 77

func TestMain(m *testing.M) {
	if name := os.Getenv(helperEnv); name != "" {
		err := helpers[name](os.Args[1:])
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			fmt.Fprintln(os.Stderr, err)
			os.Exit(exitSkip)
		case err != nil:
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// helper returns a command that runs one of the helpers.
func helper(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	if helpers[name] == nil {
		t.Fatalf("no helper %q", name)
	}
	// Not by its path: another user may not be allowed to come there.
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	if _, err := os.Stat(cmd.Path); err != nil {
		cmd.Path = os.Args[0]
	}
	cmd.Env = append(os.Environ(), helperEnv+"="+name, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// output runs a helper to its end and returns what it printed.
func output(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == exitSkip {
		t.Skip(stderr.String())
	}
	if err != nil {
		t.Fatalf("helper: %v\n%s%s", err, out, stderr.String())
	}
	return string(out)
}

// helpers are the functions that run in processes of their own.
var helpers = map[string]func(args []string) error{
	"open":     helpOpen,
	"umask":    helpUmask,
	"write":    helpWrite,
	"read":     helpRead,
	"backup":   helpBackup,
	"transfer": helpTransfer,
}

const testApp = 0x74657374

// testDDL is the schema of the tests' databases: something to count, something with indexes, and a
// foreign key.
const testDDL = `
	CREATE TABLE item (
	  id   INTEGER PRIMARY KEY,
	  name TEXT NOT NULL UNIQUE,
	  data BLOB
	) STRICT;
	CREATE TABLE part (
	  id   INTEGER PRIMARY KEY,
	  item INTEGER NOT NULL REFERENCES item (id) DEFERRABLE INITIALLY DEFERRED,
	  size INTEGER NOT NULL CHECK (size > 0)
	) STRICT;
	CREATE INDEX part_by_item ON part (item);
	PRAGMA application_id = 0x74657374`

var testSchema = Schema{
	Create: func(tx *Tx) error { return tx.Script(testDDL) },
	Verify: verifyTest,
}

func verifyTest(rx *Rx) error {
	app, err := rx.c.pragma("application_id")
	if err != nil {
		return err
	}
	if app != testApp {
		return schema.Errorf(schema.Incompatible, "application id %#x, not %#x", app, testApp)
	}
	var names []string
	err = rx.Query("SELECT type || ' ' || name FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY 1", func(r Row) error {
		names = append(names, r.Text(0))
		return nil
	})
	if got := strings.Join(names, ", "); err == nil && got != "index part_by_item, table item, table part" {
		err = schema.Errorf(schema.Incompatible, "the shape differs: %s", got)
	}
	return err
}

// openTest opens a database with the tests' schema.
func openTest(t testing.TB, path string) *DB {
	t.Helper()
	db, err := Open(t.Context(), path, testSchema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// tempDir is t.TempDir with a directory that other users may enter.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pistate-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t testing.TB, err error, code schema.Code) {
	t.Helper()
	if !errors.Is(err, code) || schema.CodeOf(err) != code {
		t.Errorf("got %v (code %q), want code %q", err, schema.CodeOf(err), code)
	}
}

// insert writes one item.
func insert(ctx context.Context, db *DB, name string) error {
	return db.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO item (name, data) VALUES (?1, zeroblob(2000))", name)
		return err
	}, nil)
}

func fill(t testing.TB, db *DB, n int) {
	t.Helper()
	must(t, db.Write(t.Context(), func(tx *Tx) error {
		for i := range n {
			if _, err := tx.Exec("INSERT INTO item (name, data) VALUES ('item ' || ?1, zeroblob(500))", i); err != nil {
				return err
			}
			if _, err := tx.Exec("INSERT INTO part (item, size) VALUES (last_insert_rowid(), 1 + ?1)", i); err != nil {
				return err
			}
		}
		return nil
	}, nil))
}

func countItems(rx *Rx) (n int64, err error) {
	_, err = rx.QueryRow("SELECT count(*) FROM item", func(r Row) error { n = r.Int64(0); return nil })
	return n, err
}

// items reads the number of items with a Reader of its own.
func items(ctx context.Context, path string) (n int64, err error) {
	r, err := OpenReader(ctx, path, verifyTest)
	if err != nil {
		return 0, err
	}
	err = r.Read(ctx, func(rx *Rx) error {
		n, err = countItems(rx)
		return err
	})
	return n, join(err, r.Close())
}

func wantItems(t testing.TB, path string, want int64) {
	t.Helper()
	if n, err := items(t.Context(), path); n != want || err != nil {
		t.Errorf("read %d items (%v), want %d", n, err, want)
	}
}

func openRaw(path string) (*sqlite3.Conn, error) {
	return sqlite3.Open(strings.Replace(uri(path), "vfs="+vfsName, "", 1))
}

// raw opens a connection that bypasses the package, and runs statements on it.
func raw(t testing.TB, path string, statements ...string) *sqlite3.Conn {
	t.Helper()
	c, err := openRaw(path)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	for _, sql := range statements {
		must(t, c.Exec(sql))
	}
	return c
}

// rawExec runs statements on a connection of its own that bypasses the package.
func rawExec(t testing.TB, path string, statements ...string) {
	t.Helper()
	must(t, raw(t, path, statements...).Close())
}

// files describes everything in a directory: names, modes, times and contents.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var content []byte
		if info.Mode().IsRegular() {
			if content, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		name, _ := filepath.Rel(dir, path)
		found[name] = fmt.Sprintf("%v %d bytes of %v, %x", info.Mode(), len(content), info.ModTime(), sha256.Sum256(content))
		return nil
	}))
	return found
}

// wantUnchanged compares a directory with what it was.
func wantUnchanged(t testing.TB, dir string, before map[string]string) {
	t.Helper()
	after := files(t, dir)
	for name, was := range before {
		if after[name] != was {
			t.Errorf("%s changed:\n  %s\n  %s", name, was, after[name])
		}
		delete(after, name)
	}
	for name := range after {
		if name != "." { // the directory itself is compared if it was in before
			t.Errorf("%s was created", name)
		}
	}
}

// crash copies a database that is open, as a crash of all its users would leave it.
func crash(t testing.TB, from, to string, suffixes ...string) {
	t.Helper()
	for _, s := range suffixes {
		content, err := os.ReadFile(from + s)
		must(t, err)
		must(t, os.WriteFile(to+s, content, fileMode))
	}
}

// eventually waits for what other processes do.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

// hotJournal makes a copy of a database at rest as a crash in the middle of a transaction would leave it,
// with a journal that has to be played back.
func hotJournal(t testing.TB, from, to string) {
	t.Helper()
	c := raw(t, from, "PRAGMA journal_mode = DELETE", "PRAGMA cache_size = 1", "BEGIN",
		"UPDATE item SET name = name || ' changed', data = zeroblob(50000)")
	crash(t, from, to, "", "-journal")
	must(t, c.Exec("ROLLBACK"))
	must(t, c.Exec("PRAGMA journal_mode = WAL"))
	must(t, c.Close())
}
