//go:build !linux && !darwin && !wasip1

package sqlite

import (
	"errors"
	"fmt"
	"os"
)

// lockKind is a kind of lock on bytes of a file.
type lockKind int

const (
	noLock lockKind = iota
	readLock
	writeLock
)

// lockBytes can't take the locks that SQLite takes on this system, and a file must not be used without.
func lockBytes(_ *os.File, kind lockKind, _, _ int64) error {
	if kind == noLock {
		return nil
	}
	return fmt.Errorf("no file can be granted on this system (%w): lend the host's own SQLite, or keep the database in memory", errors.ErrUnsupported)
}

// syncData makes the content of a file durable.
func syncData(f *os.File) error { return f.Sync() }
