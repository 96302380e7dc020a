//go:build !wasip1

package sessionstate

import (
	"context"
	"encoding/json"
	"unicode/utf8"

	"pistate/internal/sqlite"
)

// Report is the result of [Check].
type Report = sqlite.Report

// CheckOptions are the settings of [Check].
type CheckOptions struct {
	Quick    bool                  // skip whether indexes match their tables
	Deep     bool                  // also check what SQLite knows nothing of: ids, values, lock rows
	Progress func(done, total int) // called now and then, from one goroutine at a time
}

// Check examines a session-state database without writing to it (M1, M4). What it finds is in the report; an
// error means that there is none. See [Reader] for where it works.
func Check(ctx context.Context, path string, o CheckOptions) (Report, error) {
	resolved, err := sqlite.Resolve(path)
	if err != nil {
		return Report{}, err
	}
	options := sqlite.CheckOptions{Quick: o.Quick, Progress: o.Progress}
	if o.Deep {
		options.Extra = []sqlite.CheckFunc{{Name: "rows", Run: checkRows}, {Name: "locks", Run: checkLocks}}
	}
	return sqlite.Check(ctx, resolved, options, verify)
}

const (
	selectEveryRow = `
		SELECT plugin_id, session_id, branch_id, typeof(value), value
		  FROM state`

	selectEveryLock = `
		SELECT session_id, holder, typeof(acquired_at)
		  FROM write_lock`
)

// checkRows reports rows that this package would not have written.
func checkRows(rx *sqlite.Rx, report func(string, ...any)) error {
	return rx.Query(selectEveryRow, func(r sqlite.Row) error {
		plugin, session, branch := r.Text(0), r.Text(1), r.Text(2)
		complain := func(what any) { report("plugin %q, session %q, branch %q: %v", plugin, session, branch, what) }
		if err := CheckPluginID(plugin); err != nil {
			complain(err)
		}
		if err := CheckSessionID(session); err != nil {
			complain(err)
		}
		switch value := r.Bytes(4); {
		case r.Text(3) != "text":
			complain("the value is a " + r.Text(3) + ", not text")
		case !json.Valid(value) || !utf8.Valid(value):
			complain("the value is not JSON")
		}
		return nil
	})
}

// checkLocks reports lock rows that no process can judge.
func checkLocks(rx *sqlite.Rx, report func(string, ...any)) error {
	return rx.Query(selectEveryLock, func(r sqlite.Row) error {
		if _, ok := pidOf(r.Text(1)); !ok {
			report("session %q: the holder %q is not a process; the row is honoured until it is %v old", r.Text(0), r.Text(1), Lease)
		}
		if r.Text(2) != "integer" {
			report("session %q: the time of the lock is a %s, not an integer", r.Text(0), r.Text(2))
		}
		return nil
	})
}

// BackupResult says what a backup holds.
type BackupResult = sqlite.Result

// Backup copies a session-state database, live or at rest, into a new file at an absolute path. The copy is
// one snapshot, verified, synced and self-contained before it gets its name; interrupted, nothing is at the
// target (M2-M5). progress may be nil.
//
// Errors: [schema.Invalid] for a target that can't be one, [schema.Conflict] for one that exists or is the
// database itself, and those of [OpenReader].
func Backup(ctx context.Context, path, target string, progress func(done, total int)) (BackupResult, error) {
	resolved, err := sqlite.Resolve(path)
	if err != nil {
		return BackupResult{}, err
	}
	return sqlite.Backup(ctx, resolved, target, verify, progress)
}
