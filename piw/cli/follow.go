package cli

import (
	"errors"
	"time"

	"pistate/internal/cli"
	"pistate/schema"
	"pistate/store"
)

// tick is how often SQLite is asked whether anybody has committed. No table is read for that.
const tick = 100 * time.Millisecond

// follow calls read now and whenever somebody has committed to the database, until the command is
// interrupted or whoever reads what it prints has gone. A database that is replaced is waited for.
func follow(env *cli.Env, r *store.Reader, read func() error) error {
	waiting := false
	last := int64(-1)
	for ; ; pause(env) {
		if env.Err() != nil {
			return &cli.Silent{Code: schema.Canceled}
		}
		if env.Unread() {
			return enough(env)
		}
		version, err := r.DataVersion(env)
		if err == nil && version != last {
			err = read()
		}
		if err == nil {
			last, waiting = version, false
			err = env.Flush()
		}
		switch {
		case err == nil:
		case errors.Is(err, cli.ErrUnread):
			return enough(env)
		case errors.Is(err, schema.Canceled): // told at the top
		case !comesBack(err):
			return err
		case !waiting:
			waiting = true
			env.Warn("waiting for the database: %v", err)
		}
	}
}

// enough ends a command whose reader has gone, as it was to end.
func enough(env *cli.Env) error {
	env.Drop()
	return nil
}

func pause(env *cli.Env) {
	select {
	case <-time.After(tick):
	case <-env.Done():
	}
}

// comesBack reports whether an error may be that of a moment in which a database is being replaced.
func comesBack(err error) bool {
	for _, code := range []schema.Code{schema.NotFound, schema.Incompatible, schema.Corrupt, schema.Busy, schema.Replaced} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
