package store

import (
	"pistate/internal/sqlite"
)

// StartAttempt starts an attempt that was made ready.
type StartAttempt struct {
	Run        string `json:"run"`
	Attempt    string `json:"attempt"`
	DeadlineAt Millis `json:"deadline_at,omitempty"` // 0: the one that it has
}

// Op returns "attempt.start".
func (StartAttempt) Op() Op { return OpAttemptStart }

func (c StartAttempt) prepare(d *draft) *plan[*NodeAttempt] {
	d.moment("deadline_at", c.DeadlineAt)
	return attemptPlan(d, c.Run, c.Attempt, c, func(w *work) error {
		w.deadline(c.DeadlineAt)
		return w.move("attempt.started")
	})
}

func (w *work) deadline(at Millis) {
	if at != 0 {
		w.attempt.DeadlineAt = at
	}
}

// WaitAttempt lets an attempt, and its run with it, wait for something outside. The run can then be parked.
type WaitAttempt struct {
	Run     string `json:"run"`
	Attempt string `json:"attempt"`
	Detail  string `json:"detail,omitempty"` // what it waits for, for people
}

// Op returns "attempt.wait".
func (WaitAttempt) Op() Op { return OpAttemptWait }

func (c WaitAttempt) prepare(d *draft) *plan[*NodeAttempt] {
	d.line("detail", c.Detail, maxReasonBytes)
	return attemptPlan(d, c.Run, c.Attempt, c, func(w *work) error {
		err := w.move("attempt.waited")
		w.run.Detail = c.Detail
		return err
	})
}

// InterruptAttempt notes that an attempt was left in the middle: by an owner that was lost, or that stops
// now. It stays the one attempt of the run that has not ended, and can only be resumed or ended.
type InterruptAttempt struct {
	Run     string `json:"run"`
	Attempt string `json:"attempt"`
}

// Op returns "attempt.interrupt".
func (InterruptAttempt) Op() Op { return OpAttemptInterrupt }

func (c InterruptAttempt) prepare(d *draft) *plan[*NodeAttempt] {
	return attemptPlan(d, c.Run, c.Attempt, c, func(w *work) error { return w.move("attempt.interrupted") })
}

// ResumeAttempt goes on with an attempt that waited or was interrupted. One that only waited goes on as it
// is, and so does an interrupted assistant message that the Pi session resumes which its run came from (D4).
// Any other interrupted attempt is cancelled, and a fresh one begins with the same input, contract and
// prompt: what it had done is not known. The result is the attempt to work on.
type ResumeAttempt struct {
	Run        string `json:"run"`
	Attempt    string `json:"attempt"`
	DeadlineAt Millis `json:"deadline_at,omitempty"` // 0: the one that it has, and none for a fresh attempt
}

// Op returns "attempt.resume".
func (ResumeAttempt) Op() Op { return OpAttemptResume }

func (c ResumeAttempt) prepare(d *draft) *plan[*NodeAttempt] {
	d.moment("deadline_at", c.DeadlineAt)
	p := attemptPlan(d, c.Run, c.Attempt, c, func(w *work) error {
		if w.attempt.state() != StateInterrupted || w.keepsAttempt() {
			w.deadline(c.DeadlineAt)
			return w.move("attempt.resumed")
		}
		if err := w.move("attempt.restarted"); err != nil {
			return err
		}
		old := w.attempt
		return w.begin(NodeAttempt{Node: old.Node, Input: old.Input, Contract: old.Contract, Prompt: old.Prompt, DeadlineAt: c.DeadlineAt}, false)
	})
	same := p.repeated
	p.repeated = func(rx *sqlite.Rx, e Event) (*NodeAttempt, error) {
		if e.Type == "attempt.restarted" {
			return begunBy(rx, c.Run, e)
		}
		return same(rx, e)
	}
	return p
}

// keepsAttempt reports whether the attempt is an assistant message and the actor the Pi session that its run
// came from, where the message can be found.
func (w *work) keepsAttempt() bool {
	origin := w.f.actor.Class == SessionActor && w.run.Session != "" && w.f.actor.ID == w.run.Session
	return origin && w.attempt.Expected == AssistantMessage
}
