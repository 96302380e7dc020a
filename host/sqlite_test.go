package host

import (
	"errors"
	"fmt"
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

const insertLock = `INSERT INTO write_lock (session_id, holder, acquired_at) VALUES (?, ?, ?)`

// foreignLock gives the lock of a session to another process that lives: our parent.
func foreignLock(t testing.TB, path, session string) {
	t.Helper()
	openStore(t, path) // so that the tables are there
	holder := fmt.Sprintf("pid:%d", os.Getppid())
	if err := execWith(rawConn(t, path), insertLock, session, holder, time.Now().UnixMilli()); err != nil {
		t.Fatal(err)
	}
}

// plant stores a session value past the store, which would refuse it.
func plant(t testing.TB, path, plugin, session, value string) {
	t.Helper()
	err := execWith(rawConn(t, path), `INSERT INTO state (plugin_id, session_id, branch_id, value) VALUES (?, ?, '', ?)`, plugin, session, value)
	if err != nil {
		t.Fatal(err)
	}
}

// execWith runs one statement with parameters, which are texts and numbers.
func execWith(conn *sqlite3.Conn, sql string, args ...any) error {
	stmt, _, err := conn.Prepare(sql)
	if err != nil {
		return err
	}
	defer stmt.Close()
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			err = stmt.BindText(i+1, v)
		case int64:
			err = stmt.BindInt64(i+1, v)
		default:
			err = fmt.Errorf("parameter %d is a %T", i+1, arg)
		}
		if err != nil {
			return err
		}
	}
	return stmt.Exec()
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
