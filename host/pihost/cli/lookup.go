package cli

import (
	"errors"

	"pistate/internal/cli"
	"pistate/sessionstate"
)

// lookUp finds the value that a read would return in a database to which nothing is written: on read-only media, or
// in somebody else's directory.
func (f stateFlags) lookUp(env *cli.Env, file *sessionstate.SessionFile, sc sessionstate.SessionContext) (value []byte, found bool, err error) {
	path, err := f.path(env)
	if err != nil {
		return nil, false, err
	}
	keys, err := f.keys(file, sc)
	if err != nil {
		return nil, false, err
	}
	r, err := sessionstate.OpenReader(env, path)
	if err != nil {
		return nil, false, err
	}
	l := lookup{env, r, sessionstate.Filter{Plugin: f.Plugin, Session: sc.SessionID()}}
	value, found, err = l.first(keys)
	return value, found, errors.Join(err, r.Close())
}

// keys are the keys under which the value may be, from the leaf's own to the root's (Y2, Y3).
func (f stateFlags) keys(file *sessionstate.SessionFile, sc sessionstate.SessionContext) (keys []string, err error) {
	if f.Scope == sessionstate.ScopeSession {
		return []string{""}, nil
	}
	if sc.Leaf() == "" {
		return nil, nil
	}
	key, err := file.BranchKey(sc.Leaf())
	for ok := true; ok && err == nil; key, ok, err = file.ParentKey(key) {
		keys = append(keys, key)
	}
	return keys, err
}

// lookup looks for a plugin's values in a session.
type lookup struct {
	env  *cli.Env
	r    *sessionstate.Reader
	rows sessionstate.Filter
}

// first returns the first value that there is under one of some keys.
func (l lookup) first(keys []string) (value []byte, found bool, err error) {
	before, err := l.places()
	if err != nil {
		return nil, false, err
	}
	for _, key := range keys {
		place, known := before[key]
		if !known {
			continue
		}
		rows, err := l.r.Rows(l.env, l.rows, place, 1, true)
		if err != nil {
			return nil, false, err
		}
		if len(rows) == 1 && rows[0].Branch == key { // unless it was dropped meanwhile
			return rows[0].Value, true, nil
		}
	}
	return nil, false, nil
}

// places says of each key after which row its own one comes.
func (l lookup) places() (map[string]sessionstate.Row, error) {
	const page = 1000
	before := map[string]sessionstate.Row{}
	last := sessionstate.Row{}
	for {
		rows, err := l.r.Rows(l.env, l.rows, last, page, false)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			before[row.Branch], last = last, row
		}
		if len(rows) < page {
			return before, nil
		}
	}
}
