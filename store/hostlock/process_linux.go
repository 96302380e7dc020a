package hostlock

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
)

// The fields of /proc/PID/stat behind the name, which is in parentheses and may itself hold some.
const (
	statState = 0
	statStart = 19 // in clock ticks since the system started
)

func inspect(pid int) state {
	lives := signal(pid)
	if lives == No {
		return state{lives: No}
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, fs.ErrNotExist) && signal(pid) == No {
		return state{lives: No}
	}
	name := bytes.LastIndexByte(stat, ')')
	if err != nil || name < 0 {
		return state{lives: lives}
	}
	fields := strings.Fields(string(stat[name+1:]))
	if len(fields) <= statStart {
		return state{lives: lives}
	}
	if fields[statState] == "Z" || fields[statState] == "X" {
		return state{lives: No}
	}
	if bootID() == "" {
		return state{lives: lives}
	}
	return state{lives, bootID() + "/" + fields[statStart]}
}

// bootID tells one start of the system from another, after which ticks are counted anew.
var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
})

// pidSpace returns the name of the PID namespace.
var pidSpace = sync.OnceValue(func() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
})
