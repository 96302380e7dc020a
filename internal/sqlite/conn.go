// Package sqlite is the one place where pistate touches SQLite: how a file is found, created, opened,
// locked, written, read, backed up and checked. The packages above it bring SQL and scan rows.
//
// Rx reads and Tx also writes. Only [DB.Write] hands out a Tx, inside an immediate transaction; a [Reader]
// can't make one.
//
// The SQLite is the one in this process (native.go) or one that a host lends to a WebAssembly module without any
// (lent.go, and lender.go on the host's side); both are an engine, and everything above it is the same code. Which
// one it is is decided when the program is built:
//
//	natively                   this process's, with a few connections; readers, checks and backups of files
//	wasip1                     lent, over the import module pistate_sql_v1: one connection
//	wasip1, tag sqliteinside   the module's own: one connection, in memory or to a file that the host grants
//	natively, tag lent         lent by this same process: how the packages above are tested over the packing
package sqlite

import (
	"context"
	"fmt"
	"time"

	"pistate/schema"
)

// busyTimeout is how long a statement waits for the lock of another connection (S2).
const busyTimeout = 5 * time.Second

// maxRow bounds a value, and a row with all its values, in bytes. Five copies of it, which is what overwriting one
// takes in a table without rowids, must fit into the memory of a connection; beyond that SQLite would fail in worse
// ways.
const maxRow = 80 << 20

// engine is an SQLite with one database open: in this process ([native]), or that of a host which lends it
// ([lent]). It is used by one goroutine at a time. Its errors are the product's, and name the file.
type engine interface {
	// run runs one statement, and calls row, if it isn't nil, for each row of its result. An error of row
	// ends the statement and is returned as it is. row may run other statements, and the same one again.
	run(sql string, row func(Row) error, args []any) error
	// script runs several statements without parameters or rows.
	script(sql string) error
	// changes returns how many rows the last INSERT, UPDATE or DELETE changed.
	changes() int64
	// inTransaction reports whether a transaction is open. Some errors end one by themselves.
	inTransaction() bool
	// unresolved returns the number of violated deferred foreign keys so far, or 0 if that can't be told.
	unresolved() (int64, error)
	// inPlace fails with [schema.Replaced] if another file, or none, is where the open one was (S9).
	inPlace() error
	// adopt says that the database is known to be ours: it may be checkpointed when it is closed, and nobody
	// else needs to read it (S5).
	adopt() error
	// measure adds the sizes of the files.
	measure(s *Stat) error
	// interrupt sets the context whose end ends what runs and what waits, until it is set again.
	interrupt(ctx context.Context)
	// broken returns why nothing can be done with the connection any more: SQLite has failed inside.
	broken() error
	// close ends what is open.
	close() error
}

// conn is one connection. Its engine is chosen when the program is built, and where there is one choice the
// compiler knows it: then what is passed to a statement needs no memory of its own.
type conn struct {
	chosen
	path   string
	memory bool // the database is in memory: there is no file, and no WAL
}

// exec runs statements without parameters or rows.
func (c *conn) exec(sql string) error { return c.script(sql) }

func (c *conn) pragma(name string) (v int64, err error) { return c.integer("PRAGMA " + name) }

// integer returns the first column of the one row of a query.
func (c *conn) integer(sql string) (v int64, err error) {
	err = c.run(sql, func(r Row) error {
		v = r.Int64(0)
		return nil
	}, nil)
	return v, err
}

func (c *conn) begin() error  { return c.run("BEGIN IMMEDIATE", nil, nil) }
func (c *conn) commit() error { return c.run("COMMIT", nil, nil) }

// rollback ends a transaction if there still is one: some errors end it by themselves.
func (c *conn) rollback() error {
	if !c.inTransaction() {
		return nil
	}
	return c.run("ROLLBACK", nil, nil)
}

// view runs fn on one snapshot of the connection.
func (c *conn) view(ctx context.Context, fn func(*Rx) error) (err error) {
	c.interrupt(ctx)
	defer c.interrupt(context.Background())
	if err := c.run("BEGIN DEFERRED", nil, nil); err != nil {
		return err
	}
	defer func() {
		c.interrupt(context.Background())
		err = join(err, c.rollback())
	}()
	return fn(&Rx{c})
}

// checkDeferred finds a violated deferred foreign key at the end of the operation that violated it. SQLite
// itself would find it at the commit, and fail all operations that share the transaction.
func (c *conn) checkDeferred() error {
	unresolved, err := c.unresolved()
	if err == nil && unresolved != 0 {
		cause := &failure{codeConstraintForeignKey, textError("sqlite3: constraint failed")}
		err = schema.Errorf(schema.Invalid, "%s: FOREIGN KEY constraint failed: %w", c.path, cause)
	}
	return err
}

func replaced(path string) error {
	return schema.Errorf(schema.Replaced, "%s: this or its -wal or -shm is no longer the file that was opened (moved, removed or replaced); nothing was done; close it and open it again", path)
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
	return tx.c.changes(), nil
}

// Script runs several statements without parameters: DDL.
func (tx *Tx) Script(sql string) error { return tx.c.exec(sql) }

// Row is the current row of a query. Its values are copies; columns count from 0. A value of another type than
// the one that is asked for is converted as SQLite does it; what isn't there is NULL.
type Row struct{ v columns }

// columns are the values of a row.
type columns interface {
	count() int
	kind(col int) byte // a tag of the packing
	integer(col int) int64
	real(col int) float64
	text(col int) string
	bytes(col int) []byte // a copy of a BLOB or TEXT, nil for NULL
}

func (r Row) Int64(col int) int64 { return r.v.integer(col) }
func (r Row) Int(col int) int     { return int(r.v.integer(col)) }
func (r Row) Bool(col int) bool   { return r.v.integer(col) != 0 }
func (r Row) Text(col int) string { return r.v.text(col) }
func (r Row) IsNull(col int) bool { return r.v.kind(col) == tagNull }

// Bytes returns a BLOB or TEXT value; nil for NULL.
func (r Row) Bytes(col int) []byte { return r.v.bytes(col) }

// Value returns the column as nil, int64, float64, string or []byte.
func (r Row) Value(col int) any {
	switch r.v.kind(col) {
	case tagNull:
		return nil
	case tagInteger:
		return r.v.integer(col)
	case tagReal:
		return r.v.real(col)
	case tagText:
		return r.v.text(col)
	}
	return r.v.bytes(col)
}

// Columns returns the number of columns.
func (r Row) Columns() int { return r.v.count() }
