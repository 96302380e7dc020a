package sessionstate

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"pistate/schema"
)

// Environment is what the location of the database depends on (Y9). The zero value of a field means the
// process's own, except ProjectTrusted: a project's settings count only if the user trusts the project.
type Environment struct {
	DatabasePath   string              // explicit path, absolute; wins over everything
	Cwd            string              // the project directory
	ProjectTrusted bool                // whether <Cwd>/.pi/settings.json counts
	AgentDir       string              // else $PI_CODING_AGENT_DIR, else ~/.pi/agent
	Home           string              // what ~ stands for
	Getenv         func(string) string // nil: os.Getenv
	Report         func(error)         // gets what is wrong with a configured value, once per process
}

// Location is where the database is, and which setting said so.
type Location struct {
	Path   string
	Source string // "explicit", "default" or the settings file
}

// Locate returns the place of states.sqlite: an explicit path; else sessionState.databasePath of the trusted
// project's settings; else that of the agent directory's settings; else <agent-dir>/sessions/states.sqlite.
// A configured value that can't be used is reported, and the default is taken. Nothing is created.
//
// Errors: [schema.Invalid] for an explicit path that isn't absolute, and where there is no home directory to
// find the default in.
func Locate(env Environment) (Location, error) {
	if p := env.DatabasePath; p != "" {
		if !filepath.IsAbs(p) {
			return Location{}, schema.Errorf(schema.Invalid, "database path %q is relative: give an absolute path", p)
		}
		return Location{p, "explicit"}, nil // not cleaned: it means itself (S10)
	}
	agentDir, err := env.agentDir()
	if err != nil {
		return Location{}, err
	}
	def := Location{filepath.Join(agentDir, "sessions", "states.sqlite"), "default"}
	dirs := []string{agentDir}
	if env.ProjectTrusted {
		cwd, err := env.cwd()
		if err != nil {
			return Location{}, err
		}
		dirs = []string{filepath.Join(cwd, ".pi"), agentDir}
	}
	for _, dir := range dirs {
		file := filepath.Join(dir, "settings.json")
		value, found, err := configuredPath(file)
		if err == nil && !found {
			continue
		}
		var path string
		if err == nil {
			path, err = env.usablePath(value, dir)
		}
		if err != nil {
			env.report(schema.Errorf(schema.Invalid, "%s: sessionState.databasePath: %w; using %s", file, err, def.Path))
			return def, nil
		}
		return Location{path, file}, nil
	}
	return def, nil
}

// reported are the messages that this process has given out already.
var reported sync.Map

func (env Environment) report(err error) {
	if _, again := reported.LoadOrStore(err.Error(), true); !again && env.Report != nil {
		env.Report(err)
	}
}

func (env Environment) agentDir() (string, error) {
	getenv := env.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	if env.AgentDir != "" {
		getenv = func(string) string { return env.AgentDir }
	}
	return schema.AgentDir(getenv, env.home)
}

func (env Environment) home() (string, error) {
	if env.Home != "" {
		return env.Home, nil
	}
	return os.UserHomeDir()
}

func (env Environment) cwd() (string, error) {
	if env.Cwd == "" {
		return os.Getwd()
	}
	return filepath.Abs(env.Cwd)
}

// configuredPath reads sessionState.databasePath from a settings file. A missing file or key is no error.
func configuredPath(file string) (value string, found bool, err error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	// Maps, because a struct would also take "sessionstate", which other programs that read the file don't.
	var settings, group map[string]json.RawMessage
	if err := json.Unmarshal(data, &settings); err != nil {
		return "", false, err
	}
	if raw := settings["sessionState"]; raw != nil {
		if err := json.Unmarshal(raw, &group); err != nil {
			return "", false, err
		}
	}
	raw := group["databasePath"]
	if raw == nil {
		return "", false, nil
	}
	if raw[0] != '"' {
		return "", false, schema.Errorf(schema.Invalid, "a string is expected, not %s", raw)
	}
	err = json.Unmarshal(raw, &value)
	return value, err == nil, err
}

// usablePath makes a configured value absolute, relative ones against the directory of their settings, and
// refuses what can't be the path of a database file.
func (env Environment) usablePath(value, dir string) (string, error) {
	if value == "" || strings.ContainsRune(value, 0) {
		return "", schema.Errorf(schema.Invalid, "%q is no path", value)
	}
	path, err := schema.ExpandHome(value, env.home)
	if err != nil {
		return "", err
	}
	if path[0] == '~' {
		return "", schema.Errorf(schema.Invalid, "%q: only ~ and ~/ stand for a home directory", value)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	path = filepath.Clean(path)
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return "", schema.Errorf(schema.Invalid, "%s is not a regular file", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case err != nil && os.IsPathSeparator(value[len(value)-1]):
		return "", schema.Errorf(schema.Invalid, "%q names a directory", value)
	}
	return path, canCreateOrWrite(path)
}

// canCreateOrWrite asks whether this process may write the file, or create it and its directories.
func canCreateOrWrite(path string) error {
	err := mayWrite(path)
	if parent := filepath.Dir(path); errors.Is(err, fs.ErrNotExist) && parent != path {
		return canCreateOrWrite(parent)
	}
	if err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}
