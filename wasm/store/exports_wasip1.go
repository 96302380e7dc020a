package main

import (
	"unsafe"

	"pistate/wasm/abi"
)

// instance is what the exports act on. Each of them is a method of it, and nothing more.
var instance = func() *reactor {
	host := &hostImports{
		directory: asked(hostDirectory),
		branchKey: asked(hostBranchKey),
		parentKey: asked(hostParentKey),
		message: func(buf []byte) int64 {
			return hostError(unsafe.Pointer(unsafe.SliceData(buf)), uint32(len(buf)))
		},
	}
	return newReactor(surroundings{
		address: func(b []byte) uint32 { return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) },
		tree:    &hostTree{host: host},
		links:   host.followLinks,
	})
}()

//go:wasmexport pistate_abi_version
func exportVersion() int32 { return abi.Version }

//go:wasmexport alloc
func exportAlloc(n uint32) uint32 { return instance.alloc(n) }

//go:wasmexport free
func exportFree(ptr uint32) { instance.free(ptr) }

//go:wasmexport open
func exportOpen(ptr, n uint32) int32 { return int32(instance.open(ptr, n)) }

//go:wasmexport close
func exportClose() int32 { return int32(instance.close()) }

//go:wasmexport call
func exportCall(ptr, n uint32) int64 { return instance.call(ptr, n) }

//go:wasmexport at
func exportAt(pluginPtr, pluginLen, sessionPtr, sessionLen, leafPtr, leafLen uint32, tree int32) int32 {
	return int32(instance.at(span{pluginPtr, pluginLen}, span{sessionPtr, sessionLen}, span{leafPtr, leafLen}, tree))
}

//go:wasmexport read
func exportRead(scope int32, buf, capacity uint32) int64 { return instance.read(scope, buf, capacity) }

//go:wasmexport fetch
func exportFetch(buf, capacity uint32) int64 { return instance.fetch(buf, capacity) }

//go:wasmexport write
func exportWrite(scope int32, ptr, n uint32) int32 {
	return int32(instance.write(scope, span{ptr, n}))
}

//go:wasmexport drop
func exportDrop(scope int32) int32 { return int32(instance.drop(scope)) }

//go:wasmexport compare_and_write
func exportCompareAndWrite(scope int32, oldPtr, oldLen, newPtr, newLen uint32) int32 {
	return int32(instance.compareAndWrite(scope, span{oldPtr, oldLen}, span{newPtr, newLen}))
}

//go:wasmexport branch_key
func exportBranchKey(buf, capacity uint32) int64 { return instance.branchKey(buf, capacity) }

//go:wasmexport error_message
func exportErrorMessage(buf, capacity uint32) int64 { return instance.message(buf, capacity) }

//go:wasmexport error_document
func exportErrorDocument(buf, capacity uint32) int64 { return instance.document(buf, capacity) }

//go:wasmexport entries
func exportEntries(sessionPtr, sessionLen, ptr, n uint32) int32 {
	return int32(instance.entries(span{sessionPtr, sessionLen}, span{ptr, n}))
}

//go:wasmexport forget
func exportForget(sessionPtr, sessionLen uint32) int32 {
	return int32(instance.forget(span{sessionPtr, sessionLen}))
}
