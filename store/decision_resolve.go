package store

import (
	"pistate/internal/sqlite"
	"pistate/schema"
)

const (
	insResolution = `
		INSERT INTO human_decision_resolutions (decision_id, outcome, reason, submission_sequence, choice,
		                                        response_blob, actor_class, actor_id, resolved_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)`

	updDecisionResolved = `
		UPDATE human_decisions
		   SET status      = ?2,
		       resolved_at = ?3
		 WHERE decision_id = ?1
		   AND status      = 'pending'`
)

// resolutionEvents are the types of the events that resolve a decision.
var resolutionEvents = map[DecisionReason]string{
	ReasonHuman:            "decision.accepted",
	ReasonTimeoutPolicy:    "decision.defaulted",
	ReasonExplicitCancel:   "decision.cancelled",
	ReasonExpiredNoDefault: "decision.expired",
}

// followUp is what follows from a resolution, for the owner of the run to apply: the run goes on from what
// was accepted, or has to cope with a decision that was cancelled. It is made ready before the transaction,
// which is where the run becomes known.
type followUp struct {
	effect       *effectDraft
	continuation *Continuation // nil: nothing goes on
}

// EffectDecisionCleanUp is the type of the effect of a cancelled decision: its run waits for an answer that
// will never come. The payload is {"decision": ..., "reason": ...}.
const EffectDecisionCleanUp = "decision.clean_up"

// cleanUp makes ready what follows from the cancellation of a decision.
func (d *draft) cleanUp(decision string, reason DecisionReason) *followUp {
	return &followUp{effect: d.followingEffect(NewResourceID(DecisionResource, decision), EffectDecisionCleanUp, decision, struct {
		Decision string         `json:"decision"`
		Reason   DecisionReason `json:"reason"`
	}{decision, reason})}
}

// followingEffect is effect for one whose scope is known in the transaction only.
func (d *draft) followingEffect(source ResourceID, kind, key string, payload any) *effectDraft {
	return &effectDraft{
		EffectSpec: EffectSpec{Type: kind, Key: key},
		Source:     source,
		Payload:    d.value("payload", payload),
		id:         effectID(source, kind, key),
	}
}

// resolveDecision makes the change that gives a pending decision its one outcome. answer is the submission that won,
// if one did.
func resolveDecision[R any](f *facts, d *Decision, w DecisionResolution, answer *DecisionSubmission, follow *followUp, result R) *change[R] {
	w.Outcome, w.Actor, w.At = w.Reason.outcome(), f.actor, f.now
	d.Resolution, d.Status, d.Revision = &w, w.Outcome, d.Revision+1
	c := &change[R]{
		result: result,
		steps:  []step{{resource: d.Resource(), ends: true, event: resolutionEvents[w.Reason], run: d.Run}},
	}
	if follow != nil {
		follow.effect.Scope = Scope{RunScope, d.Run}
		c.effects = []*effectDraft{follow.effect}
		if follow.continuation != nil {
			follow.continuation.begin(d.Run, f.now)
			follow.continuation.Input = w.Response
		}
	}
	c.rows = func(tx *sqlite.Tx) error {
		if answer != nil {
			if err := insertSubmission(tx, *answer); err != nil {
				return err
			}
		}
		_, err := tx.Exec(insResolution, d.ID, string(w.Outcome), string(w.Reason), orNull(w.Submission), orNull(w.Choice),
			w.Response.bytes(), string(w.Actor.Class), orNull(w.Actor.ID), int64(w.At))
		if err != nil {
			return err
		}
		n, err := tx.Exec(updDecisionResolved, d.ID, string(w.Outcome), int64(w.At))
		if err == nil && n != 1 {
			err = schema.Errorf(schema.Storage, "decision %s: %d rows were pending", d.ID, n)
		}
		if err != nil || follow == nil || follow.continuation == nil {
			return err
		}
		return insertContinuation(tx, follow.continuation)
	}
	return c
}

// resolutionPlan is the plan of a command that resolves a decision without an answer. decide gets a pending
// decision and says how it ends.
func (d *draft) resolutionPlan(id string, reason DecisionReason, payload any,
	decide func(f *facts, d *Decision) (DecisionResolution, *followUp, error)) *plan[*Decision] {
	d.id("decision", id)
	return &plan[*Decision]{
		subject: NewResourceID(DecisionResource, id),
		payload: payload,
		owner:   func(rx *sqlite.Rx, _ Ownership) (ResourceID, error) { return ownerOfDecision(rx, id) },
		existing: func(rx *sqlite.Rx) (*Decision, bool, error) {
			stored, found, err := findDecision(rx, id)
			switch {
			case err != nil || !found || stored.Resolution == nil:
				return nil, false, err
			case stored.Resolution.Reason != reason:
				return nil, true, stored.winner()
			}
			return &stored, true, nil
		},
		repeated: func(rx *sqlite.Rx, _ Event) (*Decision, error) {
			stored, err := getDecision(rx, id)
			return &stored, err
		},
		decide: func(f *facts) (*change[*Decision], error) {
			stored, err := getDecision(f.Rx, id)
			if err != nil {
				return nil, err
			}
			w, follow, err := decide(f, &stored)
			if err != nil {
				return nil, err
			}
			w.Reason = reason
			return resolveDecision(f, &stored, w, nil, follow, &stored), nil
		},
	}
}

// ApplyTimeout accepts the default response of a decision after its deadline, for the owner of its run. That
// is an acceptance and can't become an expiry (D9). Done again, it finds what it did.
//
// Errors: [schema.AlreadyResolved] with the durable winner, a [DecisionResolution];
// [schema.IllegalTransition] before the deadline, without a default, or once the run has ended.
type ApplyTimeout struct {
	Decision string `json:"decision"`
}

// Op returns "decision.apply_timeout".
func (ApplyTimeout) Op() Op { return OpDecisionApplyTimeout }

func (c ApplyTimeout) prepare(d *draft) *plan[*Decision] {
	follow := d.continuationOf(c.Decision)
	return d.resolutionPlan(c.Decision, ReasonTimeoutPolicy, c, func(f *facts, d *Decision) (w DecisionResolution, _ *followUp, err error) {
		if d.Default == nil {
			return w, nil, illegal(f, "pending, without a default response")
		}
		return DecisionResolution{Choice: d.DefaultChoice, Response: d.Default}, follow, mustBeDue(f, d)
	})
}

// ExpireDecision cancels a decision without a default response after its deadline, for the owner of its run.
// Done again, it finds what it did.
//
// Errors: [schema.AlreadyResolved] with the durable winner, a [DecisionResolution];
// [schema.IllegalTransition] before the deadline, with a default, or once the run has ended.
type ExpireDecision struct {
	Decision string `json:"decision"`
}

// Op returns "decision.expire".
func (ExpireDecision) Op() Op { return OpDecisionExpire }

func (c ExpireDecision) prepare(d *draft) *plan[*Decision] {
	follow := d.cleanUp(c.Decision, ReasonExpiredNoDefault)
	return d.resolutionPlan(c.Decision, ReasonExpiredNoDefault, c, func(f *facts, d *Decision) (w DecisionResolution, _ *followUp, err error) {
		if d.Default != nil {
			return w, nil, illegal(f, "pending, with a default response that its deadline accepts")
		}
		return w, follow, mustBeDue(f, d)
	})
}

// mustBeDue refuses to apply a deadline that has not passed, or whose run has ended.
func mustBeDue(f *facts, d *Decision) error {
	switch ended, err := runEnd(f.Rx, d.Run); {
	case err != nil:
		return err
	case ended != "":
		return illegal(f, "of a run that is "+ended)
	case d.DeadlineAt == 0:
		return illegal(f, "pending, without a deadline")
	case !d.due(f.now):
		return illegal(f, "pending, before its deadline")
	}
	return nil
}

// CancelDecision cancels a decision, whatever its deadline and default. Done again, it finds what it did.
// Nobody owns a run that has ended, so whoever may cancel can cancel its decisions without a claim.
//
// Errors: [schema.AlreadyResolved] with the durable winner, a [DecisionResolution].
type CancelDecision struct {
	Decision string `json:"decision"`
	Reason   string `json:"reason,omitempty"` // for people
}

// Op returns "decision.cancel".
func (CancelDecision) Op() Op { return OpDecisionCancel }

func (c CancelDecision) prepare(d *draft) *plan[*Decision] {
	d.line("reason", c.Reason, maxReasonBytes)
	follow := d.cleanUp(c.Decision, ReasonExplicitCancel)
	return d.resolutionPlan(c.Decision, ReasonExplicitCancel, c, func(f *facts, d *Decision) (w DecisionResolution, _ *followUp, err error) {
		ended, err := runEnd(f.Rx, d.Run)
		if ended != "" { // nothing waits for the answer, and nobody could apply an effect
			return w, nil, err
		}
		return w, follow, err
	})
}
