//go:build !wasip1 && !lent

package sqlite

import "context"

// chosen is the engine of this build.
type chosen = *native

var _ engine = chosen(nil)

// native returns the connection's SQLite.
func (c *conn) native() *native { return c.chosen }

// inspect verifies an existing database without touching it (S4). Opening it for writing would leave files beside
// it, and play back a journal.
func inspect(ctx context.Context, path string, verifyUnlessNew func(*Rx) (bool, error)) error {
	file, err := identify(path)
	if err != nil || file.size() == 0 {
		return translate(path, err)
	}
	r, err := OpenReader(ctx, path, func(rx *Rx) error {
		_, err := verifyUnlessNew(rx)
		return err
	})
	if err != nil {
		return err
	}
	return r.Close()
}

// openWriting opens a database for writing, and creates it if it is missing.
func openWriting(ctx context.Context, path string) (*conn, error) {
	if err := createDatabase(path); err != nil {
		return nil, err
	}
	c, err := openUnknown(ctx, path)
	if err != nil {
		return nil, err
	}
	return &conn{chosen: c, path: path}, nil
}

// Beside reports whether there is a database at a resolved path that isn't empty, and returns the names in its
// directory, sorted.
func Beside(path string) (exists bool, names []string, err error) { return besideFile(path) }
