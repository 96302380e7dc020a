//go:build !wasip1

package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

func init() { helpers["granted-modes"] = helpGrantedModes }

// hostPort is the guest's view of a granted file: what its imports are in WebAssembly.
type hostPort struct {
	*GrantedFile
	ctx context.Context
}

func (p hostPort) Lock(level int32) int64 { return p.GrantedFile.Lock(p.ctx, level) }
func (p hostPort) Read(file int32, b []byte, off int64) int64 {
	return p.GrantedFile.Read(p.ctx, file, b, off)
}
func (p hostPort) Write(file int32, b []byte, off int64) int64 {
	return p.GrantedFile.Write(p.ctx, file, b, off)
}

// grantedNames gives each guest a VFS of its own: in WebAssembly each has a process of its own, so to speak.
var grantedNames atomic.Int64

// guestConn opens a connection as a guest does that has SQLite inside.
func guestConn(port grantedPort, path string, r role) (*sqlite3.Conn, error) {
	name := fmt.Sprintf("granted-%d", grantedNames.Add(1))
	vfs.Register(name, &grantedVFS{port: port})
	mode := "rwc"
	if r != writer {
		mode = "rw"
	}
	u := strings.Replace(uri(path, "mode", mode, roleParam, string(r)), "vfs="+vfsName, "vfs="+name, 1)
	c, err := sqlite3.Open(u)
	if err != nil {
		return nil, err
	}
	if r != writer {
		_, err = c.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true)
	}
	if err == nil {
		err = c.Exec("PRAGMA locking_mode = EXCLUSIVE")
	}
	if err == nil && r == writer {
		err = c.Exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY")
	}
	if err != nil {
		return nil, join(err, c.Close())
	}
	return c, nil
}

// guest is a connection of a guest with its host's side, which ends with the test.
type guest struct {
	*sqlite3.Conn
	host *GrantedFile
}

func openGuest(t testing.TB, path string) *guest {
	t.Helper()
	host := GrantFile(path)
	c, err := guestConn(hostPort{host, t.Context()}, path, writer)
	must(t, err)
	g := &guest{c, host}
	t.Cleanup(func() { must(t, g.close()) })
	return g
}

func (g *guest) close() error { return join(g.Close(), g.host.Close()) }

// number runs a query for one number.
func number(t testing.TB, c *sqlite3.Conn, sql string) int64 {
	t.Helper()
	s, _, err := c.Prepare(sql)
	must(t, err)
	defer s.Close()
	if !s.Step() {
		t.Fatalf("no row from %s: %v", sql, s.Err())
	}
	return s.ColumnInt64(0)
}

func wantSound(t testing.TB, c *sqlite3.Conn) {
	t.Helper()
	s, _, err := c.Prepare("PRAGMA integrity_check")
	must(t, err)
	defer s.Close()
	for s.Step() {
		if text := s.ColumnText(0); text != "ok" {
			t.Error(text)
		}
	}
	must(t, s.Err())
}

func listed(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

// All of SQLite works over the imports: what is written by a guest a native process reads, and the other way
// round; a big statement's journal, and tables that are temporary, need no file.
func TestGrantedDatabase(t *testing.T) {
	path := filepath.Join(tempDir(t), "deep", "er", "x.db")
	g := openGuest(t, path)
	must(t, g.Exec(`CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB, u INTEGER UNIQUE) STRICT;
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
		INSERT INTO t SELECT i, randomblob(300), i FROM n`))
	// A statement that fails in the middle of many pages is undone by its own journal.
	if err := g.Exec("BEGIN; UPDATE t SET v = zeroblob(300), u = CASE id WHEN 2990 THEN 1 ELSE u END"); err == nil {
		t.Error("a duplicate was accepted")
	}
	must(t, g.Exec("COMMIT"))
	if n := number(t, g.Conn, "SELECT count(*) FROM t WHERE v = zeroblob(300)"); n != 0 {
		t.Errorf("%d rows of a statement that failed", n)
	}
	must(t, g.Exec("CREATE TEMP TABLE big AS SELECT randomblob(3000) AS b FROM t; CREATE INDEX temp.by_b ON big (b)"))
	if got := listed(t, filepath.Dir(path)); !slices.Equal(got, []string{"x.db", "x.db-wal"}) {
		t.Errorf("files: %v", got)
	}
	must(t, g.Exec("DROP TABLE big; VACUUM"))
	must(t, g.close())
	if got := listed(t, filepath.Dir(path)); !slices.Equal(got, []string{"x.db"}) {
		t.Errorf("files after closing: %v", got)
	}

	native := raw(t, path)
	if n := number(t, native, "SELECT count(*) FROM t"); n != 3000 {
		t.Errorf("a native process finds %d rows", n)
	}
	must(t, native.Exec("DELETE FROM t WHERE id > 1000"))
	must(t, native.Close())
	again := openGuest(t, path)
	if n := number(t, again.Conn, "SELECT count(*) FROM t"); n != 1000 {
		t.Errorf("the guest finds %d rows", n)
	}
	wantSound(t, again.Conn)
}

// S5: whatever the umask, and a database that others could read is theirs no more once it is written.
func TestGrantedModes(t *testing.T) {
	for _, umask := range []int{0, 0o77, 0o777} {
		output(t, helper(t, "granted-modes", fmt.Sprint(umask), tempDir(t)))
	}
}

func helpGrantedModes(args []string) error {
	var umask int
	fmt.Sscan(args[0], &umask)
	setUmask(umask)
	for _, old := range []bool{false, true} {
		path := filepath.Join(args[1], fmt.Sprint("made", old), "x.db")
		if old {
			if err := join(os.Mkdir(filepath.Dir(path), dirMode), os.WriteFile(path, nil, 0o600)); err != nil {
				return err
			}
			if err := join(os.Chmod(filepath.Dir(path), dirMode), os.Chmod(path, 0o664)); err != nil {
				return err
			}
		}
		host := GrantFile(path)
		c, err := guestConn(hostPort{host, context.Background()}, path, writer)
		if err == nil {
			err = c.Exec("CREATE TABLE t (x)")
		}
		if err != nil {
			return err
		}
		for name, want := range map[string]os.FileMode{"": 0o600, "-wal": 0o600, "/..": 0o700 | os.ModeDir} {
			info, err := os.Stat(filepath.Clean(path + name))
			if err == nil && info.Mode() != want {
				err = fmt.Errorf("umask %o: %s has mode %v, want %v", umask, info.Name(), info.Mode(), want)
			}
			if err != nil {
				return err
			}
		}
		if err := join(c.Close(), host.Close()); err != nil {
			return err
		}
	}
	return nil
}
