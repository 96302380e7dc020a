//go:build !wasip1 || sqliteinside

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"pistate/schema"
)

// vfsName is the name of the VFS that all files are opened with.
const vfsName = "pistate"

// native is a connection of the SQLite in this process, with its prepared statements.
type native struct {
	db      *sqlite3.Conn
	path    string      // as messages name it
	id      fs.FileInfo // the database file that is open; nil where files have no identity
	stmts   map[string]*cached
	failure error // set once SQLite has failed inside: its memory can't be trusted any more
}

// cached is a prepared statement that stays with its connection. The texts are constants of the packages
// above, so their number is small.
type cached struct {
	*sqlite3.Stmt
	kept bool // not a second one for a recursive use
	used bool // in use by an outer query
}

// opening says how a database is opened.
type opening struct {
	role role
	// check is for the verification of a whole database: much memory and a big page cache, and SQLite
	// knows of the CHECK constraints.
	check bool
	// alone locks the database for as long as it is open. Its WAL then needs no shared memory.
	alone bool
}

// role says what a connection may do to the files around a database. It travels as a URI parameter.
type role string

const (
	writer role = ""       // makes the files that are missing, with mode 0600
	reader role = "reader" // makes no file, and uses a -shm file only together with another connection
	frozen role = "frozen" // makes no file, takes no lock, and reads a WAL without its -shm file

	roleParam = "pistate_role"
)

// The memory of a connection is address space that is reserved, and used as needed. When it is used up SQLite fails
// inside, and the connection is lost: there must be more than the largest write takes, which holds the old row and
// the new one several times.
const (
	workMemory  = 512 << 20 // bytes
	checkMemory = 1 << 30   // bytes
	checkCache  = 200 << 10 // KiB
)

// openNative opens what a URI names. The context is used until the caller sets another one.
func openNative(ctx context.Context, path, uri string, o opening) (*native, error) {
	memory := int64(workMemory)
	if o.check {
		memory = checkMemory
	}
	db, err := start(sqlite3.WithMaxMemory(ctx, memory), uri)
	if err != nil {
		return nil, translate(path, reported(err))
	}
	c := &native{db: db, path: path, stmts: map[string]*cached{}}
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
func (c *native) prepare(o opening) error {
	err := c.try(func() error {
		if err := c.identify(); err != nil {
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
	if o.role == frozen || o.alone {
		settings += "PRAGMA locking_mode = EXCLUSIVE;"
	}
	if o.check {
		settings += "PRAGMA cache_size = -" + strconv.Itoa(checkCache)
	} else {
		c.db.Limit(sqlite3.LIMIT_LENGTH, maxRow)
	}
	return c.script(settings)
}

// try makes one call into SQLite. A panic in there must not end the process: SQLite ran out of its memory,
// or met damage that it was not made for.
func (c *native) try(call func() error) (err error) {
	if c.failure != nil {
		return c.failure
	}
	defer func() {
		if p := recover(); p != nil {
			c.failure = schema.Errorf(schema.Storage, "%s: SQLite failed inside: %v (open the database again; if it comes back, verify it)", c.path, p)
			err = c.failure
		}
	}()
	if err := call(); err != nil {
		err = reported(err)
		// SQLite says BUSY as well when it has given up waiting for a lock because the context is over.
		if over := c.db.GetInterrupt().Err(); over != nil && errors.Is(err, codeBusy) {
			err = &failure{codeInterrupted, over}
		}
		return translate(c.path, err)
	}
	return nil
}

// reported notes the result code of an error of SQLite.
func reported(err error) error {
	var code sqlite3.ExtendedErrorCode
	if !errors.As(err, &code) {
		return err
	}
	return &failure{resultCode(code), err}
}

func (c *native) interrupt(ctx context.Context) { c.db.SetInterrupt(ctx) }

func (c *native) broken() error { return c.failure }

func (c *native) changes() int64 { return c.db.Changes() }

func (c *native) inTransaction() bool { return c.failure == nil && !c.db.GetAutocommit() }

func (c *native) unresolved() (n int64, err error) {
	err = c.try(func() (err error) {
		n, _, err = c.db.Status(sqlite3.DBSTATUS_DEFERRED_FKS, false)
		return err
	})
	return n, err
}

func (c *native) inPlace() error {
	moved := false
	err := c.try(func() (err error) {
		moved, err = c.moved()
		return err
	})
	if err == nil && moved {
		err = replaced(c.path)
	}
	return err
}

func (c *native) close() error {
	c.db.SetInterrupt(context.Background())
	failed := c.failure != nil
	c.failure = nil
	err := c.try(func() error {
		for _, s := range slices.Collect(c.db.Stmts()) {
			_ = s.Close() // reports the last step's error again
		}
		return c.db.Close()
	})
	if failed {
		return nil // what went wrong has been reported
	}
	return err
}

func (c *native) script(sql string) error {
	return c.try(func() error { return c.db.Exec(sql) })
}

func (c *native) config(op sqlite3.DBConfig, on bool) error {
	return c.try(func() error {
		_, err := c.db.Config(op, on)
		return err
	})
}

// stmt returns the prepared form of sql, until done.
func (c *native) stmt(sql string) (*cached, error) {
	s := c.stmts[sql]
	if s != nil && !s.used {
		s.used = true
		return s, nil
	}
	prepared, err := c.prepareOne(sql)
	if err != nil {
		return nil, err
	}
	if s != nil { // a recursive use: this one is not kept
		return &cached{Stmt: prepared, used: true}, nil
	}
	s = &cached{Stmt: prepared, kept: true, used: true}
	c.stmts[sql] = s
	return s, nil
}

// prepareOne prepares a text that must be one statement.
func (c *native) prepareOne(sql string) (*sqlite3.Stmt, error) {
	var prepared *sqlite3.Stmt
	var tail string
	err := c.try(func() (err error) {
		prepared, tail, err = c.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
		return err
	})
	if err != nil {
		return nil, err
	}
	if prepared == nil || strings.TrimSpace(tail) != "" {
		_ = c.try(func() error { return prepared.Close() })
		return nil, schema.Errorf(schema.Invalid, "sqlite: one statement expected in %q", sql)
	}
	return prepared, nil
}

// done makes a statement ready for its next use.
func (c *native) done(s *cached) {
	_ = c.try(func() error {
		if !s.kept {
			return s.Close()
		}
		_ = s.Reset() // reports the last step's error again
		return s.ClearBindings()
	})
	s.used = false
}

func (c *native) run(sql string, row func(Row) error, args []any) error {
	s, err := c.stmt(sql)
	if err != nil {
		return err
	}
	defer c.done(s)
	if err := c.bind(s.Stmt, sql, args); err != nil {
		return err
	}
	for {
		more, err := c.step(s.Stmt)
		if err != nil || !more {
			return err
		}
		if row == nil {
			continue
		}
		if err := row(Row{nativeRow{s.Stmt}}); err != nil {
			return err
		}
		if err := s.Err(); err != nil { // of reading a column
			return translate(c.path, reported(err))
		}
	}
}

// step goes to the next row of a statement.
func (c *native) step(s *sqlite3.Stmt) (more bool, err error) {
	err = c.try(func() error {
		more = s.Step()
		return s.Err()
	})
	return more, err
}

func (c *native) bind(s *sqlite3.Stmt, sql string, args []any) error {
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

// nativeRow is the row that a statement is at.
type nativeRow struct{ s *sqlite3.Stmt }

func (r nativeRow) count() int            { return r.s.ColumnCount() }
func (r nativeRow) integer(col int) int64 { return r.s.ColumnInt64(col) }
func (r nativeRow) real(col int) float64  { return r.s.ColumnFloat(col) }
func (r nativeRow) text(col int) string   { return r.s.ColumnText(col) }

func (r nativeRow) kind(col int) byte {
	switch r.s.ColumnType(col) {
	case sqlite3.INTEGER:
		return tagInteger
	case sqlite3.FLOAT:
		return tagReal
	case sqlite3.TEXT:
		return tagText
	case sqlite3.BLOB:
		return tagBlob
	}
	return tagNull
}

func (r nativeRow) bytes(col int) []byte {
	switch r.s.ColumnType(col) {
	case sqlite3.NULL:
		return nil
	case sqlite3.TEXT:
		return append([]byte{}, r.s.ColumnRawText(col)...)
	}
	return append([]byte{}, r.s.ColumnRawBlob(col)...)
}

// uri spells a resolved path so that SQLite opens exactly that file: no character of it is taken for a
// query, a fragment or an escape (S10). The parameters come in pairs.
func uri(path string, params ...string) string {
	q := url.Values{"vfs": {vfsName}}
	for i := 0; i+1 < len(params); i += 2 {
		q.Add(params[i], params[i+1])
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: q.Encode()}
	return u.String()
}
