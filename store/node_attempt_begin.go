package store

import (
	"encoding/json"
	"fmt"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// The operations on attempts.
const (
	OpAttemptBegin     Op = "attempt.begin"
	OpAttemptStart     Op = "attempt.start"
	OpAttemptWait      Op = "attempt.wait"
	OpAttemptInterrupt Op = "attempt.interrupt"
	OpAttemptResume    Op = "attempt.resume"
	OpAttemptFinish    Op = "attempt.finish"
	OpAttemptAdopt     Op = "attempt.adopt"
	OpAttemptFail      Op = "attempt.fail"
	OpAttemptTimeOut   Op = "attempt.time_out"
	OpAttemptCancel    Op = "attempt.cancel"
)

// An attempt belongs to its run, whose owner it needs. What is about one attempt that exists depends on that
// attempt alone, not on what else happened to the run, such as a pause.
var attemptOperations = []Operation{
	{Op: OpAttemptBegin, Does: "begin an attempt of a node", Rights: byOwner},
	{Op: OpAttemptStart, Does: "start an attempt that was made ready", AnyRevision: true, Rights: byOwner},
	{Op: OpAttemptWait, Does: "let an attempt wait for something outside", AnyRevision: true, Rights: byOwner},
	{Op: OpAttemptInterrupt, Does: "note that an attempt was left in the middle", AnyRevision: true, Rights: byOwner},
	{Op: OpAttemptResume, Does: "go on with an attempt that waited or was interrupted", AnyRevision: true, Rights: byOwner},
	{Op: OpAttemptFinish, Does: "end an attempt with what it made", AnyRevision: true, Rights: byOwner},
	{Op: OpAttemptAdopt, Does: "end an interrupted attempt with the message that was finished meanwhile", AnyRevision: true, Rights: rights(Right{Own: OwnSubject}, SessionActor)},
	{Op: OpAttemptFail, Does: "end an attempt with an error", AnyRevision: true, Rights: byOwner},
	{Op: OpAttemptTimeOut, Does: "end an attempt whose deadline has passed", AnyRevision: true, Rights: byOwner},
	{Op: OpAttemptCancel, Does: "end an attempt because somebody wanted it to", AnyRevision: true, Rights: byOwner},
}

// attemptPlan is the plan of a command on an attempt. decide moves the work.
func attemptPlan(d *draft, run, attempt string, asked any, decide func(w *work) error) *plan[*NodeAttempt] {
	d.id("run", run)
	d.id("attempt", attempt)
	return &plan[*NodeAttempt]{
		subject: NewResourceID(RunResource, run),
		payload: asked,
		repeated: func(rx *sqlite.Rx, _ Event) (*NodeAttempt, error) {
			return oneAttempt(rx, selNodeAttempt, attempt)
		},
		decide: func(f *facts) (*change[*NodeAttempt], error) {
			w, err := loadWork(f, run)
			if err == nil {
				err = w.name(attempt)
			}
			if err == nil {
				err = decide(w)
			}
			if err != nil {
				return nil, err
			}
			if w.fresh != nil {
				return changed(w, w.fresh), nil
			}
			return changed(w, w.attempt), nil
		},
	}
}

// BeginAttempt begins an attempt of a node of the run's definition, which says of what type the node is and
// what output is expected of it.
//
// Errors: [schema.NotFound] for a node that the definition doesn't have; [schema.IllegalTransition] while
// another attempt has not ended; [schema.Conflict] with the stored [NodeAttempt] if the attempt of that
// number was begun with something else.
type BeginAttempt struct {
	Run  string `json:"run"`
	Node string `json:"node"`
	// Number, if set, is the one that the attempt will have among those of the node, from 1. It makes the
	// command find the attempt that it has begun before (W5).
	Number     int             `json:"number,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Contract   json.RawMessage `json:"contract,omitempty"` // what the node must keep to
	Prompt     string          `json:"prompt,omitempty"`   // of an agent
	DeadlineAt Millis          `json:"deadline_at,omitempty"`
	Later      bool            `json:"later,omitempty"` // make it ready; StartAttempt starts it
}

// Op returns "attempt.begin".
func (BeginAttempt) Op() Op { return OpAttemptBegin }

func (c BeginAttempt) prepare(d *draft) *plan[*NodeAttempt] {
	d.id("run", c.Run)
	d.id("node", c.Node)
	d.moment("deadline_at", c.DeadlineAt)
	if c.Number < 0 {
		d.invalid("number %d: attempts count from 1", c.Number)
	}
	input, contract := d.optional("input", c.Input), d.optional("contract", c.Contract)
	var prompt *Digest
	if c.Prompt != "" {
		if text := d.text("prompt", c.Prompt); text != nil {
			prompt = &text.digest
		}
	}
	return &plan[*NodeAttempt]{
		subject: NewResourceID(RunResource, c.Run),
		payload: struct {
			BeginAttempt
			Input    *Digest `json:"input,omitempty"`
			Contract *Digest `json:"contract,omitempty"`
			Prompt   *Digest `json:"prompt,omitempty"`
		}{c, input, contract, prompt},
		existing: func(rx *sqlite.Rx) (*NodeAttempt, bool, error) {
			if c.Number == 0 {
				return nil, false, nil
			}
			a, err := oneAttempt(rx, selNodeAttempt, attemptID(c.Run, c.Node, c.Number))
			if a != nil && !(same(a.Input, input) && same(a.Contract, contract) && same(a.Prompt, prompt)) {
				err = refuse(schema.Conflict, &ConflictError{fmt.Sprintf("attempt %d of node %s of run %s", c.Number, c.Node, c.Run), *a})
			}
			return a, a != nil, err
		},
		repeated: func(rx *sqlite.Rx, e Event) (*NodeAttempt, error) { return begunBy(rx, c.Run, e) },
		decide: func(f *facts) (*change[*NodeAttempt], error) {
			w, err := loadWork(f, c.Run)
			if err != nil {
				return nil, err
			}
			event := "attempt.began"
			if c.Later {
				event = "attempt.prepared"
			}
			if err := w.move(event); err != nil {
				return nil, err
			}
			err = w.begin(NodeAttempt{Node: c.Node, Input: input, Contract: contract, Prompt: prompt, DeadlineAt: c.DeadlineAt}, c.Later)
			if err == nil && c.Number != 0 && c.Number != w.fresh.Number {
				err = w.illegal(fmt.Sprintf("%s, and the next attempt of node %s is %d", w.run.Status, c.Node, w.fresh.Number))
			}
			if err != nil {
				return nil, err
			}
			return changed(w, w.fresh), nil
		},
	}
}

// same reports whether two digests are of the same content, or of none.
func same(a, b *Digest) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// begin makes a fresh attempt of a node.
func (w *work) begin(a NodeAttempt, later bool) error {
	node, found, err := getNode(w.f.Rx, w.run.Definition, a.Node)
	if err == nil && !found {
		err = notFound("node", a.Node+" in the definition of run "+w.run.ID)
	}
	if err != nil {
		return err
	}
	a.Run, a.Type, a.Expected, a.Status = w.run.ID, node.Type, node.Expected, AttemptPending
	a.CreatedAt, a.UpdatedAt = w.f.now, w.f.now
	if !later {
		a.Status, a.StartedAt = AttemptRunning, w.f.now
	}
	if err := a.number(w.f.Rx); err != nil {
		return err
	}
	w.fresh = &a
	return nil
}
