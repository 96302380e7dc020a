package sqlite

import (
	"context"
	"errors"
	"sync"
	"time"

	"pistate/schema"
)

// Schema is what a package knows of the database that it keeps.
type Schema struct {
	// Create makes the schema in an empty database, in the transaction that found it empty.
	Create func(*Tx) error
	// Unfinished, if it isn't nil, reports whether a database that is not empty still lacks a part of the schema
	// that Create adds.
	Unfinished func(*Rx) (bool, error)
	// Verify checks identity and shape. It runs when the database is opened and again, inside the
	// transaction, whenever the schema has changed since (S8).
	Verify func(*Rx) error
}

// DB is a database open for writing: one writing connection and, where the file can be opened more than once, a
// few reading ones. It is safe for concurrent use.
type DB struct {
	path   string
	schema Schema

	mu      sync.Mutex // guards the writing connection
	writer  *conn
	cookie  int64 // PRAGMA schema_version of the last verification
	failure error // set once: the file was replaced, SQLite failed inside, or the DB was closed

	queue   queue
	readers readers
}

// Path returns the resolved path.
func (db *DB) Path() string { return db.path }

// Write runs fn in an immediate transaction, and returns when its effects are durable, or undone. fn runs
// at most once, on this goroutine or another one, and must not use db itself. Calls that arrive while a transaction is
// being made share the next one, each in its own savepoint: one of them failing leaves the others as they
// are. When the transaction has committed, and before Write returns or any later transaction begins,
// committed is called, if it isn't nil. A panic of either function reaches the caller of Write.
//
// A context that ends before fn has begun makes Write fail with [schema.Canceled] and fn never run;
// once it has begun, the outcome is waited for.
//
// Where the disk is full or fails, SQLite may give up the whole transaction. Write then fails with
// [schema.Storage] for all who shared it, and nothing of theirs is kept.
func (db *DB) Write(ctx context.Context, fn func(*Tx) error, committed func()) error {
	return db.queue.do(ctx, &op{fn: fn, committed: committed})
}

// commit runs one batch of at most so many operations in one transaction. Those who wait for it go on when it has let go of
// the connection, so that none of them has to wait for that too.
func (db *DB) commit(q *queue, most int) {
	var done []*op
	defer func() { release(done) }()
	db.mu.Lock()
	defer db.mu.Unlock()
	waited := q.len()
	err := db.begin() // may wait for another process, while more operations arrive
	if err != nil {
		done = q.take(waited) // those that came later have not waited for as long as they may
		finish(done, err)
		return
	}
	batch := q.take(most)
	outcome := errGone
	defer func() { // also when an operation ends this goroutine
		outcome = join(outcome, db.writer.rollback())
		begun := 0
		for begun < len(batch) && batch[begun].begun {
			begun++
		}
		q.putBack(batch[begun:])
		done = batch[:begun]
		finish(done, outcome)
	}()
	outcome = db.runAll(batch)
}

var errGone = errors.New("sqlite: the function of a write ended its goroutine")

// runAll runs the operations and commits, unless one of them has cost the whole transaction: then the rest
// is left for the next one.
func (db *DB) runAll(batch []*op) error {
	tx := &Tx{Rx{db.writer}}
	for _, o := range batch {
		o.runIn(tx, len(batch) > 1)
		if err := db.writer.broken(); err != nil {
			return err
		}
		if !db.writer.inTransaction() {
			return schema.Errorf(schema.Storage, "%s: SQLite gave up the transaction, and nothing of it was kept (%v)", db.path, o.err)
		}
	}
	if !anyKept(batch) {
		return nil
	}
	return db.writer.commit()
}

// begin starts an immediate transaction on the file that was opened (S9) with the schema that was
// verified (S8).
func (db *DB) begin() error {
	if db.failure != nil {
		return db.failure
	}
	failed := db.writer.begin()
	err := db.mustBeInPlace() // which may also be why it failed
	if err == nil {
		err = failed
	}
	if err == nil {
		err = db.checkSchema()
	}
	if err != nil {
		err = join(err, db.writer.rollback())
	}
	return err
}

// mustBeInPlace fails for ever once the file has been replaced (S9).
func (db *DB) mustBeInPlace() error {
	err := db.writer.inPlace()
	if errors.Is(err, schema.Replaced) {
		db.failure = err
	}
	return err
}

func (db *DB) checkSchema() error {
	cookie, err := db.writer.integer("PRAGMA schema_version")
	if err != nil || cookie == db.cookie {
		return err
	}
	return db.verify(&Rx{db.writer})
}

// Read runs fn on one consistent snapshot. With connections of their own several run at the same time, and none
// waits for a writer. fn must not use db itself. A file that was replaced is not read (S9).
func (db *DB) Read(ctx context.Context, fn func(*Rx) error) error {
	return db.readers.with(ctx, fn)
}

// patience is how long DataVersion waits for the writing connection. A write has it for much less, unless
// it waits for another process.
const patience = 10 * time.Millisecond

// DataVersion returns a number that changes when another connection, of this process or another, has
// committed; this DB's own writes don't change it. known is false if a write that waits for another process
// keeps the number from being read: who needs to know must then read the database itself.
func (db *DB) DataVersion(ctx context.Context) (version int64, known bool, err error) {
	for begin := time.Now(); !db.mu.TryLock(); time.Sleep(patience / 100) {
		if err := ctx.Err(); err != nil {
			return 0, false, translate(db.path, err)
		}
		if time.Since(begin) > patience {
			return 0, false, nil
		}
	}
	defer db.mu.Unlock()
	if db.failure != nil {
		return 0, false, db.failure
	}
	if err := db.mustBeInPlace(); err != nil {
		return 0, false, err
	}
	version, err = db.writer.integer("PRAGMA data_version")
	return version, err == nil, err
}

// Err returns why this DB can't be used any more, as far as it has found out and as far as that can be told without
// waiting for a write.
func (db *DB) Err() error {
	if !db.mu.TryLock() {
		return nil
	}
	defer db.mu.Unlock()
	return db.failure
}

// Close waits for the writes and reads that have begun and closes every connection; it must not be called
// from inside one. Later calls fail with [schema.Closed].
func (db *DB) Close() error {
	db.mu.Lock()
	if errors.Is(db.failure, schema.Closed) {
		db.mu.Unlock()
		return nil
	}
	db.failure = schema.Errorf(schema.Closed, "%s: the database is closed", db.path)
	closed := db.failure
	db.mu.Unlock()
	err := db.readers.close(closed) // first, so that the writer is the last one and leaves no WAL
	return join(err, db.writer.close())
}
