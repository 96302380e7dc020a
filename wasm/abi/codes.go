package abi

import "pistate/schema"

// The numbers that are not errors.
const (
	OK     int32 = 0  // done
	Absent int32 = -1 // there is no such value or key. Not an error: ErrorMessage keeps the text it had
)

// numbers pairs every error code with its number on the wire. The pairs are frozen: a new code is appended
// with the next free number, and no number is ever used again for another code.
var numbers = [...]struct {
	number int32
	code   schema.Code
}{
	{-2, schema.Invalid},
	{-3, schema.Limit},
	{-4, schema.NotFound},
	{-5, schema.StaleRevision},
	{-6, schema.StaleClaim},
	{-7, schema.IllegalTransition},
	{-8, schema.Conflict},
	{-9, schema.AlreadyResolved},
	{-10, schema.Denied},
	{-11, schema.Locked},
	{-12, schema.Busy},
	{-13, schema.Canceled},
	{-14, schema.Incompatible},
	{-15, schema.Corrupt},
	{-16, schema.Replaced},
	{-17, schema.Closed},
	{-18, schema.Storage},
	{-19, schema.Extension},
}

// Number returns the wire number of a code; that of schema.Storage for a code that has none, as
// schema.CodeOf does for an error that carries no code.
func Number(code schema.Code) int32 {
	for _, n := range numbers {
		if n.code == code {
			return n.number
		}
	}
	return Number(schema.Storage)
}

// CodeOf returns the code of a wire number; ok is false for OK, Absent and numbers of no code.
func CodeOf(number int32) (code schema.Code, ok bool) {
	for _, n := range numbers {
		if n.number == number {
			return n.code, true
		}
	}
	return "", false
}
