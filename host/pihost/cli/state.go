package cli

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

// session opens the session file and calls fn with the session at its leaf. Nothing is looked for in a database
// before that, and nothing is created: what is wrong with a command line, or with what it names, leaves no trace.
func (f stateFlags) session(env *cli.Env, fn func(*sessionstate.SessionFile, sessionstate.SessionContext) error) error {
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
	return fn(file, sc)
}

// use opens the database, which is created if there is none, and calls fn with the plugin's state.
func (f stateFlags) use(env *cli.Env, fn func(*sessionstate.State) error) (err error) {
	store, err := f.dbFlags.open(env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	state, err := sessionstate.New(store, sessionstate.Config{PluginID: f.Plugin, Scope: f.Scope})
	if err != nil {
		return err
	}
	return fn(state)
}

// exists is for an operation to which there is nothing where there is no database: neither a missing one, nor one
// that its first writer did not finish, is to be created.
func (f stateFlags) exists(env *cli.Env) error {
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
	return nil
}

// keyed refuses to store under a key that this process would take with it to its grave.
func (f stateFlags) keyed(sc sessionstate.SessionContext) error {
	if f.Scope == sessionstate.ScopeBranch && sc.Leaf() == "" {
		return schema.Errorf(schema.NotFound, "%s has no entry yet, so there is no branch whose value this could be", f.Session)
	}
	return nil
}

type readCmd struct{ stateFlags }

// Run prints the value.
func (c *readCmd) Run(env *cli.Env) error {
	return c.session(env, func(file *sessionstate.SessionFile, sc sessionstate.SessionContext) error {
		if err := c.exists(env); err != nil {
			return err
		}
		value, found, err := c.value(env, file, sc)
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

// value reads the value as an extension would, which may write it under the key of its branch (Y3). Where nothing
// can be written it is looked up and left where it is.
func (c *readCmd) value(env *cli.Env, file *sessionstate.SessionFile, sc sessionstate.SessionContext) (value []byte, found bool, err error) {
	err = c.use(env, func(state *sessionstate.State) (err error) {
		value, found, err = state.Read(env, sc)
		return err
	})
	if !errors.Is(err, schema.Storage) {
		return value, found, err
	}
	value, found, lookErr := c.lookUp(env, file, sc)
	if lookErr != nil {
		return nil, false, err
	}
	return value, found, nil
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
	if err := checkJSON("value", value, sessionstate.MaxValueBytes); err != nil {
		return err
	}
	return c.session(env, func(_ *sessionstate.SessionFile, sc sessionstate.SessionContext) error {
		if err := c.keyed(sc); err != nil {
			return err
		}
		return c.use(env, func(state *sessionstate.State) error { return state.Write(env, sc, value) })
	})
}

type dropCmd struct{ stateFlags }

// Run removes the value.
func (c *dropCmd) Run(env *cli.Env) error {
	return c.session(env, func(_ *sessionstate.SessionFile, sc sessionstate.SessionContext) error {
		if err := c.exists(env); err != nil {
			return err
		}
		return c.use(env, func(state *sessionstate.State) error { return state.Drop(env, sc) })
	})
}
