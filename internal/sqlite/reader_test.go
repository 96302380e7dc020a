package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pistate/schema"
)

// I1: a database at rest that a writer changes in the middle of a read is read again, beside the writer.
func TestWriterDuringRestingRead(t *testing.T) {
	for _, crashed := range []bool{false, true} {
		t.Run(fmt.Sprint("crashed ", crashed), func(t *testing.T) {
			path := filepath.Join(tempDir(t), "x.db")
			db := openTest(t, path)
			fill(t, db, 50)
			must(t, db.Close())
			if crashed {
				live := openTest(t, path)
				must(t, insert(t.Context(), live, "in the WAL"))
				crash(t, path, path+".crashed", "", "-wal", "-shm")
				path += ".crashed"
			}
			r, err := OpenReader(t.Context(), path, verifyTest)
			must(t, err)
			defer r.Close()
			var ways []string
			var sum, last int64
			must(t, r.Read(t.Context(), func(rx *Rx) error {
				ways = append(ways, r.way())
				if len(ways) == 1 {
					// All pages change, and a checkpoint brings them into the file.
					w := openTest(t, path)
					err := w.Write(t.Context(), func(tx *Tx) error {
						_, err := tx.Exec("UPDATE part SET size = size + 1000")
						return err
					}, nil)
					must(t, err)
					must(t, w.Close())
				}
				_, err := rx.QueryRow("SELECT sum(size), max(size) FROM part", func(r Row) error {
					sum, last = r.Int64(0), r.Int64(1)
					return nil
				})
				return err
			}))
			if last != 1050 || sum != 50*1000+51*50/2 || len(ways) < 2 {
				t.Errorf("read a sum of %d and a maximum of %d in %v", sum, last, ways)
			}

			// A writer that stays is read beside.
			w := openTest(t, path)
			must(t, insert(t.Context(), w, "new"))
			must(t, r.Read(t.Context(), func(rx *Rx) error {
				found, err := rx.QueryRow("SELECT 1 FROM item WHERE name = 'new'", func(Row) error { return nil })
				if !found || r.way() != "live" {
					t.Errorf("found %v, %s", found, r.way())
				}
				return err
			}))
		})
	}
}

// I1: a writer that does nothing but append to its WAL does not disturb a read of the file at rest.
func TestWriterOpensDuringRestingRead(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	db := openTest(t, path)
	fill(t, db, 5)
	must(t, db.Close())
	r, err := OpenReader(t.Context(), path, verifyTest)
	must(t, err)
	defer r.Close()
	times := 0
	must(t, r.Read(t.Context(), func(rx *Rx) error {
		if times++; times == 1 {
			must(t, insert(t.Context(), openTest(t, path), "new"))
		}
		n, err := countItems(rx)
		if n != 5 {
			t.Errorf("read %d items", n)
		}
		return err
	}))
	if times != 1 {
		t.Errorf("read %d times", times)
	}
	wantItems(t, path, 6)
}

// A file that changes in every read is given up with an error that says so.
func TestAlwaysChanging(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	must(t, openTest(t, path).Close())
	r, err := OpenReader(t.Context(), path, verifyTest)
	must(t, err)
	defer r.Close()
	times := 0
	err = r.Read(t.Context(), func(rx *Rx) error {
		times++
		w := openTest(t, path)
		must(t, insert(t.Context(), w, fmt.Sprint(times)))
		return w.Close()
	})
	wantCode(t, err, schema.Busy)
	if times != attempts {
		t.Errorf("read %d times", times)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantCode(t, r.Read(ctx, func(rx *Rx) error { return nil }), schema.Canceled)
}

// A Reader follows what happens at its path: the file goes, comes back as another, changes its schema.
func TestReaderFollowsPath(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "x.db")
	db := openTest(t, path)
	must(t, insert(t.Context(), db, "one"))
	must(t, insert(t.Context(), openTest(t, path+".new"), "new"))
	r, err := OpenReader(t.Context(), path, verifyTest)
	must(t, err)
	defer r.Close()
	read := func() (names string, err error) {
		err = r.Read(t.Context(), func(rx *Rx) error {
			return rx.Query("SELECT group_concat(name) FROM item", func(r Row) error { names = r.Text(0); return nil })
		})
		return names, err
	}
	version := func() int64 {
		v, err := r.DataVersion(t.Context())
		must(t, err)
		return v
	}
	want := func(want string) {
		t.Helper()
		if got, err := read(); got != want || err != nil {
			t.Errorf("read %q, %v; want %q", got, err, want)
		}
	}
	want("one")
	before := version()
	move := func(from, to string) {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			must(t, os.Rename(from+suffix, to+suffix))
		}
	}
	move(path, path+".old")
	_, err = read()
	wantCode(t, err, schema.NotFound)
	move(path+".new", path)
	want("new")
	if version() == before {
		t.Error("the data version of another file is the same")
	}
	extra := raw(t, path, "CREATE INDEX extra ON item (data)")
	_, err = read()
	wantCode(t, err, schema.Incompatible)
	must(t, extra.Exec("DROP INDEX extra"))
	want("new")
}

// At rest too, the data version changes with the file.
func TestDataVersionAtRest(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	must(t, openTest(t, path).Close())
	r, err := OpenReader(t.Context(), path, verifyTest)
	must(t, err)
	defer r.Close()
	seen := map[int64]bool{}
	for i := range 3 {
		v, err := r.DataVersion(t.Context())
		must(t, err)
		again, err := r.DataVersion(t.Context())
		must(t, err)
		if seen[v] || again != v {
			t.Errorf("round %d: %d, then %d", i, v, again)
		}
		seen[v] = true
		w := openTest(t, path)
		must(t, insert(t.Context(), w, fmt.Sprint(i)))
		must(t, w.Close())
	}
}

// The journal mode changes under an open Reader.
func TestJournalModeChanges(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	must(t, openTest(t, path).Close())
	rawExec(t, path, "PRAGMA journal_mode = DELETE")
	r, err := OpenReader(t.Context(), path, verifyTest)
	must(t, err)
	defer r.Close()
	for i, mode := range []string{"WAL", "DELETE", "WAL", "DELETE"} {
		w := raw(t, path, "PRAGMA journal_mode = "+mode, fmt.Sprintf("INSERT INTO item (name) VALUES (%d)", i))
		must(t, r.Read(t.Context(), func(rx *Rx) error {
			n, err := countItems(rx)
			if n != int64(i)+1 {
				t.Errorf("%s: read %d items, want %d", mode, n, i+1)
			}
			return err
		}))
		if mode == "WAL" {
			must(t, r.Close()) // for the way back nobody else may have the database open
		}
		must(t, w.Close())
	}
}

// C40: a Reader holds nothing between its reads, so the WAL can be cut.
func TestReaderHoldsNoSnapshot(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	db := openTest(t, path)
	r, err := OpenReader(t.Context(), path, verifyTest)
	must(t, err)
	defer r.Close()
	must(t, r.Read(t.Context(), func(rx *Rx) error { _, err := countItems(rx); return err }))
	fill(t, db, 100)
	c := raw(t, path)
	must(t, c.Exec("PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)"))
	info, err := os.Stat(path + "-wal")
	if must(t, err); info.Size() != 0 {
		t.Errorf("the WAL has %d bytes", info.Size())
	}
}

func TestStat(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	db := openTest(t, path)
	fill(t, db, 200)
	must(t, db.Write(t.Context(), func(tx *Tx) error { return tx.Script("DELETE FROM part; DELETE FROM item") }, nil))
	stat := func(read func(context.Context, func(*Rx) error) error) (s Stat) {
		must(t, read(t.Context(), func(rx *Rx) (err error) { s, err = rx.Stat(); return err }))
		return s
	}
	live := stat(db.Read)
	info, err := os.Stat(path + "-wal")
	must(t, err)
	if live.Pages < 20 || live.FreePages < 10 {
		t.Errorf("live: %+v", live)
	}
	if inSight := live.WALBytes == info.Size() && live.Bytes < live.Pages*live.PageSize; inSight != filesInSight {
		t.Errorf("live: %+v", live)
	}
	must(t, db.Close())
	r, err := OpenReader(t.Context(), path, verifyTest)
	must(t, err)
	defer r.Close()
	rest := stat(r.Read)
	if rest.WALBytes != 0 || rest.Bytes != rest.Pages*rest.PageSize || rest.Pages != live.Pages || rest.FreePages != live.FreePages {
		t.Errorf("at rest: %+v, live: %+v", rest, live)
	}
}

// S5: the private copy of a database with a hot journal is gone from the disk as soon as it is open.
func TestPrivateCopyLeavesNothing(t *testing.T) {
	dir, temp := tempDir(t), tempDir(t)
	t.Setenv("TMPDIR", temp)
	path := filepath.Join(dir, "x.db")
	db := openTest(t, path)
	fill(t, db, 3)
	must(t, db.Close())
	hotJournal(t, path, path+".hot")
	r, err := OpenReader(t.Context(), path+".hot", verifyTest)
	must(t, err)
	if found := files(t, temp); len(found) != 1 || r.way() != "copied" {
		t.Errorf("%s, and left %v", r.way(), found)
	}
	must(t, r.Read(t.Context(), func(rx *Rx) error {
		return rx.Query("SELECT count(*) FROM item WHERE name LIKE '%changed'", func(r Row) error {
			if r.Int(0) != 0 {
				t.Error("the journal was not played back")
			}
			return nil
		})
	}))
	must(t, r.Close())
	wantItems(t, path, 3)
}

// I1: before a file is read without a lock, its last change is so old that another one would show.
func TestSettled(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	must(t, os.WriteFile(path, []byte("new"), 0o600))
	r := &Reader{path: path}
	files, err := r.settled(t.Context())
	must(t, err)
	if age := time.Since(files[""].info.ModTime()); age < tick {
		t.Errorf("it did not wait: the file is %v old", age)
	}
	must(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
	if _, err = r.settled(t.Context()); err != nil {
		t.Errorf("a file from the future: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.settled(ctx)
	wantCode(t, err, schema.Canceled)
}
