//go:build !linux && !wasip1

package sqlite

import (
	"errors"
	"os"
)

// inUse can't be known here without opening another file. So a reader shares a -shm file as any other
// connection does.
func inUse(osFile) bool { return true }

// own can't mark a file here: a temporary file whose maker was killed stays.
func own(*os.File) error { return errors.ErrUnsupported }

// moveNew renames a file to a name that must be free.
func moveNew(from, to string) error { return linkNew(from, to) }
