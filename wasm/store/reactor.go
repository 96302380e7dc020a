package main

import (
	"context"
	"errors"
	"strings"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/store"
	"pistate/wasm/abi"
)

// surroundings are what a reactor can ask the program that runs it, besides the database.
type surroundings struct {
	address func([]byte) uint32 // where bytes lie in the instance's memory
	tree    sessionstate.Tree   // the tree at the place of the current call
	links   func(path string) (string, error)
}

// reactor is the state of one instance. Its methods are the exports: they take what crosses the boundary and
// return what crosses it, and are called one at a time. A method that is called while another one runs, which
// is what a call from within an import is, or any call after a trap, is refused.
type reactor struct {
	memory arena
	host   surroundings
	inside bool  // an export is running, or a trap has ended one
	failed error // the last error; nil: none so far

	// At most one of them is open.
	sessions *sessionstate.Store
	workflow *store.Store
	coherent bool
	inMemory bool // databases of this instance are kept in memory from now on

	place    place
	trees    map[string]*sessionstate.Index // by session
	retained []byte                         // the value that the last read was too large for; nil: none
}

func newReactor(host surroundings) *reactor {
	return &reactor{memory: arena{address: host.address}, host: host, trees: map[string]*sessionstate.Index{}}
}

// background is the context of everything: an end of the call comes from the host's side, through what its
// imports return.
var background = context.Background()

var (
	errInside = schema.Errorf(schema.Invalid, "an export was called while another one had not returned: "+
		"exports are called one at a time, not from within an import; after a trap the instance has to be thrown away")
	errNotOpen     = schema.Errorf(schema.Closed, "no database is open in this instance: call open first")
	errNotSessions = schema.Errorf(schema.Invalid, "a workflow database is open in this instance: it has no session state; send its commands to call")
)

// Every export that can fail is made like this:
//
//	if !r.enter() { return refusedInside }
//	defer r.leave(&result)
//	... result = r.failure(err)
//
// so that nothing gets in twice, and no panic gets out.
func (r *reactor) enter() bool {
	if r.inside {
		r.failed = errInside
		return false
	}
	r.inside = true
	return true
}

// leave ends an export. A panic becomes an error.
func (r *reactor) leave(result *int64) {
	if p := recover(); p != nil {
		*result = r.failure(fault(p))
	}
	r.inside = false
}

func fault(p any) error { return schema.Errorf(schema.Storage, "the program has a fault: %v", p) }

// refusedInside is the result of an export that was called inside another one.
var refusedInside = int64(abi.Number(schema.Invalid))

// failure keeps an error for error_message and error_document and returns its number; OK for nil.
func (r *reactor) failure(err error) int64 {
	if err == nil {
		return int64(abi.OK)
	}
	r.failed = err
	return int64(abi.Number(schema.CodeOf(err)))
}

// window returns the caller's own bytes, to be used before the export returns.
func (r *reactor) window(ptr, n uint32) ([]byte, error) {
	b, ok := r.memory.window(ptr, n)
	if !ok {
		return nil, schema.Errorf(schema.Invalid, "%d bytes at %#x do not lie within one allocation: "+
			"windows are in memory that alloc gave and free has not taken back", n, ptr)
	}
	return b, nil
}

// alloc returns memory that is the caller's until free; 0 if it can't be had.
func (r *reactor) alloc(n uint32) (ptr uint32) {
	if !r.enter() {
		return 0
	}
	var ignored int64
	defer r.leave(&ignored)
	if ptr = r.memory.alloc(n); ptr == 0 {
		r.failure(schema.Errorf(schema.Limit, "%d bytes can't be allocated: %d in %d pieces are not freed yet; at most %d in %d can be had",
			n, r.memory.bytes, len(r.memory.items), arenaBytes, arenaItems))
	}
	return ptr
}

// free takes memory back. What isn't allocated stays as it is.
func (r *reactor) free(ptr uint32) {
	if !r.enter() {
		return
	}
	var ignored int64
	defer r.leave(&ignored)
	if !r.memory.free(ptr) {
		r.failure(schema.Errorf(schema.Invalid, "there is no allocation at %#x to free: it was freed before, or alloc and call never gave it", ptr))
	}
}

// message gives the text of the last error.
func (r *reactor) message(ptr, size uint32) int64 {
	return r.report(ptr, size, func(err error) []byte {
		if err == nil {
			return nil
		}
		return []byte(cut(err.Error()))
	})
}

// document gives the last error as the answer of call would have it.
func (r *reactor) document(ptr, size uint32) int64 {
	return r.report(ptr, size, func(err error) []byte {
		if err == nil {
			return nil
		}
		return refuse("", err)
	})
}

// report gives a form of the last error. Its own errors do not replace it: asking for a text in vain must not lose
// it.
func (r *reactor) report(ptr, size uint32, form func(error) []byte) (n int64) {
	if !r.enter() {
		return refusedInside
	}
	kept := r.failed
	defer func() { r.failed = kept }()
	defer r.leave(&n)
	buf, err := r.window(ptr, size)
	if err != nil {
		return r.failure(err)
	}
	return abi.Give(buf, form(kept))
}

// call carries out a request and returns its answer, which is the caller's. It fails no otherwise than in
// its answer; 0 is the result of a call from within an import, for which there can be none.
func (r *reactor) call(ptr, size uint32) (answer int64) {
	if !r.enter() {
		return 0
	}
	var ignored int64
	defer r.leave(&ignored)
	text := r.answer(ptr, size)
	return packed(r.memory.adopt(text), len(text))
}

func (r *reactor) answer(ptr, size uint32) (text []byte) {
	defer func() {
		if p := recover(); p != nil {
			text = refuse("", fault(p))
		}
	}()
	request, err := r.window(ptr, size)
	switch {
	case err != nil:
		return refuse("", err)
	case r.memory.isFull(): // before anything is done that nobody could be told of
		return refuse("", schema.Errorf(schema.Limit, "%d bytes in %d pieces are not freed yet: free the answers that were read",
			r.memory.bytes, len(r.memory.items)))
	case r.workflow != nil:
		return r.workflow.Dispatch(background, request)
	case r.sessions != nil:
		return r.dispatch(request)
	}
	return refuse("", errNotOpen)
}

// closing ends what is open.
func (r *reactor) closing() error {
	var errs []error
	if r.sessions != nil {
		errs = append(errs, r.sessions.Close())
	}
	if r.workflow != nil {
		errs = append(errs, r.workflow.Close())
	}
	r.sessions, r.workflow, r.retained = nil, nil, nil
	r.place.leave()
	return errors.Join(errs...)
}

// close closes the database. Without one it does nothing.
func (r *reactor) close() (n int64) {
	if !r.enter() {
		return refusedInside
	}
	defer r.leave(&n)
	return r.failure(r.closing())
}

// cut makes a text fit to cross as a message.
func cut(text string) string {
	if len(text) > abi.MaxMessage {
		text = text[:abi.MaxMessage]
	}
	return strings.ToValidUTF8(text, "") // without the character that the cut went through
}
