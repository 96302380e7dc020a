// Package sqlite is the one place where pistate touches SQLite: how a file is found, created, opened,
// locked, written, read, backed up and checked. The packages above it bring SQL and scan rows.
//
// Rx reads and Tx also writes. Only [DB.Write] hands out a Tx, inside an immediate transaction; a [Reader]
// can't make one.
package sqlite

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"

	"pistate/schema"
)

// busyTimeout is how long a statement waits for the lock of another connection (S2).
const busyTimeout = 5 * time.Second

// maxRow bounds a value, and a row with all its values, in bytes. Three copies of it, which is what
// writing one takes, must fit into the memory of a connection; beyond that SQLite would fail in worse ways.
const maxRow = 80 << 20

// conn is one connection with its prepared statements, used by one goroutine at a time.
type conn struct {
	db     *sqlite3.Conn
	path   string
	id     fs.FileInfo // the database file that is open
	stmts  map[string]*cached
	broken error // set once SQLite has failed inside: its memory can't be trusted any more
}

// cached is a prepared statement that stays with its connection. The texts are constants of the packages
// above, so their number is small.
type cached struct {
	*sqlite3.Stmt
	busy bool // in use by an outer query
}

// opening says how a database is opened.
type opening struct {
	role role
	// check is for the verification of a whole database: much memory and a big page cache, and SQLite
	// knows of the CHECK constraints.
	check bool
}

// The memory of a connection that checks is address space that is reserved, and used as needed.
const (
	checkMemory = 1 << 30   // bytes
	checkCache  = 200 << 10 // KiB
)

// openConn opens a resolved path. The context is used until the caller sets another one.
func openConn(ctx context.Context, path string, o opening) (*conn, error) {
	mode := "rw"
	if o.role != writer && !o.check {
		mode = "ro"
	}
	opened := ctx
	if o.check {
		opened = sqlite3.WithMaxMemory(ctx, checkMemory)
	}
	db, err := start(opened, uri(path, "mode", mode, roleParam, string(o.role)))
	if err != nil {
		return nil, translate(path, err)
	}
	c := &conn{db: db, path: path, stmts: map[string]*cached{}}
	c.db.SetInterrupt(ctx)
	if err := c.prepare(o); err != nil {
		return nil, join(err, c.close())
	}
	return c, nil
}

// start starts an SQLite, which panics if it can't have its memory.
func start(ctx context.Context, uri string) (db *sqlite3.Conn, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("SQLite could not start: %v (each connection takes up to %d MiB of address space: is there a limit, as by ulimit -v?)", p, checkMemory>>20)
		}
	}()
	return sqlite3.OpenContext(ctx, uri)
}

// prepare makes the settings that don't touch the file.
func (c *conn) prepare(o opening) error {
	err := c.try(func() error {
		file, err := c.file()
		if err != nil {
			return err
		}
		if c.id, err = file.Stat(); err != nil {
			return err
		}
		return c.db.BusyTimeout(busyTimeout)
	})
	if err != nil {
		return err
	}
	settings := "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"
	if o.role != writer {
		settings += "PRAGMA query_only = ON;"
		if err := c.config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true); err != nil {
			return err
		}
	}
	if o.role == frozen {
		settings += "PRAGMA locking_mode = EXCLUSIVE;"
	}
	if o.check {
		settings += "PRAGMA cache_size = -" + strconv.Itoa(checkCache)
	} else {
		c.db.Limit(sqlite3.LIMIT_LENGTH, maxRow)
	}
	return c.exec(settings)
}

// file returns the database file that is open. It is called within try.
func (c *conn) file() (osFile, error) {
	file, err := c.db.FileControl("main", sqlite3.FCNTL_FILE_POINTER)
	if err != nil {
		return nil, err
	}
	if opened, ok := file.(vfs.File); ok {
		// go-sqlite3 wraps every main database in a layer that checks checksums.
		if inner, ok := vfsutil.UnwrapFile[osFile](opened); ok {
			return inner, nil
		}
	}
	return nil, fmt.Errorf("sqlite: %T is no file of the operating system", file)
}

// try makes one call into SQLite. A panic in there must not end the process: SQLite ran out of its memory,
// or met damage that it was not made for.
func (c *conn) try(call func() error) (err error) {
	if c.broken != nil {
		return c.broken
	}
	defer func() {
		if p := recover(); p != nil {
			c.broken = schema.Errorf(schema.Storage, "%s: SQLite failed inside: %v (open the database again; if it comes back, verify it)", c.path, p)
			err = c.broken
		}
	}()
	return translate(c.path, call())
}

func (c *conn) close() error {
	c.db.SetInterrupt(context.Background())
	failed := c.broken != nil
	c.broken = nil
	err := c.try(func() error {
		for _, s := range c.stmts {
			_ = s.Close() // reports the last step's error again
		}
		return c.db.Close()
	})
	if failed {
		return nil // what went wrong has been reported
	}
	return err
}

// exec runs statements without parameters or rows.
func (c *conn) exec(sql string) error {
	return c.try(func() error { return c.db.Exec(sql) })
}

func (c *conn) pragma(name string) (v int64, err error) {
	err = c.run("PRAGMA "+name, func(r Row) error {
		v = r.Int64(0)
		return nil
	}, nil)
	return v, err
}

func (c *conn) config(op sqlite3.DBConfig, on bool) error {
	return c.try(func() error {
		_, err := c.db.Config(op, on)
		return err
	})
}

// stmt returns the prepared form of sql, and what to call when done with it.
func (c *conn) stmt(sql string) (*sqlite3.Stmt, func(), error) {
	s := c.stmts[sql]
	if s != nil && !s.busy {
		s.busy = true
		return s.Stmt, func() {
			_ = c.try(func() error {
				_ = s.Reset() // reports the last step's error again
				return s.ClearBindings()
			})
			s.busy = false
		}, nil
	}
	var prepared *sqlite3.Stmt
	var tail string
	err := c.try(func() (err error) {
		prepared, tail, err = c.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	finalize := func() { _ = c.try(func() error { return prepared.Close() }) }
	if prepared == nil || strings.TrimSpace(tail) != "" {
		finalize()
		return nil, nil, fmt.Errorf("sqlite: one statement expected in %q", sql)
	}
	if s != nil { // a recursive use: this one is not kept
		return prepared, finalize, nil
	}
	c.stmts[sql] = &cached{Stmt: prepared}
	return c.stmt(sql)
}

// run runs one statement and calls row for each row of its result.
func (c *conn) run(sql string, row func(Row) error, args []any) error {
	s, done, err := c.stmt(sql)
	if err != nil {
		return err
	}
	defer done()
	if err := c.bind(s, sql, args); err != nil {
		return err
	}
	for {
		var more bool
		err := c.try(func() error {
			more = s.Step()
			return s.Err()
		})
		if err != nil || !more {
			return err
		}
		if row == nil {
			continue
		}
		if err := row(Row{s}); err != nil {
			return err
		}
		if err := s.Err(); err != nil { // of reading a column
			return translate(c.path, err)
		}
	}
}

func (c *conn) bind(s *sqlite3.Stmt, sql string, args []any) error {
	return c.try(func() error {
		if n := s.BindCount(); n != len(args) {
			return fmt.Errorf("sqlite: %d parameters for the %d of %q", len(args), n, sql)
		}
		for i, a := range args {
			if err := bind(s, i+1, a); err != nil {
				return err
			}
		}
		return nil
	})
}

func bind(s *sqlite3.Stmt, i int, arg any) error {
	switch v := arg.(type) {
	case nil:
		return s.BindNull(i)
	case int:
		return s.BindInt64(i, int64(v))
	case int64:
		return s.BindInt64(i, v)
	case bool:
		return s.BindBool(i, v)
	case float64:
		return s.BindFloat(i, v)
	case string:
		if len(v) > maxRow {
			return tooLong(len(v))
		}
		return s.BindText(i, v)
	case []byte:
		switch {
		case v == nil:
			return s.BindNull(i)
		case len(v) > maxRow:
			return tooLong(len(v))
		}
		return s.BindBlob(i, v)
	case Text:
		if len(v) > maxRow {
			return tooLong(len(v))
		}
		return s.BindRawText(i, v)
	}
	return fmt.Errorf("sqlite: parameter %d: no binding for %T", i, arg)
}

func tooLong(n int) error {
	return schema.Errorf(schema.Limit, "a value of %d bytes is longer than the %d that a row may have", n, maxRow)
}

// Text binds bytes as TEXT; a plain []byte binds as BLOB. A nil Text binds as NULL.
type Text []byte

// Rx reads one consistent snapshot. It is valid only inside the function that it was given to.
type Rx struct{ c *conn }

// Tx reads and writes inside one transaction. It is valid only inside the function that it was given to.
type Tx struct{ Rx }

// Query runs one SELECT, or a statement with RETURNING, and calls row for each row of its result.
// An error of row ends the query and is returned as it is.
func (rx *Rx) Query(sql string, row func(Row) error, args ...any) error {
	return rx.c.run(sql, row, args)
}

// QueryRow is Query for at most one row; found tells whether there was one.
func (rx *Rx) QueryRow(sql string, row func(Row) error, args ...any) (found bool, err error) {
	err = rx.c.run(sql, func(r Row) error {
		if found {
			return fmt.Errorf("sqlite: more than one row from %q", sql)
		}
		found = true
		return row(r)
	}, args)
	return found && err == nil, err
}

// Exec runs one INSERT, UPDATE or DELETE and returns the number of rows that it changed.
func (tx *Tx) Exec(sql string, args ...any) (changed int64, err error) {
	if err := tx.c.run(sql, nil, args); err != nil {
		return 0, err
	}
	return tx.c.db.Changes(), nil
}

// Script runs several statements without parameters: DDL.
func (tx *Tx) Script(sql string) error { return tx.c.exec(sql) }

// Row is the current row of a query. Its values are copies; columns count from 0.
type Row struct{ s *sqlite3.Stmt }

func (r Row) Int64(col int) int64 { return r.s.ColumnInt64(col) }
func (r Row) Int(col int) int     { return r.s.ColumnInt(col) }
func (r Row) Bool(col int) bool   { return r.s.ColumnBool(col) }
func (r Row) Text(col int) string { return r.s.ColumnText(col) }
func (r Row) IsNull(col int) bool { return r.s.ColumnType(col) == sqlite3.NULL }

// Bytes returns a BLOB or TEXT value; nil for NULL.
func (r Row) Bytes(col int) []byte {
	switch r.s.ColumnType(col) {
	case sqlite3.NULL:
		return nil
	case sqlite3.TEXT:
		return append([]byte{}, r.s.ColumnRawText(col)...)
	}
	return append([]byte{}, r.s.ColumnRawBlob(col)...)
}

// Value returns the column as nil, int64, float64, string or []byte.
func (r Row) Value(col int) any {
	switch r.s.ColumnType(col) {
	case sqlite3.NULL:
		return nil
	case sqlite3.INTEGER:
		return r.s.ColumnInt64(col)
	case sqlite3.FLOAT:
		return r.s.ColumnFloat(col)
	case sqlite3.TEXT:
		return r.s.ColumnText(col)
	}
	return r.Bytes(col)
}

// Columns returns the number of columns.
func (r Row) Columns() int { return r.s.ColumnCount() }

// Name returns a column's name.
func (r Row) Name(col int) string { return r.s.ColumnName(col) }
