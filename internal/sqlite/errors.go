package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	var sqliteCode sqlite3.ExtendedErrorCode
	if errors.As(err, &sqliteCode) {
		code, hint = explain(sqliteCode)
	}
	if isFull(err) {
		hint = noSpace
	}
	return &schema.Error{Code: code, Detail: fmt.Sprintf("%s: %v%s", path, err, hint), Err: err}
}

func explain(code sqlite3.ExtendedErrorCode) (schema.Code, string) {
	switch code {
	case sqlite3.CONSTRAINT_UNIQUE, sqlite3.CONSTRAINT_PRIMARYKEY, sqlite3.CONSTRAINT_ROWID:
		return schema.Conflict, ""
	case sqlite3.IOERR_LOCK, sqlite3.IOERR_RDLOCK, sqlite3.IOERR_UNLOCK, sqlite3.IOERR_CHECKRESERVEDLOCK,
		sqlite3.IOERR_SHMOPEN, sqlite3.IOERR_SHMLOCK, sqlite3.IOERR_SHMMAP:
		return schema.Storage, noLocks
	case sqlite3.IOERR_SHMSIZE: // SQLite does not pass on why the -shm file could not grow; this is why it does not
		return schema.Storage, noSpace
	case sqlite3.CANTOPEN_SYMLINK:
		return schema.Replaced, " (a symbolic link has taken the place of the file or of a directory; open it again)"
	}
	switch code.Code() {
	case sqlite3.BUSY, sqlite3.LOCKED:
		return schema.Busy, " (another process held the database for too long; try again)"
	case sqlite3.INTERRUPT:
		return schema.Canceled, ""
	case sqlite3.NOTADB:
		return schema.Corrupt, " (the file is no SQLite database, or its first page is damaged)"
	case sqlite3.CORRUPT, sqlite3.FORMAT:
		return schema.Corrupt, " (keep the file and its -wal; restore a backup, or salvage a copy with the sqlite3 program's .recover)"
	case sqlite3.CONSTRAINT:
		return schema.Invalid, ""
	case sqlite3.TOOBIG:
		return schema.Limit, ""
	case sqlite3.FULL:
		return schema.Storage, noSpace
	case sqlite3.PROTOCOL, sqlite3.NOLFS:
		return schema.Storage, noLocks
	case sqlite3.READONLY, sqlite3.PERM, sqlite3.CANTOPEN, sqlite3.AUTH:
		return schema.Storage, " (check the permissions of the file and its directory)"
	}
	return schema.Storage, ""
}

const (
	noLocks = " (the file system does not support SQLite's locks; put the database on a local disk)"
	noSpace = " (no space left; nothing of this command was kept)"
)

// located makes an error of the packages above, which know nothing of files, name the file.
func located(path string, err error) error {
	if err == nil || strings.Contains(err.Error(), path) {
		return err
	}
	return &schema.Error{Code: schema.CodeOf(err), Detail: path + ": " + err.Error(), Err: err}
}

// transient reports whether trying again later can help.
func transient(err error) bool {
	return errors.Is(err, sqlite3.BUSY) || errors.Is(err, sqlite3.LOCKED) || errors.Is(err, schema.Busy)
}

// cannotShare reports whether an error means that the -wal or -shm file can't be used together with others
// from here, or that there is a journal to be played back. A file system that refuses locks is not meant:
// reading on without them would be a risk that nobody was told of.
func cannotShare(err error) bool {
	return errors.Is(err, sqlite3.CANTOPEN) || errors.Is(err, sqlite3.READONLY) || errors.Is(err, sqlite3.IOERR_SHMSIZE)
}

// join returns both errors. Unlike errors.Join it returns a single one as it is.
func join(err, second error) error {
	switch {
	case second == nil:
		return err
	case err == nil:
		return second
	}
	return errors.Join(err, second)
}
