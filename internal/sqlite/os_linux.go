package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// The bytes of a database file on which SQLite keeps its shared locks. In WAL mode every connection holds
// one from its first access until it is closed.
const (
	sharedFirst = 0x40000000 + 2
	sharedSize  = 510
)

// inUse reports whether another connection, of this process or another, holds a lock on the database.
// Not knowing counts as use.
func inUse(f osFile) bool {
	locked, err := lockedByOther(f.Fd(), sharedFirst, sharedSize)
	return locked || err != nil
}

// ownerByte is where the maker of a temporary file marks it as in work. SQLite locks no byte there.
const ownerByte = 1 << 62

// own marks a file as in work until it is closed, also by the death of the process. It fails with errOwned
// if somebody else has done so, and with another error on a file system without locks.
func own(f *os.File) error {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: ownerByte, Len: 1}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return errOwned
	}
	return err
}

func lockedByOther(fd uintptr, start, length int64) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: start, Len: length}
	err := unix.FcntlFlock(fd, unix.F_OFD_GETLK, &lock)
	return lock.Type != unix.F_UNLCK, err
}

// moveNew renames a file to a name that must be free.
func moveNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return linkNew(from, to) // the file system has no such rename
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}
