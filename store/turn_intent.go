package store

import (
	"encoding/json"

	"pistate/internal/sqlite"
)

// TurnIntent is a turn that a Pi session is to take later, once.
type TurnIntent struct {
	Delivery
	Key        string `json:"key"`         // the same key again is the same turn
	EligibleAt Millis `json:"eligible_at"` // not to be taken before
}

// Resource returns the resource that the turn is.
func (t *TurnIntent) Resource() ResourceID { return NewResourceID(TurnIntentResource, t.ID) }

// EligiblePlace returns where a list of turns to take continues after this one.
func (t *TurnIntent) EligiblePlace() Place { return Place{t.EligibleAt, t.ID} }

const turnColumns = `n.turn_intent_id, r.revision, n.run_id, n.pi_session_id, n.payload_blob, n.effect_id, n.resolution,
		       n.entry_id, n.created_at, n.resolved_at, n.intent_key, n.eligible_at`

const (
	selTurn = `
		SELECT ` + turnColumns + `
		  FROM turn_intents AS n
		  JOIN resources AS r ON r.resource_id = n.resource_id
		 WHERE n.turn_intent_id = ?1`

	insTurn = `
		INSERT INTO turn_intents (turn_intent_id, run_id, pi_session_id, intent_key, payload_blob, effect_id,
		                          eligible_at, created_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`

	updTurn = `
		UPDATE turn_intents
		   SET resolution  = ?2,
		       entry_id    = ?3,
		       resolved_at = ?4
		 WHERE turn_intent_id = ?1
		   AND resolved_at IS NULL`
)

func scanTurn(r sqlite.Row) TurnIntent {
	return TurnIntent{Delivery: scanDelivery(r), Key: r.Text(10), EligibleAt: Millis(r.Int64(11))}
}

// oneTurn returns a turn by its id, or nil.
func oneTurn(rx *sqlite.Rx, id string) (t *TurnIntent, err error) {
	_, err = rx.QueryRow(selTurn, func(r sqlite.Row) error {
		found := scanTurn(r)
		t = &found
		return nil
	}, id)
	return t, err
}

// NewTurn is a turn that a Pi session is to take once. Session and key are its identity.
type NewTurn struct {
	Run        string          `json:"run,omitempty"` // that it belongs to
	Session    string          `json:"session"`
	Key        string          `json:"key"`
	Payload    json.RawMessage `json:"payload"`
	EligibleAt Millis          `json:"eligible_at,omitempty"` // not to be taken before; 0: at once
}

// turnID returns the id that session and key determine.
func turnID(session, key string) string { return derivedID("trn", session, key) }

// turnDraft is a turn made ready before the transaction. In JSON its payload is a digest.
type turnDraft struct {
	NewTurn
	Payload *content `json:"payload"`

	*newDelivery `json:"-"`
}

// turn makes a turn ready that is caused by a command on source, or by a command of its own if source is "".
func (d *draft) turn(source ResourceID, c NewTurn) *turnDraft {
	if c.Run != "" {
		d.id("run", c.Run)
	}
	d.id("key", c.Key)
	d.moment("eligible_at", c.EligibleAt)
	resource := NewResourceID(TurnIntentResource, turnID(c.Session, c.Key))
	if source == "" {
		source = resource
	}
	n := d.deliver(source, resource, TurnEffect, c.Session, c.Payload, c.EligibleAt)
	n.event, n.run = "turn_intent.created", c.Run
	td := &turnDraft{c, n.payload, n}
	n.find = func(rx *sqlite.Rx) (bool, error) {
		stored, err := td.stored(rx)
		return stored != nil, err
	}
	n.insert = td.insert
	return td
}

// stored returns the turn if it is there already. Errors: [schema.Conflict] if another one is. When it is to
// be taken is no part of its identity: the first word on that counts.
func (t *turnDraft) stored(rx *sqlite.Rx) (*TurnIntent, error) {
	stored, err := oneTurn(rx, t.resource.Aggregate())
	if stored != nil && (stored.Run != t.Run || stored.Payload != t.payload.digest) {
		err = conflict("turn "+t.Key+" of Pi session "+t.Session, *stored)
	}
	return stored, err
}

func (t *turnDraft) insert(tx *sqlite.Tx, now Millis) error {
	_, err := tx.Exec(insTurn, t.resource.Aggregate(), orNull(t.Run), t.Session, t.Key, t.payload.digest[:], t.effect.id,
		int64(max(now, t.EligibleAt)), int64(now))
	return err
}

// CreateTurn has a Pi session take a turn, now or later: for the owner of the run that it belongs to, or for
// anybody who can own runs if there is none or it has ended. See [Delivering] for turns that another command
// causes. The same turn again is found (W5).
//
// Errors: [schema.Conflict] with the stored [TurnIntent] as the winner if another one has its session and
// key; [schema.Limit] for a payload of more than MaxDeliveryBytes.
type CreateTurn struct {
	NewTurn
}

// Op returns "turn_intent.create".
func (CreateTurn) Op() Op { return OpTurnCreate }

func (c CreateTurn) prepare(d *draft) *plan[*TurnIntent] {
	var source ResourceID
	var steps []step
	if c.Run != "" {
		source = NewResourceID(RunResource, c.Run)
		steps = []step{{resource: source, event: "run.turn_wanted"}}
	}
	t := d.turn(source, c.NewTurn)
	return &plan[*TurnIntent]{
		subject: t.effect.Source,
		creates: source == "",
		payload: t,
		owner:   func(rx *sqlite.Rx, _ Ownership) (ResourceID, error) { return parentToOwn(rx, c.Run) },
		existing: func(rx *sqlite.Rx) (*TurnIntent, bool, error) {
			stored, err := t.stored(rx)
			return stored, stored != nil, err
		},
		repeated: func(rx *sqlite.Rx, _ Event) (*TurnIntent, error) { return t.stored(rx) },
		decide: func(f *facts) (*change[*TurnIntent], error) {
			ch := &change[*TurnIntent]{
				result: &TurnIntent{
					Delivery: Delivery{
						ID: t.resource.Aggregate(), Revision: 1, Run: c.Run, Session: c.Session, Payload: t.payload.digest,
						Effect: t.effect.id, CreatedAt: f.now,
					},
					Key: c.Key, EligibleAt: max(f.now, c.EligibleAt),
				},
				steps: steps,
			}
			return ch, addDeliveries(f, ch, []*newDelivery{t.newDelivery})
		},
	}
}

var turns = deliveryKind[TurnIntent]{
	resource: TurnIntentResource,
	get:      oneTurn,
	base:     func(t *TurnIntent) *Delivery { return &t.Delivery },
	update:   updTurn,
}

// ResolveTurn records what became of a turn: it was delivered, has failed or was cancelled, as the receipt of
// its effect says (V1). A Pi session does it for itself. A resolution that is there already is found (W5).
//
// Errors: [schema.IllegalTransition] while the effect is not settled, an ambiguous one included.
type ResolveTurn struct {
	Turn string `json:"turn_intent"`
}

// Op returns "turn_intent.resolve".
func (ResolveTurn) Op() Op { return OpTurnResolve }

func (c ResolveTurn) prepare(d *draft) *plan[*TurnIntent] { return turns.resolve(d, c.Turn, c) }

// WithdrawTurn gives up a turn that nobody has begun to take, and its effect with it.
//
// Errors: [schema.IllegalTransition] for one that is being taken or may have been; [schema.Conflict] with the
// stored [TurnIntent] as the winner for one that is resolved in another way.
type WithdrawTurn struct {
	Turn       string             `json:"turn_intent"`
	Resolution DeliveryResolution `json:"resolution"` // superseded or cancelled
}

// Op returns "turn_intent.withdraw".
func (WithdrawTurn) Op() Op { return OpTurnWithdraw }

func (c WithdrawTurn) prepare(d *draft) *plan[*TurnIntent] {
	return turns.withdraw(d, c.Turn, c.Resolution, c)
}
