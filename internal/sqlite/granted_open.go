//go:build !wasip1

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"pistate/schema"
)

// OpenFile opens one of the files, for reading and writing. With create other than 0 it is created, and the
// database's directory too, if it is missing. The -wal and the -journal can be created by the owner of the
// database only, who means to write then: so this takes the permissions of others away from all files (S5).
func (g *GrantedFile) OpenFile(file, create int32) int64 {
	return g.do(cantOpen, func() (int64, error) {
		name, err := g.name(file)
		if err != nil {
			return 0, err
		}
		if g.files[file] != nil {
			return 0, schema.Errorf(schema.Invalid, "%s is open already", name)
		}
		if err := g.mustBeResolved(); err != nil {
			return 0, err
		}
		created := false
		switch {
		case create == 0:
		case file == grantedMain:
			err = createDatabase(name)
		default:
			created, err = g.createBeside(name)
		}
		if err != nil {
			return 0, err
		}
		f, info, err := openRegular(name)
		if err != nil {
			return 0, err
		}
		g.files[file] = &granted{f, openedFile{name, info}, created}
		if create != 0 && file != grantedMain {
			if err := g.restrict(); err != nil {
				return 0, join(err, g.closeFile(file))
			}
		}
		return 0, nil
	})
}

// restrict takes the permissions of group and others from the files that are open, where they are ours to take.
func (g *GrantedFile) restrict() error {
	for _, f := range g.files {
		if f == nil || f.info.Mode().Perm()&^fileMode == 0 {
			continue
		}
		if err := f.file.Chmod(f.info.Mode().Perm() & fileMode); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// mustBeResolved refuses a path on which a link has taken the place of a directory or of the file (S10).
func (g *GrantedFile) mustBeResolved() error {
	if now, err := Resolve(g.path); err != nil || now != g.path {
		return symlinked(g.path)
	}
	return nil
}

func symlinked(path string) error {
	return schema.Errorf(schema.Replaced, "%s: a symbolic link or another file has taken the place of the file or of a directory; open it again", path)
}

// createBeside creates a file beside the database, if it is missing.
func (g *GrantedFile) createBeside(name string) (created bool, err error) {
	if err := g.mustOwn(); err != nil {
		return false, err
	}
	err = createFile(name)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// openRegular opens what is at a path, if it is a file and no link.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, nil, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil, nil, symlinked(path)
	}
	if err := mustBeFile(path, info); err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	if opened, err := f.Stat(); err != nil || !os.SameFile(opened, info) {
		return nil, nil, join(symlinked(path), f.Close())
	}
	return f, info, nil
}

// CloseFile closes one of the files. With the database its lock ends.
func (g *GrantedFile) CloseFile(file int32) int64 {
	return g.do(sqlite3.IOERR_CLOSE, func() (int64, error) {
		if _, err := g.open(file); err != nil {
			return 0, err
		}
		return 0, g.closeFile(file)
	})
}

func (g *GrantedFile) closeFile(file int32) error {
	f := g.files[file]
	if f == nil {
		return nil
	}
	g.files[file] = nil
	var err error
	if file == grantedMain {
		// A process that is being started may still have a copy of the descriptor, and the lock with it.
		err = unlockAll(f.file)
		g.level = vfs.LOCK_NONE
	}
	return join(err, f.file.Close())
}

// Delete deletes the -wal or the -journal, which must not be open. The owner of the database alone can do so, and
// only while the database is at its path: another one's files are left alone.
func (g *GrantedFile) Delete(file int32) int64 {
	return g.do(sqlite3.IOERR_DELETE, func() (int64, error) {
		name, err := g.name(file)
		switch {
		case err != nil:
			return 0, err
		case file == grantedMain:
			return 0, schema.Errorf(schema.Invalid, "%s: the database itself is not deleted", name)
		case g.files[file] != nil:
			return 0, schema.Errorf(schema.Invalid, "%s is open: close it first", name)
		}
		if err := g.mustOwn(); err != nil {
			return 0, err
		}
		if err := g.mustBeInPlace(); err != nil {
			return 0, err
		}
		err = os.Remove(name)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, &failure{resultCode(sqlite3.IOERR_DELETE_NOENT), err}
		}
		if err != nil {
			return 0, err
		}
		return 0, syncNames(name)
	})
}

// syncNames makes the names in a file's directory durable, where that can be asked for.
func syncNames(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil // a directory that may be entered and not be read: nothing can be done about it
	}
	if err := join(d.Sync(), d.Close()); err != nil {
		return &failure{resultCode(sqlite3.IOERR_DIR_FSYNC), err}
	}
	return nil
}
