package store

import (
	"context"
	"errors"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// A run without an owner is unattended if something of it is due: the deadline of a decision, an effect, or an
// effect whose worker vanished.
const selUnattended = `
	  WITH due (run_id) AS MATERIALIZED (
	       SELECT run_id
	         FROM human_decisions
	        WHERE status = 'pending'
	          AND deadline_at <= ?1
	        UNION ALL
	       SELECT scope_id
	         FROM effects
	        WHERE scope_type = 'run'
	          AND status     = 'pending'
	          AND available_at <= ?1
	        UNION ALL
	       SELECT e.scope_id
	         FROM effects AS e
	         JOIN leases  AS l ON l.resource_id = e.resource_id
	        WHERE e.scope_type = 'run'
	          AND e.status     = 'applying'
	          AND max(l.heartbeat_at, ?1) >= l.expires_at)
	SELECT DISTINCT p.run_id
	  FROM due
	 CROSS JOIN runs AS p ON p.run_id = due.run_id
	 WHERE p.project_id = ?2
	   AND p.run_id     > ?3
	   AND p.ended_at IS NULL
	   AND NOT EXISTS (SELECT 1
	                     FROM leases AS o
	                    WHERE o.resource_id = p.resource_id
	                      AND max(o.heartbeat_at, ?1) < o.expires_at)
	 ORDER BY p.run_id
	 LIMIT ?4`

// UnattendedRuns returns at most limit runs of a project, after an id, that nobody owns though something of
// them is due, as when a parked run's question has been answered or its deadline has passed: somebody should
// [Attend] to them.
func (q *Queries) UnattendedRuns(ctx context.Context, project, after string, limit int) (runs []string, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	now := int64(MillisOf(q.now()))
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		runs = nil
		return rx.Query(selUnattended, func(r sqlite.Row) error {
			runs = append(runs, r.Text(0))
			return nil
		}, now, project, after, limit)
	})
	return runs, err
}

// Attend owns a run while work is done for it: it claims the lease, renews it, and releases it. The context
// of the work ends when the claim is lost.
//
// Errors: [schema.Locked] with a [*HeldError] if somebody owns the run; those of the work.
func Attend(ctx context.Context, s *Store, actor Actor, run string, ttl time.Duration, work func(context.Context, *Claim) error) error {
	resource := NewResourceID(RunResource, run)
	permit := Permit{Actor: actor, Expected: AnyRevision}
	claimed, err := Do(ctx, s, permit, ClaimLease{resource, ttl.Milliseconds()})
	if err != nil {
		return err
	}
	permit.Claim = claimed.Result
	kept, stop := Keep(ctx, s, actor, permit.Claim, ttl)
	err = work(kept, permit.Claim)
	stop()
	_, releaseErr := Do(context.WithoutCancel(ctx), s, permit, ReleaseLease{resource})
	if errors.Is(releaseErr, schema.StaleClaim) {
		releaseErr = nil // the run was parked or has ended, or another owner has taken it over
	}
	return errors.Join(err, releaseErr)
}
