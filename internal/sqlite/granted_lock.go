//go:build !wasip1

package sqlite

import (
	"context"
	"errors"
	"os"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"pistate/schema"
)

// The bytes of a database file that SQLite locks: a reader has a shared lock on all of the last ones, who
// means to write has the reserved one too, and who waits for the readers to leave, or writes, has the pending
// one, which lets no new reader in.
const (
	pendingByte  = 0x40000000
	reservedByte = pendingByte + 1
	sharedBytes  = pendingByte + 2
	sharedCount  = 510
)

// errLocked says that somebody else has a lock that excludes the one asked for.
var errLocked = errors.New("another connection has the database locked")

// Lock changes the lock on the database to one of SQLite's levels: 0 none, 1 shared, 2 reserved or 4 exclusive. The
// way up is one step at a time, or from shared to exclusive, and the way down is to shared or none. The answer
// is SQLite's BUSY if somebody else's lock is in the way, and the level then stays. It never waits.
func (g *GrantedFile) Lock(ctx context.Context, level int32) int64 {
	return g.do(sqlite3.IOERR_LOCK, func() (int64, error) {
		f, err := g.open(grantedMain)
		if err != nil {
			return 0, err
		}
		to := vfs.LockLevel(level)
		switch {
		case level != int32(vfs.LOCK_NONE) && level != int32(vfs.LOCK_SHARED) && level != int32(vfs.LOCK_RESERVED) && level != int32(vfs.LOCK_EXCLUSIVE),
			g.level == vfs.LOCK_NONE && to > vfs.LOCK_SHARED,
			g.level == vfs.LOCK_EXCLUSIVE && to == vfs.LOCK_RESERVED:
			return 0, schema.Errorf(schema.Invalid, "%s: no lock of level %d can follow one of level %d", f.path, level, g.level)
		case to > g.level:
			if err := interrupted(ctx); err != nil {
				return 0, err
			}
			err = raise(f.file, g.level, to)
		case to < g.level:
			err = lower(f.file, to)
		}
		if errors.Is(err, errLocked) {
			return 0, &failure{codeBusy, err}
		}
		if err != nil {
			return 0, err
		}
		g.level = to
		return 0, nil
	})
}

// raise takes the locks that lead to a higher level, or none of them.
func raise(f *os.File, from, to vfs.LockLevel) error {
	switch to {
	case vfs.LOCK_SHARED:
		// Who waits for readers to leave has the pending byte: nobody may overtake them.
		if err := lockBytes(f, readLock, pendingByte, 1); err != nil {
			return err
		}
		err := lockBytes(f, readLock, sharedBytes, sharedCount)
		return join(err, lockBytes(f, noLock, pendingByte, 1))
	case vfs.LOCK_RESERVED:
		return lockBytes(f, writeLock, reservedByte, 1)
	}
	if err := lockBytes(f, writeLock, pendingByte, 1); err != nil {
		return err
	}
	err := lockBytes(f, writeLock, sharedBytes, sharedCount)
	if err != nil {
		err = join(err, lockBytes(f, noLock, pendingByte, 1))
	}
	return err
}

// lower gives up locks down to a level.
func lower(f *os.File, to vfs.LockLevel) error {
	if to == vfs.LOCK_NONE {
		return unlockAll(f)
	}
	if err := lockBytes(f, readLock, sharedBytes, sharedCount); err != nil {
		return err
	}
	return lockBytes(f, noLock, pendingByte, 2)
}

func unlockAll(f *os.File) error { return lockBytes(f, noLock, pendingByte, sharedCount+2) }
