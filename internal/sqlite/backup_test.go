package sqlite

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pistate/schema"
)

// dump returns everything that a database holds.
func dump(t testing.TB, path string) string {
	t.Helper()
	r, err := OpenReader(t.Context(), path, verifyTest)
	must(t, err)
	var b strings.Builder
	must(t, r.Read(t.Context(), func(rx *Rx) error {
		b.Reset()
		for _, sql := range []string{
			"SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name",
			"PRAGMA application_id", "PRAGMA user_version", "PRAGMA encoding", "PRAGMA page_size",
			"SELECT * FROM item ORDER BY id", "SELECT * FROM part ORDER BY id",
		} {
			err := rx.Query(sql, func(r Row) error {
				for i := range r.Columns() {
					v := r.Value(i)
					if blob, ok := v.([]byte); ok {
						v = sha256.Sum256(blob)
					}
					fmt.Fprintf(&b, "%v|", v)
				}
				b.WriteByte('\n')
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
	must(t, r.Close())
	return b.String()
}

// wantSelfContained checks that a backup is one file, mode 0600, that says it has no WAL (M5, C62).
func wantSelfContained(t testing.TB, path string) {
	t.Helper()
	info, err := os.Lstat(path)
	must(t, err)
	if info.Mode() != fileMode {
		t.Errorf("mode %v", info.Mode())
	}
	if header := readFile(t, path); header[18] != 1 || header[19] != 1 {
		t.Errorf("the header says WAL: %v", header[18:20])
	}
	for _, suffix := range sideFiles[1:] {
		if _, err := os.Lstat(path + suffix); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there: %v", path+suffix, err)
		}
	}
}

// M2, M5, C60: a backup equals the database, in whatever state that is.
func TestBackup(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "x.db")
	db := openTest(t, path)
	fill(t, db, 300)
	must(t, db.Write(t.Context(), func(tx *Tx) error { return tx.Script("PRAGMA user_version = 5; DELETE FROM part WHERE id % 2") }, nil))
	crash(t, path, filepath.Join(dir, "crashed"), "", "-wal")
	want := dump(t, path)
	try := func(name string) {
		t.Helper()
		target := filepath.Join(dir, name+" backup")
		calls, last := 0, 0
		result, err := Backup(t.Context(), filepath.Join(dir, name), target, verifyTest, func(done, total int) {
			if done < last || done > total || total <= 0 {
				t.Errorf("progress %d of %d after %d", done, total, last)
			}
			calls, last = calls+1, done
			if done == total {
				last = 0
			}
		})
		must(t, err)
		wantSelfContained(t, target)
		if dump(t, target) != want {
			t.Errorf("%s: the backup differs", name)
		}
		if calls < 2 || last != 0 {
			t.Errorf("%s: %d calls, the last at %d", name, calls, last)
		}
		info, err := os.Stat(target)
		must(t, err)
		if result.Path != target || result.Bytes != info.Size() || result.Pages != int(info.Size())/4096 ||
			result.Rows["item"] != 300 || result.Rows["part"] != 150 || len(result.Rows) != 2 {
			t.Errorf("%s: %+v, %d bytes", name, result, info.Size())
		}
		report, err := Check(t.Context(), target, CheckOptions{}, verifyTest)
		if must(t, err); !report.OK() {
			t.Errorf("%s: %v", name, report)
		}
		// It can be backed up itself, and written to like any other database.
		_, err = Backup(t.Context(), target, target+" again", verifyTest, nil)
		must(t, err)
		again, err := Open(t.Context(), target+" again", testSchema)
		must(t, err)
		must(t, join(insert(t.Context(), again, "new"), again.Close()))
		must(t, os.Remove(target+" again"))
	}
	try("x.db")
	try("crashed")
	must(t, db.Close())
	try("x.db backup")
	must(t, os.Rename(path+" backup", path+" backup 1"))
	try("x.db")
	hotJournal(t, path, filepath.Join(dir, "hot"))
	try("hot")
}

// M2, C58, C59: what must not be written to is refused, and stays as it is.
func TestBackupRefusals(t *testing.T) {
	dir := tempDir(t)
	t.Chdir(dir)
	path := filepath.Join(dir, "x.db")
	db := openTest(t, path)
	fill(t, db, 3)
	must(t, os.WriteFile("text", []byte("text"), 0o600))
	must(t, os.WriteFile("empty", nil, 0o600))
	must(t, openTest(t, filepath.Join(dir, "other.db")).Close())
	must(t, os.WriteFile("stale-wal", []byte("WAL of another database"), 0o600))
	must(t, os.WriteFile("hot-journal", []byte("journal of another database"), 0o600))
	must(t, os.Symlink("x.db", "link"))
	must(t, os.Link("x.db", "hardlink"))
	must(t, os.Link("x.db-wal", "walhardlink"))
	must(t, os.Symlink("nowhere", "dangling"))
	must(t, os.Symlink(".", "dirlink"))
	must(t, os.Mkdir("sub", 0o700))
	for _, test := range []struct {
		target string
		code   schema.Code
		text   string
	}{
		{"", schema.Invalid, "relative"},
		{"backup", schema.Invalid, "relative"},
		{"./backup", schema.Invalid, "relative"},
		{dir + "/a\x00b", schema.Invalid, "NUL"},
		{dir + "/", schema.Invalid, "directory"},
		{dir + "/sub/", schema.Invalid, "directory"},
		{dir + "/new/", schema.Invalid, "directory"},
		{dir + "/sub/.", schema.Invalid, "directory"},
		{dir + "/sub/..", schema.Invalid, "directory"},
		{"/", schema.Invalid, "directory"},
		{dir + "/missing/backup", schema.Invalid, "does not exist"},
		{dir + "/dangling/backup", schema.Invalid, "does not exist"},
		{dir + "/text/backup", schema.Invalid, "not a directory"},
		{dir + "/sub", schema.Conflict, "exists"},
		{dir + "/text", schema.Conflict, "exists"},
		{dir + "/empty", schema.Conflict, "exists"},
		{dir + "/other.db", schema.Conflict, "exists"},
		{dir + "/dangling", schema.Conflict, "exists"},
		{dir + "/stale", schema.Conflict, "stale-wal exists"},
		{dir + "/hot", schema.Conflict, "hot-journal exists"},
		{path, schema.Conflict, "itself"},
		{dir + "/./x.db", schema.Conflict, "itself"},
		{dir + "/dirlink/x.db", schema.Conflict, "itself"},
		{dir + "/link", schema.Conflict, "itself"},
		{dir + "/hardlink", schema.Conflict, "itself"},
		{path + "-wal", schema.Conflict, "itself"},
		{dir + "/walhardlink", schema.Conflict, "itself"},
		{path + "-shm", schema.Conflict, "itself"},
		{path + "-journal", schema.Conflict, "itself"}, // which is not there
		{dir + "/dirlink/x.db-journal", schema.Conflict, "itself"},
	} {
		before := files(t, dir)
		_, err := Backup(t.Context(), path, test.target, verifyTest, nil)
		wantCode(t, err, test.code)
		if !strings.Contains(fmt.Sprint(err), test.text) {
			t.Errorf("%q: %v, want %q", test.target, err, test.text)
		}
		wantUnchanged(t, dir, before)
	}
	must(t, insert(t.Context(), db, "and it still works"))
	_, err := Backup(t.Context(), path, dir+"/dirlink/sub/../sub/backup", verifyTest, nil)
	must(t, err)
	wantItems(t, dir+"/sub/backup", 4)
}

// M2: a directory that may not be written to.
func TestBackupUnwritable(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "x.db")
	must(t, openTest(t, path).Close())
	must(t, os.Chmod(path, 0o644))
	before := files(t, dir)
	out := asNobody(t, "backup", path, filepath.Join(dir, "target"))
	if !strings.Contains(out, "storage ") || !strings.Contains(out, "permission denied") {
		t.Errorf("got %q", out)
	}
	wantUnchanged(t, dir, before)
}

// large makes a database that takes several steps to copy.
func large(t testing.TB, path string) *DB {
	t.Helper()
	db := openTest(t, path)
	must(t, db.Write(t.Context(), func(tx *Tx) error {
		for i := range 3 * pagesPerStep / 100 {
			if _, err := tx.Exec("INSERT INTO item (name, data) VALUES (?1, zeroblob(400000))", fmt.Sprint(i)); err != nil {
				return err
			}
		}
		return nil
	}, nil))
	return db
}

// M3, C63: writes between the steps of a backup are not in it, and don't make it begin again.
func TestBackupIsOneSnapshot(t *testing.T) {
	dir := tempDir(t)
	path, target := filepath.Join(dir, "x.db"), filepath.Join(dir, "target")
	db := large(t, path)
	want := dump(t, path)
	writes, steps, last := 0, 0, 0
	_, err := Backup(t.Context(), path, target, verifyTest, func(done, total int) {
		if done <= total/2 {
			steps++
			writes++
			must(t, insert(t.Context(), db, fmt.Sprint("write ", writes)))
			rawExec(t, path, "UPDATE item SET data = zeroblob(100) WHERE id = 1", "PRAGMA wal_checkpoint")
		}
		if done < last {
			t.Errorf("from %d back to %d", last, done)
		}
		last = done
	})
	must(t, err)
	if steps < 3 || steps > 6 {
		t.Errorf("%d steps", steps)
	}
	if dump(t, target) != want {
		t.Error("the backup is not the snapshot of its beginning")
	}
	wantSelfContained(t, target)
}

// A database at rest that a writer changes while it is copied is copied again.
func TestBackupOfRestingDatabase(t *testing.T) {
	dir := tempDir(t)
	path, target := filepath.Join(dir, "x.db"), filepath.Join(dir, "target")
	must(t, large(t, path).Close())
	once := false
	_, err := Backup(t.Context(), path, target, verifyTest, func(done, total int) {
		if !once {
			once = true
			w := openTest(t, path)
			must(t, w.Write(t.Context(), func(tx *Tx) error { return tx.Script("UPDATE item SET data = randomblob(300000)") }, nil))
			must(t, w.Close())
		}
	})
	must(t, err)
	if dump(t, target) != dump(t, path) {
		t.Error("the backup differs")
	}
	entries, err := os.ReadDir(dir)
	if must(t, err); len(entries) != 2 {
		t.Errorf("something is left: %v", entries)
	}
}

// M2: whenever a backup is interrupted, nothing is left of it.
func TestBackupCanceled(t *testing.T) {
	dir := tempDir(t)
	path, target := filepath.Join(dir, "x.db"), filepath.Join(dir, "target")
	must(t, large(t, path).Close())
	before := files(t, dir)
	delete(before, ".")
	for n := 0; ; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		calls, last, copying := 0, false, false
		_, err := Backup(ctx, path, target, verifyTest, func(done, total int) {
			if calls++; calls > n {
				cancel()
				last = done == total
				copying = copying || done < total/2
			}
		})
		cancel()
		if copying && calls != n+1 {
			t.Errorf("it went on copying: %d calls, canceled in the %dth", calls, n+1)
		}
		if err == nil || last {
			if calls < 8 {
				t.Errorf("it took only %d calls", calls)
			}
			break
		}
		wantCode(t, err, schema.Canceled)
		wantUnchanged(t, dir, before)
	}
}

// M2: a target that comes into being meanwhile is not replaced.
func TestBackupTargetAppears(t *testing.T) {
	dir := tempDir(t)
	path, target := filepath.Join(dir, "x.db"), filepath.Join(dir, "target")
	must(t, openTest(t, path).Close())
	for _, create := range []func() error{
		func() error { return os.WriteFile(target, nil, 0o600) },
		func() error { return os.Symlink("nowhere", target) },
		func() error { return os.Mkdir(target, 0o700) },
	} {
		var before map[string]string
		_, err := Backup(t.Context(), path, target, verifyTest, func(done, total int) {
			if done == total {
				must(t, create())
				before = files(t, dir)
			}
		})
		wantCode(t, err, schema.Conflict)
		for name := range before {
			if strings.HasSuffix(name, tempSuffix) {
				delete(before, name)
			}
		}
		delete(before, ".")
		wantUnchanged(t, dir, before)
		must(t, os.Remove(target))
	}
}

// linkNew is the way for file systems that can't rename without replacing.
func TestLinkNew(t *testing.T) {
	dir := tempDir(t)
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	for _, move := range []func(string, string) error{linkNew, moveNew} {
		must(t, os.WriteFile(from, []byte("new"), 0o600))
		must(t, move(from, to))
		must(t, os.WriteFile(from, []byte("newer"), 0o600))
		if err := move(from, to); !errors.Is(err, os.ErrExist) {
			t.Errorf("got %v", err)
		}
		if got := string(readFile(t, to)); got != "new" {
			t.Errorf("the target holds %q", got)
		}
		must(t, os.Remove(from))
		must(t, os.Remove(to))
	}
}

// C60, C61: a damaged source makes no backup.
func TestBackupOfDamagedDatabase(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			dir := tempDir(t)
			path := filepath.Join(dir, "x.db")
			db := openTest(t, path)
			fill(t, db, 100)
			must(t, db.Close())
			damage.plant(t, path)
			before := files(t, dir)
			delete(before, ".")
			_, err := Backup(t.Context(), path, filepath.Join(dir, "target"), verifyTest, nil)
			if !errors.Is(err, schema.Corrupt) && !errors.Is(err, schema.Incompatible) {
				t.Errorf("got %v", err)
			}
			wantUnchanged(t, dir, before)
		})
	}
}
