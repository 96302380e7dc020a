package sessionstate

import "os"

// processID asks the host for the number of its process, which is this one to all others.
func processID() int { return int(hostPID()) }

// processLives asks the host.
func processLives(pid int) Liveness {
	switch hostProcessLives(int32(pid)) {
	case 1:
		return Yes
	case 0:
		return No
	}
	return Unknown
}

// mayWrite can't tell here; opening the database will.
func mayWrite(path string) error {
	_, err := os.Stat(path)
	return err
}

//go:wasmimport pistate_host_v1 pid
func hostPID() int32

//go:wasmimport pistate_host_v1 process_lives
func hostProcessLives(pid int32) int32
