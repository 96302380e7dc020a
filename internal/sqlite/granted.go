//go:build !wasip1 || sqliteinside

package sqlite

import (
	"fmt"
	"io"
	"math"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"

	"pistate/schema"
	"pistate/wasm/abi"
)

// The files of a database that is granted, by their numbers in the import module pistate_file_v1.
const (
	grantedMain    int32 = iota // the database
	grantedWAL                  // its -wal
	grantedJournal              // its -journal
	grantedFiles                // how many there are
)

// grantedSuffixes are the endings of the files' names, by number.
var grantedSuffixes = [grantedFiles]string{"", "-wal", "-journal"}

// maxGranted is the largest size of a file that can be asked for, in bytes: 1 TiB, far more than any of the
// product's databases has. A guest that has gone wrong makes no file of a size that other programs choke on.
const maxGranted = 1 << 40

// cantOpen is SQLite's code for a file that can't be opened.
const cantOpen = sqlite3.ExtendedErrorCode(sqlite3.CANTOPEN)

// grantedPort is what a host offers of one database file and the files beside it: the functions of
// pistate_file_v1. A negative result is an error; [grantedVFS.failure] says how it is read.
type grantedPort interface {
	OpenFile(file, create int32) int64
	CloseFile(file int32) int64
	Delete(file int32) int64
	Exists(file int32) int64                   // 0 or 1
	Size(file int32) int64                     // bytes
	Truncate(file int32, size int64) int64     //
	Sync(file int32) int64                     // until what was written is durable, the file's name included
	Read(file int32, p []byte, o int64) int64  // how many bytes; fewer than asked for at the end of the file
	Write(file int32, p []byte, o int64) int64 // all of them
	Lock(level int32) int64                    // of the database, one of SQLite's levels
	InPlace() int64                            // an error with schema.Replaced if a path has another file, or none
	Beside(p []byte) int64                     // what is at the path and beside it, as packed values; its length
	Error(p []byte) int64                      // the text of the last error, and its length
}

// grantedVFS gives SQLite one granted database, to which it can have one connection at a time. There is no
// shared memory, so that a WAL is used with PRAGMA locking_mode = EXCLUSIVE only.
//
// To be the only owner, a connection takes the exclusive lock with the first lock that SQLite asks for, and
// keeps it until SQLite gives up all locks. Nothing of a database that another process has open is touched.
//
// A connection in another role than that of a writer changes no file: what SQLite writes to play back a
// journal stays in memory.
type grantedVFS struct {
	port   grantedPort
	path   string               // of the database, as SQLite names it; empty while it isn't open
	shadow bool                 // its connection may not change the files
	shades [grantedFiles]*shade // with shadow: the files that SQLite has used, as it left them
}

// FullPathname returns the path as it is: the host has resolved it.
func (v *grantedVFS) FullPathname(path string) (string, error) { return path, nil }

// number returns which of the files has a path.
func (v *grantedVFS) number(path string) (int32, bool) {
	for n, suffix := range grantedSuffixes {
		if v.path != "" && path == v.path+suffix {
			return int32(n), true
		}
	}
	return 0, false
}

// Open is not used: SQLite calls OpenFilename.
func (v *grantedVFS) Open(string, vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	return nil, 0, sqlite3.CANTOPEN
}

// OpenFilename opens one of the granted files. What SQLite keeps in a file of no name, such as the journal
// of a statement, is kept in memory.
func (v *grantedVFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	path := name.String()
	if path == "" {
		return &vfsutil.SliceFile{}, flags, nil
	}
	if flags&vfs.OPEN_MAIN_DB != 0 {
		if v.path != "" {
			return nil, flags, sqlite3.CANTOPEN
		}
		v.path, v.shadow = path, role(name.URIParameter(roleParam)) != writer
	}
	file, err := v.open(path, flags)
	if err != nil {
		if flags&vfs.OPEN_MAIN_DB != 0 {
			v.forget()
		}
		return nil, flags, err
	}
	return file, flags, nil
}

// open opens one of the files.
func (v *grantedVFS) open(path string, flags vfs.OpenFlag) (vfs.File, error) {
	n, ok := v.number(path)
	if !ok {
		return nil, sqlite3.CANTOPEN
	}
	if v.shadow {
		return v.openShadow(n, flags)
	}
	create := int32(0)
	if flags&vfs.OPEN_CREATE != 0 {
		create = 1
	}
	if err := v.failure(v.port.OpenFile(n, create), cantOpen); err != nil {
		return nil, err
	}
	return &grantedFile{vfs: v, number: n}, nil
}

// Delete deletes the WAL or the journal.
func (v *grantedVFS) Delete(path string, _ bool) error {
	n, ok := v.number(path)
	if !ok || n == grantedMain {
		return sqlite3.IOERR_DELETE
	}
	there, err := v.there(n)
	if err != nil {
		return err
	}
	if !there {
		return sqlite3.IOERR_DELETE_NOENT
	}
	if v.shadow {
		return v.deleteShadow(n)
	}
	return v.failure(v.port.Delete(n), sqlite3.IOERR_DELETE)
}

// Access reports whether a file exists. Nothing else exists than what was granted.
func (v *grantedVFS) Access(path string, _ vfs.AccessFlag) (bool, error) {
	n, ok := v.number(path)
	if !ok {
		return false, nil
	}
	return v.there(n)
}

func (v *grantedVFS) there(n int32) (bool, error) {
	if s := v.shades[n]; s != nil {
		return !s.gone, nil
	}
	exists, err := v.result(v.port.Exists(n), sqlite3.IOERR_ACCESS)
	return exists != 0, err
}

// Beside returns whether the database exists and isn't empty, and the names of what is in its directory, in
// order. A name that is no UTF-8 comes with its bytes as they are.
func (v *grantedVFS) Beside() (exists bool, names []string, err error) {
	buf := make([]byte, 4096)
	for {
		n, err := v.result(v.port.Beside(buf), sqlite3.IOERR_ACCESS)
		if err != nil {
			return false, nil, err
		}
		if n <= int64(len(buf)) {
			return readBeside(buf[:n])
		}
		if n > maxBeside {
			return false, nil, fmt.Errorf("the host lists %d bytes of names", n)
		}
		buf = make([]byte, n) // which may be too short again, if files come
	}
}

// forget ends the use of the database.
func (v *grantedVFS) forget() { *v = grantedVFS{port: v.port} }

// failure returns the error of a result; unknown is SQLite's code for an error that SQLite has no code for.
func (v *grantedVFS) failure(result int64, unknown sqlite3.ExtendedErrorCode) error {
	switch {
	case result >= 0:
		return nil
	case result == -int64(sqlite3.BUSY):
		return sqlite3.BUSY // which is asked for again and again: not a case for texts
	case result > codeOffset:
		return vfs.SystemError(v.text(), sqlite3.ExtendedErrorCode(-result))
	}
	code := schema.Storage
	if result >= math.MinInt32 {
		code, _ = abi.CodeOf(int32(result - codeOffset))
	}
	switch code {
	case "":
		code = schema.Storage
	case schema.Limit:
		unknown = sqlite3.ExtendedErrorCode(sqlite3.FULL)
	}
	return vfs.SystemError(schema.Errorf(code, "%w", v.text()), unknown)
}

// result returns a result, or its error.
func (v *grantedVFS) result(n int64, unknown sqlite3.ExtendedErrorCode) (int64, error) {
	return n, v.failure(n, unknown)
}

// hostError is the host's text of an error.
type hostError string

func (e hostError) Error() string { return string(e) }

func (v *grantedVFS) text() error {
	text := make([]byte, abi.MaxMessage)
	n := v.port.Error(text)
	if n < 0 || n > int64(len(text)) {
		return hostError("the host failed and does not say why")
	}
	return hostError(text[:n])
}

// grantedFile is one of the granted files, open.
type grantedFile struct {
	vfs    *grantedVFS
	number int32
	level  vfs.LockLevel // what SQLite believes to have: the host's lock is exclusive whenever it isn't none
}

var _ vfs.FileLockState = &grantedFile{}
var _ vfs.FileHasMoved = &grantedFile{}

// Close gives the file back; the lock ends with the database.
func (f *grantedFile) Close() error {
	v := f.vfs
	if f.number == grantedMain {
		defer v.forget()
	}
	return v.failure(v.port.CloseFile(f.number), sqlite3.IOERR_CLOSE)
}

func (f *grantedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.vfs.result(f.vfs.port.Read(f.number, p, off), sqlite3.IOERR_READ)
	switch {
	case err != nil:
		return 0, err
	case n > int64(len(p)):
		return 0, vfs.SystemError(fmt.Errorf("the host read %d bytes instead of %d", n, len(p)), sqlite3.IOERR_READ)
	case n < int64(len(p)):
		return int(n), io.EOF
	}
	return int(n), nil
}

func (f *grantedFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.vfs.failure(f.vfs.port.Write(f.number, p, off), sqlite3.IOERR_WRITE); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *grantedFile) Truncate(size int64) error {
	return f.vfs.failure(f.vfs.port.Truncate(f.number, size), sqlite3.IOERR_TRUNCATE)
}

func (f *grantedFile) Sync(vfs.SyncFlag) error {
	return f.vfs.failure(f.vfs.port.Sync(f.number), sqlite3.IOERR_FSYNC)
}

func (f *grantedFile) Size() (int64, error) {
	return f.vfs.result(f.vfs.port.Size(f.number), sqlite3.IOERR_FSTAT)
}

// Lock takes the exclusive lock if there is none yet, on the way that SQLite takes to it. What it could not
// have in full it gives back at once, so that two who meet on the way don't wait for each other.
func (f *grantedFile) Lock(level vfs.LockLevel) error {
	if f.level == vfs.LOCK_NONE {
		for _, step := range []vfs.LockLevel{vfs.LOCK_SHARED, vfs.LOCK_RESERVED, vfs.LOCK_EXCLUSIVE} {
			if err := f.vfs.failure(f.vfs.port.Lock(int32(step)), sqlite3.IOERR_LOCK); err != nil {
				_ = f.vfs.port.Lock(int32(vfs.LOCK_NONE))
				return err
			}
		}
	}
	f.level = max(f.level, level)
	return nil
}

func (f *grantedFile) Unlock(level vfs.LockLevel) error {
	f.level = min(f.level, level)
	if f.level > vfs.LOCK_NONE {
		return nil
	}
	return f.vfs.failure(f.vfs.port.Lock(int32(vfs.LOCK_NONE)), sqlite3.IOERR_UNLOCK)
}

// CheckReservedLock is asked under a lock, which is the exclusive one: nobody else has any.
func (f *grantedFile) CheckReservedLock() (bool, error) { return f.level >= vfs.LOCK_RESERVED, nil }

func (f *grantedFile) LockState() vfs.LockLevel { return f.level }

// HasMoved reports whether one of the files in use is no longer the one at its path (S9).
func (f *grantedFile) HasMoved() (bool, error) {
	result := f.vfs.port.InPlace()
	if result == codeOffset+int64(abi.Number(schema.Replaced)) {
		return true, nil
	}
	return false, f.vfs.failure(result, sqlite3.IOERR_FSTAT)
}

// SectorSize and DeviceCharacteristics are those of go-sqlite3's own files.
func (f *grantedFile) SectorSize() int { return 4096 }

func (f *grantedFile) DeviceCharacteristics() vfs.DeviceCharacteristic {
	return vfs.IOCAP_POWERSAFE_OVERWRITE | vfs.IOCAP_SUBPAGE_READ
}
