package schema

import (
	"os"
	"path/filepath"
	"strings"
)

// AgentDirEnv names the variable that moves Pi's agent directory.
const AgentDirEnv = "PI_CODING_AGENT_DIR"

// AgentDir returns Pi's agent directory, in which both databases have their default places:
// $PI_CODING_AGENT_DIR, else ~/.pi/agent (S1). home is asked only if it matters.
func AgentDir(getenv func(string) string, home func() (string, error)) (string, error) {
	dir := getenv(AgentDirEnv)
	if dir == "" {
		dir = "~/.pi/agent"
	}
	dir, err := ExpandHome(dir, home)
	if err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

// ExpandHome replaces a leading ~ or ~/ by the home directory, and leaves any other path as it is. Errors:
// [Invalid] where there is no home.
func ExpandHome(path string, home func() (string, error)) (string, error) {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && !os.IsPathSeparator(rest[0]) {
		return path, nil
	}
	dir, err := home()
	if err != nil {
		return "", Errorf(Invalid, "%q: there is no home directory (%w): set %s", path, err, AgentDirEnv)
	}
	return filepath.Join(dir, rest), nil
}
