//go:build lent || (wasip1 && !sqliteinside)

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	c, err := openLent(ctx, newTransport(path), path, modeWrite)
	if err != nil {
		return nil, err
	}
	if err := c.mustBeRecent(); err != nil {
		return nil, join(err, c.close())
	}
	return c, nil
}

// oldestLent is the first SQLite that knows everything that statements use: octet_length, of the functions.
var oldestLent = [2]int{3, 43}

// mustBeRecent refuses an SQLite that would fail at some statement later.
func (c *conn) mustBeRecent() error {
	version := ""
	err := c.run("SELECT sqlite_version()", func(r Row) error { version = r.Text(0); return nil }, nil)
	if err != nil {
		return err
	}
	return recent(version)
}

func recent(version string) error {
	var have [2]int
	if _, err := fmt.Sscanf(version, "%d.%d", &have[0], &have[1]); err != nil {
		return schema.Errorf(schema.Incompatible, "the host's SQLite says that its version is %.40q", version)
	}
	if slices.Compare(have[:], oldestLent[:]) < 0 {
		return schema.Errorf(schema.Incompatible, "the host's SQLite is %s: %d.%d or later is needed; give the host a newer one, or use store-sqlite.wasm",
			version, oldestLent[0], oldestLent[1])
	}
	return nil
}

// Beside reports whether there is a database at a resolved path that isn't empty, and returns the names in its
// directory, sorted.
func Beside(path string) (exists bool, names []string, err error) {
	t := newTransport(path)
	buf := make([]byte, pageSize)
	n := t.beside(buf)
	if n > maxBeside {
		return false, nil, schema.Errorf(schema.Limit, "%s: the directory's names have %d bytes, of at most %d", path, n, maxBeside)
	}
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
