package store

import (
	"context"
)

const (
	selNodeAttempts = `
		SELECT ` + attemptColumns + `
		  FROM node_attempts AS a
		 WHERE a.run_id  = ?1
		   AND a.ordinal > ?2
		 ORDER BY a.ordinal
		 LIMIT ?3`

	selAttemptsOfNode = `
		SELECT ` + attemptColumns + `
		  FROM node_attempts AS a
		 WHERE a.run_id         = ?1
		   AND a.node_id        = ?4
		   AND a.attempt_number > ifnull((SELECT max(attempt_number)
		                                    FROM node_attempts
		                                   WHERE run_id   = ?1
		                                     AND node_id  = ?4
		                                     AND ordinal <= ?2), 0)
		 ORDER BY a.attempt_number
		 LIMIT ?3`

	selOverdueAttempts = `
		SELECT ` + attemptColumns + `
		  FROM node_attempts AS a
		 WHERE a.deadline_at IS NOT NULL
		   AND a.ended_at IS NULL
		   AND (a.deadline_at, a.attempt_id) > (?2, ?3)
		   AND a.deadline_at <= ?1
		 ORDER BY a.deadline_at, a.attempt_id
		 LIMIT ?4`
)

// NodeAttempts returns at most limit attempts of a run after an ordinal, in order; those of one node if node
// is set.
func (q *Queries) NodeAttempts(ctx context.Context, run, node string, after, limit int) (attempts []NodeAttempt, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	sql, args := selNodeAttempts, []any{run, after, limit}
	if node != "" {
		sql, args = selAttemptsOfNode, append(args, node)
	}
	return viewList(ctx, q, scanAttempt, sql, args...)
}

// OverdueAttempts returns at most limit attempts that have not ended and whose deadline has passed, the
// oldest deadline first, after an attempt of this list. The zero value of after is before all.
func (q *Queries) OverdueAttempts(ctx context.Context, after NodeAttempt, limit int) (attempts []NodeAttempt, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	now := int64(MillisOf(q.now()))
	return viewList(ctx, q, scanAttempt, selOverdueAttempts, now, int64(after.DeadlineAt), after.ID, limit)
}

// Updates returns at most limit progress updates of an attempt after a sequence, in order.
func (q *Queries) Updates(ctx context.Context, attempt string, after, limit int) (updates []Update, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	return viewList(ctx, q, scanUpdate, selUpdates, attempt, after, limit)
}

// CurrentUpdates returns at most limit of the current values of an attempt's progress, by type and key,
// after one of this list (D5). The zero value of after is before all.
func (q *Queries) CurrentUpdates(ctx context.Context, attempt string, after Update, limit int) (updates []Update, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	return viewList(ctx, q, scanUpdate, selCurrentUpdates, attempt, after.Type, after.Key, limit)
}
