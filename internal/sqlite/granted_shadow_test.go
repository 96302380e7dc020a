//go:build !wasip1

package sqlite

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"pgregory.net/rapid"
)

// lookInto opens a connection that may only look, and closes it with its host's side.
func lookInto(t *testing.T, path string, look func(*sqlite3.Conn)) {
	t.Helper()
	host := GrantFile(path)
	c, err := guestConn(hostPort{host, context.Background()}, path, reader)
	must(t, err)
	look(c)
	must(t, c.Close())
	must(t, host.Close())
}

// S4: before a database is known to be the product's, a guest changes nothing of it: it reads a WAL where it
// lies, and plays back a journal in its memory.
func TestGrantedInspection(t *testing.T) {
	dir := tempDir(t)
	rest := filepath.Join(dir, "rest.db")
	db := openTest(t, rest)
	fill(t, db, 40)
	live := filepath.Join(dir, "live.db")
	fill(t, openTest(t, live), 40)
	must(t, db.Close())

	for name, make := range map[string]func(path string){
		"at rest":     func(path string) { crash(t, rest, path, "") },
		"WAL":         func(path string) { crash(t, live, path, "", "-wal") },
		"WAL and shm": func(path string) { crash(t, live, path, "", "-wal", "-shm") },
		"hot journal": func(path string) { hotJournal(t, rest, path) },
		"old journal mode": func(path string) {
			rawExec(t, rest, "PRAGMA journal_mode = DELETE")
			crash(t, rest, path, "")
			rawExec(t, rest, "PRAGMA journal_mode = WAL")
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(tempDir(t), "x.db")
			make(path)
			before := files(t, filepath.Dir(path))
			lookInto(t, path, func(c *sqlite3.Conn) {
				if n := number(t, c, "SELECT count(*) FROM item WHERE name NOT LIKE '% changed'"); n != 40 {
					t.Errorf("%d items", n)
				}
				wantSound(t, c)
				must(t, c.Exec("DELETE FROM part; DROP TABLE part; VACUUM")) // all of which stays with it
				must(t, c.Exec("PRAGMA wal_checkpoint(TRUNCATE)"))
				wantSound(t, c)
			})
			wantUnchanged(t, filepath.Dir(path), before)
			g := openGuest(t, path)
			if n := number(t, g.Conn, "SELECT count(*) FROM item JOIN part ON item = item.id WHERE name NOT LIKE '% changed'"); n != 40 {
				t.Errorf("afterwards there are %d items with their parts", n)
			}
		})
	}
}

// Looking for a database that isn't there makes none.
func TestGrantedInspectionOfNothing(t *testing.T) {
	path := filepath.Join(tempDir(t), "deep", "x.db")
	host := GrantFile(path)
	if c, err := guestConn(hostPort{host, t.Context()}, path, reader); err == nil {
		must(t, c.Close())
		t.Error("it was opened")
	}
	must(t, host.Close())
	if _, err := os.Lstat(filepath.Dir(path)); err == nil {
		t.Error("its directory was made")
	}
}

// A shade reads as a file would that had been written to, and the file below is as it was.
func TestShade(t *testing.T) {
	dir := tempDir(t)
	rapid.Check(t, func(t *rapid.T) {
		below := bytes.Repeat([]byte{1, 2, 3, 5, 7}, rapid.IntRange(0, 3000).Draw(t, "fives"))
		path := filepath.Join(dir, "below")
		if err := os.WriteFile(path, below, 0o600); err != nil {
			t.Fatal(err)
		}
		host := GrantFile(path)
		defer host.Close()
		v := &grantedVFS{port: hostPort{host, context.Background()}, path: path, shadow: true}
		file, err := v.openShadow(grantedMain, 0)
		if err != nil {
			t.Fatal(err)
		}
		model := bytes.Clone(below)
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				off, n := rapid.IntRange(0, 20000).Draw(t, "off"), rapid.IntRange(0, 10000).Draw(t, "n")
				p := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, n)
				if n > 0 {
					model = append(model, make([]byte, max(0, off+n-len(model)))...)
				}
				copy(model[min(off, len(model)):], p)
				if written, err := file.WriteAt(p, int64(off)); written != n || err != nil && n > 0 {
					t.Fatal(written, err)
				}
			},
			"truncate": func(t *rapid.T) {
				n := rapid.IntRange(0, 20000).Draw(t, "n")
				model = append(model, make([]byte, max(0, n-len(model)))...)[:n]
				if err := file.Truncate(int64(n)); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				if size, err := file.Size(); size != int64(len(model)) || err != nil {
					t.Fatalf("size %d (%v), want %d", size, err, len(model))
				}
				off, n := rapid.IntRange(0, 20000).Draw(t, "from"), rapid.IntRange(1, 12000).Draw(t, "many")
				got, want := make([]byte, n), make([]byte, n)
				m, err := file.ReadAt(got, int64(off))
				k, wantErr := bytes.NewReader(model).ReadAt(want, int64(off))
				if m != k || !bytes.Equal(got[:m], want[:k]) || (err == io.EOF) != (wantErr == io.EOF) {
					t.Fatalf("reading %d bytes at %d gives %d (%v), want %d (%v)", n, off, m, err, k, wantErr)
				}
			},
		})
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, below) {
			t.Fatalf("the file below changed (%v)", err)
		}
	})
}
