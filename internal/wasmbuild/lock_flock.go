//go:build linux || darwin

package wasmbuild

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock waits for the lock on a file, which ends when the file is closed.
func lock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
