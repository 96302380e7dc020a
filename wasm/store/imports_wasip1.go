package main

import "unsafe"

// The host's functions that the reactor itself asks, as package abi names them.

//go:wasmimport pistate_host_v1 directory
//go:noescape
func hostDirectory(ptr unsafe.Pointer, length uint32, buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport pistate_host_v1 branch_key
//go:noescape
func hostBranchKey(ptr unsafe.Pointer, length uint32, buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport pistate_host_v1 parent_key
//go:noescape
func hostParentKey(ptr unsafe.Pointer, length uint32, buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport pistate_host_v1 error
//go:noescape
func hostError(buf unsafe.Pointer, capacity uint32) int64

// asked makes a question of an import.
func asked(f func(unsafe.Pointer, uint32, unsafe.Pointer, uint32) int64) question {
	return func(text string, buf []byte) int64 {
		return f(unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)), unsafe.Pointer(unsafe.SliceData(buf)), uint32(len(buf)))
	}
}
