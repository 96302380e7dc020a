package schema

import (
	"errors"
	"fmt"
)

// Code says what kind of failure an error is. Its text is the value on every wire (Go API, wasm ABI,
// command protocol) and never changes. A Code is itself an error, so callers match with
// errors.Is(err, schema.Locked).
type Code string

// The codes, by what the caller does next. ExitCode maps them to process exit codes.
const (
	// Fix the request.
	Invalid Code = "invalid" // malformed argument, value or setting
	Limit   Code = "limit"   // larger, longer or more than a documented limit

	// Look again: the thing is not there, or not what the caller believed.
	NotFound          Code = "not_found"          // no such database, row, entry or key
	StaleRevision     Code = "stale_revision"     // the resource has another revision than expected
	StaleClaim        Code = "stale_claim"        // the lease or lock was lost, taken over or has expired
	IllegalTransition Code = "illegal_transition" // the domain state does not allow the command
	Conflict          Code = "conflict"           // another value under the same identity, or an existing target
	AlreadyResolved   Code = "already_resolved"   // the decision has its winner

	// Wait, or ask somebody.
	Denied   Code = "denied"   // the actor may not do this
	Locked   Code = "locked"   // somebody else holds the session lock or the lease
	Busy     Code = "busy"     // SQLite's own lock was not free in time
	Canceled Code = "canceled" // the caller's context ended first

	// Stop using this database or file.
	Incompatible Code = "incompatible" // not this product's database, or another version of it
	Corrupt      Code = "corrupt"      // damaged, or logically inconsistent
	Replaced     Code = "replaced"     // the file at the path is no longer the one that was opened
	Closed       Code = "closed"       // used after Close
	Storage      Code = "storage"      // the disk or the operating system failed

	// An extension's own failure.
	Extension Code = "extension" // it trapped, exited or returned a failure
)

// Codes lists every code, in the order in which the documentation prints them.
func Codes() []Code {
	return []Code{
		Invalid, Limit,
		NotFound, StaleRevision, StaleClaim, IllegalTransition, Conflict, AlreadyResolved,
		Denied, Locked, Busy, Canceled,
		Incompatible, Corrupt, Replaced, Closed, Storage,
		Extension,
	}
}

// Error returns the code's text.
func (c Code) Error() string { return string(c) }

// Error is the one error type that crosses the product's boundaries.
type Error struct {
	Code   Code   `json:"code"`
	Op     string `json:"op,omitempty"`     // what was being done: "session.write"
	Detail string `json:"detail,omitempty"` // what is wrong, where, and what to do; for people, may change
	Err    error  `json:"-"`                // the cause; never crosses a process or wasm boundary
}

// Error returns the operation and the detail; without a detail the cause, without a cause the code.
func (e *Error) Error() string {
	text := e.Detail
	switch {
	case text != "":
	case e.Err != nil:
		text = e.Err.Error()
	default:
		text = string(e.Code)
	}
	if e.Op == "" {
		return text
	}
	return e.Op + ": " + text
}

// Is matches the error's code, so that errors.Is(err, schema.Busy) works on any wrapping of it.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an *Error whose Detail is the formatted text and whose cause is the operand of %w, if any.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Detail: err.Error(), Err: errors.Unwrap(err)}
}

// CodeOf returns the code of the outermost coded error in err's tree: "" for nil, Storage for an error
// that carries none.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	var c Code
	if errors.As(err, &c) {
		return c
	}
	return Storage
}
