package cli

import (
	"pistate/internal/sqlite"
	"pistate/sessionstate"
)

// Path makes the path of a database on a command line absolute, and changes nothing else of it (S10).
func Path(path string) (string, error) { return sqlite.Absolute(path) }

// SessionDB returns the session-state database that a command line means: the path given, relative to the
// working directory, or the place that the settings say.
func SessionDB(env *Env, path string, trustProject bool) (string, error) {
	if path != "" {
		abs, err := Path(path)
		if err != nil {
			return "", err
		}
		path = abs
	}
	at, err := sessionstate.Locate(sessionstate.Environment{
		DatabasePath:   path,
		ProjectTrusted: trustProject,
		Report:         func(err error) { env.Warn("%v", err) },
	})
	return at.Path, err
}
