package store

import (
	"context"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// Command is one change of the durable state. It is also its wire form: a struct with JSON tags. Only this
// package has commands.
type Command[R any] interface {
	// Op returns the name of the operation.
	Op() Op
	// prepare checks the command by itself and makes ready what it needs of canonical forms, digests, ids
	// and random numbers. It must not look at the database. Problems go to the draft.
	prepare(*draft) *plan[R]
}

// plan is a prepared command. The contract asks it, at the right moment, for its part of the work.
type plan[R any] struct {
	subject ResourceID // the resource whose revision the permit speaks of; "" for an eventless registration
	creates bool       // the subject comes into being
	payload any        // of the event: everything that was asked, with content as its digest

	// owner returns the resource whose lease is meant by an ownership other than OwnSubject.
	owner func(*sqlite.Rx, Ownership) (ResourceID, error)
	// existing finds the durable result of the same command by the identity that it has by nature, as in
	// the id of a run. Errors: [schema.Conflict] if something else has the identity.
	existing func(*sqlite.Rx) (result R, found bool, err error)
	// repeated returns the durable result of this command for its repetition under the same request. nil:
	// the result is the zero value.
	repeated func(*sqlite.Rx, Event) (R, error)
	// decide is the domain transition: it reads, and either refuses or says what changes.
	decide func(*facts) (*change[R], error)
}

// facts are what a transition may decide on: the database inside the transaction, and what was checked.
type facts struct {
	*sqlite.Rx
	op      Op
	now     Millis // never before the last command on the subject
	actor   Actor
	subject Resource
	lease   lease // of the resource whose claim was checked
}

// change is what a transition wants. The contract carries it out.
type change[R any] struct {
	result  R
	steps   []step                 // the subject's first
	rows    func(*sqlite.Tx) error // writes the domain's own rows
	effects []*effectDraft         // follow from the first step
}

// step moves one resource by one revision and records it as an event.
type step struct {
	resource   ResourceID
	creates    bool
	ends       bool     // for good; its lease is released
	event      string   // type
	payload    *content // nil: the plan's
	generation int64    // of the lease that it was done under; 0: of the claim that was checked
	run        string   // that the event belongs to; "": the resource itself, if it is a run
}

// Done is the answer to an accepted command.
type Done[R any] struct {
	Result   R     `json:"result"`
	Revision int64 `json:"revision,omitempty"` // of the subject; 0 for an eventless operation
	Sequence int64 `json:"sequence,omitempty"` // of the event
	// Adopted: the command had been carried out before, and this is the result of that (W5).
	Adopted bool `json:"adopted,omitempty"`
}

// Do carries out a command. It is the write contract, and the only way to write. When it returns without an
// error the command is durable as a whole; after an error, nothing of it can be seen (W2, W6). The checks
// and their codes, in this order, are [schema.Incompatible], [schema.Denied], [schema.StaleRevision],
// [schema.StaleClaim], and [schema.IllegalTransition] or what else the command documents.
func Do[R any](ctx context.Context, s *Store, permit Permit, cmd Command[R]) (done Done[R], err error) {
	w, err := prepare(s, permit, cmd) // canonical forms and digests, before the transaction (W4)
	if err != nil {
		return done, withOp(cmd.Op(), err)
	}
	err = s.db.Write(ctx, func(tx *sqlite.Tx) (err error) { // BEGIN IMMEDIATE, exact schema (S8)
		if err := w.checkActor(tx); err != nil {
			return err
		}
		if again, err := w.findRepeated(tx); again || err != nil { // has a winner: nothing more to check (W5)
			return err
		}
		if err := w.checkRevision(); err != nil {
			return err
		}
		if err := w.checkClaim(tx); err != nil {
			return err
		}
		if err := w.decide(tx); err != nil {
			return err
		}
		if err := w.writeBlobs(tx); err != nil {
			return err
		}
		if err := w.moveRevisions(tx); err != nil {
			return err
		}
		if err := w.writeEvents(tx); err != nil {
			return err
		}
		if err := w.writeRows(tx); err != nil {
			return err
		}
		return w.writeEffects(tx)
	}, nil) // COMMIT
	if err != nil {
		return Done[R]{}, withOp(cmd.Op(), err)
	}
	return w.done, nil
}

// write is one command on its way through the contract.
type write[R any] struct {
	*draft
	plan *plan[R]

	row       Operation // of the table
	needs     Ownership
	facts     facts
	change    *change[R]
	revisions []int64 // of the change's steps
	done      Done[R]
}

func prepare[R any](s *Store, permit Permit, cmd Command[R]) (*write[R], error) {
	if err := permit.check(); err != nil {
		return nil, err
	}
	d := newDraft(s, permit, cmd.Op())
	p := cmd.prepare(d)
	if d.problem != nil {
		return nil, d.problem
	}
	d.finish(p.payload)
	return &write[R]{draft: d, plan: p}, d.problem
}

// checkActor looks the operation up in the table, and the subject in the database.
func (w *write[R]) checkActor(tx *sqlite.Tx) (err error) {
	w.row, w.needs, err = authorize(w.op, w.permit.Actor, w.plan.subject)
	if err != nil {
		return err
	}
	w.facts = facts{Rx: &tx.Rx, op: w.op, now: MillisOf(w.store.now()), actor: w.permit.Actor}
	if w.plan.subject != "" {
		w.facts.subject, err = getResource(&tx.Rx, w.plan.subject)
		w.facts.now = max(w.facts.now, w.facts.subject.UpdatedAt)
	}
	return err
}

// findRepeated looks for the durable result of the same command: by the request's name, or by the identity
// that the command has by nature.
func (w *write[R]) findRepeated(tx *sqlite.Tx) (again bool, err error) {
	w.done = Done[R]{Adopted: true, Revision: w.facts.subject.Revision}
	if w.permit.Request != "" {
		event, found, err := findRequest(&tx.Rx, w.permit.Request, w.digest)
		if found && err == nil {
			w.done.Revision, w.done.Sequence = event.Revision, event.Sequence
			if w.plan.repeated != nil {
				w.done.Result, err = w.plan.repeated(&tx.Rx, event)
			}
		}
		if found || err != nil {
			return found, err
		}
	}
	if w.plan.existing == nil {
		return false, nil
	}
	w.done.Result, again, err = w.plan.existing(&tx.Rx)
	return again, err
}

func (w *write[R]) checkRevision() error {
	expected, found := w.permit.Expected, w.facts.subject.Revision
	switch {
	case w.plan.subject == "" || expected == found && w.plan.creates == (found == 0):
		return nil
	case expected == AnyRevision && !w.row.AnyRevision:
		return schema.Errorf(schema.Invalid, "this operation needs the expected revision of %s", w.plan.subject)
	case w.plan.creates && found > 0:
		return refuse(schema.Conflict, &ConflictError{Identity: string(w.plan.subject), Winner: w.facts.subject})
	case !w.plan.creates && found == 0:
		return notFound("resource", string(w.plan.subject))
	case expected == AnyRevision:
		return nil
	}
	return refuse(schema.StaleRevision, &RevisionError{w.plan.subject, expected, found})
}

func (w *write[R]) checkClaim(tx *sqlite.Tx) (err error) {
	resource := w.plan.subject
	switch w.needs {
	case OwnNothing:
		return nil
	case OwnSubject:
	default:
		if w.plan.owner == nil {
			return schema.Errorf(schema.Storage, "%s does not say whose lease its row in the table of operations means by %q", w.op, w.needs)
		}
		if resource, err = w.plan.owner(&tx.Rx, w.needs); err != nil {
			return err
		}
		if resource == "" { // a scope that nobody owns
			return nil
		}
	}
	w.facts.lease, err = verifyClaim(&w.facts, w.permit.Claim, w.claimDigest, resource, w.row.Expired)
	return err
}

func (w *write[R]) decide(*sqlite.Tx) (err error) {
	w.change, err = w.plan.decide(&w.facts)
	if err != nil {
		return err
	}
	if w.row.Eventless != (len(w.change.steps) == 0) {
		return schema.Errorf(schema.Storage, "%s: %d events, against its row in the table of operations", w.op, len(w.change.steps))
	}
	w.done = Done[R]{Result: w.change.result}
	return nil
}

func (w *write[R]) writeBlobs(tx *sqlite.Tx) error {
	contents := w.contents
	if len(w.change.steps) > 0 {
		contents = append(contents, w.payload)
	}
	for _, c := range contents {
		if err := putBlob(tx, c, w.facts.now); err != nil {
			return err
		}
	}
	return nil
}

func (w *write[R]) moveRevisions(tx *sqlite.Tx) error {
	for _, st := range w.change.steps {
		revision, err := moveRevision(tx, st, w.facts.now)
		if err != nil {
			return err
		}
		w.revisions = append(w.revisions, revision)
	}
	return nil
}

func (w *write[R]) writeEvents(tx *sqlite.Tx) error {
	for i, st := range w.change.steps {
		sequence, err := w.writeEvent(tx, st, w.revisions[i], &w.facts)
		if err != nil {
			return err
		}
		if i == 0 {
			w.done.Revision, w.done.Sequence = w.revisions[0], sequence
		}
	}
	return nil
}

func (w *write[R]) writeRows(tx *sqlite.Tx) error {
	if w.change.rows == nil {
		return nil
	}
	return w.change.rows(tx)
}

func (w *write[R]) writeEffects(tx *sqlite.Tx) error {
	for _, e := range w.change.effects {
		if err := w.writeEffect(tx, e, w.revisions[0], &w.facts); err != nil {
			return err
		}
	}
	return nil
}
