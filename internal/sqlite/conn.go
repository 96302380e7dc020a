// Package sqlite is the one place where pistate touches SQLite: how a file is found, created, opened,
// locked, written, read, backed up and checked. The packages above it bring SQL and scan rows.
//
// Rx reads and Tx also writes. Only [DB.Write] hands out a Tx, inside an immediate transaction; a [Reader]
// can't make one.
package sqlite

import (
	"context"
	"fmt"

	"github.com/ncruces/go-sqlite3"
)

// conn is one connection with its prepared statements, used by one goroutine at a time.
type conn struct {
	db    *sqlite3.Conn
	path  string
	stmts map[string]*cached
}

// cached is a prepared statement that stays with its connection. The texts are constants of the packages
// above, so their number is small.
type cached struct {
	*sqlite3.Stmt
	busy bool // in use by an outer query
}

// openConn opens a resolved path; params are URI parameters in pairs.
func openConn(ctx context.Context, path string, flags sqlite3.OpenFlag, params ...string) (*conn, error) {
	db, err := sqlite3.OpenFlags(uri(path, params...), flags|sqlite3.OPEN_URI)
	if err != nil {
		return nil, translate(path, err)
	}
	c := &conn{db: db, path: path, stmts: map[string]*cached{}}
	c.db.SetInterrupt(ctx)
	return c, nil
}

func (c *conn) close() error {
	c.db.SetInterrupt(context.Background())
	for _, s := range c.stmts {
		_ = s.Close() // reports the last step's error again
	}
	return translate(c.path, c.db.Close())
}

// exec runs statements without parameters or rows.
func (c *conn) exec(sql string) error { return translate(c.path, c.db.Exec(sql)) }

func (c *conn) pragma(name string) (v int64, err error) {
	err = (&Rx{c}).Query("PRAGMA "+name, func(r Row) error {
		v = r.Int64(0)
		return nil
	})
	return v, err
}

// stmt returns the prepared form of sql, and what to call when done with it.
func (c *conn) stmt(sql string) (*sqlite3.Stmt, func(), error) {
	s := c.stmts[sql]
	if s != nil && !s.busy {
		s.busy = true
		return s.Stmt, func() {
			_ = s.Reset() // reports the last step's error again
			_ = s.ClearBindings()
			s.busy = false
		}, nil
	}
	prepared, tail, err := c.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, nil, translate(c.path, err)
	}
	if prepared == nil || tail != "" {
		return nil, nil, fmt.Errorf("sqlite: one statement expected in %q", sql)
	}
	if s != nil { // a recursive use: this one is not kept
		return prepared, func() { _ = prepared.Close() }, nil
	}
	c.stmts[sql] = &cached{Stmt: prepared}
	return c.stmt(sql)
}

func (c *conn) run(sql string, row func(Row) error, args []any) (err error) {
	s, done, err := c.stmt(sql)
	if err != nil {
		return err
	}
	defer done()
	if n := s.BindCount(); n != len(args) {
		return fmt.Errorf("sqlite: %d parameters for the %d of %q", len(args), n, sql)
	}
	for i, a := range args {
		if err := bind(s, i+1, a); err != nil {
			return translate(c.path, err)
		}
	}
	for s.Step() {
		if row == nil {
			continue
		}
		if err := row(Row{s}); err != nil {
			return err
		}
	}
	return translate(c.path, s.Err())
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
		return s.BindText(i, v)
	case []byte:
		if v == nil {
			return s.BindNull(i)
		}
		return s.BindBlob(i, v)
	case Text:
		return s.BindRawText(i, v)
	}
	return fmt.Errorf("sqlite: parameter %d: no binding for %T", i, arg)
}

// Text binds bytes as TEXT; a plain []byte binds as BLOB.
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

// Exec runs one statement and returns the number of rows that it changed.
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
