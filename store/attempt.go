package store

import (
	"context"
	"encoding/json"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// Outcome is how an attempt to apply an effect ended.
type Outcome string

// The outcomes. An attempt whose worker vanished is interrupted.
const (
	OutcomeApplied     Outcome = "applied"
	OutcomeRejected    Outcome = "rejected" // it certainly did not happen
	OutcomeAmbiguous   Outcome = "ambiguous"
	OutcomeInterrupted Outcome = "interrupted"
)

// Attempt is one try to apply an effect (R7).
type Attempt struct {
	Effect     string  `json:"effect"`
	Number     int     `json:"number"` // from 1
	Owner      Actor   `json:"owner"`  // its id is private
	Generation int64   `json:"generation"`
	Outcome    Outcome `json:"outcome,omitempty"` // "": it goes on
	Error      *Digest `json:"error,omitempty"`
	StartedAt  Millis  `json:"started_at"`
	EndedAt    Millis  `json:"ended_at,omitempty"`
}

const (
	insAttempt = `
		INSERT INTO effect_attempts (effect_id, attempt_number, owner_type, owner_id, lease_generation, started_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6)`

	updAttempt = `
		UPDATE effect_attempts
		   SET outcome    = ?3,
		       error_blob = ?4,
		       ended_at   = ?5
		 WHERE effect_id      = ?1
		   AND attempt_number = ?2
		   AND ended_at IS NULL`

	selAttempts = `
		SELECT effect_id, attempt_number, owner_type, owner_id, lease_generation, outcome, error_blob,
		       started_at, ended_at
		  FROM effect_attempts
		 WHERE effect_id      = ?1
		   AND attempt_number > ?2
		 ORDER BY attempt_number
		 LIMIT ?3`
)

// EffectAttempts returns at most limit attempts of an effect after a number, in order.
func (q *Queries) EffectAttempts(ctx context.Context, effect string, after, limit int) (attempts []Attempt, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		attempts = nil
		return rx.Query(selAttempts, func(r sqlite.Row) error {
			attempts = append(attempts, Attempt{
				Effect: r.Text(0), Number: r.Int(1), Owner: Actor{ActorClass(r.Text(2)), r.Text(3)}, Generation: r.Int64(4),
				Outcome: Outcome(r.Text(5)), Error: digestOf(r.Bytes(6)), StartedAt: Millis(r.Int64(7)), EndedAt: Millis(r.Int64(8)),
			})
			return nil
		}, effect, after, limit)
	})
	return attempts, err
}

// ownerOfEffect returns the resource whose owner applies an effect: "" for the system's scope, and for a scope
// that has ended, which nobody can own any more: what it left to be done is then for any owner of leases.
func ownerOfEffect(rx *sqlite.Rx, id string) (ResourceID, error) {
	e, _, err := getEffect(rx, id)
	if err != nil {
		return "", err
	}
	owner := e.Scope.resource()
	if owner == "" {
		return "", nil
	}
	scope, err := getResource(rx, owner)
	if err != nil || scope.EndedAt != 0 {
		return "", err
	}
	return owner, nil
}

// effectPlan is the plan of a command on an effect. decide gets the effect as it is and changes it; ended
// is how its open attempt ends, "" if it has none or goes on.
func effectPlan(d *draft, id string, payload any, event string, decide func(f *facts, e *Effect) (ended Outcome, err error)) *plan[*Effect] {
	d.id("effect", id)
	resource := NewResourceID(EffectResource, id)
	return &plan[*Effect]{
		subject: resource,
		payload: payload,
		owner:   func(rx *sqlite.Rx, _ Ownership) (ResourceID, error) { return ownerOfEffect(rx, id) },
		repeated: func(rx *sqlite.Rx, _ Event) (*Effect, error) {
			e, _, err := getEffect(rx, id)
			return &e, err
		},
		decide: func(f *facts) (*change[*Effect], error) {
			before, _, err := getEffect(f.Rx, id)
			if err != nil {
				return nil, err
			}
			e := before
			ended, err := decide(f, &e)
			if err != nil {
				return nil, err
			}
			e.Revision, e.UpdatedAt = e.Revision+1, f.now
			ends := e.Status == EffectApplied || e.Status == EffectRejected || e.Status == EffectCancelled
			if ends {
				e.SettledAt = f.now
			}
			return &change[*Effect]{
				result: &e,
				steps:  []step{{resource: resource, ends: ends, event: event, run: e.run()}},
				rows: func(tx *sqlite.Tx) error {
					if ended != "" {
						if err := endAttempt(tx, &e, ended); err != nil {
							return err
						}
					}
					return saveEffect(tx, e, before.Status)
				},
			}, nil
		},
	}
}

// endAttempt ends the last attempt of an effect, and the ownership that went with it.
func endAttempt(tx *sqlite.Tx, e *Effect, outcome Outcome) error {
	var fault []byte
	if outcome != OutcomeApplied {
		fault = e.Error.bytes()
	}
	n, err := tx.Exec(updAttempt, e.ID, e.Attempts, string(outcome), fault, int64(e.UpdatedAt))
	if err == nil && n != 1 {
		err = schema.Errorf(schema.Storage, "effect %s: %d attempts %d are open", e.ID, n, e.Attempts)
	}
	if err != nil {
		return err
	}
	return clearOwner(tx, e.Resource())
}

// Begun is an attempt that has begun, for the worker that makes it.
type Begun struct {
	Effect Effect `json:"effect"`
	Claim  *Claim `json:"claim"` // on the effect
}

// BeginEffect begins an attempt to apply a due effect and makes the actor its owner for that time. The
// permit's claim is on the effect's scope.
//
// Errors: [schema.IllegalTransition] for an effect that is not pending or not due.
type BeginEffect struct {
	Effect string `json:"effect"`
	TTLMS  int64  `json:"ttl_ms"` // of the ownership
}

// Op returns "effect.begin".
func (BeginEffect) Op() Op { return OpEffectBegin }

func (c BeginEffect) prepare(d *draft) *plan[*Begun] {
	d.id("effect", c.Effect)
	g := d.grant(c.TTLMS)
	resource := NewResourceID(EffectResource, c.Effect)
	return &plan[*Begun]{
		subject: resource,
		payload: c,
		owner:   func(rx *sqlite.Rx, _ Ownership) (ResourceID, error) { return ownerOfEffect(rx, c.Effect) },
		repeated: func(_ *sqlite.Rx, e Event) (*Begun, error) {
			return nil, refuse(schema.Conflict, &ConflictError{Identity: "request " + e.ID + ", whose claim was handed out once", Winner: e})
		},
		decide: func(f *facts) (*change[*Begun], error) {
			e, _, err := getEffect(f.Rx, c.Effect)
			switch {
			case err != nil:
				return nil, err
			case e.Status != EffectPending:
				return nil, illegal(f, string(e.Status))
			case e.AvailableAt > f.now:
				return nil, illegal(f, "pending and not due")
			}
			next, claim, _, err := g.take(f, resource)
			if err != nil {
				return nil, err
			}
			e.Revision, e.UpdatedAt, e.Status, e.AvailableAt, e.Attempts = e.Revision+1, f.now, EffectApplying, 0, e.Attempts+1
			return &change[*Begun]{
				result: &Begun{e, claim},
				steps:  []step{{resource: resource, event: "effect.began", generation: next.Generation, run: e.run()}},
				rows: func(tx *sqlite.Tx) error {
					if err := putLease(tx, next); err != nil {
						return err
					}
					if _, err := tx.Exec(insAttempt, e.ID, e.Attempts, string(f.actor.Class), f.actor.ID, next.Generation, int64(f.now)); err != nil {
						return err
					}
					return saveEffect(tx, e, EffectPending)
				},
			}, nil
		},
	}
}

// SettleEffect records how the attempt ended that the permit's claim belongs to. A rejected attempt settles
// the effect for good, unless RetryAfterMS is set: then it is tried again after that time.
//
// Errors: [schema.StaleClaim] if the attempt was declared interrupted meanwhile; [schema.IllegalTransition]
// for an ambiguous outcome of a local effect, which can always be tried again.
type SettleEffect struct {
	Effect       string          `json:"effect"`
	Outcome      Outcome         `json:"outcome"`                  // applied, rejected or ambiguous
	Result       json.RawMessage `json:"result,omitempty"`         // if applied
	Error        json.RawMessage `json:"error,omitempty"`          // if not; needed of a rejection
	ExternalRef  string          `json:"external_ref,omitempty"`   // the provider's name for what was done
	RetryAfterMS *int64          `json:"retry_after_ms,omitempty"` // if rejected
}

// Op returns "effect.settle".
func (SettleEffect) Op() Op { return OpEffectSettle }

func (c SettleEffect) prepare(d *draft) *plan[*Effect] {
	switch {
	case c.Outcome != OutcomeApplied && c.Outcome != OutcomeRejected && c.Outcome != OutcomeAmbiguous:
		d.invalid("outcome %q: it is applied, rejected or ambiguous", c.Outcome)
	case c.Outcome == OutcomeRejected && c.Error == nil:
		d.invalid("a rejected attempt needs its error")
	case c.Outcome == OutcomeApplied && c.Error != nil:
		d.invalid("an applied attempt has no error")
	case c.Outcome != OutcomeApplied && c.Result != nil:
		d.invalid("only an applied attempt has a result")
	case c.RetryAfterMS != nil && (c.Outcome != OutcomeRejected || *c.RetryAfterMS < 0):
		d.invalid("retry_after_ms is for a rejected attempt, and at least 0")
	}
	result, fault := d.optional("result", c.Result), d.optional("error", c.Error)
	d.line("external_ref", c.ExternalRef, maxIDBytes)
	asked := struct {
		SettleEffect
		Result *Digest `json:"result,omitempty"`
		Error  *Digest `json:"error,omitempty"`
	}{c, result, fault}
	return effectPlan(d, c.Effect, asked, "effect."+string(c.Outcome), func(f *facts, e *Effect) (Outcome, error) {
		if e.Status != EffectApplying || c.Outcome == OutcomeAmbiguous && !e.External {
			return "", illegal(f, string(e.Status)) // a claim of an earlier attempt can't come here
		}
		e.Result, e.Error, e.Status = result, fault, EffectStatus(c.Outcome)
		if c.ExternalRef != "" {
			e.ExternalRef = c.ExternalRef
		}
		if c.RetryAfterMS != nil {
			e.Status, e.AvailableAt = EffectPending, f.now+Millis(*c.RetryAfterMS)
		}
		return c.Outcome, nil
	})
}

// optional is json for a value that may be absent.
func (d *draft) optional(field string, value json.RawMessage) *Digest {
	if value == nil {
		return nil
	}
	c := d.json(field, value)
	if c == nil {
		return nil
	}
	return &c.digest
}
