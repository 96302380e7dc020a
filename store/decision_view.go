package store

import (
	"context"
	"encoding/json"

	"pistate/internal/sqlite"
)

// DecisionView is what can be said of a decision in one snapshot. Its status is the resolution's: an accepted
// decision is accepted while its continuation is pending, a cancelled one is cancelled while its run still
// has to be cleaned up (V1).
type DecisionView struct {
	Decision
	// Overdue: the deadline has passed, and nobody has applied it yet.
	Overdue      bool          `json:"overdue,omitempty"`
	Answers      int           `json:"answers"`                // that were kept
	Continuation *Continuation `json:"continuation,omitempty"` // of an accepted decision
	Effects      []Effect      `json:"effects"`                // that follow from the resolution
}

// Settled reports whether everything that follows from the resolution has been done, or given up.
func (v *DecisionView) Settled() bool {
	for _, e := range v.Effects {
		if e.SettledAt == 0 {
			return false
		}
	}
	return v.Resolution != nil
}

// Place is where a list that is ordered by time continues: after the entry with this time and id.
type Place struct {
	At Millis `json:"at"`
	ID string `json:"id"`
}

// Place returns where a list of decisions continues after this one.
func (d *Decision) Place() Place { return Place{d.CreatedAt, d.ID} }

const (
	selContinuationOfDecision = `
		SELECT ` + continuationColumns + `
		  FROM continuations
		 WHERE trigger_type = 'decision'
		   AND trigger_key  = ?1`

	selEffectsOfSource = `
		SELECT ` + effectColumns + `
		  FROM effects AS e
		  JOIN resources AS r ON r.resource_id = e.resource_id
		 WHERE e.source_resource_id = ?1
		 ORDER BY e.effect_type, e.idempotency_key`

	selPendingDecisions = `
		SELECT ` + decisionColumns + `
		  FROM human_decisions AS d
		  JOIN resources AS r ON r.resource_id = d.resource_id
		  LEFT JOIN human_decision_resolutions AS w ON w.decision_id = d.decision_id
		 WHERE d.status = 'pending'
		   AND (d.created_at, d.decision_id) > (?1, ?2)
		 ORDER BY d.created_at, d.decision_id
		 LIMIT ?3`

	selPendingDecisionsFor = `
		SELECT ` + decisionColumns + `
		  FROM human_decisions AS d
		  JOIN resources AS r ON r.resource_id = d.resource_id
		  LEFT JOIN human_decision_resolutions AS w ON w.decision_id = d.decision_id
		 WHERE d.status   = 'pending'
		   AND d.audience = ?4
		   AND (d.created_at, d.decision_id) > (?1, ?2)
		 ORDER BY d.created_at, d.decision_id
		 LIMIT ?3`

	selDecisionsOfRun = `
		SELECT ` + decisionColumns + `
		  FROM human_decisions AS d
		  JOIN resources AS r ON r.resource_id = d.resource_id
		  LEFT JOIN human_decision_resolutions AS w ON w.decision_id = d.decision_id
		 WHERE d.run_id = ?1
		   AND (d.decision_key, d.request_revision) > (?2, ?3)
		 ORDER BY d.decision_key, d.request_revision
		 LIMIT ?4`

	selSubmissions = `
		SELECT ` + submissionColumns + `
		  FROM human_decision_submissions
		 WHERE decision_id = ?1
		   AND sequence    > ?2
		 ORDER BY sequence
		 LIMIT ?3`
)

// Decision returns a decision with everything that follows from it. Errors: [schema.NotFound].
func (q *Queries) Decision(ctx context.Context, id string) (v DecisionView, err error) {
	now := MillisOf(q.now())
	err = q.view(ctx, func(rx *sqlite.Rx) (err error) {
		v, err = viewDecision(rx, id, now)
		return err
	})
	return v, err
}

func viewDecision(rx *sqlite.Rx, id string, now Millis) (v DecisionView, err error) {
	if v.Decision, err = getDecision(rx, id); err != nil {
		return v, err
	}
	v.Overdue = v.Resolution == nil && v.due(now)
	_, err = rx.QueryRow(selLastSubmission, func(r sqlite.Row) error {
		v.Answers = r.Int(0)
		return nil
	}, id)
	if err != nil {
		return v, err
	}
	_, err = rx.QueryRow(selContinuationOfDecision, func(r sqlite.Row) error {
		c := scanContinuation(r)
		v.Continuation = &c
		return nil
	}, id)
	if err != nil {
		return v, err
	}
	v.Effects, err = list(rx, scanEffect, selEffectsOfSource, string(v.Resource()))
	return v, err
}

// PendingDecisions returns at most limit decisions that wait for an answer, the oldest first, after a place
// in the list; of one audience, or of all for "".
func (q *Queries) PendingDecisions(ctx context.Context, audience string, after Place, limit int) ([]Decision, error) {
	args := []any{int64(after.At), after.ID, limit}
	if audience == "" {
		return q.listDecisions(ctx, limit, selPendingDecisions, args...)
	}
	return q.listDecisions(ctx, limit, selPendingDecisionsFor, append(args, audience)...)
}

// DecisionsOfRun returns at most limit decisions of a run after a key and request revision, in that order.
func (q *Queries) DecisionsOfRun(ctx context.Context, run, afterKey string, afterRevision, limit int) ([]Decision, error) {
	return q.listDecisions(ctx, limit, selDecisionsOfRun, run, afterKey, afterRevision, limit)
}

func (q *Queries) listDecisions(ctx context.Context, limit int, sql string, args ...any) (decisions []Decision, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	err = q.view(ctx, func(rx *sqlite.Rx) (err error) {
		decisions, err = readDecisions(rx, sql, args...)
		return err
	})
	return decisions, err
}

func readDecisions(rx *sqlite.Rx, sql string, args ...any) (decisions []Decision, err error) {
	return list(rx, scanDecision, sql, args...)
}

// DecisionSubmissions returns at most limit answers to a decision after a number, in order.
func (q *Queries) DecisionSubmissions(ctx context.Context, decision string, after, limit int) (submissions []DecisionSubmission, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	return viewList(ctx, q, scanSubmission, selSubmissions, decision, after, limit)
}

// AskedDecision is a decision with the content that people are shown.
type AskedDecision struct {
	Decision     Decision        `json:"decision"`
	Subject      json.RawMessage `json:"subject"`
	Presentation json.RawMessage `json:"presentation"`
	Choices      []Choice        `json:"choices"`
	Default      *Response       `json:"default,omitempty"`
}

// AskedDecision returns a decision with its content, for whoever shows it. Errors: [schema.NotFound].
func (q *Queries) AskedDecision(ctx context.Context, id string) (a AskedDecision, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) (err error) {
		a = AskedDecision{}
		if a.Decision, err = getDecision(rx, id); err != nil {
			return err
		}
		for _, c := range []struct {
			digest *Digest
			into   any
		}{
			{&a.Decision.Subject, &a.Subject}, {&a.Decision.Presentation, &a.Presentation},
			{&a.Decision.Choices, &a.Choices}, {a.Decision.Default, &a.Default},
		} {
			if err := readContent(rx, c.digest, c.into); err != nil {
				return err
			}
		}
		return nil
	})
	return a, err
}

// readContent decodes stored JSON. Nothing happens without a digest.
func readContent(rx *sqlite.Rx, digest *Digest, into any) error {
	if digest == nil {
		return nil
	}
	found, err := rx.QueryRow(selContent, func(r sqlite.Row) error {
		if raw, ok := into.(*json.RawMessage); ok {
			*raw = r.Bytes(0)
			return nil
		}
		return json.Unmarshal(r.Bytes(0), into)
	}, digest[:])
	if err == nil && !found {
		err = corruptBlob(*digest)
	}
	return err
}
