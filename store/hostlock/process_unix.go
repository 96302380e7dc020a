//go:build unix

package hostlock

import (
	"errors"
	"syscall"
)

// signal asks whether there is a process to send a signal to.
func signal(pid int) Liveness {
	err := syscall.Kill(pid, 0)
	switch {
	case err == nil, errors.Is(err, syscall.EPERM):
		return Yes
	case errors.Is(err, syscall.ESRCH):
		return No
	}
	return Unknown
}
