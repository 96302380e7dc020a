//go:build !wasip1

package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"pistate/schema"
)

func init() {
	helpers["granted-hold"] = helpGrantedHold
	helpers["native-hold"] = helpNativeHold
}

// holder is another process that has the database open, from start to stop.
type holder struct {
	start func(t *testing.T, path string) (stop func())
}

var holders = map[string]holder{
	"native connection":       {holdNative},
	"guest of this process":   {holdGuest},
	"guest elsewhere":         {holdByHelper("granted-hold")},
	"native process":          {holdByHelper("native-hold")},
	"sqlite3 program":         {holdProgram("")},
	"sqlite3 program, reader": {holdProgram("BEGIN; SELECT count(*) FROM t;")},
	"sqlite3 program, writer": {holdProgram("BEGIN IMMEDIATE; INSERT INTO t VALUES (7);")},
}

func holdNative(t *testing.T, path string) func() {
	c := raw(t, path, "PRAGMA journal_mode = WAL")
	number(t, c, "SELECT count(*) FROM t")
	return func() { must(t, c.Close()) }
}

func holdGuest(t *testing.T, path string) func() {
	g := openGuest(t, path)
	number(t, g.Conn, "SELECT count(*) FROM t")
	return func() { must(t, g.close()) }
}

func holdByHelper(name string) func(*testing.T, string) func() {
	return func(t *testing.T, path string) func() { return hold(t, helper(t, name, path), "") }
}

func holdProgram(sql string) func(*testing.T, string) func() {
	return func(t *testing.T, path string) func() {
		program, err := exec.LookPath("sqlite3")
		if err != nil {
			t.Skip("there is no sqlite3 program")
		}
		return hold(t, exec.CommandContext(t.Context(), program, "-batch", path), "PRAGMA journal_mode = WAL;"+sql+"SELECT 'held', count(*) FROM t;\n")
	}
}

// hold starts a process and waits until it says that it has the database.
func hold(t *testing.T, cmd *exec.Cmd, input string) func() {
	t.Helper()
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	fmt.Fprint(in, input)
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "held") {
	}
	return func() {
		must(t, in.Close())
		for lines.Scan() {
		}
		must(t, cmd.Wait())
	}
}

func helpGrantedHold(args []string) error {
	host := GrantFile(args[0])
	c, err := guestConn(hostPort{host, context.Background()}, args[0], writer)
	if err != nil {
		return err
	}
	return join(helpHold(c), host.Close())
}

func helpNativeHold(args []string) error {
	c, err := openRaw(args[0])
	if err == nil {
		err = c.Exec("PRAGMA journal_mode = WAL")
	}
	if err != nil {
		return err
	}
	return helpHold(c)
}

func helpHold(c *sqlite3.Conn) error {
	if err := c.Exec("SELECT count(*) FROM t"); err != nil {
		return err
	}
	fmt.Println("held")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return c.Close()
}

// A second owner gets BUSY and changes nothing, whoever has the database: not one byte of it, nor of the
// files beside it. When the first one has gone, it gets in.
func TestGrantedSecondOwner(t *testing.T) {
	for name, h := range holders {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(tempDir(t), "x.db")
			rawExec(t, path, "CREATE TABLE t (x)", "INSERT INTO t VALUES (1)")
			stop := h.start(t, path)
			before := files(t, filepath.Dir(path))
			for _, r := range []role{writer, reader} {
				host := GrantFile(path)
				c, err := guestConn(hostPort{host, t.Context()}, path, r)
				if err == nil { // a reader's first access is its first statement
					err = join(c.Exec("SELECT count(*) FROM t"), c.Close())
				}
				if !isBusy(err) {
					t.Errorf("a guest as %q: %v", r, err)
				}
				must(t, host.Close())
			}
			wantUnchanged(t, filepath.Dir(path), before)
			stop()
			wantSound(t, openGuest(t, path).Conn)
		})
	}
}

func isBusy(err error) bool {
	return schema.CodeOf(translate("x", reported(err))) == schema.Busy
}

// The other way round: nobody gets at what a guest has open, from its first look at it.
func TestGrantedOwnerIsAlone(t *testing.T) {
	for _, wrote := range []bool{false, true} {
		path := filepath.Join(tempDir(t), "x.db")
		rawExec(t, path, "CREATE TABLE t (x)", "INSERT INTO t VALUES (1)")
		g := openGuest(t, path)
		if wrote {
			must(t, g.Exec("INSERT INTO t VALUES (2)"))
		}
		before := files(t, filepath.Dir(path))
		for _, sql := range []string{"SELECT count(*) FROM t", "INSERT INTO t VALUES (3)", "PRAGMA wal_checkpoint", "PRAGMA journal_mode = DELETE"} {
			c := raw(t, path)
			if err := c.Exec(sql); !isBusy(err) {
				t.Errorf("a native connection, %s: %v", sql, err)
			}
			must(t, c.Close())
			if program, err := exec.LookPath("sqlite3"); err == nil {
				out, err := exec.CommandContext(t.Context(), program, path, sql).CombinedOutput()
				if !strings.Contains(string(out), "locked") {
					t.Errorf("the sqlite3 program, %s: %s %v", sql, out, err)
				}
			}
		}
		wantUnchanged(t, filepath.Dir(path), before)
		must(t, g.close())
		wantSound(t, raw(t, path))
	}
}

// Who found the database in use is not in the way of those who use it, however long it stays.
func TestGrantedLoserIsNotInTheWay(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	native := raw(t, path, "CREATE TABLE t (x)", "BEGIN", "SELECT * FROM t")
	number(t, native, "SELECT count(*) FROM t") // which takes the shared lock
	host := GrantFile(path)
	c, err := guestConn(hostPort{host, t.Context()}, path, reader)
	must(t, err)
	if err := c.Exec("SELECT * FROM t"); !isBusy(err) {
		t.Errorf("got %v", err)
	}
	must(t, native.Exec("INSERT INTO t VALUES (1); COMMIT")) // which needs the exclusive lock
	must(t, c.Close())
	must(t, host.Close())
}

// Two who come at the same time both get in, one after the other: neither waits for what the other waits for.
func TestGrantedQueue(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	rawExec(t, path, "PRAGMA journal_mode = WAL", "CREATE TABLE t (x)")
	const owners, rounds = 4, 5
	errs := make(chan error, owners)
	for range owners {
		go func() {
			errs <- func() error {
				for range rounds {
					host := GrantFile(path)
					for {
						c, err := guestConn(hostPort{host, t.Context()}, path, writer)
						if err == nil {
							err = join(c.Exec("INSERT INTO t VALUES (1)"), c.Close())
						}
						if err == nil {
							break
						}
						if !isBusy(err) || t.Context().Err() != nil {
							return err
						}
						time.Sleep(time.Millisecond)
					}
					if err := host.Close(); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range owners {
		must(t, <-errs)
	}
	if n := number(t, raw(t, path), "SELECT count(*) FROM t"); n != owners*rounds {
		t.Errorf("%d rows, want %d", n, owners*rounds)
	}
}

// A wait for the lock ends with the context of the call, and not with the busy timeout.
func TestGrantedWaitEnds(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	rawExec(t, path, "CREATE TABLE t (x)")
	defer holdGuest(t, path)()
	ctx, cancel := context.WithCancel(t.Context())
	host := GrantFile(path)
	c, err := guestConn(hostPort{host, ctx}, path, reader)
	must(t, err)
	waited := 0
	must(t, c.BusyHandler(func(context.Context, int) bool {
		if waited++; waited == 3 {
			cancel()
		}
		return true // for ever
	}))
	if err := c.Exec("SELECT * FROM t"); schema.CodeOf(translate(path, reported(err))) != schema.Canceled {
		t.Errorf("got %v", err)
	}
	if waited != 3 {
		t.Errorf("it tried %d times", waited)
	}
	must(t, c.Close()) // which needs no context
	must(t, host.Close())
}
