package store

import (
	"context"

	"pistate/internal/sqlite"
)

// Situation is what an open run waits for, or who is at work on it: what its own row does not say.
type Situation struct {
	Lease     *Lease       `json:"lease,omitempty"`     // the last one; its owner is the current one unless it has expired
	Current   *NodeAttempt `json:"current,omitempty"`   // the one attempt that has not ended
	Queue     *Queued      `json:"queue,omitempty"`     // nil: it was never queued
	Question  *Decision    `json:"question,omitempty"`  // the first that waits for an answer
	Questions int          `json:"questions,omitempty"` // that wait
	Due       int          `json:"due,omitempty"`       // effects for its owner to apply now
	Ambiguous int          `json:"ambiguous,omitempty"` // effects of which nobody knows whether they happened
}

const (
	selFirstQuestion = `
		SELECT ` + decisionColumns + `
		  FROM human_decisions AS d
		  JOIN resources AS r ON r.resource_id = d.resource_id
		  LEFT JOIN human_decision_resolutions AS w ON w.decision_id = d.decision_id
		 WHERE d.run_id = ?1
		   AND +d.status = 'pending'
		 ORDER BY d.decision_key, d.request_revision
		 LIMIT 1`

	countQuestions = `
		SELECT count(*)
		  FROM human_decisions
		 WHERE run_id = ?1
		   AND +status = 'pending'`

	countDue = `
		SELECT count(*)
		  FROM effects
		 WHERE scope_type = 'run'
		   AND scope_id   = ?1
		   AND status     = 'pending'
		   AND available_at <= ?2`

	countAmbiguous = `
		SELECT count(*)
		  FROM effects
		 WHERE scope_type = 'run'
		   AND scope_id   = ?1
		   AND +status    = 'ambiguous'`
)

// Situation returns what is going on with a run.
func (q *Queries) Situation(ctx context.Context, run Run) (s Situation, err error) {
	now := MillisOf(q.now())
	err = q.view(ctx, func(rx *sqlite.Rx) (err error) {
		s = Situation{}
		if s.Lease, err = lastOwner(rx, run.Resource(), now); err != nil {
			return err
		}
		if s.Current, err = oneAttempt(rx, selActiveAttempt, run.ID); err != nil {
			return err
		}
		row, err := oneQueueRow(rx, selQueueRow, run.ID)
		if err != nil {
			return err
		}
		if row != nil {
			shown := row.shown(run.Status)
			s.Queue = &shown
		}
		if s.Questions, err = oneNumber(rx, countQuestions, run.ID); err != nil {
			return err
		}
		if s.Questions > 0 {
			asked, err := readDecisions(rx, selFirstQuestion, run.ID)
			if err != nil {
				return err
			}
			s.Question = &asked[0]
		}
		if s.Due, err = oneNumber(rx, countDue, run.ID, int64(now)); err != nil {
			return err
		}
		s.Ambiguous, err = oneNumber(rx, countAmbiguous, run.ID)
		return err
	})
	return s, err
}

// lastOwner returns the lease of a resource unless it was released, expired or not; nil if it was.
func lastOwner(rx *sqlite.Rx, resource ResourceID, now Millis) (*Lease, error) {
	l, err := getLease(rx, resource)
	if err != nil || l.Owner == nil {
		return nil, err
	}
	l.Expired = l.at(now) >= l.ExpiresAt
	return &l.Lease, nil
}
