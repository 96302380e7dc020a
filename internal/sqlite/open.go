package sqlite

import (
	"context"
	"fmt"
	"time"

	"pistate/schema"
)

// The settings of every writer, besides the busy timeout (S2). The WAL is bounded without being cut after
// each checkpoint: commits into a WAL that has already grown are 2-3 times faster than into one that grows.
const (
	walAutoCheckpoint = 1000     // pages
	journalSizeLimit  = 32 << 20 // bytes
)

// Open opens the database at a resolved path for writing and creates it, with its directory, if it is
// missing (S5, S7). Nothing is written, created or changed at an existing database before its identity and
// shape are verified (S4).
func Open(ctx context.Context, path string, s Schema) (*DB, error) {
	db := &DB{path: path, schema: s}
	db.queue.run = db.commit
	db.readers.db = db
	// The first switch to WAL and the recovery of a WAL can report BUSY in spite of the timeout.
	for deadline := time.Now().Add(2 * busyTimeout); ; time.Sleep(2 * time.Millisecond) {
		err := inspect(ctx, path, db.verifyUnlessNew)
		if err == nil {
			err = db.openWriter(ctx)
		}
		if err == nil {
			return db, nil
		}
		if !transient(err) || ctx.Err() != nil || time.Now().After(deadline) {
			return nil, err
		}
	}
}

func (db *DB) verifyUnlessNew(rx *Rx) (isNew bool, err error) {
	if isNew, err = db.isNew(rx); err == nil && !isNew {
		err = db.verify(rx)
	}
	return isNew, err
}

// isNew reports whether the schema, or a part of it, is still to be created.
func (db *DB) isNew(rx *Rx) (bool, error) {
	empty, err := isEmpty(rx)
	if err != nil || empty || db.schema.Unfinished == nil {
		return empty, err
	}
	return db.schema.Unfinished(rx)
}

func (db *DB) openWriter(ctx context.Context) (err error) {
	c, err := openWriting(ctx, db.path)
	if err != nil {
		return err
	}
	defer func() {
		c.interrupt(context.Background())
		if err != nil {
			err = join(err, c.close())
		}
	}()
	isNew, err := db.verifyUnlessNew(&Rx{c})
	if err != nil {
		return err
	}
	if err := c.adopt(); err != nil {
		return err
	}
	if err := c.writerSettings(); err != nil {
		return err
	}
	if isNew {
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

// create makes the schema, unless another process did so since isNew looked (S7).
func (db *DB) create(c *conn) (err error) {
	if err := c.begin(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = join(err, c.rollback())
		}
	}()
	tx := &Tx{Rx{c}}
	isNew, err := db.isNew(&tx.Rx)
	if err != nil {
		return err
	}
	if isNew {
		if err := db.schema.Create(tx); err != nil {
			return err
		}
	}
	if err := db.verify(&tx.Rx); err != nil {
		return err
	}
	return c.commit()
}

// verify runs the schema's verification and remembers the schema cookie that it saw.
func (db *DB) verify(rx *Rx) error {
	cookie, err := rx.c.integer("PRAGMA schema_version")
	if err != nil {
		return err
	}
	if err := db.schema.Verify(rx); err != nil {
		return located(db.path, err)
	}
	db.cookie = cookie
	return nil
}

// writerSettings applies the settings of a writer and reads them back (S2): some of them SQLite refuses
// without an error.
func (c *conn) writerSettings() error {
	mode := ""
	err := c.run("PRAGMA journal_mode = WAL", func(r Row) error { mode = r.Text(0); return nil }, nil)
	if err != nil {
		return err
	}
	if mode != "wal" && !c.memory {
		return schema.Errorf(schema.Storage, "%s: journal mode is %q, not WAL: the file system lacks shared memory or locks; put the database on a local disk", c.path, mode)
	}
	for _, s := range []struct {
		name string
		want int64
	}{
		{"synchronous", 2}, // FULL
		{"foreign_keys", 1},
		{"recursive_triggers", 1}, // else REPLACE deletes rows without their triggers
		{"temp_store", 2},         // MEMORY
		{"wal_autocheckpoint", walAutoCheckpoint},
		{"journal_size_limit", journalSizeLimit},
		{"busy_timeout", busyTimeout.Milliseconds()},
	} {
		if err := c.exec(fmt.Sprintf("PRAGMA %s = %d", s.name, s.want)); err != nil {
			return err
		}
		got, err := c.pragma(s.name)
		if err != nil {
			return err
		}
		if got != s.want {
			return schema.Errorf(schema.Storage, "%s: SQLite did not accept %s = %d (it says %d)", c.path, s.name, s.want, got)
		}
	}
	return nil
}
