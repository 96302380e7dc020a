package sqlite

import (
	"errors"
	"fmt"
)

// resultCode is a result code of SQLite, extended or not: the same number in every SQLite. As an error it
// matches what SQLite reports with that code; one that isn't extended matches every extension of it.
//
// https://sqlite.org/rescode.html
type resultCode int32

// The codes that mean something here.
const (
	codeNoPermission resultCode = 3
	codeBusy         resultCode = 5
	codeLocked       resultCode = 6
	codeReadOnly     resultCode = 8
	codeInterrupted  resultCode = 9
	codeIOError      resultCode = 10
	codeCorrupt      resultCode = 11
	codeFull         resultCode = 13
	codeCantOpen     resultCode = 14
	codeProtocol     resultCode = 15
	codeTooBig       resultCode = 18
	codeConstraint   resultCode = 19
	codeNoLargeFiles resultCode = 22
	codeUnauthorized resultCode = 23
	codeWrongFormat  resultCode = 24
	codeNotADatabase resultCode = 26

	codeIOUnlock            = codeIOError | 8<<8
	codeIORDLock            = codeIOError | 9<<8
	codeIOCheckReservedLock = codeIOError | 14<<8
	codeIOLock              = codeIOError | 15<<8
	codeIOShmOpen           = codeIOError | 18<<8
	codeIOShmSize           = codeIOError | 19<<8
	codeIOShmLock           = codeIOError | 20<<8
	codeIOShmMap            = codeIOError | 21<<8

	codeCantOpenSymlink = codeCantOpen | 6<<8

	codeConstraintForeignKey = codeConstraint | 3<<8
	codeConstraintPrimaryKey = codeConstraint | 6<<8
	codeConstraintUnique     = codeConstraint | 8<<8
	codeConstraintRowID      = codeConstraint | 10<<8
)

// Error returns the number: the text is SQLite's own, and comes with a failure.
func (c resultCode) Error() string { return fmt.Sprintf("result code %d", int32(c)) }

// primary returns the code without what extends it.
func (c resultCode) primary() resultCode { return c & 0xff }

// failure is what SQLite reports, wherever it runs: its result code and, as the cause, its text.
type failure struct {
	code  resultCode
	cause error
}

func (f *failure) Error() string { return f.cause.Error() }
func (f *failure) Unwrap() error { return f.cause }

func (f *failure) Is(target error) bool {
	c, ok := target.(resultCode)
	return ok && (c == f.code || c == f.code.primary())
}

// failureOf finds what SQLite reported in an error.
func failureOf(err error) (*failure, bool) { return errors.AsType[*failure](err) }
