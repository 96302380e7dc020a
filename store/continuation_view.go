package store

import (
	"context"

	"pistate/internal/sqlite"
)

const (
	selContinuationsOfRun = `
		SELECT ` + continuationColumns + `
		  FROM continuations
		 WHERE parent_run_id = ?1
		   AND (created_at, continuation_id) > (?2, ?3)
		 ORDER BY created_at, continuation_id
		 LIMIT ?4`

	selPendingContinuations = `
		SELECT ` + continuationColumns + `
		  FROM continuations
		 WHERE status = 'pending'
		   AND (created_at, continuation_id) > (?1, ?2)
		 ORDER BY created_at, continuation_id
		 LIMIT ?3`
)

// Continuation returns a continuation by its id. Errors: [schema.NotFound].
func (q *Queries) Continuation(ctx context.Context, id string) (c Continuation, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) (err error) {
		c, err = getContinuation(rx, id)
		return err
	})
	return c, err
}

// ContinuationsOfRun returns at most limit continuations of a parent, the oldest first, after a place in the
// list.
func (q *Queries) ContinuationsOfRun(ctx context.Context, parent string, after Place, limit int) ([]Continuation, error) {
	return q.listContinuations(ctx, limit, selContinuationsOfRun, parent, int64(after.At), after.ID, limit)
}

// PendingContinuations returns at most limit continuations that are not settled, the oldest first, after a
// place in the list.
func (q *Queries) PendingContinuations(ctx context.Context, after Place, limit int) ([]Continuation, error) {
	return q.listContinuations(ctx, limit, selPendingContinuations, int64(after.At), after.ID, limit)
}

func (q *Queries) listContinuations(ctx context.Context, limit int, sql string, args ...any) (continuations []Continuation, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	err = q.view(ctx, func(rx *sqlite.Rx) (err error) {
		continuations, err = readContinuations(rx, sql, args...)
		return err
	})
	return continuations, err
}

func readContinuations(rx *sqlite.Rx, sql string, args ...any) (continuations []Continuation, err error) {
	return list(rx, scanContinuation, sql, args...)
}
