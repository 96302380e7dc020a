//go:build lent || (wasip1 && !sqliteinside)

package sqlite

import (
	"context"
	"errors"

	"pistate/schema"
)

// inspect verifies an existing database, which nothing may change yet (S4).
func inspect(ctx context.Context, path string, verifyUnlessNew func(*Rx) (bool, error)) error {
	c, err := openLent(ctx, newTransport(path), path, modeRead)
	if errors.Is(err, schema.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	err = c.view(ctx, func(rx *Rx) error {
		_, err := verifyUnlessNew(rx)
		return err
	})
	return join(err, c.close()) // which fails as busy if the file changed meanwhile
}

// openWriting opens a database for writing, and creates it if it is missing.
func openWriting(ctx context.Context, path string) (*conn, error) {
	return openLent(ctx, newTransport(path), path, modeWrite)
}

// Beside reports whether there is a database at a resolved path that isn't empty, and returns the names in its
// directory, sorted.
func Beside(path string) (exists bool, names []string, err error) {
	t := newTransport(path)
	buf := make([]byte, pageSize)
	n := t.beside(buf)
	if n > int64(len(buf)) {
		buf = make([]byte, n)
		n = t.beside(buf)
	}
	if n < 0 {
		return false, nil, transportError(t, path, n)
	}
	if n > int64(len(buf)) {
		return false, nil, schema.Errorf(schema.Busy, "%s: the directory grew while it was read; try again", path)
	}
	return readBeside(buf[:n])
}
