package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const setOFDLock = unix.F_OFD_SETLK

// syncData makes the content of a file durable, and of what is known about it only what is needed to read it.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
