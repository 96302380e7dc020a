package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"pistate/schema"
)

// translate turns an error of SQLite into the product's, by its code, never by its text. Errors that
// already carry a code pass unchanged.
func translate(path string, err error) error {
	if err == nil {
		return nil
	}
	var coded *schema.Error
	if errors.As(err, &coded) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &schema.Error{Code: schema.Canceled, Detail: path + ": " + err.Error(), Err: err}
	}
	code, hint := schema.Storage, ""
	var sqliteCode sqlite3.ErrorCode
	if errors.As(err, &sqliteCode) {
		code, hint = explain(sqliteCode)
	}
	return &schema.Error{Code: code, Detail: fmt.Sprintf("%s: %v%s", path, err, hint), Err: err}
}

func explain(code sqlite3.ErrorCode) (schema.Code, string) {
	switch code {
	case sqlite3.BUSY, sqlite3.LOCKED:
		return schema.Busy, " (another process held the database for too long; try again)"
	case sqlite3.INTERRUPT:
		return schema.Canceled, ""
	case sqlite3.NOTADB:
		return schema.Corrupt, " (the file is no SQLite database, or its first page is damaged)"
	case sqlite3.CORRUPT, sqlite3.FORMAT:
		return schema.Corrupt, " (keep the file and its -wal; restore a backup, or salvage a copy with the sqlite3 program's .recover)"
	case sqlite3.CONSTRAINT:
		return schema.Conflict, ""
	case sqlite3.TOOBIG:
		return schema.Limit, ""
	case sqlite3.FULL:
		return schema.Storage, " (no space left; nothing of this command was kept)"
	case sqlite3.PROTOCOL, sqlite3.NOLFS:
		return schema.Storage, " (the file system does not support SQLite's locks; put the database on a local disk)"
	case sqlite3.READONLY, sqlite3.PERM, sqlite3.CANTOPEN, sqlite3.AUTH:
		return schema.Storage, " (check the permissions of the file and its directory)"
	}
	return schema.Storage, ""
}

// transient reports whether trying again later can help.
func transient(err error) bool {
	return errors.Is(err, sqlite3.BUSY) || errors.Is(err, sqlite3.LOCKED) || errors.Is(err, schema.Busy)
}
