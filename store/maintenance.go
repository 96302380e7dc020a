//go:build !wasip1

package store

import (
	"context"

	"pistate/internal/sqlite"
)

// Report is the result of [Check].
type Report = sqlite.Report

// CheckOptions are the settings of [Check].
type CheckOptions struct {
	Quick    bool                  // skip whether indexes match their tables
	Deep     bool                  // also check what SQLite knows nothing of: revisions, digests, sequences, ids
	Progress func(done, total int) // called now and then, from one goroutine at a time
}

// Check examines a workflow database without writing to it, beside live writers too (M1, M3). What it finds
// is in the report; an error means that there is none. See [Reader] for where it works.
func Check(ctx context.Context, path string, o CheckOptions) (Report, error) {
	resolved, err := resolve(path)
	if err != nil {
		return Report{}, err
	}
	options := sqlite.CheckOptions{Quick: o.Quick, Progress: o.Progress}
	if o.Deep {
		options.Extra = deepChecks()
	}
	return sqlite.Check(ctx, resolved, options, verifyShape)
}

// BackupResult says what a backup holds.
type BackupResult = sqlite.Result

// Backup copies a workflow database, live or at rest, into a new file at an absolute path. The copy is one
// snapshot, verified, synced and self-contained before it gets its name; interrupted, nothing is at the
// target (M2, M3, M5). progress may be nil.
//
// Errors: [schema.Invalid] for a target that can't be one, [schema.Conflict] for one that exists or is the
// database itself, and those of [OpenReader].
func Backup(ctx context.Context, path, target string, progress func(done, total int)) (BackupResult, error) {
	resolved, err := resolve(path)
	if err != nil {
		return BackupResult{}, err
	}
	return sqlite.Backup(ctx, resolved, target, verifyShape, progress)
}
