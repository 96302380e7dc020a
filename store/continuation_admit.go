package store

import (
	"encoding/json"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// AdmitContinuation brings the run into being in which a run goes on. In the same transaction the place of
// the parked parent in the queue is settled; if the session can't be reserved, or anything else fails, the
// parent and the continuation are as they were (D2).
//
// It is for the owner of the parent; a parent that has ended has none. Done again, by whomever, it finds the
// run that was started: the id is the continuation's.
//
// Errors: those of [CreateRun]; [schema.IllegalTransition] for a continuation that was cancelled, and for a
// parent that is paused, is to be cancelled, has ended since the continuation was requested, or still
// works.
type AdmitContinuation struct {
	Continuation string `json:"continuation"`
	// Run is what the run is asked to do. Its id and parent are the continuation's, and may be left out. It
	// continues its parent, and waits in the queue, exactly if the parent is parked there.
	Run RunSpec `json:"run"`
}

// Op returns "continuation.admit".
func (AdmitContinuation) Op() Op { return OpContinuationAdmit }

func (c AdmitContinuation) prepare(d *draft) *plan[*Run] {
	d.id("continuation", c.Continuation)
	id := continuationRun(c.Continuation)
	if c.Run.ID != "" && c.Run.ID != id {
		d.invalid("run %s: the run of continuation %s is %s", c.Run.ID, c.Continuation, id)
	}
	c.Run.ID = id
	r := d.run(c.Run)
	r.reservedFor = "continuation:" + c.Continuation
	return &plan[*Run]{
		subject: NewResourceID(RunResource, id),
		creates: true,
		payload: struct {
			Continuation string    `json:"continuation"`
			Run          *runDraft `json:"run"`
		}{c.Continuation, r},
		owner: func(rx *sqlite.Rx, _ Ownership) (ResourceID, error) {
			stored, err := getContinuation(rx, c.Continuation)
			if err != nil {
				return "", err
			}
			return ownerOfRun(rx, stored.Parent)
		},
		existing: r.find,
		repeated: func(rx *sqlite.Rx, _ Event) (*Run, error) {
			run, _, err := r.find(rx)
			return run, err
		},
		decide: func(f *facts) (*change[*Run], error) {
			stored, err := getContinuation(f.Rx, c.Continuation)
			if err != nil {
				return nil, err
			}
			if err := stored.mayAdmit(f, r); err != nil {
				return nil, err
			}
			w, before, err := r.create(f)
			if err != nil {
				return nil, err
			}
			stored.settle(ContinuationAdmitted, f.now)
			ch := changed(w, &w.run, before...)
			rows := ch.rows
			ch.rows = func(tx *sqlite.Tx) error {
				if err := saveSettled(tx, &stored); err != nil {
					return err
				}
				return rows(tx)
			}
			return ch, nil
		},
	}
}

// mayAdmit refuses a run that is not the continuation's, and one that comes at the wrong time.
func (c *Continuation) mayAdmit(f *facts, r *runDraft) error {
	if c.Status != ContinuationPending {
		return c.illegal(f, string(c.Status))
	}
	if r.Parent != c.Parent {
		return schema.Errorf(schema.Invalid, "run: its parent is %s, the one of continuation %s is %s", r.Parent, c.ID, c.Parent)
	}
	parent, _, err := getRun(f.Rx, c.Parent)
	if err != nil {
		return err
	}
	switch {
	case parent.EndedAt != 0 && c.Trigger != ManualTrigger:
		return c.illegal(f, "for a parent that is "+string(parent.Status))
	case parent.EndedAt != 0:
		return nil
	case parent.CancelRequestedAt != 0:
		return c.illegal(f, "for a parent that is to be cancelled")
	case parent.Paused:
		return c.illegal(f, "for a parent that is paused")
	case parent.Status != RunWaiting:
		return c.illegal(f, "for a parent that is "+string(parent.Status))
	}
	place, err := oneQueueRow(f.Rx, selQueueRow, c.Parent)
	if err == nil && place != nil && place.Status == QueueParked && !r.Continues {
		err = schema.Errorf(schema.Invalid, "run: its parent is parked in the queue, so it must continue that and wait there itself")
	}
	return err
}

func (c *Continuation) illegal(f *facts, from string) error {
	return refuse(schema.IllegalTransition, &TransitionError{ResourceID("continuation:" + c.ID), from, f.op})
}

// CancelContinuation gives up a continuation that is not admitted: its run will not go on, or goes on by
// itself. Its effect, unless somebody has begun that, is cancelled with it. Done again, it finds what it did.
//
// Errors: [schema.IllegalTransition] for one that is admitted.
type CancelContinuation struct {
	Continuation string          `json:"continuation"`
	Parent       string          `json:"parent"` // the run that was to go on
	Error        json.RawMessage `json:"error,omitempty"`
}

// Op returns "continuation.cancel".
func (CancelContinuation) Op() Op { return OpContinuationCancel }

func (c CancelContinuation) prepare(d *draft) *plan[*Continuation] {
	d.id("continuation", c.Continuation)
	d.id("parent", c.Parent)
	fault := d.optional("error", c.Error)
	subject := NewResourceID(RunResource, c.Parent)
	asked := struct {
		CancelContinuation
		Error *Digest `json:"error,omitempty"`
	}{c, fault}
	return &plan[*Continuation]{
		subject: subject,
		payload: asked,
		owner:   func(rx *sqlite.Rx, _ Ownership) (ResourceID, error) { return ownerOfRun(rx, c.Parent) },
		existing: func(rx *sqlite.Rx) (*Continuation, bool, error) {
			stored, found, err := findContinuation(rx, c.Continuation)
			return &stored, found && stored.Parent == c.Parent && stored.Status == ContinuationCancelled, err
		},
		repeated: func(rx *sqlite.Rx, _ Event) (*Continuation, error) {
			stored, err := getContinuation(rx, c.Continuation)
			return &stored, err
		},
		decide: func(f *facts) (*change[*Continuation], error) {
			stored, err := getContinuation(f.Rx, c.Continuation)
			switch {
			case err != nil:
				return nil, err
			case stored.Parent != c.Parent:
				return nil, notFound("continuation of run "+c.Parent, c.Continuation)
			case stored.Status != ContinuationPending:
				return nil, stored.illegal(f, string(stored.Status))
			}
			effect, found, err := getEffect(f.Rx, stored.effect())
			if err != nil {
				return nil, err
			}
			stored.Error = fault
			stored.settle(ContinuationCancelled, f.now)
			ch := &change[*Continuation]{
				result: &stored,
				steps:  []step{{resource: subject, event: "continuation.cancelled"}},
				rows:   func(tx *sqlite.Tx) error { return saveSettled(tx, &stored) },
			}
			if found && effect.Status == EffectPending {
				ch.cancelEffect(f, effect)
			}
			return ch, nil
		},
	}
}

// cancelEffect makes the cancellation of a pending effect a part of the change.
func (c *change[R]) cancelEffect(f *facts, e Effect) {
	e.Status, e.AvailableAt, e.UpdatedAt, e.SettledAt = EffectCancelled, 0, f.now, f.now
	c.steps = append(c.steps, step{resource: e.Resource(), ends: true, event: "effect.cancelled", run: e.run()})
	rows := c.rows
	c.rows = func(tx *sqlite.Tx) error {
		if err := rows(tx); err != nil {
			return err
		}
		return saveEffect(tx, e, EffectPending)
	}
}
