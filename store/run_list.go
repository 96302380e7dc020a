package store

import (
	"context"

	"pistate/schema"
)

// RunFilter narrows a list of runs. At most one of the first three is set.
type RunFilter struct {
	Project string
	Parent  string
	Session string    // the Pi session that they came from
	Status  RunStatus // with any of the others, or alone
}

// From the newest to the oldest. The key of a page is the last run of the page before.
const (
	runTables = `
		  JOIN run_bindings AS b ON b.run_id      = r.run_id
		  JOIN resources    AS v ON v.resource_id = r.resource_id`

	selRuns = `
		SELECT ` + runColumns + `
		  FROM runs AS r` + runTables + `
		 WHERE (r.created_at, r.run_id) < (?1, ?2)
		 ORDER BY r.created_at DESC, r.run_id DESC
		 LIMIT ?3`

	selRunsOfStatus = `
		SELECT ` + runColumns + `
		  FROM runs AS r` + runTables + `
		 WHERE r.status = ?4
		   AND (r.created_at, r.run_id) < (?1, ?2)
		 ORDER BY r.created_at DESC, r.run_id DESC
		 LIMIT ?3`

	selRunsOfProject = `
		SELECT ` + runColumns + `
		  FROM runs AS r` + runTables + `
		 WHERE r.project_id = ?5
		   AND (r.created_at, r.run_id) < (?1, ?2)
		   AND (?4 = '' OR r.status = ?4)
		 ORDER BY r.created_at DESC, r.run_id DESC
		 LIMIT ?3`

	selRunsOfParent = `
		SELECT ` + runColumns + `
		  FROM runs AS r` + runTables + `
		 WHERE r.parent_run_id = ?5
		   AND (r.created_at, r.run_id) < (?1, ?2)
		   AND (?4 = '' OR r.status = ?4)
		 ORDER BY r.created_at DESC, r.run_id DESC
		 LIMIT ?3`

	// A run is bound when it is created.
	selRunsOfSession = `
		SELECT ` + runColumns + `
		  FROM run_bindings AS b
		  JOIN runs         AS r ON r.run_id      = b.run_id
		  JOIN resources    AS v ON v.resource_id = r.resource_id
		 WHERE b.pi_session_id = ?5
		   AND (b.bound_at, b.run_id) < (?1, ?2)
		   AND (?4 = '' OR r.status = ?4)
		 ORDER BY b.bound_at DESC, b.run_id DESC
		 LIMIT ?3`

	selOverdueRuns = `
		SELECT ` + runColumns + `
		  FROM runs AS r` + runTables + `
		 WHERE r.deadline_at IS NOT NULL
		   AND r.ended_at IS NULL
		   AND (r.deadline_at, r.run_id) > (?2, ?3)
		   AND r.deadline_at <= ?1
		 ORDER BY r.deadline_at, r.run_id
		 LIMIT ?4`
)

const endOfTime = 1<<63 - 1

// Runs returns at most limit runs before one, from the newest to the oldest, without their content. The zero
// value of before is after all.
func (q *Queries) Runs(ctx context.Context, filter RunFilter, before Run, limit int) (runs []Run, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	sql, args, err := filter.query(before, limit)
	if err != nil {
		return nil, err
	}
	return viewList(ctx, q, scanRun, sql, args...)
}

func (f RunFilter) query(before Run, limit int) (sql string, args []any, err error) {
	at := int64(endOfTime)
	if before.ID != "" {
		at = int64(before.CreatedAt)
	}
	args = []any{at, before.ID, limit}
	set := 0
	for _, by := range []struct{ value, sql string }{
		{f.Project, selRunsOfProject}, {f.Parent, selRunsOfParent}, {f.Session, selRunsOfSession},
	} {
		if by.value != "" {
			sql, args, set = by.sql, append(args, string(f.Status), by.value), set+1
		}
	}
	switch {
	case set > 1:
		return "", nil, schema.Errorf(schema.Invalid, "runs: filter by project, parent or session, not by several of them")
	case set == 1:
	case f.Status != "":
		sql, args = selRunsOfStatus, append(args, string(f.Status))
	default:
		sql = selRuns
	}
	return sql, args, nil
}

// OverdueRuns returns at most limit runs that have not ended and whose deadline has passed, the oldest
// deadline first, after a run of this list. The zero value of after is before all.
func (q *Queries) OverdueRuns(ctx context.Context, after Run, limit int) (runs []Run, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	now := int64(MillisOf(q.now()))
	return viewList(ctx, q, scanRun, selOverdueRuns, now, int64(after.DeadlineAt), after.ID, limit)
}
