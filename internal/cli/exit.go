package cli

import (
	"errors"

	"pistate/schema"
)

// The exit codes of every command.
const (
	ExitOK           = 0
	ExitFailedCheck  = 1   // a check ran and found something wrong, or could not run
	ExitUsage        = 2   // the command line or a value on it is wrong
	ExitAbsent       = 3   // no such database, session, row or value
	ExitIncompatible = 4   // a file is not what it should be, or damaged
	ExitRefused      = 5   // a lock, a conflict, an existing target
	ExitExtension    = 6   // an extension failed or hit a limit
	ExitStorage      = 7   // the disk or the operating system failed
	ExitInterrupted  = 130 // stopped by a signal, as shells report it
	ExitUnread       = 141 // whoever read the output has gone, as shells report it
)

// ErrFailedCheck is the error of a check that ran and found something wrong. What it found has been printed.
var ErrFailedCheck = errors.New("the check failed")

// ErrUnread is the error of printing what nobody will read, because the other side of the pipe is closed.
// There is nobody to be told so.
var ErrUnread = errors.New("nobody reads the output any more")

// Silent is an error that only sets the exit code: what it says is the empty output.
type Silent struct{ Code schema.Code }

func (s *Silent) Error() string { return string(s.Code) }

// Is matches the code.
func (s *Silent) Is(target error) bool { return target == error(s.Code) }

// Unwrap gives [ExitCode] the code.
func (s *Silent) Unwrap() error { return s.Code }

// exitCodes is total over schema.Codes.
var exitCodes = map[schema.Code]int{
	schema.Invalid:           ExitUsage,
	schema.NotFound:          ExitAbsent,
	schema.Incompatible:      ExitIncompatible,
	schema.Corrupt:           ExitIncompatible,
	schema.StaleRevision:     ExitRefused,
	schema.StaleClaim:        ExitRefused,
	schema.IllegalTransition: ExitRefused,
	schema.Conflict:          ExitRefused,
	schema.AlreadyResolved:   ExitRefused,
	schema.Denied:            ExitRefused,
	schema.Locked:            ExitRefused,
	schema.Busy:              ExitRefused,
	schema.Replaced:          ExitRefused,
	schema.Limit:             ExitExtension,
	schema.Extension:         ExitExtension,
	schema.Closed:            ExitStorage,
	schema.Storage:           ExitStorage,
	schema.Canceled:          ExitInterrupted,
}

// ExitCode returns the exit code that stands for an error.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrFailedCheck):
		return ExitFailedCheck
	case errors.Is(err, ErrUnread):
		return ExitUnread
	}
	return exitCodes[schema.CodeOf(err)]
}
