package sdk

import "unsafe"

// The host's functions, as package abi names them. ABI.md says what each does.

//go:wasmimport pistate_v1 read
//go:noescape
func hostRead(scope int32, buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport pistate_v1 fetch
//go:noescape
func hostFetch(buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport pistate_v1 write
//go:noescape
func hostWrite(scope int32, ptr unsafe.Pointer, length uint32) int32

//go:wasmimport pistate_v1 drop
//go:noescape
func hostDrop(scope int32) int32

//go:wasmimport pistate_v1 compare_and_write
//go:noescape
func hostCompareAndWrite(scope int32, oldPtr unsafe.Pointer, oldLen uint32, newPtr unsafe.Pointer, newLen uint32) int32

//go:wasmimport pistate_v1 branch_key
//go:noescape
func hostBranchKey(buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport pistate_v1 input
//go:noescape
func hostInput(buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport pistate_v1 output
//go:noescape
func hostOutput(ptr unsafe.Pointer, length uint32) int32

//go:wasmimport pistate_v1 fail
//go:noescape
func hostFail(ptr unsafe.Pointer, length uint32) int32

//go:wasmimport pistate_v1 error_message
//go:noescape
func hostErrorMessage(buf unsafe.Pointer, capacity uint32) int64

//go:wasmexport pistate_v1_call
func call() int32 { return dispatch() }
