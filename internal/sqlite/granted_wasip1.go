//go:build sqliteinside

package sqlite

import (
	"unsafe"

	"github.com/ncruces/go-sqlite3/vfs"
)

func init() { vfs.Register(vfsName, &grantedVFS{port: importedPort{}}) }

// importedPort is the host's pistate_file_v1. Only these calls see addresses: the host uses a window while the
// call lasts, and in it neither SQLite's memory nor Go's moves.
type importedPort struct{}

var _ grantedPort = importedPort{}

func (importedPort) OpenFile(file, create int32) int64 { return int64(fileOpen(file, create)) }
func (importedPort) CloseFile(file int32) int64        { return int64(fileClose(file)) }
func (importedPort) Delete(file int32) int64           { return int64(fileDelete(file)) }
func (importedPort) Exists(file int32) int64           { return int64(fileExists(file)) }
func (importedPort) Size(file int32) int64             { return fileSize(file) }
func (importedPort) Truncate(file int32, size int64) int64 {
	return int64(fileTruncate(file, size))
}
func (importedPort) Sync(file int32) int64 { return int64(fileSync(file)) }
func (importedPort) Read(file int32, p []byte, off int64) int64 {
	return int64(fileRead(file, unsafe.Pointer(unsafe.SliceData(p)), uint32(len(p)), off))
}
func (importedPort) Write(file int32, p []byte, off int64) int64 {
	return int64(fileWrite(file, unsafe.Pointer(unsafe.SliceData(p)), uint32(len(p)), off))
}
func (importedPort) Lock(level int32) int64 { return int64(fileLock(level)) }
func (importedPort) InPlace() int64         { return int64(fileInPlace()) }
func (importedPort) Beside(p []byte) int64 {
	return fileBeside(unsafe.Pointer(unsafe.SliceData(p)), uint32(len(p)))
}
func (importedPort) Error(p []byte) int64 {
	return fileError(unsafe.Pointer(unsafe.SliceData(p)), uint32(len(p)))
}

//go:wasmimport pistate_file_v1 open
//go:noescape
func fileOpen(file, create int32) int32

//go:wasmimport pistate_file_v1 close
//go:noescape
func fileClose(file int32) int32

//go:wasmimport pistate_file_v1 delete
//go:noescape
func fileDelete(file int32) int32

//go:wasmimport pistate_file_v1 exists
//go:noescape
func fileExists(file int32) int32

//go:wasmimport pistate_file_v1 size
//go:noescape
func fileSize(file int32) int64

//go:wasmimport pistate_file_v1 truncate
//go:noescape
func fileTruncate(file int32, size int64) int32

//go:wasmimport pistate_file_v1 sync
//go:noescape
func fileSync(file int32) int32

//go:wasmimport pistate_file_v1 read
//go:noescape
func fileRead(file int32, ptr unsafe.Pointer, length uint32, offset int64) int32

//go:wasmimport pistate_file_v1 write
//go:noescape
func fileWrite(file int32, ptr unsafe.Pointer, length uint32, offset int64) int32

//go:wasmimport pistate_file_v1 lock
//go:noescape
func fileLock(level int32) int32

//go:wasmimport pistate_file_v1 in_place
//go:noescape
func fileInPlace() int32

//go:wasmimport pistate_file_v1 beside
//go:noescape
func fileBeside(buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport pistate_file_v1 error
//go:noescape
func fileError(buf unsafe.Pointer, capacity uint32) int64
