//go:build !wasip1

package sdk

import (
	"unsafe"

	"pistate/schema"
	"pistate/wasm/abi"
)

// Outside an extension there is no host. These answer as one that denies everything, so that programs which
// import the package build, and can be vetted and documented, on every platform.

var denied = abi.Number(schema.Denied)

func hostRead(int32, unsafe.Pointer, uint32) int64                                    { return int64(denied) }
func hostFetch(unsafe.Pointer, uint32) int64                                          { return int64(denied) }
func hostWrite(int32, unsafe.Pointer, uint32) int32                                   { return denied }
func hostDrop(int32) int32                                                            { return denied }
func hostBranchKey(unsafe.Pointer, uint32) int64                                      { return int64(denied) }
func hostInput(unsafe.Pointer, uint32) int64                                          { return int64(denied) }
func hostOutput(unsafe.Pointer, uint32) int32                                         { return denied }
func hostFail(unsafe.Pointer, uint32) int32                                           { return denied }
func hostCompareAndWrite(int32, unsafe.Pointer, uint32, unsafe.Pointer, uint32) int32 { return denied }

func hostErrorMessage(buf unsafe.Pointer, capacity uint32) int64 {
	return int64(copy(unsafe.Slice((*byte)(buf), capacity), "this program does not run as an extension"))
}
