//go:build !wasip1

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"pistate/schema"
)

// besideFile reports whether there is a database at a path, and what else is in its directory.
func besideFile(path string) (exists bool, names []string, err error) {
	file, err := identify(path)
	if err != nil {
		return false, nil, schema.Errorf(schema.Storage, "database: %w", err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, nil, schema.Errorf(schema.Storage, "database directory: %w", err)
	}
	for _, e := range entries { // by name
		names = append(names, e.Name())
	}
	return file.size() > 0, names, nil
}
