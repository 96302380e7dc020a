package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"pistate/schema"
)

// The settings of every writer (S2). The WAL is bounded without being cut after each checkpoint: commits
// into a WAL that has already grown are 2-3 times faster than into one that grows.
const (
	busyTimeout       = 5 * time.Second
	walAutoCheckpoint = 1000     // pages
	journalSizeLimit  = 32 << 20 // bytes
)

// maxReaders is the number of reading connections that a DB opens at most, each when first needed.
const maxReaders = 4

// Schema is what a package knows of the database that it keeps.
type Schema struct {
	// Create makes the schema in an empty database, in the transaction that found it empty.
	Create func(*Tx) error
	// Verify checks identity and shape. It runs when the database is opened and again, inside the
	// transaction, whenever the schema has changed since (S8).
	Verify func(*Rx) error
}

// DB is a database open for writing: one writing connection and a few reading ones. It is safe for
// concurrent use.
type DB struct {
	path   string
	schema Schema

	mu      sync.Mutex // guards the writing connection
	writer  *conn
	cookie  int64 // PRAGMA schema_version of the last verification
	failure error // set once: the file was replaced, or the DB closed

	queue   queue
	readers pool
}

// Open opens the database at a resolved path for writing and creates it, with its directory, if it is
// missing (S5, S7). Nothing is written to an existing file before its identity and shape are verified (S4).
func Open(ctx context.Context, path string, s Schema) (*DB, error) {
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	db := &DB{path: path, schema: s}
	db.queue.run = db.commit
	db.readers.open = func() (*conn, error) { return openLive(path) }
	var err error
	// The first switch to WAL and the recovery of a WAL can report BUSY in spite of the timeout.
	for deadline := time.Now().Add(2 * busyTimeout); ; time.Sleep(2 * time.Millisecond) {
		if err = db.openWriter(ctx); err == nil {
			return db, nil
		}
		if !transient(err) || ctx.Err() != nil || time.Now().After(deadline) {
			return nil, err
		}
	}
}

func (db *DB) openWriter(ctx context.Context) (err error) {
	c, err := openConn(ctx, db.path, sqlite3.OPEN_READWRITE)
	if err != nil {
		return err
	}
	defer func() {
		c.db.SetInterrupt(context.Background())
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if err := c.db.BusyTimeout(busyTimeout); err != nil {
		return translate(db.path, err)
	}
	// Until the file is known to be ours, closing it must not write to it either.
	if err := c.config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true); err != nil {
		return err
	}
	empty, err := isEmpty(&Rx{c})
	if err != nil {
		return err
	}
	if !empty {
		if err := db.verify(&Rx{c}); err != nil {
			return err
		}
	}
	if err := c.config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, false); err != nil {
		return err
	}
	if err := c.writerSettings(); err != nil {
		return err
	}
	if empty {
		if err := db.create(c); err != nil {
			return err
		}
	}
	db.writer = c
	return nil
}

// isEmpty reports whether nobody has written anything to the database yet.
func isEmpty(rx *Rx) (empty bool, err error) {
	var objects, user, app int64
	for _, q := range []struct {
		sql string
		dst *int64
	}{
		{"SELECT count(*) FROM sqlite_schema", &objects},
		{"PRAGMA user_version", &user},
		{"PRAGMA application_id", &app},
	} {
		if _, err := rx.QueryRow(q.sql, func(r Row) error { *q.dst = r.Int64(0); return nil }); err != nil {
			return false, err
		}
	}
	return objects == 0 && user == 0 && app == 0, nil
}

// create makes the schema, unless another process did so since isEmpty looked (S7).
func (db *DB) create(c *conn) (err error) {
	if err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	tx := &Tx{Rx{c}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.rollback())
		}
	}()
	empty, err := isEmpty(&tx.Rx)
	if err != nil {
		return err
	}
	if empty {
		if err := db.schema.Create(tx); err != nil {
			return err
		}
	}
	if err := db.verify(&tx.Rx); err != nil {
		return err
	}
	return c.exec("COMMIT")
}

// verify runs the schema's verification and remembers the schema cookie that it saw.
func (db *DB) verify(rx *Rx) error {
	cookie, err := rx.c.pragma("schema_version")
	if err != nil {
		return err
	}
	if err := db.schema.Verify(rx); err != nil {
		return err
	}
	db.cookie = cookie
	return nil
}

// writerSettings applies the settings of a writer and reads back those that data safety depends on (S2).
func (c *conn) writerSettings() error {
	mode := ""
	err := (&Rx{c}).Query("PRAGMA journal_mode = WAL", func(r Row) error { mode = r.Text(0); return nil })
	if err != nil {
		return err
	}
	if mode != "wal" {
		return schema.Errorf(schema.Storage, "%s: journal mode is %q, not WAL: the file system lacks shared memory or locks; put the database on a local disk", c.path, mode)
	}
	err = c.exec(fmt.Sprintf(`
		PRAGMA synchronous        = FULL;
		PRAGMA foreign_keys       = ON;
		PRAGMA trusted_schema     = OFF;
		PRAGMA temp_store         = MEMORY;
		PRAGMA wal_autocheckpoint = %d;
		PRAGMA journal_size_limit = %d`, walAutoCheckpoint, journalSizeLimit))
	if err != nil {
		return err
	}
	for name, want := range map[string]int64{"synchronous": 2, "foreign_keys": 1} {
		got, err := c.pragma(name)
		if err != nil {
			return err
		}
		if got != want {
			return schema.Errorf(schema.Storage, "%s: SQLite did not accept %s (it says %d)", c.path, name, got)
		}
	}
	return nil
}

func (c *conn) config(op sqlite3.DBConfig, on bool) error {
	_, err := c.db.Config(op, on)
	return translate(c.path, err)
}

// rollback ends a transaction if there still is one: some errors end it by themselves.
func (c *conn) rollback() error {
	if c.db.GetAutocommit() {
		return nil
	}
	return c.exec("ROLLBACK")
}

// Path returns the resolved path.
func (db *DB) Path() string { return db.path }

// Write runs fn in an immediate transaction, and returns when its effects are durable, or undone. fn runs
// once and must not use db itself. Calls that arrive while a transaction is being made share the next one,
// each in its own savepoint: one of them failing leaves the others as they are. When the transaction has
// committed, and before Write returns or any later transaction begins, committed is called, if it isn't nil.
//
// A context that ends before fn has begun makes Write fail with [schema.Canceled] and fn never run;
// once it has begun, the outcome is waited for.
func (db *DB) Write(ctx context.Context, fn func(*Tx) error, committed func()) error {
	return db.queue.do(ctx, &op{fn: fn, committed: committed})
}

// commit runs one batch of operations in one transaction.
func (db *DB) commit(take func() []*op) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.begin(); err != nil {
		finish(take(), err)
		return
	}
	batch := take()
	tx := &Tx{Rx{db.writer}}
	for _, o := range batch {
		if o.runIn(tx, len(batch) > 1); db.writer.db.GetAutocommit() {
			break // SQLite gave up the whole transaction
		}
	}
	if db.writer.db.GetAutocommit() {
		finish(batch, schema.Errorf(schema.Storage, "%s: SQLite rolled the transaction back", db.path))
		return
	}
	if !anyKept(batch) {
		finish(batch, db.writer.rollback())
		return
	}
	if err := db.writer.exec("COMMIT"); err != nil {
		finish(batch, errors.Join(err, db.writer.rollback()))
		return
	}
	finish(batch, nil)
}

// begin starts an immediate transaction on the file that was opened (S9) with the schema that was
// verified (S8).
func (db *DB) begin() error {
	if db.failure != nil {
		return db.failure
	}
	if err := db.writer.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := db.checkInPlace()
	if err == nil {
		err = db.checkSchema()
	}
	if err != nil {
		err = errors.Join(err, db.writer.rollback())
	}
	return err
}

func (db *DB) checkInPlace() error {
	moved, err := db.writer.hasMoved()
	if err != nil {
		return err
	}
	if moved {
		db.failure = schema.Errorf(schema.Replaced, "%s: the file is no longer the one that was opened (moved, removed or replaced); nothing was written; open it again", db.path)
	}
	return db.failure
}

func (db *DB) checkSchema() error {
	cookie, err := db.writer.pragma("schema_version")
	if err != nil || cookie == db.cookie {
		return err
	}
	return db.verify(&Rx{db.writer})
}

// Read runs fn on one consistent snapshot. Several run at the same time; none waits for a writer.
func (db *DB) Read(ctx context.Context, fn func(*Rx) error) error {
	return db.readers.with(ctx, fn)
}

// DataVersion returns a number that changes when another connection, of this process or another, has
// committed; this DB's own writes don't change it.
func (db *DB) DataVersion() (int64, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.failure != nil {
		return 0, db.failure
	}
	return db.writer.pragma("data_version")
}

// Close waits for the writes that have begun and closes every connection. Later calls fail with
// [schema.Closed].
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if errors.Is(db.failure, schema.Closed) {
		return nil
	}
	db.failure = schema.Errorf(schema.Closed, "%s: the database is closed", db.path)
	return errors.Join(db.readers.close(db.failure), db.writer.close())
}
