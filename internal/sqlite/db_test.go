package sqlite

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pistate/schema"
)

// S8: a schema that another connection has changed is verified again in the next write, and costs nothing
// while it stays.
func TestSchemaChangedBeforeWrite(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	verified := 0
	db, err := Open(t.Context(), path, Schema{Create: testSchema.Create, Verify: func(rx *Rx) error {
		verified++
		return verifyTest(rx)
	}})
	must(t, err)
	defer db.Close()
	atOpen := verified
	must(t, insert(t.Context(), db, "one"))
	must(t, insert(t.Context(), db, "two"))
	if verified != atOpen {
		t.Errorf("verified %d times while nothing changed", verified-atOpen)
	}
	rawExec(t, path, "CREATE INDEX extra ON item (data)")
	for range 2 {
		wantCode(t, insert(t.Context(), db, "three"), schema.Incompatible)
	}
	if verified != atOpen+2 {
		t.Errorf("verified %d times, want 2", verified-atOpen)
	}
	rawExec(t, path, "DROP INDEX extra")
	must(t, insert(t.Context(), db, "three"))
	must(t, insert(t.Context(), db, "four"))
	if verified != atOpen+3 {
		t.Errorf("verified %d times, want 3", verified-atOpen)
	}
	wantItems(t, path, 4)
}

// S9: a writer notices before its next command that the files at its path are not those that it opened,
// stops for good, and does no harm to the new ones.
func TestReplaced(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, path string){
		"renamed over": func(t *testing.T, path string) {
			must(t, openTest(t, path+".new").Close())
			must(t, os.Rename(path+".new", path))
		},
		"removed": func(t *testing.T, path string) {
			must(t, os.Remove(path))
		},
		"all removed": func(t *testing.T, path string) {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				must(t, os.Remove(path+suffix))
			}
		},
		"moved away and made anew": func(t *testing.T, path string) {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				must(t, os.Rename(path+suffix, path+".old"+suffix))
			}
			must(t, insert(t.Context(), openTest(t, path), "new"))
		},
		"restored over it": func(t *testing.T, path string) {
			// In place, so that only the disappearance of the other files shows.
			must(t, os.WriteFile(path, readFile(t, path+".backup"), 0o600))
			must(t, os.Remove(path+"-wal"))
			must(t, os.Remove(path+"-shm"))
		},
		"WAL removed": func(t *testing.T, path string) { must(t, os.Remove(path+"-wal")) },
		"shm removed": func(t *testing.T, path string) { must(t, os.Remove(path+"-shm")) },
		"WAL replaced": func(t *testing.T, path string) {
			must(t, os.WriteFile(path+".new", readFile(t, path+"-wal"), 0o600))
			must(t, os.Rename(path+".new", path+"-wal"))
		},
		"shm replaced": func(t *testing.T, path string) {
			must(t, os.WriteFile(path+".new", readFile(t, path+"-shm"), 0o600))
			must(t, os.Rename(path+".new", path+"-shm"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(tempDir(t), "x.db")
			db, err := Open(t.Context(), path, testSchema)
			must(t, err)
			must(t, insert(t.Context(), db, "one"))
			must(t, db.Read(t.Context(), func(*Rx) error { return nil }))
			_, err = Backup(t.Context(), path, path+".backup", verifyTest, nil)
			must(t, err)

			replace(t, path)
			before := files(t, filepath.Dir(path))
			wantCode(t, db.Read(t.Context(), func(*Rx) error { return errors.New("it was read") }), schema.Replaced)
			for range 2 {
				wantCode(t, insert(t.Context(), db, "two"), schema.Replaced)
				_, _, err := db.DataVersion(t.Context())
				wantCode(t, err, schema.Replaced)
			}
			must(t, db.Close())
			wantUnchanged(t, filepath.Dir(path), before)
		})
	}
}

// S9: a writer that has noticed stops for good: meanwhile anybody may have written to the file.
func TestReplacedForGood(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	db := openTest(t, path)
	must(t, os.Rename(path, path+".away"))
	wantCode(t, insert(t.Context(), db, "one"), schema.Replaced)
	must(t, os.Rename(path+".away", path))
	wantCode(t, insert(t.Context(), db, "one"), schema.Replaced)
	must(t, insert(t.Context(), openTest(t, path), "one"))
}

// S9: nor is a pooled reader that can't be opened because the file is gone a fault of the disk.
func TestRemovedBeforeFirstRead(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	db := openTest(t, path)
	must(t, os.Rename(path, path+".old"))
	wantCode(t, db.Read(t.Context(), func(*Rx) error { return nil }), schema.Replaced)
}

// S9: a pooled reader that is opened after the replacement does not read the new file.
func TestReplacedBeforeFirstRead(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	db := openTest(t, path)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		must(t, os.Rename(path+suffix, path+".old"+suffix))
	}
	openTest(t, path)
	wantCode(t, db.Read(t.Context(), func(*Rx) error { return errors.New("it was read") }), schema.Replaced)
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return content
}

// S2, C18: however much is written, the WAL is bounded, and so is the database that it is written to.
func TestWALIsBounded(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	db := openTest(t, path)
	for i := range 80 {
		must(t, db.Write(t.Context(), func(tx *Tx) error {
			_, err := tx.Exec("INSERT INTO item (id, name, data) VALUES (1, 'a', ?1) ON CONFLICT (id) DO UPDATE SET data = excluded.data",
				bytes.Repeat([]byte{byte(i)}, 200_000))
			return err
		}, nil))
	}
	s := Stat{}
	must(t, (&native{path: path}).measure(&s))
	if s.WALBytes > 6<<20 || s.WALBytes < 1<<20 || s.Bytes > 1<<20 {
		t.Errorf("%+v after 16 MB", s)
	}
}

func TestDataVersion(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	a, b := openTest(t, path), openTest(t, path)
	version := func() int64 {
		var v int64
		eventually(t, "knowing", func() (known bool) { // the write before may be about to end
			var err error
			v, known, err = a.DataVersion(t.Context())
			must(t, err)
			return known
		})
		return v
	}
	first := version()
	must(t, insert(t.Context(), a, "one"))
	if version() != first {
		t.Error("its own write changed it")
	}
	must(t, insert(t.Context(), b, "two"))
	if version() == first {
		t.Error("another's write did not change it")
	}
}

// Y6, Y12: a write that waits for another process keeps nobody from reading.
func TestDataVersionDoesNotWaitForAWrite(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	a, b := openTest(t, path), openTest(t, path)
	writing, over, waited := make(chan bool), make(chan bool), make(chan error)
	other := make(chan error)
	go func() {
		other <- b.Write(context.Background(), func(*Tx) error { close(writing); <-over; return nil }, nil)
	}()
	<-writing
	go func() { waited <- insert(context.Background(), a, "one") }()
	eventually(t, "waiting", func() bool {
		_, known, err := a.DataVersion(t.Context())
		must(t, err)
		return !known
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := a.DataVersion(ctx)
	wantCode(t, err, schema.Canceled)
	close(over)
	must(t, <-other)
	must(t, <-waited)
}
