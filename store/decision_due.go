package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// PolicyReport counts what [ApplyDuePolicies] did.
type PolicyReport struct {
	Defaulted int // accepted with their default response
	Expired   int // cancelled for want of one
	Lost      int // resolved by somebody else meanwhile
	// Stale are the runs that are not the caller's any more, though it came with a claim on them.
	Stale []ResourceID
}

// The plus keeps SQLite from looking up the decisions of each run: those that are due now, whoever owns their
// runs, are few, and have the order of their index.
const selDueDecisions = `
	SELECT ` + decisionColumns + `
	  FROM human_decisions AS d
	  JOIN resources AS r ON r.resource_id = d.resource_id
	  LEFT JOIN human_decision_resolutions AS w ON w.decision_id = d.decision_id
	 WHERE d.status       = 'pending'
	   AND d.deadline_at <= ?1
	   AND +d.run_id IN (SELECT value FROM json_each(?2))
	 ORDER BY d.deadline_at, d.decision_id
	 LIMIT ?3`

// ApplyDuePolicies applies the deadlines that have passed of decisions of the caller's runs, at most limit of
// them, the oldest first: those with a default response are accepted with it, the others expire. It does not
// matter which process was to do so, or whether any was running when the deadline passed: the next owner
// does, once (D9).
//
// claims are on the runs. One that is not valid any more doesn't hold up the others.
func ApplyDuePolicies(ctx context.Context, s *Store, actor Actor, claims []*Claim, limit int) (report PolicyReport, err error) {
	if err := checkPage(limit); err != nil {
		return report, err
	}
	mine := map[string]*Claim{}
	runs := []string{}
	for _, c := range claims {
		if run := c.Resource.run(); run != "" {
			mine[run] = c
			runs = append(runs, run)
		}
	}
	list, err := json.Marshal(runs)
	if err != nil {
		return report, err
	}
	due, err := s.listDecisions(ctx, limit, selDueDecisions, int64(MillisOf(s.now())), string(list), limit)
	if err != nil {
		return report, err
	}
	for _, d := range due {
		if err := applyPolicy(ctx, s, actor, mine[d.Run], d, &report); err != nil {
			return report, err
		}
	}
	return report, nil
}

func applyPolicy(ctx context.Context, s *Store, actor Actor, claim *Claim, d Decision, report *PolicyReport) (err error) {
	permit := Permit{Actor: Actor{PolicyActor, actor.ID}, Expected: AnyRevision, Claim: claim}
	applied := &report.Defaulted
	var done Done[*Decision]
	if d.Default != nil {
		done, err = Do(ctx, s, permit, ApplyTimeout{d.ID})
	} else {
		applied = &report.Expired
		done, err = Do(ctx, s, permit, ExpireDecision{d.ID})
	}
	run := NewResourceID(RunResource, d.Run)
	switch {
	case err == nil && !done.Adopted:
		*applied++
	case err == nil, errors.Is(err, schema.AlreadyResolved), errors.Is(err, schema.IllegalTransition):
		report.Lost++
	case errors.Is(err, schema.StaleClaim), errors.Is(err, schema.Denied):
		if !slices.Contains(report.Stale, run) {
			report.Stale = append(report.Stale, run)
		}
	default:
		return err
	}
	return nil
}

// AbandonedReport counts what [CancelAbandoned] did.
type AbandonedReport struct {
	Decisions     int
	Continuations int
	Effects       int // that were left of them, and are finished
	Lost          int // settled by somebody else meanwhile
}

const (
	selAbandonedDecisions = `
		SELECT ` + decisionColumns + `
		  FROM human_decisions AS d
		  JOIN runs AS p ON p.run_id = d.run_id
		  JOIN resources AS r ON r.resource_id = d.resource_id
		  LEFT JOIN human_decision_resolutions AS w ON w.decision_id = d.decision_id
		 WHERE d.status = 'pending'
		   AND p.ended_at IS NOT NULL
		 ORDER BY d.created_at, d.decision_id
		 LIMIT ?1`

	// The owner of the parent was to admit them. Those of a parent that had ended already are not for it.
	// CROSS JOIN keeps SQLite from beginning with all effects that there ever were.
	selAbandonedContinuations = `
		SELECT c.continuation_id, c.trigger_type, c.trigger_key, c.parent_run_id, c.child_run_id, c.request_digest,
		       c.input_blob, c.status, c.error_blob, c.created_at, c.updated_at, c.settled_at
		  FROM continuations AS c
		 CROSS JOIN runs    AS p ON p.run_id = c.parent_run_id
		 CROSS JOIN effects AS e ON e.source_resource_id = iif(c.trigger_type = 'decision', 'decision:' || c.trigger_key,
		                                                         'run:' || c.parent_run_id)
		                         AND e.effect_type        = 'continuation.admit'
		                         AND e.idempotency_key    = c.continuation_id
		 WHERE c.status = 'pending'
		   AND p.ended_at IS NOT NULL
		   AND e.scope_type = 'run'
		 ORDER BY c.created_at, c.continuation_id
		 LIMIT ?1`
)

const (
	// By itself SQLite would look at all effects that runs ever had.
	selLeftPending = `
		SELECT e.scope_id
		  FROM effects AS e INDEXED BY effects_due
		 CROSS JOIN runs AS p ON p.run_id = e.scope_id
		 WHERE e.scope_type    = 'run'
		   AND e.status        = 'pending'
		   AND e.available_at <= ?1
		   AND e.effect_type  IN ('continuation.admit', 'decision.clean_up')
		   AND p.ended_at IS NOT NULL
		 ORDER BY e.scope_id
		 LIMIT ?2`

	selLeftApplying = `
		SELECT e.scope_id
		  FROM effects AS e
		 CROSS JOIN runs   AS p ON p.run_id      = e.scope_id
		 CROSS JOIN leases AS l ON l.resource_id = e.resource_id
		 WHERE e.scope_type   = 'run'
		   AND e.status       = 'applying'
		   AND e.effect_type IN ('continuation.admit', 'decision.clean_up')
		   AND p.ended_at IS NOT NULL
		   AND max(l.heartbeat_at, ?1) >= l.expires_at
		 ORDER BY e.scope_id
		 LIMIT ?2`
)

// CancelAbandoned cancels decisions and continuations of runs that have ended, at most limit of each: nothing
// waits for the answer, and nobody is left to admit the run. Then it finishes the effects that follow from
// decisions and continuations of such runs, at most limit for each of at most limit runs. Every process may
// do it, as nobody owns a run that has ended.
func CancelAbandoned(ctx context.Context, s *Store, actor Actor, limit int) (report AbandonedReport, err error) {
	decisions, err := s.listDecisions(ctx, limit, selAbandonedDecisions, limit)
	if err != nil {
		return report, err
	}
	permit := Permit{Actor: actor, Expected: AnyRevision}
	for _, d := range decisions {
		done, err := Do(ctx, s, permit, CancelDecision{Decision: d.ID, Reason: "its run has ended"})
		if err := report.count(&report.Decisions, done.Adopted, err); err != nil {
			return report, err
		}
	}
	continuations, err := s.listContinuations(ctx, limit, selAbandonedContinuations, limit)
	if err != nil {
		return report, err
	}
	for _, c := range continuations {
		done, err := Do(ctx, s, permit, CancelContinuation{Continuation: c.ID, Parent: c.Parent, Error: json.RawMessage(parentEnded)})
		if err := report.count(&report.Continuations, done.Adopted, err); err != nil {
			return report, err
		}
	}
	report.Effects, err = finishLeft(ctx, s, actor, limit)
	return report, err
}

// finishLeft finishes the effects of decisions and continuations of runs that have ended. There is nothing
// left to clean up, and no run that goes on unless it does already.
func finishLeft(ctx context.Context, s *Store, actor Actor, limit int) (finished int, err error) {
	now := int64(MillisOf(s.now()))
	var runs []string
	err = s.view(ctx, func(rx *sqlite.Rx) error {
		runs = nil
		for _, sql := range []string{selLeftPending, selLeftApplying} {
			err := rx.Query(sql, func(r sqlite.Row) error {
				runs = append(runs, r.Text(0))
				return nil
			}, now, limit)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	slices.Sort(runs)
	for _, run := range slices.Compact(runs) {
		w := &EffectWorker{
			Store: s, Actor: actor, Scope: Scope{RunScope, run},
			Handlers: map[string]EffectHandler{
				EffectContinuationAdmit: ContinuationHandler(s, actor, nil, func(context.Context, Continuation) (*RunSpec, error) { return nil, nil }),
				EffectDecisionCleanUp:   {Apply: func(context.Context, Begun, json.RawMessage) (Applied, error) { return Applied{}, nil }},
			},
		}
		report, err := w.Run(ctx, limit)
		finished += report.Applied + report.Rejected
		if err != nil {
			return finished, err
		}
	}
	return finished, nil
}

const parentEnded = `{"code":"parent_ended","message":"the run that was to go on has ended"}`

func (r *AbandonedReport) count(settled *int, adopted bool, err error) error {
	switch {
	case err == nil && !adopted:
		*settled++
	case err == nil, errors.Is(err, schema.AlreadyResolved), errors.Is(err, schema.IllegalTransition):
		r.Lost++
	default:
		return err
	}
	return nil
}
