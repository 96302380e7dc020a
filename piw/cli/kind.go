package cli

import (
	"context"
	"errors"

	"pistate/internal/cli"
	"pistate/internal/sqlite"
	"pistate/schema"
	"pistate/sessionstate"
)

// stateDB is the choice of a database of any kind.
type stateDB struct {
	DB   string `name:"db" placeholder:"PATH" help:"The database. Default: the session-state database, where the settings put it."`
	JSON bool   `name:"json" help:"Print JSON instead of text."`
}

// kind is one kind of state database.
type kind struct {
	name   string
	open   func(ctx context.Context, path string) error // whether the file is of this kind
	status func(ctx context.Context, path string) (stateStatus, error)
	check  func(ctx context.Context, path string, o checkOptions) (sqlite.Report, error)
	backup func(ctx context.Context, path, target string, progress func(done, total int)) (sqlite.Result, error)
}

type checkOptions struct {
	quick, deep bool
	progress    func(done, total int)
}

var kinds = []kind{sessionKind}

// find returns the database that is meant, and of which kind it is.
func (f stateDB) find(env *cli.Env) (kind, string, error) {
	path, err := cli.SessionDB(env, f.DB, false)
	if err != nil {
		return kind{}, "", err
	}
	var errs []error
	for _, k := range kinds {
		err := k.open(env, path)
		if err == nil {
			return k, path, nil
		}
		if !errors.Is(err, schema.Incompatible) {
			return kind{}, "", err
		}
		errs = append(errs, err)
	}
	return kind{}, "", errs[len(errs)-1]
}

var sessionKind = kind{
	name: "session state",
	open: func(ctx context.Context, path string) error {
		r, err := sessionstate.OpenReader(ctx, path)
		if err != nil {
			return err
		}
		return r.Close()
	},
	status: func(ctx context.Context, path string) (stateStatus, error) {
		r, err := sessionstate.OpenReader(ctx, path)
		if err != nil {
			return stateStatus{}, err
		}
		status, err := r.Status(ctx, "")
		if err := errors.Join(err, r.Close()); err != nil {
			return stateStatus{}, err
		}
		counts := map[string]int64{"locks": int64(len(status.Locks)), "plugins": int64(len(status.Plugins)), "rows": 0}
		for _, p := range status.Plugins {
			counts["rows"] += p.Rows
		}
		return stateStatus{Path: status.Path, Kind: "session state", Stat: status.File, Counts: counts}, nil
	},
	check: func(ctx context.Context, path string, o checkOptions) (sqlite.Report, error) {
		return sessionstate.Check(ctx, path, sessionstate.CheckOptions{Quick: o.quick, Deep: o.deep, Progress: o.progress})
	},
	backup: sessionstate.Backup,
}
