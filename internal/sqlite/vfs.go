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

	"pistate/schema"
)

const (
	fileMode fs.FileMode = 0o600
	dirMode  fs.FileMode = 0o700

	vfsName   = "pistate"
	roleParam = "pistate_role"
)

// role says what a connection may do to the files around a database. It travels as a URI parameter.
type role string

const (
	writer role = ""       // makes the files that are missing, with mode 0600
	reader role = "reader" // makes no file, and uses a -shm file only together with another connection
	frozen role = "frozen" // makes no file, takes no lock, and reads a WAL without its -shm file
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
	path, role := name.String(), role(name.URIParameter(roleParam))
	isWAL := flags&vfs.OPEN_WAL != 0
	switch {
	case path == "": // a temporary file without a name: made by the operating system with mode 0600
	case role != writer:
		flags &^= vfs.OPEN_CREATE
		if role == frozen && isWAL {
			flags = flags&^vfs.OPEN_READWRITE | vfs.OPEN_READONLY
		}
	case flags&vfs.OPEN_CREATE != 0:
		if err := createFile(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, flags, err
		}
	}
	file, out, err := v.VFSFilename.OpenFilename(name, flags)
	if isWAL && flags&vfs.OPEN_READWRITE != 0 && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
		// SQLite asks for a writable WAL even on a read-only connection, and is content with less.
		flags = flags&^(vfs.OPEN_READWRITE|vfs.OPEN_CREATE) | vfs.OPEN_READONLY
		file, out, err = v.VFSFilename.OpenFilename(name, flags)
	}
	if err != nil {
		return nil, out, err
	}
	inner, ok := file.(osFile)
	switch {
	case !ok:
	case isWAL:
		if main, ok := vfsutil.UnwrapFile[*mainFile](name.DatabaseFile()); ok {
			main.wal = inner
			file = &walFile{inner, main}
		}
	case flags&vfs.OPEN_MAIN_DB == 0:
	case role == frozen:
		file = &frozenFile{osFile: inner}
	default:
		file = &mainFile{osFile: inner, shmPath: path + "-shm", role: role, alone: role == reader && !inUse(inner)}
	}
	return file, out, nil
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

// mainFile decides how the -shm file comes to be, and keeps an eye on the files that belong together.
type mainFile struct {
	osFile
	shmPath string
	role    role
	alone   bool // for a reader: nobody else had the database open when it was opened

	shm   vfs.SharedMemory // decided at the first use under a lock
	shmID fs.FileInfo      // the -shm file in use
	wal   osFile           // the -wal file while it is open
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
	if f.role == writer {
		_ = createFile(f.shmPath) // if this fails, SQLite's own attempt says why
	}
	info, err := os.Lstat(f.shmPath)
	if f.role == reader && (err != nil || f.alone) {
		// No file has this name, and none can be made: SQLite gets CANTOPEN.
		f.shm = vfs.NewSharedMemory("\x00", vfs.OPEN_MAIN_DB)
	} else {
		f.shm, f.shmID = inner, info
	}
	return f.shm
}

// HasMoved reports whether the database, or the -wal or -shm file in use, is no longer the file at its
// path. SQLite asks too, before it checkpoints and deletes the WAL at the end.
func (f *mainFile) HasMoved() (bool, error) {
	moved, err := f.osFile.HasMoved()
	if !moved && err == nil && f.wal != nil {
		moved, err = f.wal.HasMoved()
	}
	if moved || err != nil || f.shmID == nil {
		return moved, err
	}
	now, err := os.Lstat(f.shmPath)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && !os.SameFile(now, f.shmID), err
}

// walFile tells its database when it is closed.
type walFile struct {
	osFile
	main *mainFile
}

func (f *walFile) Close() error {
	f.main.wal = nil
	return f.osFile.Close()
}

// frozenFile is a database that no process has open. SQLite can read its WAL without a -shm file if it
// believes to have the database for itself; as nothing is locked here, the caller has to see for itself
// whether the files have changed.
type frozenFile struct {
	osFile
	level vfs.LockLevel
}

func (f *frozenFile) Lock(level vfs.LockLevel) error   { f.level = max(f.level, level); return nil }
func (f *frozenFile) Unlock(level vfs.LockLevel) error { f.level = min(f.level, level); return nil }
func (f *frozenFile) CheckReservedLock() (bool, error) { return false, nil }
func (f *frozenFile) LockState() vfs.LockLevel         { return f.level }
func (f *frozenFile) SharedMemory() vfs.SharedMemory   { return nil }

// createFile creates an empty file with mode 0600. It fails with fs.ErrExist if there is one.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	err = f.Chmod(fileMode) // the umask may have taken the owner's bits
	return join(err, f.Close())
}

// createDatabase makes the directory (0700) and the database file (0600) where they are missing. A file
// that exists is neither opened, because closing it would drop the locks of another SQLite in this
// process, nor changed, because it may be anybody's.
func createDatabase(path string) error {
	if err := makeDir(filepath.Dir(path)); err != nil {
		return schema.Errorf(schema.Storage, "create directory %s: %w", filepath.Dir(path), err)
	}
	err := createFile(path)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return schema.Errorf(schema.Storage, "create database: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return schema.Errorf(schema.Storage, "database: %w", err)
	}
	return mustBeFile(path, info)
}

// mustBeFile refuses what can't be a database, before SQLite opens it and waits for a pipe or a device.
func mustBeFile(path string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return schema.Errorf(schema.Invalid, "%s is a directory, not a database file", path)
	case !info.Mode().IsRegular():
		return schema.Errorf(schema.Invalid, "%s is not a regular file", path)
	}
	return nil
}

// restrict takes the permissions of group and others from the files of a database that is known to be
// ours. Its directory belongs to the user.
func restrict(path string) error {
	for _, p := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Lstat(p)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().Perm()&^fileMode == 0 {
			continue
		}
		if err == nil {
			err = os.Chmod(p, info.Mode().Perm()&fileMode)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return schema.Errorf(schema.Storage, "database: %w", err)
		}
	}
	return nil
}

// makeDir is os.MkdirAll with mode 0700 for each directory that it makes, whatever the umask.
func makeDir(path string) error {
	if info, err := os.Stat(path); err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: path, Err: errors.New("exists and is not a directory")}
		}
		return nil
	}
	if parent := filepath.Dir(path); parent != path {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	err := os.Mkdir(path, dirMode)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process was faster
	}
	if err != nil {
		return err
	}
	return os.Chmod(path, dirMode)
}
