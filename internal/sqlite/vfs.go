//go:build !wasip1

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"
)

const (
	fileMode fs.FileMode = 0o600
	dirMode  fs.FileMode = 0o700
)

func init() { vfs.Register(vfsName, secureVFS{vfs.Find("").(vfs.VFSFilename)}) }

// secureVFS is the operating system's VFS with three changes. Every file that SQLite creates through it has
// mode 0600 whatever the umask (S5): the plain one creates -wal and -shm with 0666 less the umask. A
// connection that only reads creates no file at all (I1). And a resolved path is never followed through a
// link that has come since (S10).
type secureVFS struct{ vfs.VFSFilename }

func (v secureVFS) FullPathname(path string) (string, error) {
	full, err := v.VFSFilename.FullPathname(path)
	if full != path && filepath.IsAbs(path) && full != "" {
		return "", sqlite3.CANTOPEN_SYMLINK
	}
	return full, err
}

func (v secureVFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	role := role(name.URIParameter(roleParam))
	var file vfs.File
	var err error
	switch {
	case role == writer:
		file, err = v.openForWriter(name, flags)
	case flags&vfs.OPEN_WAL != 0:
		flags &^= vfs.OPEN_CREATE
		file, flags, err = v.openWALForReader(name, flags, role)
	default:
		// SQLite hears what it wants to hear. Where a database is read-only, it forgets the CHECK
		// constraints, and its integrity check with it: connections that check ask for more than they get.
		flags &^= vfs.OPEN_CREATE
		file, _, err = v.VFSFilename.OpenFilename(name, asReadOnly(flags))
	}
	if err != nil {
		return nil, flags, err
	}
	inner, ok := file.(osFile)
	if !ok {
		return file, flags, nil
	}
	inner = diskFile{inner}
	main, _ := vfsutil.UnwrapFile[*mainFile](name.DatabaseFile())
	switch {
	case flags&vfs.OPEN_MAIN_DB == 0 && (flags&vfs.OPEN_WAL == 0 || main == nil):
		return inner, flags, nil
	case flags&vfs.OPEN_MAIN_DB != 0 && role == frozen:
		return &frozenFile{osFile: inner}, flags, nil
	}
	info, err := inner.Stat()
	if err != nil {
		return nil, flags, join(err, inner.Close())
	}
	opened := &openedFile{name.String(), info}
	if main != nil {
		main.wal = opened
		return &walFile{inner, main}, flags, nil
	}
	return &mainFile{osFile: inner, main: opened, role: role, alone: role == reader && !inUse(inner)}, flags, nil
}

func (v secureVFS) openForWriter(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, error) {
	if path := name.String(); path != "" && flags&vfs.OPEN_CREATE != 0 {
		if err := createFile(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	} // a temporary file has no name, and mode 0600 from the start
	file, _, err := v.VFSFilename.OpenFilename(name, flags)
	return file, err
}

// openWALForReader opens a WAL as writable as it may be: SQLite asks for it even on a read-only connection,
// and is content with less.
func (v secureVFS) openWALForReader(name *vfs.Filename, flags vfs.OpenFlag, role role) (vfs.File, vfs.OpenFlag, error) {
	if role == reader {
		file, out, err := v.VFSFilename.OpenFilename(name, flags)
		if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) {
			return file, out, err
		}
	}
	file, out, err := v.VFSFilename.OpenFilename(name, asReadOnly(flags))
	if role == frozen && errors.Is(err, fs.ErrNotExist) {
		return &vfsutil.SliceFile{}, asReadOnly(flags), nil // no WAL is as good as an empty one
	}
	return file, out, err
}

func asReadOnly(flags vfs.OpenFlag) vfs.OpenFlag {
	return flags&^(vfs.OPEN_READWRITE|vfs.OPEN_CREATE) | vfs.OPEN_READONLY
}

// osFile is everything that the operating system's VFS offers of a database file, but for mapping it into
// memory: reading a map of a file that somebody truncates kills the process.
type osFile interface {
	vfs.FileLockState
	vfs.FileHasMoved
	vfs.FileSizeHint
	vfs.FilePersistWAL
	vfs.FilePowersafeOverwrite
	vfs.FileSharedMemory
	Stat() (fs.FileInfo, error)
	Fd() uintptr
}

// diskFile tells a full disk from a failing one, which the file underneath means to do and does not.
type diskFile struct{ osFile }

func (f diskFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.osFile.WriteAt(p, off)
	if isFull(err) {
		err = vfs.SystemError(err, sqlite3.FULL)
	}
	return n, err
}

// mainFile is a database that others may have open. It decides how the -shm file comes to be, and keeps an
// eye on the files that belong together.
type mainFile struct {
	osFile
	role  role
	alone bool             // for a reader: nobody else had the database open when it was opened
	shm   vfs.SharedMemory // decided at the first use under a lock

	main, wal, index *openedFile // the files in use; index is the -shm file
}

// openedFile is a file as it was opened.
type openedFile struct {
	path string
	info fs.FileInfo
}

// moved reports whether it is no longer the file at its path. A nil file is none.
func (f *openedFile) moved() (bool, error) {
	if f == nil {
		return false, nil
	}
	now, err := os.Lstat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && !os.SameFile(now, f.info), err
}

// Lock refuses a reader what it would need to play back a journal.
func (f *mainFile) Lock(level vfs.LockLevel) error {
	if f.role == reader && level > vfs.LOCK_SHARED {
		return sqlite3.READONLY
	}
	return f.osFile.Lock(level)
}

// SharedMemory is first called when the file is opened, to see whether there is any, and then for each
// operation on it. All operations come under at least a shared lock on the database. Only the last
// connection, under an exclusive lock, deletes the -shm file, so what is found or created here stays.
//
// A reader that finds no other connection must leave a -shm file alone: the first connection to use one
// empties it and builds it anew.
func (f *mainFile) SharedMemory() vfs.SharedMemory {
	if f.shm != nil {
		return f.shm
	}
	inner := f.osFile.SharedMemory()
	if inner == nil || f.LockState() == vfs.LOCK_NONE {
		return inner
	}
	path := f.main.path + "-shm"
	if f.role == writer {
		_ = createFile(path) // if this fails, SQLite's own attempt says why
	}
	info, err := os.Lstat(path)
	if f.role == reader && (err != nil || f.alone) {
		// No file has this name, and none can be made: SQLite gets CANTOPEN.
		f.shm = vfs.NewSharedMemory("\x00", vfs.OPEN_MAIN_DB)
		return f.shm
	}
	if f.shm = inner; err == nil {
		f.index = &openedFile{path, info}
	}
	return f.shm
}

// HasMoved reports whether the database, or the -wal or -shm file in use, is no longer the file at its
// path. SQLite asks too, before it checkpoints and deletes the WAL at the end.
func (f *mainFile) HasMoved() (bool, error) {
	for _, file := range []*openedFile{f.main, f.wal, f.index} {
		if moved, err := file.moved(); moved || err != nil {
			return moved, err
		}
	}
	return false, nil
}

// walFile tells its database when it is closed: WAL mode has ended then, and the -shm file with it.
type walFile struct {
	osFile
	main *mainFile
}

func (f *walFile) Close() error {
	f.main.wal, f.main.shm, f.main.index = nil, nil, nil
	return f.osFile.Close()
}

// frozenFile is a database that no process has open. SQLite reads its WAL without a -shm file because it
// believes to have the database for itself. As nothing is locked, whoever reads it has to see whether the
// files have changed.
type frozenFile struct {
	osFile
	level vfs.LockLevel
}

func (f *frozenFile) Lock(level vfs.LockLevel) error   { f.level = max(f.level, level); return nil }
func (f *frozenFile) Unlock(level vfs.LockLevel) error { f.level = min(f.level, level); return nil }
func (f *frozenFile) CheckReservedLock() (bool, error) { return false, nil }
func (f *frozenFile) LockState() vfs.LockLevel         { return f.level }
func (f *frozenFile) SharedMemory() vfs.SharedMemory   { return nil }
