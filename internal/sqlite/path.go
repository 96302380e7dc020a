//go:build !wasip1

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"pistate/schema"
)

// Resolve returns the path by which one database file is known in this process: absolute, clean, with
// every symbolic link followed as the operating system would. The file and its last directories need not
// exist yet. A link that points nowhere is refused, because creating its target is not what its owner can
// have meant.
func Resolve(path string) (string, error) {
	switch {
	case path == "":
		return "", schema.Errorf(schema.Invalid, "database path is empty: give the path of a file")
	case strings.ContainsRune(path, 0):
		return "", schema.Errorf(schema.Invalid, "database path %q holds a NUL byte", path)
	case os.IsPathSeparator(path[len(path)-1]):
		return "", schema.Errorf(schema.Invalid, "database path %q names a directory: give the path of a file", path)
	}
	path, err := Absolute(path)
	if err != nil {
		return "", err
	}
	return resolveExisting(path, "")
}

// Absolute puts the working directory before a relative path. Unlike filepath.Abs it drops nothing of what the
// path says: "link/.." is not where it began if link leads elsewhere, and a separator at the end means a
// directory (S10).
func Absolute(path string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", schema.Errorf(schema.Storage, "path %q: %w", path, err)
	}
	return dir + string(filepath.Separator) + path, nil
}

// resolveExisting follows the links of the longest part of the path that exists and appends the rest.
func resolveExisting(path, rest string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		return filepath.Join(real, rest), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", schema.Errorf(schema.Storage, "database path %s: %w", path, err)
	}
	if info, lerr := os.Lstat(path); lerr == nil {
		if info.Mode()&fs.ModeSymlink == 0 {
			return resolveExisting(path, rest) // another process has made it since (S7)
		}
		return "", schema.Errorf(schema.Invalid, "database path %s is a symbolic link to something that does not exist", path)
	}
	dir, base := filepath.Split(path)
	for len(dir) > 1 && os.IsPathSeparator(dir[len(dir)-1]) {
		dir = dir[:len(dir)-1]
	}
	if dir == "" || dir == path {
		return "", schema.Errorf(schema.Storage, "database path %s: %w", path, err)
	}
	return resolveExisting(dir, filepath.Join(base, rest))
}

// fileID is what tells one state of a file from another.
type fileID struct {
	info fs.FileInfo // nil: the file does not exist
}

func identify(path string) (fileID, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fileID{}, nil
	}
	return fileID{info}, err
}

func (f fileID) size() int64 {
	if f.info == nil {
		return 0
	}
	return f.info.Size()
}

// same reports whether the file is the same one, with the same size and modification time.
func (f fileID) same(g fileID) bool {
	if f.info == nil || g.info == nil {
		return f.info == nil && g.info == nil
	}
	return os.SameFile(f.info, g.info) && f.info.Size() == g.info.Size() && f.info.ModTime().Equal(g.info.ModTime())
}
