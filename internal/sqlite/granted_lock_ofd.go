//go:build linux || darwin

package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockKind is a kind of lock on bytes of a file.
type lockKind = int16

const (
	noLock    lockKind = unix.F_UNLCK
	readLock  lockKind = unix.F_RDLCK
	writeLock lockKind = unix.F_WRLCK
)

// lockBytes sets the lock on some bytes of a file. It belongs to this descriptor, and not to the process as the
// locks of SQLite in C do: two owners in one process exclude each other too, and both kinds exclude each other.
func lockBytes(f *os.File, kind lockKind, start, length int64) error {
	for {
		lock := unix.Flock_t{Type: kind, Start: start, Len: length}
		err := unix.FcntlFlock(f.Fd(), setOFDLock, &lock)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
			return errLocked
		}
		return err
	}
}
