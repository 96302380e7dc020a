package main

import (
	"errors"
	"io/fs"
	"os"

	"pistate/internal/cli"
	"pistate/schema"
	"pistate/sessionstate"
)

// stateFlags choose one value.
type stateFlags struct {
	sessionFlags
	dbFlags
	Plugin string             `required:"" placeholder:"ID" help:"The plugin whose state it is."`
	Scope  sessionstate.Scope `enum:"session,branch" default:"session" placeholder:"SCOPE" help:"Whose value: of the session (default) or of the branch."`
}

// use opens the database and calls fn with the plugin's state at the session's leaf.
func (f stateFlags) use(env *cli.Env, fn func(*sessionstate.State, sessionstate.SessionContext) error) (err error) {
	if err := sessionstate.CheckPluginID(f.Plugin); err != nil {
		return err
	}
	file, err := f.sessionFlags.open(env)
	if err != nil {
		return err
	}
	defer file.Close() // only read
	sc, err := f.at(file)
	if err != nil {
		return err
	}
	store, err := f.dbFlags.open(env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	state, err := sessionstate.New(store, sessionstate.Config{PluginID: f.Plugin, Scope: f.Scope})
	if err != nil {
		return err
	}
	return fn(state, sc)
}

// useExisting is use for an operation to which there is nothing where there is no database: neither a missing one,
// nor one that its first writer did not finish, nor anything else is created.
func (f stateFlags) useExisting(env *cli.Env, fn func(*sessionstate.State, sessionstate.SessionContext) error) error {
	if err := sessionstate.CheckPluginID(f.Plugin); err != nil {
		return err
	}
	path, err := f.path(env)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return schema.Errorf(schema.NotFound, "%s: no such database", path)
	case err == nil && info.Mode().IsRegular() && info.Size() == 0:
		return schema.Errorf(schema.NotFound, "%s is empty: there is no database yet", path)
	}
	return f.use(env, fn)
}

// keyed refuses to store under a key that this process would take with it to its grave.
func keyed(state *sessionstate.State, f stateFlags, sc sessionstate.SessionContext) error {
	if f.Scope == sessionstate.ScopeSession {
		return nil
	}
	_, ok, err := state.BranchKey(sc)
	if err == nil && !ok {
		err = schema.Errorf(schema.NotFound, "%s has no entry yet, so there is no branch whose value this could be", f.Session)
	}
	return err
}

type readCmd struct{ stateFlags }

// Run prints the value.
func (c *readCmd) Run(env *cli.Env) error {
	return c.useExisting(env, func(state *sessionstate.State, sc sessionstate.SessionContext) error {
		value, found, err := state.Read(env, sc)
		if err != nil {
			return err
		}
		if !found {
			return &cli.Silent{Code: schema.NotFound}
		}
		_, err = env.Stdout.Write(append(value, '\n'))
		return err
	})
}

type writeCmd struct {
	stateFlags
	Value string `arg:"" help:"The value, as JSON; - reads it from standard input."`
}

// Run stores the value.
func (c *writeCmd) Run(env *cli.Env) error {
	value, err := argument(env, c.Value, sessionstate.MaxValueBytes)
	if err != nil {
		return err
	}
	return c.use(env, func(state *sessionstate.State, sc sessionstate.SessionContext) error {
		if err := keyed(state, c.stateFlags, sc); err != nil {
			return err
		}
		return state.Write(env, sc, value)
	})
}

type dropCmd struct{ stateFlags }

// Run removes the value.
func (c *dropCmd) Run(env *cli.Env) error {
	return c.useExisting(env, func(state *sessionstate.State, sc sessionstate.SessionContext) error {
		return state.Drop(env, sc)
	})
}
