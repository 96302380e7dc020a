package cli

import (
	"context"
	"errors"

	"pistate/internal/cli"
	"pistate/internal/sqlite"
	"pistate/schema"
	"pistate/sessionstate"
	"pistate/store"
)

// stateDB is the choice of a database of any kind.
type stateDB struct {
	DB       string `name:"db" placeholder:"PATH" help:"The database, of either kind. Default: the workflow database of this user."`
	Sessions bool   `xor:"db" help:"The session-state database, where the settings put it."`
	JSON     bool   `name:"json" help:"Print JSON instead of text."`
}

// kind is one kind of state database.
type kind struct {
	name   string
	status func(env *cli.Env, path string) (stateStatus, error)
	check  func(ctx context.Context, path string, o checkOptions) (sqlite.Report, error)
	backup func(ctx context.Context, path, target string, progress func(done, total int)) (sqlite.Result, error)
}

type checkOptions struct {
	quick, deep bool
	progress    func(done, total int)
}

// find returns the database that is meant, and of which kind it is.
func (f stateDB) find(env *cli.Env) (kind, string, error) {
	switch {
	case f.Sessions:
		path, err := cli.SessionDB(env, "", false)
		return sessionKind, path, err
	case f.DB == "":
		path, err := store.DefaultPath()
		return workflowKind, path, err
	}
	path, err := cli.Path(f.DB)
	if err != nil {
		return kind{}, "", schema.Errorf(schema.Invalid, "--db: %w", err)
	}
	workflow, err := hasWorkflowID(env, path)
	if workflow {
		return workflowKind, path, err
	}
	return sessionKind, path, err
}

// hasWorkflowID tells the kinds apart. Whether the file is a sound one of its kind is for its package to say.
func hasWorkflowID(ctx context.Context, path string) (workflow bool, err error) {
	resolved, err := sqlite.Resolve(path)
	if err != nil {
		return false, err
	}
	r, err := sqlite.OpenReader(ctx, resolved, func(*sqlite.Rx) error { return nil })
	if err != nil {
		return false, err
	}
	err = r.Read(ctx, func(rx *sqlite.Rx) error {
		return rx.Query("PRAGMA application_id", func(row sqlite.Row) error {
			workflow = row.Int64(0) == schema.StateApplicationID
			return nil
		})
	})
	return workflow, errors.Join(err, r.Close())
}

var workflowKind = kind{
	name: "workflow state",
	status: func(env *cli.Env, path string) (stateStatus, error) {
		r, err := store.OpenReader(env, path)
		if err != nil {
			return stateStatus{}, err
		}
		var s store.Status
		err = r.Snapshot(env, env.Now(), func(q *store.Queries) (err error) {
			s, err = q.Status(env)
			return err
		})
		return stateStatus{
			Path: s.Path, Kind: "workflow state", Stat: s.File, Counts: s.Rows, Leases: s.Leases, Effects: s.Effects,
		}, errors.Join(err, r.Close())
	},
	check: func(ctx context.Context, path string, o checkOptions) (sqlite.Report, error) {
		return store.Check(ctx, path, store.CheckOptions{Quick: o.quick, Deep: o.deep, Progress: o.progress})
	},
	backup: store.Backup,
}

var sessionKind = kind{
	name: "session state",
	status: func(env *cli.Env, path string) (stateStatus, error) {
		r, err := sessionstate.OpenReader(env, path)
		if err != nil {
			return stateStatus{}, err
		}
		s, err := r.Status(env, "")
		counts := map[string]int64{"locks": int64(len(s.Locks)), "plugins": int64(len(s.Plugins)), "rows": 0}
		for _, p := range s.Plugins {
			counts["rows"] += p.Rows
		}
		return stateStatus{Path: s.Path, Kind: "session state", Stat: s.File, Counts: counts}, errors.Join(err, r.Close())
	},
	check: func(ctx context.Context, path string, o checkOptions) (sqlite.Report, error) {
		return sessionstate.Check(ctx, path, sessionstate.CheckOptions{Quick: o.quick, Deep: o.deep, Progress: o.progress})
	},
	backup: sessionstate.Backup,
}
