package main

import (
	"pistate/schema"
	"pistate/wasm/abi"
)

// read gives the value of a scope at the place, and keeps one that is too large for the buffer.
func (r *reactor) read(scope int32, ptr, size uint32) (n int64) {
	if !r.enter() {
		return refusedInside
	}
	defer r.leave(&n)
	r.retained = nil
	buf, err := r.window(ptr, size)
	if err != nil {
		return r.failure(err)
	}
	state, err := r.place.state(scope)
	if err != nil {
		return r.failure(err)
	}
	// What fits is appended within the buffer, and costs no memory.
	value, found, err := state.AppendValue(background, &r.place, buf[:0])
	switch {
	case err != nil:
		return r.failure(err)
	case !found:
		return int64(abi.Absent)
	case len(value) > len(buf):
		r.retained = value
	}
	return int64(len(value))
}

// fetch gives the value that the last read was too large for, once.
func (r *reactor) fetch(ptr, size uint32) (n int64) {
	if !r.enter() {
		return refusedInside
	}
	defer r.leave(&n)
	buf, err := r.window(ptr, size)
	if err != nil {
		return r.failure(err)
	}
	if r.retained == nil {
		return r.failure(schema.Errorf(schema.Invalid, "there is nothing to fetch: the last read gave its whole value"))
	}
	if n = abi.Give(buf, r.retained); n <= int64(len(buf)) {
		r.retained = nil
	}
	return n
}

// write stores a value.
func (r *reactor) write(scope int32, value span) (n int64) {
	if !r.enter() {
		return refusedInside
	}
	defer r.leave(&n)
	b, err := r.window(value.ptr, value.n)
	if err != nil {
		return r.failure(err)
	}
	state, err := r.place.state(scope)
	if err != nil {
		return r.failure(err)
	}
	return r.failure(state.Write(background, &r.place, b))
}

// drop removes the value of a scope.
func (r *reactor) drop(scope int32) (n int64) {
	if !r.enter() {
		return refusedInside
	}
	defer r.leave(&n)
	state, err := r.place.state(scope)
	if err != nil {
		return r.failure(err)
	}
	return r.failure(state.Drop(background, &r.place))
}

// compareAndWrite stores a value if the stored one is still old.
func (r *reactor) compareAndWrite(scope int32, old, value span) (n int64) {
	if !r.enter() {
		return refusedInside
	}
	defer r.leave(&n)
	var had []byte // nil: nothing is stored
	var err error
	if old.n != abi.AbsentLength {
		if had, err = r.window(old.ptr, old.n); err != nil {
			return r.failure(err)
		}
	}
	b, err := r.window(value.ptr, value.n)
	if err != nil {
		return r.failure(err)
	}
	state, err := r.place.state(scope)
	if err != nil {
		return r.failure(err)
	}
	return r.failure(state.CompareAndWrite(background, &r.place, had, b))
}

// branchKey gives the key of the branch that the place is on.
func (r *reactor) branchKey(ptr, size uint32) (n int64) {
	if !r.enter() {
		return refusedInside
	}
	defer r.leave(&n)
	buf, err := r.window(ptr, size)
	if err != nil {
		return r.failure(err)
	}
	state, err := r.place.state(abi.ScopeBranch)
	if err != nil {
		return r.failure(err)
	}
	key, ok, err := state.BranchKey(&r.place)
	switch {
	case err != nil:
		return r.failure(err)
	case !ok:
		return int64(abi.Absent)
	case len(key) <= len(buf):
		copy(buf, key)
	}
	return int64(len(key))
}
