//go:build unix

package sessionstate

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// processID returns the number of this process.
func processID() int { return os.Getpid() }

// processLives asks the kernel. A process that has died but whose parent has not noticed yet is gone.
func processLives(pid int) Liveness {
	err := syscall.Kill(pid, 0)
	switch {
	case errors.Is(err, syscall.ESRCH):
		return No
	case err != nil && !errors.Is(err, syscall.EPERM):
		return Unknown
	}
	// Linux only; elsewhere there is no such file. The state is the first field after the name, which is
	// in parentheses and may itself hold some.
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if i := bytes.LastIndexByte(stat, ')'); err == nil && i >= 0 && i+2 < len(stat) && (stat[i+2] == 'Z' || stat[i+2] == 'X') {
		return No
	}
	return Yes
}

// mayWrite asks the kernel whether this process may write a file, or create one in a directory.
func mayWrite(path string) error { return unix.Access(path, unix.W_OK) }
