package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"pistate/schema"
)

// A long query ends with its context, and a write does not.
func TestInterrupt(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	const endless = "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
	ctx, cancel := context.WithCancel(t.Context())
	err := db.Read(ctx, func(rx *Rx) error {
		go cancel()
		return rx.Query(endless, func(Row) error { return nil })
	})
	wantCode(t, err, schema.Canceled)
	must(t, db.Read(t.Context(), func(rx *Rx) error { _, err := countItems(rx); return err }))

	ctx, cancel = context.WithCancel(t.Context())
	must(t, db.Write(ctx, func(tx *Tx) error {
		cancel()
		_, err := tx.Exec("INSERT INTO item (name) VALUES ('one')")
		return err
	}, nil))
	wantItems(t, db.Path(), 1)
}

func TestErrorCodes(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	fill(t, db, 1)
	for sql, code := range map[string]schema.Code{
		"INSERT INTO item (name) VALUES ('item 0')":                       schema.Conflict, // UNIQUE
		"INSERT INTO item (id, name) VALUES (1, 'x')":                     schema.Conflict, // PRIMARY KEY
		"INSERT INTO part (item, size) VALUES (1, 0)":                     schema.Invalid,  // CHECK
		"INSERT INTO part (item, size) VALUES (1, NULL)":                  schema.Invalid,  // NOT NULL
		"INSERT INTO part (item, size) VALUES (1, 'text')":                schema.Invalid,  // STRICT
		"INSERT INTO part (item, size) VALUES (99, 1)":                    schema.Invalid,  // FOREIGN KEY, deferred
		"INSERT INTO item (name, data) VALUES ('x', zeroblob(900000000))": schema.Limit,
	} {
		err := db.Write(t.Context(), func(tx *Tx) error { _, err := tx.Exec(sql); return err }, nil)
		if wantCode(t, err, code); !strings.Contains(fmt.Sprint(err), db.Path()) {
			t.Errorf("%v does not name the file", err)
		}
	}
	wantItems(t, db.Path(), 1)
}

// C30, C82: an error of SQLite has the code that says what to do next, and tells so in words.
func TestTranslate(t *testing.T) {
	for _, test := range []struct {
		err  error
		code schema.Code
		text string
	}{
		{sqlite3.BUSY_RECOVERY, schema.Busy, "try again"},
		{sqlite3.LOCKED, schema.Busy, "try again"},
		{sqlite3.INTERRUPT, schema.Canceled, ""},
		{context.DeadlineExceeded, schema.Canceled, ""},
		{sqlite3.NOTADB, schema.Corrupt, "no SQLite database"},
		{sqlite3.CORRUPT_INDEX, schema.Corrupt, "restore a backup"},
		{sqlite3.CONSTRAINT_UNIQUE, schema.Conflict, ""},
		{sqlite3.CONSTRAINT_TRIGGER, schema.Invalid, ""},
		{sqlite3.TOOBIG, schema.Limit, ""},
		{sqlite3.FULL, schema.Storage, "no space left"},
		{vfs.SystemError(syscall.EDQUOT, sqlite3.IOERR_SHMSIZE), schema.Storage, ""},
		{&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, schema.Storage, "no space left"},
		{sqlite3.PROTOCOL, schema.Storage, "local disk"},
		{sqlite3.IOERR_RDLOCK, schema.Storage, "local disk"},
		{sqlite3.IOERR_SHMMAP, schema.Storage, "local disk"},
		{sqlite3.IOERR_SHMSIZE, schema.Storage, "no space left"},
		{sqlite3.READONLY_DIRECTORY, schema.Storage, "permissions"},
		{sqlite3.CANTOPEN, schema.Storage, "permissions"},
		{sqlite3.CANTOPEN_SYMLINK, schema.Replaced, "open it again"},
		{sqlite3.IOERR_READ, schema.Storage, ""},
		{errors.New("anything"), schema.Storage, "anything"},
		{schema.Errorf(schema.Denied, "coded"), schema.Denied, "coded"},
	} {
		err := translate("/the/path", reported(test.err))
		wantCode(t, err, test.code)
		text := err.Error()
		if !errors.Is(err, test.err) || !strings.Contains(text, test.text) || test.text != "coded" && !strings.HasPrefix(text, "/the/path: ") {
			t.Errorf("%v became %v, want %q", test.err, err, test.text)
		}
	}
	if translate("/the/path", nil) != nil {
		t.Error("no error became one")
	}
}

// A value may be as long as a row, and what is longer is refused without running out of memory.
func TestLongValues(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	put := func(data any) error {
		return db.Write(t.Context(), func(tx *Tx) error {
			_, err := tx.Exec("INSERT INTO item (name, data) VALUES ('long', ?1)", data)
			return err
		}, nil)
	}
	long := make([]byte, maxRow+1)
	wantCode(t, put(long), schema.Limit)
	wantCode(t, put(string(long)), schema.Limit)
	wantCode(t, put(Text(long)), schema.Limit)
	wantCode(t, put(long[:maxRow]), schema.Limit) // together with the rest of the row
	must(t, put(long[:maxRow-100]))
	must(t, db.Read(t.Context(), func(rx *Rx) error {
		return rx.Query("SELECT data FROM item", func(r Row) error {
			if n := len(r.Bytes(0)); n != maxRow-100 {
				t.Errorf("read %d bytes", n)
			}
			return nil
		})
	}))
}

// The shapes of a statement and of its values.
func TestStatements(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	err := db.Write(t.Context(), func(tx *Tx) error {
		for _, v := range []any{nil, 1, int64(2), true, 1.5, "text", []byte("blob"), []byte{}, []byte(nil), Text("text"), Text{}, Text(nil)} {
			var kind string
			var back any
			found, err := tx.QueryRow("SELECT typeof(?1), ?1 -- one\n;\n", func(r Row) error {
				kind, back = r.Text(0), r.Value(1)
				if r.IsNull(1) != (back == nil) || r.Columns() != 2 {
					t.Errorf("%v: %v %d", v, r.IsNull(1), r.Columns())
				}
				return nil
			}, v)
			if err != nil || !found {
				return fmt.Errorf("%v: %v", v, err)
			}
			want := map[string]string{
				"<nil>": "null <nil>", "int": "integer 1", "int64": "integer 2", "bool": "integer 1", "float64": "real 1.5",
				"string": "text text", "[]uint8": "blob " + fmt.Sprint(v), "sqlite.Text": "text " + fmt.Sprintf("%s", v),
			}[fmt.Sprintf("%T", v)]
			if b, ok := v.([]byte); ok && b == nil {
				want = "null <nil>"
			}
			if b, ok := v.(Text); ok && b == nil {
				want = "null <nil>"
			}
			if got := fmt.Sprint(kind, " ", back); got != want {
				t.Errorf("%T %v came back as %q, want %q", v, v, got, want)
			}
		}
		for _, bad := range []struct {
			sql  string
			args []any
		}{
			{"SELECT ?1", nil}, {"SELECT 1", []any{1}}, {"SELECT 1; SELECT 2", nil}, {"", nil}, {" -- nothing", nil},
			{"SELECT ?1", []any{struct{}{}}}, {"SELEC", nil},
		} {
			if err := tx.Query(bad.sql, func(Row) error { return nil }, bad.args...); err == nil {
				t.Errorf("%q with %v went through", bad.sql, bad.args)
			}
		}
		if _, err := tx.QueryRow("VALUES (1), (2)", func(Row) error { return nil }); err == nil {
			t.Error("two rows went through as one")
		}
		if found, err := tx.QueryRow("SELECT 1 WHERE 0", func(Row) error { return nil }); found || err != nil {
			t.Error(found, err)
		}
		stop := errors.New("stop")
		if err := tx.Query("VALUES (1), (2)", func(Row) error { return stop }); err != stop {
			t.Errorf("the error came back as %v", err)
		}
		// The same statement inside itself.
		rows := 0
		const pair = "SELECT value FROM json_each('[1,2,3]')"
		err := tx.Query(pair, func(Row) error {
			return tx.Query(pair, func(Row) error { rows++; return nil })
		})
		if rows != 9 || err != nil {
			t.Errorf("%d rows, %v", rows, err)
		}
		n, err := tx.Exec("INSERT INTO item (name) VALUES ('a'), ('b')")
		if n != 2 || err != nil {
			t.Errorf("%d rows changed, %v", n, err)
		}
		return nil
	}, nil)
	must(t, err)
}

// A failure inside SQLite is an error, and the connection is not used again.
func TestBrokenConnection(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	db := openTest(t, path)
	fill(t, db, 1)
	c := db.writer
	err := db.Write(t.Context(), func(tx *Tx) error {
		return inside(tx.c).try(func() error { panic("damage") })
	}, nil)
	wantCode(t, err, schema.Storage)
	wantCode(t, insert(t.Context(), db, "x"), schema.Storage)
	if c.broken() == nil {
		t.Error("the connection counts as whole")
	}
	must(t, db.Close())
	wantItems(t, path, 1)
	must(t, insert(t.Context(), openTest(t, path), "x"))
}
