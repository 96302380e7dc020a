package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

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
	if f, ok := failureOf(err); ok {
		code, hint = explain(f.code)
	}
	if isFull(err) {
		hint = noSpace
	}
	return &schema.Error{Code: code, Detail: fmt.Sprintf("%s: %v%s", path, err, hint), Err: err}
}

func explain(code resultCode) (schema.Code, string) {
	switch code {
	case codeConstraintUnique, codeConstraintPrimaryKey, codeConstraintRowID:
		return schema.Conflict, ""
	case codeIOLock, codeIORDLock, codeIOUnlock, codeIOCheckReservedLock, codeIOShmOpen, codeIOShmLock, codeIOShmMap:
		return schema.Storage, noLocks
	case codeIOShmSize: // SQLite does not pass on why the -shm file could not grow; this is why it does not
		return schema.Storage, noSpace
	case codeCantOpenSymlink:
		return schema.Replaced, " (a symbolic link has taken the place of the file or of a directory; open it again)"
	}
	switch code.primary() {
	case codeBusy, codeLocked:
		return schema.Busy, " (another process held the database for too long; try again)"
	case codeInterrupted:
		return schema.Canceled, ""
	case codeNotADatabase:
		return schema.Corrupt, " (the file is no SQLite database, or its first page is damaged)"
	case codeCorrupt, codeWrongFormat:
		return schema.Corrupt, " (keep the file and its -wal; restore a backup, or salvage a copy with the sqlite3 program's .recover)"
	case codeConstraint:
		return schema.Invalid, ""
	case codeTooBig:
		return schema.Limit, ""
	case codeFull:
		return schema.Storage, noSpace
	case codeProtocol, codeNoLargeFiles:
		return schema.Storage, noLocks
	case codeReadOnly, codeNoPermission, codeCantOpen, codeUnauthorized:
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
	return errors.Is(err, codeBusy) || errors.Is(err, codeLocked) || errors.Is(err, schema.Busy)
}

// cannotShare reports whether an error means that the -wal or -shm file can't be used together with others
// from here, or that there is a journal to be played back. A file system that refuses locks is not meant:
// reading on without them would be a risk that nobody was told of.
func cannotShare(err error) bool {
	return errors.Is(err, codeCantOpen) || errors.Is(err, codeReadOnly) || errors.Is(err, codeIOShmSize)
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
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
