package store

import (
	"encoding/json"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// The operations on continuations.
const (
	OpContinuationRequest Op = "continuation.request"
	OpContinuationAdmit   Op = "continuation.admit"
	OpContinuationCancel  Op = "continuation.cancel"
)

var continuationOperations = []Operation{
	{
		Op: OpContinuationRequest, Does: "record that a run is to go on in another one, from a checkpoint, a controller or by hand",
		AnyRevision: true, // there is one continuation per trigger
		Rights: merge(
			rights(Right{Own: OwnRun}, SessionActor, HostActor, SystemActor),
			rights(Right{Own: OwnController}, ControllerActor),
			rights(Right{}, ControlActor),
		),
	},
	{
		Op: OpContinuationAdmit, Does: "bring the run into being in which another one goes on",
		AnyRevision: true, // its id is reserved for it
		Rights:      rights(Right{Own: OwnRun}, SessionActor, HostActor, SystemActor),
	},
	{
		Op: OpContinuationCancel, Does: "give up a continuation that is not admitted",
		AnyRevision: true, // it is settled once
		Rights: merge(
			rights(Right{Own: OwnRun}, SessionActor, HostActor, SystemActor),
			rights(Right{}, ControlActor),
		),
	},
}

// TriggerType is what a run goes on from.
type TriggerType string

// The trigger types. The continuation of a decision comes with its acceptance, the others are requested.
const (
	DecisionTrigger   TriggerType = "decision"
	CheckpointTrigger TriggerType = "checkpoint"
	ControllerTrigger TriggerType = "controller"
	ManualTrigger     TriggerType = "manual" // by hand
)

// ContinuationStatus is where a continuation is.
type ContinuationStatus string

// The statuses of a continuation. The last two are final.
const (
	ContinuationPending   ContinuationStatus = "pending"
	ContinuationAdmitted  ContinuationStatus = "admitted" // its run exists
	ContinuationCancelled ContinuationStatus = "cancelled"
)

// Continuation is a run that is to go on from a trigger (D10). There is one per trigger, and the id of its
// run is derived from that: whoever recovers finds the run that was started, and starts no second one.
type Continuation struct {
	ID         string             `json:"id"` // derived from the trigger
	Trigger    TriggerType        `json:"trigger"`
	TriggerKey string             `json:"trigger_key"` // the id of the decision; else that of the parent, a slash, and the key
	Parent     string             `json:"parent"`      // the run that goes on
	Run        string             `json:"run"`         // in which it goes on: derived, and so known before there is that run
	Input      *Digest            `json:"input,omitempty"`
	Status     ContinuationStatus `json:"status"`
	Error      *Digest            `json:"error,omitempty"` // why it was given up
	CreatedAt  Millis             `json:"created_at"`
	UpdatedAt  Millis             `json:"updated_at"`
	SettledAt  Millis             `json:"settled_at,omitempty"`

	request Digest // what was asked for under the trigger
}

// EffectContinuationAdmit is the type of the effect of every continuation, for the owner of the parent. If
// the parent has ended it has none, and the scope is the system's, with the project as its id. The payload
// is {"continuation": ..., "run": ...}.
const EffectContinuationAdmit = "continuation.admit"

// continuationID returns the id that a trigger determines.
func continuationID(trigger TriggerType, key string) string {
	return derivedID("con", string(trigger), key)
}

// continuationRun returns the id of the run in which a continuation goes on.
func continuationRun(continuation string) string { return derivedID("run", continuation) }

// source returns the resource whose command recorded the continuation and its effect.
func (c *Continuation) source() ResourceID {
	if c.Trigger == DecisionTrigger {
		return NewResourceID(DecisionResource, c.TriggerKey)
	}
	return NewResourceID(RunResource, c.Parent)
}

// effect returns the id of the continuation's effect.
func (c *Continuation) effect() string { return effectID(c.source(), EffectContinuationAdmit, c.ID) }

const continuationColumns = `continuation_id, trigger_type, trigger_key, parent_run_id, child_run_id, request_digest,
		       input_blob, status, error_blob, created_at, updated_at, settled_at`

const (
	selContinuation = `
		SELECT ` + continuationColumns + `
		  FROM continuations
		 WHERE continuation_id = ?1`

	insContinuation = `
		INSERT INTO continuations (continuation_id, trigger_type, trigger_key, parent_run_id, child_run_id,
		                           request_digest, input_blob, created_at, updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)`

	updContinuationSettled = `
		UPDATE continuations
		   SET status     = ?2,
		       error_blob = ?3,
		       updated_at = ?4,
		       settled_at = ?4
		 WHERE continuation_id = ?1
		   AND status          = 'pending'`
)

func scanContinuation(r sqlite.Row) Continuation {
	c := Continuation{
		ID:         r.Text(0),
		Trigger:    TriggerType(r.Text(1)),
		TriggerKey: r.Text(2),
		Parent:     r.Text(3),
		Run:        r.Text(4),
		Input:      digestOf(r.Bytes(6)),
		Status:     ContinuationStatus(r.Text(7)),
		Error:      digestOf(r.Bytes(8)),
		CreatedAt:  Millis(r.Int64(9)),
		UpdatedAt:  Millis(r.Int64(10)),
		SettledAt:  Millis(r.Int64(11)),
	}
	copy(c.request[:], r.Bytes(5))
	return c
}

func findContinuation(rx *sqlite.Rx, id string) (c Continuation, found bool, err error) {
	found, err = rx.QueryRow(selContinuation, func(r sqlite.Row) error {
		c = scanContinuation(r)
		return nil
	}, id)
	return c, found, err
}

// getContinuation is findContinuation for one that must be there.
func getContinuation(rx *sqlite.Rx, id string) (Continuation, error) {
	c, found, err := findContinuation(rx, id)
	if err == nil && !found {
		err = notFound("continuation", id)
	}
	return c, err
}

func insertContinuation(tx *sqlite.Tx, c *Continuation) error {
	_, err := tx.Exec(insContinuation, c.ID, string(c.Trigger), c.TriggerKey, c.Parent, c.Run, c.request[:],
		c.Input.bytes(), int64(c.CreatedAt))
	return err
}

// settle makes a pending continuation admitted or cancelled, for good. The row is stored by saveSettled.
func (c *Continuation) settle(status ContinuationStatus, now Millis) {
	c.Status, c.UpdatedAt, c.SettledAt = status, now, now
}

func saveSettled(tx *sqlite.Tx, c *Continuation) error {
	n, err := tx.Exec(updContinuationSettled, c.ID, string(c.Status), c.Error.bytes(), int64(c.UpdatedAt))
	if err == nil && n != 1 {
		err = schema.Errorf(schema.Storage, "continuation %s: %d rows were pending", c.ID, n)
	}
	return err
}

// continuation makes a continuation ready, with its effect. What is asked for under a trigger is its
// input: a decision's response needs no mention, as there is only one.
func (d *draft) continuation(source ResourceID, trigger TriggerType, key string, input *Digest) *followUp {
	id := continuationID(trigger, key)
	run := continuationRun(id)
	return &followUp{
		continuation: &Continuation{
			ID: id, Trigger: trigger, TriggerKey: key, Run: run, Input: input, Status: ContinuationPending,
			request: d.digestOf("continuation", struct {
				Trigger TriggerType `json:"trigger"`
				Key     string      `json:"key"`
				Input   *Digest     `json:"input,omitempty"`
			}{trigger, key, input}),
		},
		effect: d.followingEffect(source, EffectContinuationAdmit, id, struct {
			Continuation string `json:"continuation"`
			Run          string `json:"run"`
		}{id, run}),
	}
}

// continuationOf makes ready what follows from the acceptance of a decision.
func (d *draft) continuationOf(decision string) *followUp {
	return d.continuation(NewResourceID(DecisionResource, decision), DecisionTrigger, decision, nil)
}

// begin completes a continuation with what only the transaction knows.
func (c *Continuation) begin(parent string, now Millis) {
	c.Parent, c.CreatedAt, c.UpdatedAt = parent, now, now
}

// RequestContinuation records that a run is to go on in another one, with the effect that admits that. The
// same trigger again is the same continuation.
//
// A checkpoint is named by the owner of the parent, a controller's trigger by the owner of the controller
// resource that started the parent. By hand, a run can be continued that has ended, too.
//
// Errors: [schema.Conflict] with the stored [Continuation] as the winner if another input was given under
// the trigger; [schema.IllegalTransition] for a parent that has ended, or is to be cancelled.
type RequestContinuation struct {
	Trigger TriggerType     `json:"trigger"`         // checkpoint, controller or manual
	Parent  string          `json:"parent"`          // the run that is to go on
	Key     string          `json:"key"`             // names the trigger among those of its type of the parent
	Input   json.RawMessage `json:"input,omitempty"` // what the trigger has to say
}

// Op returns "continuation.request".
func (RequestContinuation) Op() Op { return OpContinuationRequest }

func (c RequestContinuation) prepare(d *draft) *plan[*Continuation] {
	c.check(d)
	subject := NewResourceID(RunResource, c.Parent)
	input := d.optional("input", c.Input)
	follow := d.continuation(subject, c.Trigger, c.Parent+"/"+c.Key, input)
	asked := struct {
		RequestContinuation
		Input *Digest `json:"input,omitempty"`
	}{c, input}
	find := func(rx *sqlite.Rx) (*Continuation, bool, error) {
		stored, found, err := findContinuation(rx, follow.continuation.ID)
		if found && (stored.request != follow.continuation.request || stored.Parent != c.Parent) {
			err = refuse(schema.Conflict, &ConflictError{"continuation " + stored.ID, stored})
		}
		return &stored, found, err
	}
	return &plan[*Continuation]{
		subject:  subject,
		payload:  asked,
		existing: find,
		owner: func(rx *sqlite.Rx, needs Ownership) (ResourceID, error) {
			if needs == OwnController {
				return controllerOf(rx, c.Parent)
			}
			return ownerOfRun(rx, c.Parent)
		},
		repeated: func(rx *sqlite.Rx, _ Event) (*Continuation, error) {
			stored, _, err := find(rx)
			return stored, err
		},
		decide: func(f *facts) (*change[*Continuation], error) {
			parent, _, err := getRun(f.Rx, c.Parent)
			switch {
			case err != nil:
				return nil, err
			case parent.EndedAt != 0 && c.Trigger != ManualTrigger:
				return nil, illegal(f, string(parent.Status))
			case parent.EndedAt == 0 && parent.CancelRequestedAt != 0:
				return nil, illegal(f, "to be cancelled")
			}
			follow.continuation.begin(parent.ID, f.now)
			follow.effect.Scope = Scope{RunScope, parent.ID}
			if parent.EndedAt != 0 {
				follow.effect.Scope = Scope{SystemScope, parent.Project}
			}
			return &change[*Continuation]{
				result:  follow.continuation,
				steps:   []step{{resource: subject, event: "continuation.requested"}},
				rows:    func(tx *sqlite.Tx) error { return insertContinuation(tx, follow.continuation) },
				effects: []*effectDraft{follow.effect},
			}, nil
		},
	}
}

func (c RequestContinuation) check(d *draft) {
	d.id("parent", c.Parent)
	d.id("key", c.Key)
	byController := d.permit.Actor.Class == ControllerActor
	switch {
	case c.Trigger == DecisionTrigger:
		d.invalid("trigger decision: the continuation of a decision comes with its acceptance")
	case c.Trigger != CheckpointTrigger && c.Trigger != ControllerTrigger && c.Trigger != ManualTrigger:
		d.invalid("trigger %q: it is %s, %s or %s", c.Trigger, CheckpointTrigger, ControllerTrigger, ManualTrigger)
	case (c.Trigger == ControllerTrigger) != byController,
		c.Trigger == CheckpointTrigger && d.permit.Actor.Class == ControlActor:
		d.fail(refuse(schema.Denied, &DeniedError{d.op, d.permit.Actor.Class, "it is not for a trigger of type " + string(c.Trigger)}))
	}
}

// ownerOfRun returns the resource whose lease the owner of a run holds, or "" once that has ended: nobody
// can own it.
func ownerOfRun(rx *sqlite.Rx, run string) (ResourceID, error) {
	ended, err := runEnd(rx, run)
	if ended != "" || err != nil {
		return "", err
	}
	return NewResourceID(RunResource, run), nil
}
