package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"

	"pistate/schema"
)

const (
	fileMode fs.FileMode = 0o600
	dirMode  fs.FileMode = 0o700

	vfsName = "pistate"
	// readerParam marks a connection that must not create any file.
	readerParam = "pistate_reader"
)

func init() { vfs.Register(vfsName, secureVFS{vfs.Find("").(vfs.VFSFilename)}) }

// secureVFS is the operating system's VFS with two changes. Every file that SQLite creates through it
// has mode 0600 whatever the umask (S5): the plain one creates -wal and -shm with 0666 less the umask.
// And a connection that carries readerParam creates no file at all (I1).
type secureVFS struct{ vfs.VFSFilename }

func (v secureVFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	path := name.String()
	reader := name.URIParameter(readerParam) != ""
	switch {
	case path == "":
	case reader:
		flags &^= vfs.OPEN_CREATE
	case flags&vfs.OPEN_CREATE != 0:
		if err := createFile(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, flags, err
		}
	}
	file, out, err := v.VFSFilename.OpenFilename(name, flags)
	if err != nil && errors.Is(err, fs.ErrPermission) && flags&(vfs.OPEN_WAL|vfs.OPEN_READWRITE) == vfs.OPEN_WAL|vfs.OPEN_READWRITE {
		// SQLite asks for a writable WAL even on a read-only connection, and is content with less.
		flags = flags&^(vfs.OPEN_READWRITE|vfs.OPEN_CREATE) | vfs.OPEN_READONLY
		file, out, err = v.VFSFilename.OpenFilename(name, flags)
	}
	if err != nil {
		return nil, out, err
	}
	if main, ok := file.(osFile); ok && flags&vfs.OPEN_MAIN_DB != 0 {
		file = &mainFile{osFile: main, shmPath: path + "-shm", reader: reader}
	}
	return file, out, nil
}

// osFile is everything that the operating system's VFS offers of a main database file.
type osFile interface {
	vfs.FileLockState
	vfs.FileHasMoved
	vfs.FileSizeHint
	vfs.FilePersistWAL
	vfs.FilePowersafeOverwrite
	vfs.FileSharedMemory
}

// mainFile decides how the -shm file comes to be.
type mainFile struct {
	osFile
	shm     vfs.SharedMemory // decided at the first use under a lock
	shmPath string
	reader  bool
}

// SharedMemory is first called when the file is opened, to see whether there is any, and then for each
// operation on it. All operations come under at least a shared lock on the database. Only the last
// connection, under an exclusive lock, deletes the -shm file, so what is found or created here stays.
func (f *mainFile) SharedMemory() vfs.SharedMemory {
	if f.shm != nil {
		return f.shm
	}
	inner := f.osFile.SharedMemory()
	if inner == nil || f.LockState() == vfs.LOCK_NONE {
		return inner
	}
	f.shm = inner
	if f.reader {
		if _, err := os.Lstat(f.shmPath); err != nil {
			// A path below a file can't be created: SQLite gets CANTOPEN instead of a new file.
			f.shm = vfs.NewSharedMemory(filepath.Join(f.shmPath, "absent"), vfs.OPEN_MAIN_DB)
		}
	} else {
		_ = createFile(f.shmPath) // if this fails, SQLite's own attempt says why
	}
	return f.shm
}

// hasMoved reports whether the file that is open is no longer the one at its path (S9).
func (c *conn) hasMoved() (bool, error) {
	file, err := c.db.FileControl("main", sqlite3.FCNTL_FILE_POINTER)
	if err != nil {
		return false, translate(c.path, err)
	}
	opened, ok := file.(vfs.File)
	if !ok {
		return false, fmt.Errorf("sqlite: %T is no open file", file)
	}
	main, ok := vfsutil.UnwrapFile[*mainFile](opened)
	if !ok {
		return false, fmt.Errorf("sqlite: %T was not opened here", file)
	}
	moved, err := main.HasMoved()
	return moved, translate(c.path, err)
}

// unwrap returns the innermost file: the checksum layer that go-sqlite3 puts around every main database
// hides the rest of its interface.
func unwrap(file any) any {
	for {
		outer, ok := file.(vfs.FileUnwrap)
		if !ok {
			return file
		}
		file = outer.Unwrap()
	}
}

// createFile creates an empty file with mode 0600. It fails with fs.ErrExist if there is one.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	err = f.Chmod(fileMode) // the umask may have taken the owner's bits
	return errors.Join(err, f.Close())
}

// prepareFile makes the directory (0700) and the database file (0600) where they are missing, and takes
// from an existing file the permissions of others. The file is never opened here if it exists: closing it
// would drop the locks of another SQLite in this process.
func prepareFile(path string) error {
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
	for _, p := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return schema.Errorf(schema.Storage, "database: %w", err)
		case !info.Mode().IsRegular():
			return schema.Errorf(schema.Invalid, "database path %s is not a regular file", p)
		case info.Mode().Perm()&^fileMode != 0:
			if err := os.Chmod(p, fileMode); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				return schema.Errorf(schema.Storage, "database: %w", err)
			}
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
