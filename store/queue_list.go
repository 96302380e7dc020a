package store

import (
	"context"

	"pistate/internal/sqlite"
)

// Queued is a place in the queue as it is to be seen: the end of its run overrides what the place says while
// it is not settled (V1).
type Queued struct {
	QueueRow
	// Unsettled: the run has ended, and the status is the one that the place will be settled to.
	Unsettled bool `json:"unsettled,omitempty"`
}

// shown returns a place in the queue as it is to be seen.
func (q QueueRow) shown(run RunStatus) Queued {
	shown := Queued{QueueRow: q}
	if q.SettledAt != 0 {
		return shown
	}
	switch run {
	case RunCompleted:
		shown.Status = QueueDone
	case RunFailed, RunTimedOut:
		shown.Status = QueueFailed
	case RunCancelled:
		shown.Status = QueueCancelled
	default:
		return shown
	}
	shown.Unsettled = true
	return shown
}

// settled reports whether a status is final.
func (s QueueStatus) settled() bool {
	return s == QueueDone || s == QueueFailed || s == QueueCancelled
}

// QueueFilter narrows a list of the queue.
type QueueFilter struct {
	Project string      // "": all
	Status  QueueStatus // "": all places of runs that have not ended
}

// In the order in which they become available. The key of a page is the last place of the page before.
const (
	selQueue = `
		SELECT ` + queueColumns + `, r.status
		  FROM run_queue AS q
		  JOIN runs      AS r ON r.run_id = q.run_id
		 WHERE q.settled_at IS NULL
		   AND (q.available_at, q.run_id) > (?1, ?2)
		   AND (?4 = '' OR q.project_id = ?4)
		   AND r.ended_at IS NULL
		 ORDER BY q.available_at, q.run_id
		 LIMIT ?3`

	selQueueOpen = `
		SELECT ` + queueColumns + `, r.status
		  FROM run_queue AS q
		  JOIN runs      AS r ON r.run_id = q.run_id
		 WHERE q.status = ?5
		   AND (q.available_at, q.run_id) > (?1, ?2)
		   AND (?4 = '' OR q.project_id = ?4)
		   AND r.ended_at IS NULL
		 ORDER BY q.available_at, q.run_id
		 LIMIT ?3`

	// With the places that are not settled yet, of runs that have ended so.
	selQueueSettled = `
		SELECT ` + queueColumns + `, r.status
		  FROM run_queue AS q
		  JOIN runs      AS r ON r.run_id = q.run_id
		 WHERE q.status = ?5
		   AND (q.available_at, q.run_id) > (?1, ?2)
		   AND (?4 = '' OR q.project_id = ?4)
		 UNION ALL
		SELECT ` + queueColumns + `, r.status
		  FROM run_queue AS q
		  JOIN runs      AS r ON r.run_id = q.run_id
		 WHERE q.settled_at IS NULL
		   AND (q.available_at, q.run_id) > (?1, ?2)
		   AND (?4 = '' OR q.project_id = ?4)
		   AND r.ended_at IS NOT NULL
		   AND CASE r.status WHEN 'completed' THEN 'done' WHEN 'cancelled' THEN 'cancelled' ELSE 'failed' END = ?5
		 ORDER BY 6, 1
		 LIMIT ?3`
)

// Queue returns at most limit places in the queue after one, in the order in which they become available.
// The zero value of after is before all.
func (q *Queries) Queue(ctx context.Context, filter QueueFilter, after Queued, limit int) (rows []Queued, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	sql, args := selQueue, []any{int64(after.AvailableAt), after.Run, limit, filter.Project}
	switch {
	case filter.Status.settled():
		sql, args = selQueueSettled, append(args, string(filter.Status))
	case filter.Status != "":
		sql, args = selQueueOpen, append(args, string(filter.Status))
	}
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		rows = nil
		return rx.Query(sql, func(r sqlite.Row) error {
			rows = append(rows, scanQueueRow(r).shown(RunStatus(r.Text(11))))
			return nil
		}, args...)
	})
	return rows, err
}

// QueueRow returns the place of a run in the queue. Errors: [schema.NotFound] for a run that was never queued.
func (q *Queries) QueueRow(ctx context.Context, run string) (row Queued, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		found, err := oneQueueRow(rx, selQueueRow, run)
		if err != nil {
			return err
		}
		if found == nil {
			return notFound("place in the queue of run", run)
		}
		r, _, err := getRun(rx, run)
		row = found.shown(r.Status)
		return err
	})
	return row, err
}
