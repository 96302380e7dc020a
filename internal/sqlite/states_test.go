package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pistate/schema"
)

// asNobody runs a helper as another user.
func asNobody(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := helper(t, name, args...)
	asUserNobody(t, cmd)
	return output(t, cmd)
}

// helpRead reads with a Reader, twice.
func helpRead(args []string) error {
	ctx := context.Background()
	r, err := OpenReader(ctx, args[0], verifyTest)
	if err != nil {
		return err
	}
	for range 2 {
		var n int64
		err := r.Read(ctx, func(rx *Rx) error {
			n, err = countItems(rx)
			return err
		})
		if err != nil {
			return err
		}
		fmt.Println(n, "items,", r.way())
	}
	return r.Close()
}

// way tells how a Reader reads.
func (r *Reader) way() string {
	switch {
	case r.private:
		return "copied"
	case r.atRest == nil:
		return "live"
	case r.atRest["-wal"].size() > 0:
		return "frozen"
	}
	return "at rest"
}

// I1, C37: a Reader works in each of these states, sees everything that was committed, and changes nothing:
// neither a byte, nor a time, nor the list of files. It is tried as the owner, as root, as another user,
// and on a read-only mount.
func TestReaderChangesNothing(t *testing.T) {
	states := map[string]struct {
		build func(t *testing.T, path string) // leaves 3 items
		way   string
	}{
		"at rest": {func(t *testing.T, path string) {}, "at rest"},
		"backup": {func(t *testing.T, path string) {
			_, err := Backup(t.Context(), path, path+".new", verifyTest, nil)
			must(t, err)
			must(t, os.Rename(path+".new", path))
		}, "live"},
		"an empty WAL": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path+"-wal", nil, 0o600))
		}, "at rest"},
		"a stale shm": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path+"-shm", make([]byte, 32768), 0o600))
		}, "at rest"},
		"an empty WAL and a stale shm": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path+"-wal", nil, 0o600))
			must(t, os.WriteFile(path+"-shm", make([]byte, 32768), 0o600))
		}, "at rest"},
		"crashed": {func(t *testing.T, path string) {
			leaveWAL(t, path, "", "-wal", "-shm")
		}, "frozen"},
		"crashed without shm": {func(t *testing.T, path string) {
			leaveWAL(t, path, "", "-wal")
		}, "frozen"},
		"crashed with a torn WAL": {func(t *testing.T, path string) {
			leaveWAL(t, path, "", "-wal", "-shm")
			wal := readFile(t, path+"-wal")
			must(t, os.WriteFile(path+"-wal", append(wal, wal[:500]...), 0o600))
		}, "frozen"},
		"crashed with a hot journal": {func(t *testing.T, path string) {
			hotJournal(t, path, path+".crashed")
			must(t, os.Rename(path+".crashed", path))
			must(t, os.Rename(path+".crashed-journal", path+"-journal"))
		}, "copied"},
	}
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(tempDir(t), "dir")
			must(t, os.Mkdir(dir, 0o700))
			path := filepath.Join(dir, "x.db")
			db := openTest(t, path)
			fill(t, db, 3)
			must(t, db.Close())
			state.build(t, path)
			want := strings.Repeat("3 items, "+state.way+"\n", 2)

			for who, run := range map[string]func(t *testing.T) string{
				"owner":        func(t *testing.T) string { return output(t, helper(t, "read", path)) },
				"another user": func(t *testing.T) string { return asNobody(t, "read", path) },
				"read-only mount": func(t *testing.T) string {
					return output(t, inNamespace(t, "mounted", dir, path))
				},
			} {
				t.Run(who, func(t *testing.T) {
					opened := map[string]os.FileMode{dir: 0o755, path: 0o444, path + "-wal": 0o444, path + "-shm": 0o444, path + "-journal": 0o444}
					if who != "owner" {
						for p, mode := range opened {
							if err := os.Chmod(p, mode); err != nil && !errors.Is(err, os.ErrNotExist) {
								t.Fatal(err)
							}
						}
					}
					before := files(t, dir)
					if got := run(t); got != want {
						t.Errorf("got %q, want %q", got, want)
					}
					wantUnchanged(t, dir, before)
				})
			}
		})
	}
}

// leaveWAL replaces a database with 3 items by one whose items are in the WAL, as a crash leaves it.
func leaveWAL(t *testing.T, path string, suffixes ...string) {
	live := path + ".live"
	db := openTest(t, live)
	fill(t, db, 3)
	crash(t, live, path, suffixes...)
	must(t, db.Close())
	must(t, os.Remove(live))
}

// I1, C37, C85: beside a live writer a Reader sees each commit at once, also as another user who may not
// write to any file, and on a read-only mount. It makes no file and leaves none.
func TestReaderBesideWriter(t *testing.T) {
	dir := filepath.Join(tempDir(t), "dir")
	must(t, os.Mkdir(dir, 0o755))
	path := filepath.Join(dir, "x.db")
	db := openTest(t, path)
	must(t, insert(t.Context(), db, "one"))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		must(t, os.Chmod(path+suffix, 0o644))
	}
	r, err := OpenReader(t.Context(), path, verifyTest)
	must(t, err)
	version, err := r.DataVersion(t.Context())
	must(t, err)
	for i, who := range []string{"owner", "nobody", "mount", "busy"} {
		must(t, insert(t.Context(), db, who))
		want := fmt.Sprintf("%d items, live\n%[1]d items, live\n", i+2)
		var got string
		before := files(t, dir)
		switch who {
		case "owner":
			got = output(t, helper(t, "read", path))
		case "nobody":
			got = asNobody(t, "read", path)
		case "mount":
			got = output(t, inNamespace(t, "mounted", dir, path))
		case "busy": // in the middle of a transaction
			must(t, db.Write(t.Context(), func(tx *Tx) error {
				got = output(t, helper(t, "read", path))
				return nil
			}, nil))
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", who, got, want)
		}
		after := files(t, dir)
		for name, was := range before {
			if after[name] != was && name != "x.db-shm" {
				t.Errorf("%s: %s changed", who, name)
			}
		}
		if len(after) != len(before) {
			t.Errorf("%s: files came or went: %v", who, after)
		}
		now, err := r.DataVersion(t.Context())
		if must(t, err); now == version {
			t.Errorf("%s: the data version stayed", who)
		}
		version = now
	}
	must(t, r.Close())
	must(t, db.Close())
	if found := files(t, dir); len(found) != 2 {
		t.Errorf("something is left: %v", found)
	}
}

// C38, C39: what is no database is an error that says why, and nothing is made.
func TestNothingToRead(t *testing.T) {
	dir := tempDir(t)
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	empty := filepath.Join(dir, "no tables")
	rawExec(t, empty, "VACUUM")
	for _, test := range []struct {
		path string
		code schema.Code
		text string
	}{
		{filepath.Join(dir, "missing"), schema.NotFound, "no such database"},
		{filepath.Join(dir, "missing", "too"), schema.NotFound, "no such database"},
		{dir, schema.Invalid, "directory"},
		{file("empty", ""), schema.Incompatible, "0 bytes"},
		{file("short", "SQLite format 3\x00"), schema.Corrupt, "no SQLite database"},
		{file("junk", strings.Repeat("junk", 5000)), schema.Corrupt, "no SQLite database"},
		{empty, schema.Incompatible, "application id"},
	} {
		before := files(t, dir)
		_, err := OpenReader(t.Context(), test.path, verifyTest)
		wantCode(t, err, test.code)
		if text := fmt.Sprint(err); !strings.Contains(text, test.text) || !strings.Contains(text, test.path) {
			t.Errorf("%s: %s", test.path, text)
		}
		_, err = Backup(t.Context(), test.path, filepath.Join(dir, "target"), verifyTest, nil)
		wantCode(t, err, test.code)
		report, err := Check(t.Context(), test.path, CheckOptions{}, verifyTest)
		if err == nil {
			err = report.Err()
		}
		wantCode(t, err, test.code)
		wantUnchanged(t, dir, before)
	}
}
