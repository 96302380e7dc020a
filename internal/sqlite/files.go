//go:build !wasip1

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"pistate/schema"
)

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
		if err == nil && !info.Mode().IsRegular() { // a link would give its target away; SQLite will refuse it
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
