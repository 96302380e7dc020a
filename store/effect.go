package store

import (
	"context"
	"encoding/json"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// The operations on effects.
const (
	OpEffectEnsure  Op = "effect.ensure"
	OpEffectBegin   Op = "effect.begin"
	OpEffectSettle  Op = "effect.settle"
	OpEffectRecover Op = "effect.recover"
	OpEffectObserve Op = "effect.observe"
	OpEffectCancel  Op = "effect.cancel"
)

var effectOperations = []Operation{
	{
		Op: OpEffectEnsure, Does: "record that something must follow from a resource",
		Rights: rights(Right{Own: OwnSubject, On: leased}, ownerClasses...),
	},
	{
		Op: OpEffectBegin, Does: "begin an attempt to apply a due effect, and own the effect for that time",
		Rights: rights(Right{Own: OwnScope}, ownerClasses...),
	},
	{
		Op: OpEffectSettle, Does: "record how an attempt ended",
		AnyRevision: true, // only the one owner of the effect can
		Rights:      rights(Right{Own: OwnSubject}, ownerClasses...),
	},
	{
		Op: OpEffectRecover, Does: "end the attempt of a worker that vanished",
		Rights: rights(Right{Own: OwnScope}, ownerClasses...),
	},
	{
		Op: OpEffectObserve, Does: "settle an ambiguous effect by what was seen of it",
		Rights: merge(
			rights(Right{Own: OwnScope}, ownerClasses...),
			rights(Right{}, HumanActor, ControlActor),
		),
	},
	{
		Op: OpEffectCancel, Does: "give up an effect that nobody has begun, or that waits to be tried again",
		Rights: rights(Right{Own: OwnScope}, ownerClasses...),
	},
}

// EffectStatus is where an effect is.
type EffectStatus string

// The statuses of an effect. The last three are final.
const (
	EffectPending   EffectStatus = "pending"   // to be tried when it is due
	EffectApplying  EffectStatus = "applying"  // somebody is trying
	EffectAmbiguous EffectStatus = "ambiguous" // nobody knows whether it happened; not tried again
	EffectApplied   EffectStatus = "applied"
	EffectRejected  EffectStatus = "rejected" // it did not happen, and will not
	EffectCancelled EffectStatus = "cancelled"
)

// ScopeType says whose owner applies an effect.
type ScopeType string

// The scope types.
const (
	RunScope        ScopeType = "run"
	ControllerScope ScopeType = "controller"
	ChannelScope    ScopeType = "channel"
	SystemScope     ScopeType = "system" // nobody in particular: any owner of leases may
)

// Scope is whose owner applies an effect: the owner of a run, a controller resource or a channel.
type Scope struct {
	Type ScopeType `json:"type"`
	ID   string    `json:"id"`
}

// resource returns the resource whose owner it is, or "" for the system's scope.
func (s Scope) resource() ResourceID {
	if s.Type == SystemScope {
		return ""
	}
	return NewResourceID(ResourceType(s.Type), s.ID)
}

func (s Scope) check() error {
	switch s.Type {
	case RunScope, ControllerScope, ChannelScope, SystemScope:
		return checkID("scope id", s.ID)
	}
	return schema.Errorf(schema.Invalid, "scope type %q: it is run, controller, channel or system", s.Type)
}

// Effect is something that must follow from an accepted command (R6).
type Effect struct {
	Sequence       int64        `json:"sequence"` // the order in which effects were recorded
	ID             string       `json:"id"`       // derived from source, type and key
	Revision       int64        `json:"revision"` // of the effect itself
	Source         ResourceID   `json:"source"`
	SourceRevision int64        `json:"source_revision"` // the command that it follows from
	Type           string       `json:"type"`
	Key            string       `json:"key"` // unique per source and type
	Payload        Digest       `json:"payload"`
	External       bool         `json:"external"` // it leaves this database, and is never repeated on a guess
	Scope          Scope        `json:"scope"`
	Status         EffectStatus `json:"status"`
	AvailableAt    Millis       `json:"available_at,omitempty"` // while pending: not to be tried before
	Attempts       int          `json:"attempts"`
	Result         *Digest      `json:"result,omitempty"`
	Error          *Digest      `json:"error,omitempty"`        // of the last attempt that failed
	ExternalRef    string       `json:"external_ref,omitempty"` // the provider's name for what was done
	CreatedAt      Millis       `json:"created_at"`
	UpdatedAt      Millis       `json:"updated_at"`
	SettledAt      Millis       `json:"settled_at,omitempty"`
}

// Resource returns the resource that the effect is.
func (e *Effect) Resource() ResourceID { return NewResourceID(EffectResource, e.ID) }

// run returns the run that the effect belongs to, or "".
func (e *Effect) run() string {
	if e.Scope.Type == RunScope {
		return e.Scope.ID
	}
	return e.Source.run()
}

const effectColumns = `e.sequence, e.effect_id, r.revision, e.source_resource_id, e.source_revision, e.effect_type,
		       e.idempotency_key, e.payload_blob, e.is_external, e.scope_type, e.scope_id, e.status,
		       e.available_at, e.attempt_count, e.result_blob, e.error_blob, e.external_ref, e.created_at,
		       e.updated_at, e.settled_at`

const (
	selEffect = `
		SELECT ` + effectColumns + `
		  FROM effects AS e
		  JOIN resources AS r ON r.resource_id = e.resource_id
		 WHERE e.effect_id = ?1`

	insEffect = `
		INSERT INTO effects (effect_id, source_resource_id, source_revision, effect_type, idempotency_key,
		                     payload_blob, is_external, scope_type, scope_id, available_at, created_at,
		                     updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11)
		RETURNING sequence`

	updEffect = `
		UPDATE effects
		   SET status        = ?3,
		       available_at  = ?4,
		       attempt_count = ?5,
		       result_blob   = ?6,
		       error_blob    = ?7,
		       external_ref  = ?8,
		       updated_at    = ?9,
		       settled_at    = ?10
		 WHERE effect_id = ?1
		   AND status    = ?2`
)

func scanEffect(r sqlite.Row) Effect {
	e := Effect{
		Sequence:       r.Int64(0),
		ID:             r.Text(1),
		Revision:       r.Int64(2),
		Source:         ResourceID(r.Text(3)),
		SourceRevision: r.Int64(4),
		Type:           r.Text(5),
		Key:            r.Text(6),
		External:       r.Bool(8),
		Scope:          Scope{ScopeType(r.Text(9)), r.Text(10)},
		Status:         EffectStatus(r.Text(11)),
		AvailableAt:    Millis(r.Int64(12)),
		Attempts:       r.Int(13),
		Result:         digestOf(r.Bytes(14)),
		Error:          digestOf(r.Bytes(15)),
		ExternalRef:    r.Text(16),
		CreatedAt:      Millis(r.Int64(17)),
		UpdatedAt:      Millis(r.Int64(18)),
		SettledAt:      Millis(r.Int64(19)),
	}
	copy(e.Payload[:], r.Bytes(7))
	return e
}

func digestOf(b []byte) *Digest {
	if b == nil {
		return nil
	}
	d := new(Digest)
	copy(d[:], b)
	return d
}

func (d *Digest) bytes() []byte {
	if d == nil {
		return nil
	}
	return d[:]
}

func getEffect(rx *sqlite.Rx, id string) (e Effect, found bool, err error) {
	found, err = rx.QueryRow(selEffect, func(r sqlite.Row) error {
		e = scanEffect(r)
		return nil
	}, id)
	return e, found, err
}

// saveEffect stores what has changed of an effect that had a status.
func saveEffect(tx *sqlite.Tx, e Effect, from EffectStatus) error {
	n, err := tx.Exec(updEffect, e.ID, string(from), string(e.Status), orNull(int64(e.AvailableAt)), e.Attempts,
		e.Result.bytes(), e.Error.bytes(), orNull(e.ExternalRef), int64(e.UpdatedAt), orNull(int64(e.SettledAt)))
	if err == nil && n != 1 {
		err = schema.Errorf(schema.Storage, "effect %s: %d rows were %s", e.ID, n, from)
	}
	return err
}

// EffectSpec says what must follow from a resource.
type EffectSpec struct {
	Type      string          `json:"type"`
	Key       string          `json:"key"` // the same source, type and key again is the same effect
	Payload   json.RawMessage `json:"payload"`
	External  bool            `json:"external,omitempty"` // it leaves this database
	Scope     Scope           `json:"scope"`
	NotBefore Millis          `json:"not_before,omitempty"`
}

// effectDraft is an effect made ready before the transaction. In JSON its payload is a digest.
type effectDraft struct {
	EffectSpec
	Source  ResourceID `json:"source"`
	Payload *content   `json:"payload"`

	id     string
	effect Effect // as it is stored, once it is
}

// effect makes an effect ready that may follow from a resource.
func (d *draft) effect(source ResourceID, spec EffectSpec) *effectDraft {
	d.id("effect type", spec.Type)
	d.id("effect key", spec.Key)
	d.fail(spec.Scope.check())
	return &effectDraft{
		EffectSpec: spec,
		Source:     source,
		Payload:    d.json("payload", spec.Payload),
		id:         effectID(source, spec.Type, spec.Key),
	}
}

// effectID returns the id that source, type and key determine.
func effectID(source ResourceID, kind, key string) string {
	return derivedID("eff", string(source), kind, key)
}

// find looks for the effect among those recorded before. Errors: [schema.Conflict] if another one was
// recorded under the same source, type and key.
func (e *effectDraft) find(rx *sqlite.Rx) (stored *Effect, found bool, err error) {
	e.effect, found, err = getEffect(rx, e.id)
	if found && (e.effect.Payload != e.Payload.digest || e.effect.External != e.External || e.effect.Scope != e.Scope) {
		identity := "effect " + string(e.Source) + " " + e.Type + " " + e.Key
		err = refuse(schema.Conflict, &ConflictError{identity, e.effect})
	}
	return &e.effect, found, err
}

// writeEffect records an effect that follows from the given revision of its source, unless it is there
// already. A new one is a resource of its own, with a first event.
func (d *draft) writeEffect(tx *sqlite.Tx, e *effectDraft, sourceRevision int64, f *facts) error {
	if _, found, err := e.find(&tx.Rx); found || err != nil {
		return err
	}
	e.effect = Effect{
		ID: e.id, Revision: 1, Source: e.Source, SourceRevision: sourceRevision, Type: e.Type, Key: e.Key,
		Payload: e.Payload.digest, External: e.External, Scope: e.Scope, Status: EffectPending,
		AvailableAt: max(f.now, e.NotBefore), CreatedAt: f.now, UpdatedAt: f.now,
	}
	st := step{resource: e.effect.Resource(), creates: true, event: "effect.recorded", payload: e.Payload, run: e.effect.run()}
	if _, err := moveRevision(tx, st, f.now); err != nil {
		return err
	}
	if _, err := d.writeEvent(tx, st, 1, f); err != nil {
		return err
	}
	_, err := tx.QueryRow(insEffect, func(r sqlite.Row) error {
		e.effect.Sequence = r.Int64(0)
		return nil
	}, e.id, string(e.Source), sourceRevision, e.Type, e.Key, e.Payload.digest[:], e.External,
		string(e.Scope.Type), e.Scope.ID, int64(e.effect.AvailableAt), int64(f.now))
	return err
}

// EnsureEffect records an effect of a resource by a command of its own, or finds it.
//
// Errors: [schema.Conflict] with the stored [Effect] as the winner, if it differs in payload, scope or in
// whether it is external.
type EnsureEffect struct {
	Source ResourceID `json:"source"`
	EffectSpec
}

// Op returns "effect.ensure".
func (EnsureEffect) Op() Op { return OpEffectEnsure }

func (c EnsureEffect) prepare(d *draft) *plan[*Effect] {
	d.resource("source", c.Source)
	e := d.effect(c.Source, c.EffectSpec)
	return &plan[*Effect]{
		subject:  c.Source,
		payload:  e,
		existing: e.find,
		repeated: func(rx *sqlite.Rx, _ Event) (*Effect, error) {
			effect, _, err := e.find(rx)
			return effect, err
		},
		decide: func(f *facts) (*change[*Effect], error) {
			if f.subject.EndedAt != 0 {
				return nil, illegal(f, "ended")
			}
			return &change[*Effect]{
				result:  &e.effect, // which the contract is about to store
				steps:   []step{{resource: c.Source, event: "effect.ensured"}},
				effects: []*effectDraft{e},
			}, nil
		},
	}
}

// EffectFilter narrows a list of effects.
type EffectFilter struct {
	Scope  Scope        // the zero value: all
	Status EffectStatus // "": all
}

const (
	selEffects = `
		SELECT ` + effectColumns + `
		  FROM effects AS e
		  JOIN resources AS r ON r.resource_id = e.resource_id
		 WHERE e.sequence > ?1
		 ORDER BY e.sequence
		 LIMIT ?2`

	selEffectsOfStatus = `
		SELECT ` + effectColumns + `
		  FROM effects AS e
		  JOIN resources AS r ON r.resource_id = e.resource_id
		 WHERE e.status   = ?3
		   AND e.sequence > ?1
		 ORDER BY e.sequence
		 LIMIT ?2`

	selEffectsOfScope = `
		SELECT ` + effectColumns + `
		  FROM effects AS e
		  JOIN resources AS r ON r.resource_id = e.resource_id
		 WHERE e.scope_type = ?4
		   AND e.scope_id   = ?5
		   AND e.sequence   > ?1
		   AND (?3 = '' OR e.status = ?3)
		 ORDER BY e.sequence
		 LIMIT ?2`
)

// Effects returns at most limit effects after a sequence, in the order in which they were recorded, without
// their payloads.
func (q *Queries) Effects(ctx context.Context, filter EffectFilter, after int64, limit int) (effects []Effect, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	sql, args := selEffects, []any{after, limit}
	switch {
	case filter.Scope != Scope{}:
		sql, args = selEffectsOfScope, append(args, string(filter.Status), string(filter.Scope.Type), filter.Scope.ID)
	case filter.Status != "":
		sql, args = selEffectsOfStatus, append(args, string(filter.Status))
	}
	return viewList(ctx, q, scanEffect, sql, args...)
}

// Effect returns an effect by its id. Errors: [schema.NotFound].
func (q *Queries) Effect(ctx context.Context, id string) (e Effect, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		found := false
		e, found, err = getEffect(rx, id)
		if err == nil && !found {
			err = notFound("effect", id)
		}
		return err
	})
	return e, err
}
