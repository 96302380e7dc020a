package host

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"pistate/schema"
)

// rawConn opens the database as another program would.
func rawConn(t testing.TB, path string) *sqlite3.Conn {
	t.Helper()
	conn, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func mustExec(t testing.TB, conn *sqlite3.Conn, sql string) {
	t.Helper()
	if err := conn.Exec(sql); err != nil {
		t.Fatal(err)
	}
}

// foreignLock gives the lock of a session to another process that lives: our parent.
func foreignLock(t testing.TB, path, session string) {
	t.Helper()
	openStore(t, path) // so that the tables are there
	conn := rawConn(t, path)
	stmt, _, err := conn.Prepare(`INSERT INTO write_lock (session_id, holder, acquired_at) VALUES (?, 'pid:' || ?, ?)`)
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Close()
	for i, err := range []error{
		stmt.BindText(1, session), stmt.BindInt(2, os.Getppid()), stmt.BindInt64(3, time.Now().UnixMilli()), stmt.Exec(),
	} {
		if err != nil {
			t.Fatal(i, err)
		}
	}
}

// plant stores a session value past the store, which would refuse it.
func plant(t testing.TB, path, plugin, session, value string) {
	t.Helper()
	stmt, _, err := rawConn(t, path).Prepare(`INSERT INTO state (plugin_id, session_id, branch_id, value) VALUES (?, ?, '', ?)`)
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Close()
	for i, err := range []error{
		stmt.BindText(1, plugin), stmt.BindText(2, session), stmt.BindText(3, value), stmt.Exec(),
	} {
		if err != nil {
			t.Fatal(i, err)
		}
	}
}

// lockRows returns how many sessions are locked in the database.
func lockRows(t testing.TB, path string) int {
	t.Helper()
	stmt, _, err := rawConn(t, path).Prepare(`SELECT count(*) FROM write_lock`)
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Close()
	if !stmt.Step() {
		t.Fatal(stmt.Err())
	}
	return stmt.ColumnInt(0)
}

// wantCause fails the test unless the error matches a further code.
func wantCause(t testing.TB, err error, code schema.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Errorf("error %v does not match %q", err, code)
	}
}
