// Package sdk is what an extension written in Go imports. An extension registers one function, which the
// host runs for each call, and reaches the state of the session that the call is about:
//
//	func init() {
//		sdk.Handle(func(c *sdk.Call) error {
//			if err := sdk.Session.Write(c.Input()); err != nil {
//				return err
//			}
//			return c.Output([]byte(`"stored"`))
//		})
//	}
//
//	func main() {} // never runs: the host calls the registered function
//
// Build it as a WASI reactor:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o extension.wasm .
//
// Every call runs in a fresh instance: a variable holds nothing from one call to the next, only what was
// written to a [Scope] does. Values, inputs and outputs are JSON documents, handed on byte for byte. Whose
// state it is, which session and which branch are the embedder's choice; there is no argument for them.
//
// Errors are *schema.Error, so errors.Is(err, schema.Locked) works in an extension as it does in a host.
// Outside an extension (any build but GOOS=wasip1) every function fails with schema.Denied.
package sdk

import (
	"errors"
	"unsafe"

	"pistate/schema"
	"pistate/wasm/abi"
)

// Scope is where a value belongs: to the whole session or to one branch of it. There is one value in each.
type Scope int32

// The two scopes.
const (
	Session = Scope(abi.ScopeSession)
	// Branch values are inherited: where the branch has none of its own, Read gives that of the branch
	// which it was forked from. Before the session's first entry there is no branch yet; what is written
	// then is kept in memory and lands on the first branch.
	Branch = Scope(abi.ScopeBranch)
)

// Read returns the scope's value; found is false if there is none. A stored null is a value. The bytes are
// the caller's.
func (s Scope) Read() (value []byte, found bool, err error) {
	value, n := take(
		func(buf unsafe.Pointer, capacity uint32) int64 { return hostRead(int32(s), buf, capacity) },
		hostFetch)
	switch {
	case n == int64(abi.Absent):
		return nil, false, nil
	case n < 0:
		return nil, false, hostError(int32(n))
	}
	return value, true, nil
}

// Write stores the scope's value, durably. It fails with schema.Invalid if value isn't JSON, and with
// schema.Locked while another process holds the session. A value over the host's limit ends the call.
func (s Scope) Write(value []byte) error {
	return hostError(hostWrite(int32(s), unsafe.Pointer(unsafe.SliceData(value)), uint32(len(value))))
}

// Drop removes the scope's own value, if it has one. A branch then has what it inherits, as before its
// first Write.
func (s Scope) Drop() error {
	return hostError(hostDrop(int32(s)))
}

// CompareAndWrite stores value if the stored one still is, byte for byte, old; nil says that there is none.
// It fails with schema.Conflict otherwise: read again, and decide again.
func (s Scope) CompareAndWrite(old, value []byte) error {
	oldLen := uint32(len(old))
	if old == nil {
		oldLen = abi.AbsentLength
	}
	return hostError(hostCompareAndWrite(int32(s),
		unsafe.Pointer(unsafe.SliceData(old)), oldLen,
		unsafe.Pointer(unsafe.SliceData(value)), uint32(len(value))))
}

// BranchKey returns the key of the branch that the call is on, an id of a session entry; ok is false before
// the session's first entry.
func BranchKey() (key string, ok bool, err error) {
	value, n := take(hostBranchKey, hostBranchKey)
	switch {
	case n == int64(abi.Absent):
		return "", false, nil
	case n < 0:
		return "", false, hostError(int32(n))
	}
	return string(value), true, nil
}

// Call is one call of the extension.
type Call struct{}

// Input returns what the embedder passed to the call: a JSON document, null if it passed nothing.
func (*Call) Input() []byte {
	value, n := take(hostInput, hostInput)
	if n < 0 {
		panic(hostError(int32(n))) // only a buffer outside memory fails, and take makes none
	}
	return value
}

// Output sets what the call returns to the embedder, a JSON document; the last one counts. It fails with
// schema.Invalid if value isn't JSON. An output over the host's limit ends the call.
func (*Call) Output(value []byte) error {
	return hostError(hostOutput(unsafe.Pointer(unsafe.SliceData(value)), uint32(len(value))))
}

// take reads what a host function has to give: first into a buffer that is there already, and with again
// into one of the right size if it is larger. n is the length, or the negative number that was returned.
func take(first, again func(unsafe.Pointer, uint32) int64) (value []byte, n int64) {
	n = first(unsafe.Pointer(&scratch), uint32(len(scratch)))
	if n <= int64(len(scratch)) {
		return append([]byte{}, scratch[:max(n, 0)]...), n
	}
	value = make([]byte, n)
	n = again(unsafe.Pointer(unsafe.SliceData(value)), uint32(n))
	return value[:max(n, 0)], n
}

// scratch is large enough for most values; a guest has one thread, so one buffer will do.
var scratch [abi.MaxMessage]byte

// hostError returns what a negative number means, nil for abi.OK.
func hostError(number int32) error {
	if number == abi.OK {
		return nil
	}
	code, ok := abi.CodeOf(number)
	if !ok {
		return schema.Errorf(schema.Storage, "the host answered %d, which this SDK does not know", number)
	}
	n := hostErrorMessage(unsafe.Pointer(&scratch), uint32(len(scratch)))
	return &schema.Error{Code: code, Detail: string(scratch[:max(n, 0)])}
}

// handler answers the calls.
var handler = func(*Call) error {
	return errors.New("the extension has no handler: call sdk.Handle from an init function")
}

// Handle sets the function that answers each call. Use it once, in an init function of package main. An
// error that it returns fails the call, with its text as the reason; the embedder can match the code of a
// schema.Error in it. A panic ends the instance, and the embedder gets what was printed of it.
func Handle(f func(*Call) error) { handler = f }

// dispatch runs the handler and returns the call's result.
func dispatch() int32 {
	err := handler(&Call{})
	if err == nil {
		return abi.OK
	}
	reason := []byte(err.Error())
	hostFail(unsafe.Pointer(unsafe.SliceData(reason)), uint32(len(reason)))
	var coded *schema.Error
	if errors.As(err, &coded) {
		return abi.Number(coded.Code)
	}
	return 1
}
