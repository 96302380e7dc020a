package sqlite

import "os"

// setOFDLock is F_OFD_SETLK of <sys/fcntl.h>.
const setOFDLock = 90

// syncData makes the content of a file durable.
func syncData(f *os.File) error { return f.Sync() }
