package store

import (
	"encoding/json"

	"pistate/schema"
)

// Observation is evidence of what became of an effect: somebody has looked.
type Observation struct {
	Applied     bool            `json:"applied"` // whether it happened
	Result      json.RawMessage `json:"result,omitempty"`
	ExternalRef string          `json:"external_ref,omitempty"` // the provider's name for what was done
}

// observed is an observation made ready before the transaction.
type observed struct {
	Applied     bool    `json:"applied"`
	Result      *Digest `json:"result,omitempty"`
	ExternalRef string  `json:"external_ref,omitempty"`
	Absent      *Digest `json:"absent,omitempty"` // the error that stands for "it did not happen"
}

// absence is the error of an effect that was seen not to have happened.
const absence = `{"code":"not_applied","message":"it was observed not to have happened"}`

func (d *draft) observation(o *Observation) *observed {
	if o == nil {
		return nil
	}
	if !o.Applied && (o.Result != nil || o.ExternalRef != "") {
		d.invalid("what did not happen has no result and no external_ref")
	}
	d.line("external_ref", o.ExternalRef, maxIDBytes)
	seen := &observed{Applied: o.Applied, Result: d.optional("result", o.Result), ExternalRef: o.ExternalRef}
	if !o.Applied {
		seen.Absent = d.optional("absence", json.RawMessage(absence))
	}
	return seen
}

// apply makes an effect applied.
func (o *observed) apply(e *Effect) {
	e.Status, e.Result, e.Error = EffectApplied, o.Result, nil
	if o.ExternalRef != "" {
		e.ExternalRef = o.ExternalRef
	}
}

// RecoverEffect ends the attempt of a worker that vanished: its ownership of the effect has expired. The
// attempt was interrupted, and nobody can say how far it came. A local effect is tried again, as it either
// was one transaction or nothing. An external one becomes ambiguous, unless somebody has looked: then it is
// applied, or tried again (R7).
//
// Errors: [schema.Locked] with a [*HeldError] while the worker's ownership lasts; [schema.IllegalTransition]
// for an effect that nobody is applying.
type RecoverEffect struct {
	Effect       string       `json:"effect"`
	Seen         *Observation `json:"seen,omitempty"`           // nil: nobody could look
	RetryAfterMS int64        `json:"retry_after_ms,omitempty"` // if it is tried again
}

// Op returns "effect.recover".
func (RecoverEffect) Op() Op { return OpEffectRecover }

func (c RecoverEffect) prepare(d *draft) *plan[*Effect] {
	if c.RetryAfterMS < 0 {
		d.invalid("retry_after_ms %d is negative", c.RetryAfterMS)
	}
	seen := d.observation(c.Seen)
	asked := struct {
		RecoverEffect
		Seen *observed `json:"seen,omitempty"`
	}{c, seen}
	return effectPlan(d, c.Effect, asked, "effect.interrupted", func(f *facts, e *Effect) (Outcome, error) {
		if e.Status != EffectApplying {
			return "", illegal(f, string(e.Status))
		}
		l, err := getLease(f.Rx, e.Resource())
		if err != nil {
			return "", err
		}
		if l.Owner != nil && l.at(f.now) < l.ExpiresAt {
			return "", refuse(schema.Locked, &HeldError{e.Resource(), *l.Owner, l.Generation, l.ExpiresAt})
		}
		switch {
		case seen != nil && seen.Applied:
			seen.apply(e)
		case seen != nil, !e.External:
			e.Status, e.AvailableAt = EffectPending, f.now+Millis(c.RetryAfterMS)
		default:
			e.Status = EffectAmbiguous
		}
		return OutcomeInterrupted, nil
	})
}

// ObserveEffect settles an ambiguous effect by evidence: it happened, or it did not. One that did not is
// rejected: who still wants it records a new effect, under a new key.
//
// Errors: [schema.IllegalTransition] for an effect that is not ambiguous.
type ObserveEffect struct {
	Effect string `json:"effect"`
	Observation
}

// Op returns "effect.observe".
func (ObserveEffect) Op() Op { return OpEffectObserve }

func (c ObserveEffect) prepare(d *draft) *plan[*Effect] {
	seen := d.observation(&c.Observation)
	asked := struct {
		Effect string `json:"effect"`
		*observed
	}{c.Effect, seen}
	return effectPlan(d, c.Effect, asked, "effect.observed", func(f *facts, e *Effect) (Outcome, error) {
		if e.Status != EffectAmbiguous {
			return "", illegal(f, string(e.Status))
		}
		if seen.Applied {
			seen.apply(e)
			return "", nil
		}
		e.Status = EffectRejected
		if e.Error == nil {
			e.Error = seen.Absent
		}
		return "", nil
	})
}

// CancelEffect gives up an effect that waits to be tried.
//
// Errors: [schema.IllegalTransition] for an effect that is not pending.
type CancelEffect struct {
	Effect string `json:"effect"`
	Reason string `json:"reason"`
}

// Op returns "effect.cancel".
func (CancelEffect) Op() Op { return OpEffectCancel }

const maxReasonBytes = 1000

func (c CancelEffect) prepare(d *draft) *plan[*Effect] {
	d.line("reason", c.Reason, maxReasonBytes)
	return effectPlan(d, c.Effect, c, "effect.cancelled", func(f *facts, e *Effect) (Outcome, error) {
		if e.Status != EffectPending {
			return "", illegal(f, string(e.Status))
		}
		e.Status, e.AvailableAt = EffectCancelled, 0
		return "", nil
	})
}
