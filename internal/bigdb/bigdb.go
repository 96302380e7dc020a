// Package bigdb makes large workflow databases for benchmarks. It writes rows directly, which takes a
// fraction of the time that the commands would take; what it makes is sound all the same.
package bigdb

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"pistate/store"
)

// Size says how large a database is to be. Each run has as many attempts and events as every other.
type Size struct {
	Runs     int
	Attempts int // of a run, one after another of three nodes
	Events   int // of a run
}

// Million is what a busy installation has after some years: a million events, a hundred thousand attempts and
// five thousand runs.
var Million = Size{Runs: 5000, Attempts: 20, Events: 200}

// start is when the first run was created; a run has a minute.
const (
	start  = int64(1_700_000_000_000)
	minute = int64(60_000)
)

// Build makes a database at a path where there is none.
func Build(ctx context.Context, path string, size Size) (err error) {
	s, err := store.Open(ctx, path, store.Options{AppVersion: "bigdb"})
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	db, err := sqlite3.OpenContext(ctx, "file:"+path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	b := &builder{db: db, size: size, stmts: map[string]*sqlite3.Stmt{}, blobs: map[string][32]byte{}}
	defer func() {
		for _, s := range b.stmts {
			_ = s.Close() // reports the last step's error again
		}
	}()
	// The order that the triggers ask for is kept here by construction, and checked at the end.
	triggers, err := b.dropTriggers()
	if err != nil {
		return err
	}
	if err := db.Exec("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := b.rows(); err != nil {
		return err
	}
	for _, sql := range triggers {
		if err := db.Exec(sql); err != nil {
			return err
		}
	}
	return db.Exec("COMMIT; PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE)")
}

type builder struct {
	db    *sqlite3.Conn
	size  Size
	stmts map[string]*sqlite3.Stmt
	blobs map[string][32]byte

	sequence int64 // of the last event
	effects  int64 // of the last effect
}

func (b *builder) dropTriggers() (sql []string, err error) {
	var names []string
	s, _, err := b.db.Prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY rowid")
	if err != nil {
		return nil, err
	}
	for s.Step() {
		names, sql = append(names, s.ColumnText(0)), append(sql, s.ColumnText(1))
	}
	if err := errors.Join(s.Err(), s.Close()); err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := b.db.Exec("DROP TRIGGER " + name); err != nil {
			return nil, err
		}
	}
	return sql, nil
}

// exec runs a statement with its parameters: nil, int, int64, string or []byte.
func (b *builder) exec(sql string, args ...any) error {
	s := b.stmts[sql]
	if s == nil {
		prepared, _, err := b.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
		if err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		s = prepared
		b.stmts[sql] = s
	}
	for i, a := range args {
		var err error
		switch v := a.(type) {
		case nil:
			err = s.BindNull(i + 1)
		case int:
			err = s.BindInt64(i+1, int64(v))
		case int64:
			err = s.BindInt64(i+1, v)
		case string:
			err = s.BindText(i+1, v)
		case []byte:
			err = s.BindBlob(i+1, v)
		}
		if err != nil {
			return err
		}
	}
	if err := s.Exec(); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return s.Reset()
}

// blob stores JSON once.
func (b *builder) blob(json string) ([]byte, error) {
	digest, known := b.blobs[json]
	if !known {
		digest = sha256.Sum256([]byte(json))
		b.blobs[json] = digest
		err := b.exec("INSERT INTO blobs (digest, media_type, length, bytes, created_at) VALUES (?1, 'application/json', ?2, ?3, ?4)",
			digest[:], len(json), []byte(json), start)
		if err != nil {
			return nil, err
		}
	}
	return digest[:], nil
}
