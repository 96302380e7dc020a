package store

import (
	"fmt"
	"slices"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// work is a run with what belongs to its state, as a command finds it and as it leaves it.
type work struct {
	f       *facts
	run     Run
	queue   *QueueRow    // nil: it was never queued
	attempt *NodeAttempt // the active one, or the one that the command names; nil: none
	named   bool         // the command names it
	fresh   *NodeAttempt // begins with the command

	event    string
	creates  bool // the run comes into being
	releases bool // nobody owns the run afterwards

	effects []*effectDraft

	foundRun     RunStatus
	foundQueue   *QueueRow
	foundAttempt *NodeAttempt
}

// loadWork reads a run and what belongs to its state.
func loadWork(f *facts, id string) (*work, error) {
	run, found, err := getRun(f.Rx, id)
	if err == nil && !found {
		err = notFound("run", id)
	}
	if err != nil {
		return nil, err
	}
	w := &work{f: f, run: run, foundRun: run.Status}
	if w.foundQueue, err = oneQueueRow(f.Rx, selQueueRow, id); err != nil {
		return nil, err
	}
	if w.foundQueue != nil {
		row := *w.foundQueue
		w.queue = &row
	}
	active, err := oneAttempt(f.Rx, selActiveAttempt, id)
	w.found(active)
	return w, err
}

// found makes an attempt the one that the command is about.
func (w *work) found(a *NodeAttempt) {
	if w.foundAttempt = a; a != nil {
		attempt := *a
		w.attempt = &attempt
	}
}

// name makes an attempt of the run the one that the command is about.
func (w *work) name(id string) error {
	w.named = true
	if w.attempt != nil && w.attempt.ID == id {
		return nil
	}
	a, err := oneAttempt(w.f.Rx, selNodeAttempt, id)
	if err != nil {
		return err
	}
	if a == nil || a.Run != w.run.ID {
		return notFound("attempt", id+" of run "+w.run.ID)
	}
	w.found(a)
	return nil
}

func (w *work) queueState() State {
	if w.queue == nil {
		return StateNone
	}
	return State(w.queue.Status)
}

// move carries out the line of the table of transitions that belongs to the command and an event.
//
// Errors: [schema.IllegalTransition] with a [*TransitionError].
func (w *work) move(event string) error { return w.moveAs(w.f.op, event) }

// moveAs is move for a line of another operation, which the command carries out by the way.
func (w *work) moveAs(op Op, event string) error {
	t := transitionOf(op, event)
	run, ok := t.Run.move(State(w.run.Status))
	if !ok {
		return w.illegal(string(w.run.Status))
	}
	for _, c := range t.Needs {
		if state := w.lacks(c); state != "" {
			return w.illegal(state)
		}
	}
	queue, ok := t.Queue.move(w.queueState())
	if !ok {
		return w.illegal(fmt.Sprintf("%s, with the place %s in the queue", w.run.Status, w.queueState()))
	}
	attempt, ok := t.Attempt.move(w.attempt.state())
	if !ok {
		return w.illegalAttempt()
	}
	w.event = event
	w.moveRun(RunStatus(run))
	if w.queue != nil {
		w.moveQueue(QueueStatus(queue))
	}
	if w.attempt != nil {
		w.moveAttempt(attempt)
	}
	return nil
}

// lacks returns the state that contradicts a condition, or "".
func (w *work) lacks(c Condition) string {
	switch {
	case c == IfPaused && !w.run.Paused:
		return string(w.run.Status) + ", and not paused"
	case c == IfNotPaused && w.run.Paused:
		return "paused"
	case c == IfNotCancelled && w.run.CancelRequestedAt != 0:
		return string(w.run.Status) + ", and is to be cancelled"
	case c == IfDue && w.named:
		return before(w.attempt.DeadlineAt, w.f.now, string(w.attempt.Status))
	case c == IfDue:
		return before(w.run.DeadlineAt, w.f.now, string(w.run.Status))
	}
	return ""
}

// before says that a deadline is not reached, or "".
func before(deadline, now Millis, status string) string {
	switch {
	case deadline == 0:
		return status + ", without a deadline"
	case now < deadline:
		return fmt.Sprintf("%s, until its deadline %d", status, deadline)
	}
	return ""
}

func (w *work) illegal(from string) error {
	return refuse(schema.IllegalTransition, &TransitionError{w.run.Resource(), from, w.f.op})
}

func (w *work) illegalAttempt() error {
	from := "without an active attempt"
	if w.attempt != nil {
		from = fmt.Sprintf("at attempt %d of node %s, which is %s", w.attempt.Number, w.attempt.Node, w.attempt.state())
	}
	return w.illegal(string(w.run.Status) + " " + from)
}

func (w *work) moveRun(status RunStatus) {
	r := &w.run
	r.Status, r.Revision, r.UpdatedAt = status, r.Revision+1, w.f.now
	if status == RunRunning && r.StartedAt == 0 {
		r.StartedAt = w.f.now
	}
	if status != w.foundRun {
		r.Detail = ""
	}
	if w.ends() {
		r.Paused, r.EndedAt = false, w.f.now
	}
}

// ends reports whether the run has come to its end just now.
func (w *work) ends() bool {
	return w.run.Status != w.foundRun && slices.Contains([]RunStatus{RunCompleted, RunFailed, RunTimedOut, RunCancelled}, w.run.Status)
}

func (w *work) moveQueue(status QueueStatus) {
	q := w.queue
	if status == q.Status {
		return
	}
	q.Status, q.UpdatedAt = status, w.f.now
	if status.settled() {
		q.SettledAt = w.f.now
	}
}

func (w *work) moveAttempt(state State) {
	a := w.attempt
	if state == a.state() {
		return
	}
	a.UpdatedAt = w.f.now
	if state == StateInterrupted {
		a.InterruptedAt = w.f.now
		return
	}
	a.Status = AttemptStatus(state)
	switch a.Status {
	case AttemptRunning:
		a.InterruptedAt = 0
		if a.StartedAt == 0 {
			a.StartedAt = w.f.now
		}
	case AttemptCompleted, AttemptFailed, AttemptTimedOut, AttemptCancelled:
		a.EndedAt = w.f.now
	}
}

// settle settles the queue row of a run that has ended, as the run did.
func (w *work) settle() error {
	switch w.run.Status {
	case RunCompleted:
		return w.moveAs(OpQueueSettle, "queue.done")
	case RunCancelled:
		return w.moveAs(OpQueueSettle, "queue.cancelled")
	}
	err := w.moveAs(OpQueueSettle, "queue.failed")
	if err == nil && w.queue.ErrorCode == "" {
		w.queue.Errors, w.queue.ErrorCode = w.queue.Errors+1, string(w.run.Status)
	}
	return err
}

func (w *work) step() step {
	return step{resource: w.run.Resource(), creates: w.creates, ends: w.ends(), event: w.event}
}

// save stores what has changed. An attempt ends before its run.
func (w *work) save(tx *sqlite.Tx) error {
	if w.creates {
		if err := insertRun(tx, w.run); err != nil {
			return err
		}
		return w.saveQueue(tx)
	}
	if w.releases {
		if err := clearOwner(tx, w.run.Resource()); err != nil {
			return err
		}
	}
	if w.attempt != nil && *w.attempt != *w.foundAttempt {
		if err := saveAttempt(tx, *w.attempt, w.foundAttempt.Status); err != nil {
			return err
		}
	}
	if w.fresh != nil {
		if err := insertAttempt(tx, *w.fresh); err != nil {
			return err
		}
	}
	if err := w.saveQueue(tx); err != nil {
		return err
	}
	return saveRun(tx, w.run, w.foundRun)
}

func (w *work) saveQueue(tx *sqlite.Tx) error {
	switch {
	case w.queue == nil:
		return nil
	case w.foundQueue == nil:
		return insertQueueRow(tx, *w.queue)
	case *w.queue == *w.foundQueue:
		return nil
	}
	return saveQueueRow(tx, *w.queue, w.foundQueue.Status)
}

// changed returns the change that the command makes, with the settlements of other runs that come before.
func changed[R any](w *work, result R, before ...*work) *change[R] {
	c := &change[R]{result: result, steps: []step{w.step()}, effects: w.effects}
	for _, other := range before {
		if other != nil {
			c.steps = append(c.steps, other.step())
		}
	}
	c.rows = func(tx *sqlite.Tx) error {
		for _, other := range before {
			if other != nil {
				if err := other.save(tx); err != nil {
					return err
				}
			}
		}
		return w.save(tx)
	}
	return c
}
