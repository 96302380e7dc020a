//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package hostlock

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pistate/schema"
)

// guardTimeout bounds the wait for others, who need milliseconds.
const guardTimeout = 10 * time.Second

// guard excludes everybody else from a critical section until release is called. The file stays: removing
// it would let two into the section, each with a file of its own.
func guard(ctx context.Context, path string) (release func() error, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, storage(err)
	}
	if err := lockFile(ctx, file); err != nil {
		return nil, errors.Join(err, storage(file.Close()))
	}
	if err := file.Chmod(0o600); err != nil { // whatever the umask was when it was created
		return nil, errors.Join(storage(err), storage(file.Close()))
	}
	return file.Close, nil // which ends the exclusion, as the end of the process does
}

func lockFile(ctx context.Context, file *os.File) error {
	for deadline := time.Now().Add(guardTimeout); ; {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return storage(&os.PathError{Op: "lock", Path: file.Name(), Err: err})
		case time.Now().After(deadline):
			return schema.Errorf(schema.Busy, "host lock: %s is kept locked by another process; is one stopped?", file.Name())
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return schema.Errorf(schema.Canceled, "host lock: %w", ctx.Err())
		}
	}
}
