package hostlock

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// zombie is the status of a process that has ended and whose parent has not noticed.
const zombie = 5

func inspect(pid int) state {
	lives := signal(pid)
	if lives == No {
		return state{lives: No}
	}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return state{lives: signal(pid)}
	}
	if info.Proc.P_stat == zombie {
		return state{lives: No}
	}
	began := info.Proc.P_starttime
	return state{lives, fmt.Sprintf("%d.%06d", began.Sec, began.Usec)}
}

func pidSpace() string { return "" }
