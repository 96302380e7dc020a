package hostlock

import (
	"pistate/schema"
)

// Process names one process for good: another one that gets the same pid later started at another time.
type Process struct {
	PID   int    `json:"pid"`
	Start string `json:"start,omitempty"` // when it started, as the system tells it; "": it does not
	// Space is where the pid counts: pids of another container mean other processes. "": everywhere.
	Space string `json:"space,omitempty"`
}

// Liveness says whether a process is there.
type Liveness string

// What can be said of a process.
const (
	Yes     Liveness = "yes"
	No      Liveness = "no"
	Unknown Liveness = "unknown" // it can't be told, so it must be taken for alive
)

// Find returns the process that has a pid now. Errors: [schema.NotFound]; [schema.Invalid] for what is no
// pid.
func Find(pid int) (Process, error) {
	if pid <= 0 {
		return Process{}, schema.Errorf(schema.Invalid, "pid %d: a number above 0 is expected", pid)
	}
	state := inspect(pid)
	if state.lives == No {
		return Process{}, schema.Errorf(schema.NotFound, "there is no process %d", pid)
	}
	return Process{pid, state.start, pidSpace()}, nil
}

// Lives tells whether the process is there. One that has ended but whose parent has not noticed is gone.
func (p Process) Lives() Liveness {
	if p.Space != pidSpace() {
		return Unknown
	}
	now := inspect(p.PID)
	switch {
	case now.lives != Yes:
		return now.lives
	case now.start == "" || p.Start == "":
		return Unknown
	case now.start != p.Start:
		return No // another process has its pid
	}
	return Yes
}

// unknown says why nobody can tell whether the process lives.
func (p Process) unknown() string {
	if p.Space != pidSpace() {
		return "it belongs to another container"
	}
	return "the system does not tell when it started"
}

// state is what the system says of a pid.
type state struct {
	lives Liveness
	start string // "": unknown
}
