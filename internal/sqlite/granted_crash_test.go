//go:build !wasip1

package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"pgregory.net/rapid"
)

func init() { helpers["granted-write"] = helpGrantedWrite }

// W6: after an owner was killed at any instant the next one, a guest or a native process, finds every write that
// was acknowledged, and a database that is whole.
func TestGrantedKilled(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	rawExec(t, path, "CREATE TABLE t (id INTEGER PRIMARY KEY, v)")
	acknowledged := int64(0)
	for round := range 12 {
		cmd := helper(t, "granted-write", path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 1 + rand.IntN(60); n > 0 && lines.Scan(); n-- {
			fmt.Sscan(lines.Text(), &acknowledged)
		}
		must(t, cmd.Process.Kill())
		for lines.Scan() {
			fmt.Sscan(lines.Text(), &acknowledged)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the writer ended by itself")
		}
		var c *sqlite3.Conn
		done := func() {}
		switch round % 3 {
		case 0: // the next writer is the first to come
			continue
		case 1:
			g := openGuest(t, path)
			c, done = g.Conn, func() { must(t, g.close()) }
		case 2:
			c = raw(t, path)
			done = func() { must(t, c.Close()) }
		}
		if n := number(t, c, "SELECT count(*) FROM t"); n < acknowledged || n != number(t, c, "SELECT max(id) FROM t") {
			t.Errorf("round %d: %d rows, and %d were acknowledged", round, n, acknowledged)
		}
		wantSound(t, c)
		done()
	}
	t.Logf("%d writes were acknowledged", acknowledged)
}

// helpGrantedWrite writes until it is killed, with checkpoints, and prints the number of each row when it is
// durable.
func helpGrantedWrite(args []string) error {
	host := GrantFile(args[0])
	c, err := guestConn(hostPort{host, context.Background()}, args[0], writer)
	if err != nil {
		return err
	}
	if err := c.Exec("PRAGMA wal_autocheckpoint = 20"); err != nil {
		return err
	}
	for {
		if err := c.Exec("INSERT INTO t (v) VALUES (randomblob(abs(random()) % 9000))"); err != nil {
			return err
		}
		fmt.Println(c.LastInsertRowID())
	}
}

// What a crash of native processes leaves is recovered: what is in the WAL alone is there. The -shm that
// they leave is neither used nor changed, and when a guest has moved the database on, the next native process
// doesn't believe it either.
func TestGrantedAfterNativeCrash(t *testing.T) {
	for _, end := range []string{"closes", "crashes too"} {
		t.Run("guest "+end, func(t *testing.T) {
			dir := tempDir(t)
			live, path := filepath.Join(dir, "live.db"), filepath.Join(dir, "x", "x.db")
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
			native := raw(t, live, "PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", "CREATE TABLE t (id INTEGER PRIMARY KEY, v)",
				"INSERT INTO t VALUES (1, randomblob(9000)), (2, randomblob(9000))")
			crash(t, live, path, "", "-wal", "-shm")
			stale, err := os.ReadFile(path + "-shm")
			must(t, err)

			g := openGuest(t, path)
			if n := number(t, g.Conn, "SELECT sum(id) FROM t"); n != 3 {
				t.Errorf("sum of the rows is %d", n)
			}
			must(t, g.Exec("UPDATE t SET v = 'new'; INSERT INTO t VALUES (4, 'new')"))
			if end == "closes" {
				must(t, g.close())
			} else {
				must(t, g.host.Close()) // what the guest's SQLite still does goes nowhere
			}
			now, err := os.ReadFile(path + "-shm")
			if must(t, err); string(now) != string(stale) {
				t.Error("the guest changed the -shm")
			}

			for _, c := range []*sqlite3.Conn{raw(t, path), raw(t, path)} {
				if n := number(t, c, "SELECT sum(id) FROM t WHERE v = 'new'"); n != 7 {
					t.Errorf("a native process finds rows with the sum %d", n)
				}
				wantSound(t, c)
			}
			must(t, native.Exec("SELECT 1"))
		})
	}
}

// failingPort passes everything on, and fails from some moment on, as a machine does that stops.
type failingPort struct {
	grantedPort
	left int // operations that change something, until all fail
}

func (p *failingPort) step(f func() int64) int64 {
	if p.left--; p.left < 0 {
		return -int64(sqlite3.IOERR)
	}
	return f()
}

func (p *failingPort) OpenFile(file, create int32) int64 {
	return p.step(func() int64 { return p.grantedPort.OpenFile(file, create) })
}
func (p *failingPort) Delete(file int32) int64 {
	return p.step(func() int64 { return p.grantedPort.Delete(file) })
}
func (p *failingPort) Truncate(file int32, size int64) int64 {
	return p.step(func() int64 { return p.grantedPort.Truncate(file, size) })
}
func (p *failingPort) Sync(file int32) int64 {
	return p.step(func() int64 { return p.grantedPort.Sync(file) })
}
func (p *failingPort) Write(file int32, b []byte, off int64) int64 {
	return p.step(func() int64 { return p.grantedPort.Write(file, b, off) })
}

// W6: whichever operation fails, with all that follow, what was acknowledged is there afterwards and nothing is
// half there.
func TestGrantedFaults(t *testing.T) {
	points := 0
	for n, clean := 0, false; !clean; n++ {
		path := filepath.Join(tempDir(t), "x.db")
		host := GrantFile(path)
		port := &failingPort{hostPort{host, t.Context()}, n}
		acknowledged, err := writeSome(port, path)
		clean = err == nil && port.left >= 0
		must(t, host.Close())

		g := openGuest(t, path)
		must(t, g.Exec("CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY, v)"))
		rows := number(t, g.Conn, "SELECT count(*) FROM t")
		if rows < 2*acknowledged || rows%2 != 0 {
			t.Errorf("fault %d: %d rows, and %d pairs were acknowledged", n, rows, acknowledged)
		}
		wantSound(t, g.Conn)
		must(t, g.close())
		points = n
	}
	t.Logf("%d points of failure", points)
}

// writeSome writes pairs of rows, with checkpoints between them.
func writeSome(port grantedPort, path string) (acknowledged int64, err error) {
	c, err := guestConn(port, path, writer)
	if err != nil {
		return 0, err
	}
	defer func() { err = join(err, c.Close()) }()
	if err := c.Exec("PRAGMA wal_autocheckpoint = 3; CREATE TABLE t (a INTEGER PRIMARY KEY, v)"); err != nil {
		return 0, err
	}
	for range 3 {
		if err := c.Exec("BEGIN; INSERT INTO t (v) VALUES (randomblob(5000)); INSERT INTO t (v) VALUES (1); COMMIT"); err != nil {
			return acknowledged, err
		}
		acknowledged++
	}
	return acknowledged, nil
}

// lossyPort keeps what a machine without power would find: of each file, the last content that was synced.
// Names come and go with the sync of their file and at once.
type lossyPort struct {
	grantedPort
	path    string
	durable map[string][]byte
}

func (p *lossyPort) Sync(file int32) int64 {
	content, err := os.ReadFile(p.path + grantedSuffixes[file])
	if err != nil {
		return -int64(sqlite3.IOERR_FSYNC)
	}
	p.durable[grantedSuffixes[file]] = content
	return 0
}

func (p *lossyPort) Delete(file int32) int64 {
	result := p.grantedPort.Delete(file)
	if result == 0 {
		delete(p.durable, grantedSuffixes[file])
	}
	return result
}

// With whatever statements: when the power fails, every transaction that was acknowledged is there, exactly, for a
// native process too. (The lost writes are all of them: what a real disk keeps of them is for the checksums of
// SQLite's WAL.)
func TestGrantedPowerLoss(t *testing.T) {
	dir := tempDir(t)
	rapid.Check(t, func(rt *rapid.T) {
		ok := func(err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		path := filepath.Join(dir, rapid.StringMatching(`[a-z]{12}`).Draw(rt, "name"))
		defer os.Remove(path)
		model := map[int64]int64{} // length of the value by id
		for range rapid.IntRange(1, 3).Draw(rt, "lives") {
			host := GrantFile(path)
			port := &lossyPort{hostPort{host, context.Background()}, path, map[string][]byte{}}
			for _, suffix := range grantedSuffixes { // what was there before is on the disk
				if content, err := os.ReadFile(path + suffix); err == nil {
					port.durable[suffix] = content
				}
			}
			c, err := guestConn(port, path, writer)
			ok(err)
			ok(c.Exec("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, v)"))
			for range rapid.IntRange(0, 7).Draw(rt, "writes") {
				id, n := rapid.Int64Range(1, 20).Draw(rt, "id"), rapid.Int64Range(1, 20000).Draw(rt, "bytes")
				switch rapid.SampledFrom([]string{"put", "delete", "undo", "checkpoint", "vacuum"}).Draw(rt, "op") {
				case "put":
					ok(c.Exec(fmt.Sprintf("INSERT OR REPLACE INTO t VALUES (%d, randomblob(%d))", id, n)))
					model[id] = n
				case "delete":
					ok(c.Exec(fmt.Sprintf("DELETE FROM t WHERE id = %d", id)))
					delete(model, id)
				case "undo":
					ok(c.Exec(fmt.Sprintf("BEGIN; INSERT OR REPLACE INTO t VALUES (%d, randomblob(%d)); ROLLBACK", id, n)))
				case "checkpoint":
					ok(c.Exec("PRAGMA wal_checkpoint(TRUNCATE)"))
				case "vacuum":
					ok(c.Exec("VACUUM"))
				}
			}
			if rapid.Bool().Draw(rt, "closed") {
				ok(c.Close())
				ok(host.Close())
			} else {
				ok(host.Close())
				_ = c.Close() // it has nothing to write to any more
			}
			for _, suffix := range grantedSuffixes {
				if content, found := port.durable[suffix]; found {
					ok(os.WriteFile(path+suffix, content, fileMode))
				} else if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
					rt.Fatal(err)
				}
			}
			if rapid.Bool().Draw(rt, "native") {
				wantModel(rt, path, model, func() (*sqlite3.Conn, error) { return openRaw(path) })
			}
		}
		host := GrantFile(path)
		wantModel(rt, path, model, func() (*sqlite3.Conn, error) {
			return guestConn(hostPort{host, context.Background()}, path, writer)
		})
		ok(host.Close())
	})
}

func wantModel(t rapid.TB, path string, model map[int64]int64, open func() (*sqlite3.Conn, error)) {
	t.Helper()
	c, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, _, err := c.Prepare("SELECT id, length(v) FROM t")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found := map[int64]int64{}
	for s.Step() {
		found[s.ColumnInt64(0)] = s.ColumnInt64(1)
	}
	if err := s.Err(); err != nil || fmt.Sprint(found) != fmt.Sprint(model) {
		t.Fatalf("%s: found %v, want %v (%v)", path, found, model, err)
	}
}
