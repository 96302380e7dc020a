// Package abi names everything that crosses the boundary between an extension and its host: the import
// module, its functions and their signatures, the exports that a guest must have, the scope numbers and
// the wire numbers of the error codes. Host and SDK both use it, so that neither can drift; ../ABI.md
// tells the same for people who write a guest in another language, and is tested against this package.
// It does the same for the boundary between a store module and the program that runs it, for which there is
// ../STORE.md.
//
// Nothing here changes within a version: a new meaning gets a new name, and a new set gets a new [Module].
package abi

import "strings"

// Module is the one import module of an extension. Its suffix is the version of everything in it.
const Module = "pistate_v1"

// The functions of Module. Imports gives their signatures, ABI.md what they do.
const (
	Read            = "read"              // the value of a scope
	Fetch           = "fetch"             // the value that the last read was too large for
	Write           = "write"             // store a value
	Drop            = "drop"              // remove a value
	CompareAndWrite = "compare_and_write" // store a value if the stored one is still the one given
	BranchKey       = "branch_key"        // the key of the branch that the call is on
	Input           = "input"             // the call's input
	Output          = "output"            // set the call's output
	Fail            = "fail"              // say why the call is about to fail
	ErrorMessage    = "error_message"     // the text of the last error
)

// The exports of a guest.
const (
	Memory     = "memory"          // its linear memory; required
	Call       = "pistate_v1_call" // func() -> i32, the entry of every call; required
	Initialize = "_initialize"     // func(), run once before Call, if it is there
	Start      = "_start"          // what a command has instead of Call; refused
)

// The scope argument of the state functions.
const (
	ScopeSession int32 = 0 // one value for the whole session
	ScopeBranch  int32 = 1 // one value for each branch of the session's tree
)

// AbsentLength is the old_len of CompareAndWrite that says "nothing is stored": -1 as an i32.
const AbsentLength uint32 = 0xffffffff

// MaxMessage is the longest text, in bytes, that crosses as a message: what Fail keeps and ErrorMessage gives.
const MaxMessage = 4096

// Type is a WebAssembly value type; its number is the one of the binary format.
type Type byte

// The value types that the ABI uses.
const (
	I32 Type = 0x7f
	I64 Type = 0x7e
)

// String returns the type's name in the text format.
func (t Type) String() string {
	if t == I64 {
		return "i64"
	}
	return "i32"
}

// Func is the signature of one function.
type Func struct {
	Name   string
	Params []Param
	Result Type // 0: it has none
}

// Param is one parameter of a Func.
type Param struct {
	Name string
	Type Type
}

// String returns the signature as the documents write it: "write(scope i32, ptr i32, len i32) -> i32".
func (f Func) String() string {
	params := make([]string, len(f.Params))
	for i, p := range f.Params {
		params[i] = p.Name + " " + p.Type.String()
	}
	signature := f.Name + "(" + strings.Join(params, ", ") + ")"
	if f.Result == 0 {
		return signature
	}
	return signature + " -> " + f.Result.String()
}

// Imports returns the functions of Module, in the order of ABI.md. Functions that give bytes return an i64,
// their length or a negative number; the others return an i32, OK or a negative number.
func Imports() []Func {
	return []Func{
		function(Read, I64, "scope", "buf", "cap"),
		function(Fetch, I64, "buf", "cap"),
		function(Write, I32, "scope", "ptr", "len"),
		function(Drop, I32, "scope"),
		function(CompareAndWrite, I32, "scope", "old_ptr", "old_len", "new_ptr", "new_len"),
		function(BranchKey, I64, "buf", "cap"),
		function(Input, I64, "buf", "cap"),
		function(Output, I32, "ptr", "len"),
		function(Fail, I32, "ptr", "len"),
		function(ErrorMessage, I64, "buf", "cap"),
	}
}

// function makes the signature of a function whose parameters are all i32.
func function(name string, result Type, params ...string) Func {
	f := Func{Name: name, Result: result}
	for _, p := range params {
		f.Params = append(f.Params, Param{Name: p, Type: I32})
	}
	return f
}
