package store

import (
	"context"
	"time"

	"pistate/internal/sqlite"
)

// Snapshot runs fn with queries that all see the same state of the database, at the same moment: what is
// expired or overdue is so as of now. fn may run several times, so it must start afresh each time, and it
// should not wait for anything: an open snapshot of a live database keeps the WAL from being reset.
func (q *Queries) Snapshot(ctx context.Context, now time.Time, fn func(*Queries) error) error {
	return q.view(ctx, func(rx *sqlite.Rx) error {
		return fn(&Queries{
			view: func(_ context.Context, read func(*sqlite.Rx) error) error { return read(rx) },
			path: q.path,
			now:  func() time.Time { return now },
		})
	})
}
