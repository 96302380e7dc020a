package store

import (
	"pistate/internal/sqlite"
)

// PauseRun lets nothing more of a run begin, whoever owns it: it is not claimed from the queue, not started,
// and none of its nodes begins. What is under way may end. The run's status stays.
type PauseRun struct {
	Run string `json:"run"`
}

// Op returns "run.pause".
func (PauseRun) Op() Op { return OpRunPause }

func (c PauseRun) prepare(d *draft) *plan[*Run] {
	return runPlan(d, c.Run, c, func(w *work) error {
		err := w.move("run.paused")
		w.run.Paused = true
		return err
	})
}

// ResumeRun undoes a pause.
type ResumeRun struct {
	Run string `json:"run"`
}

// Op returns "run.resume".
func (ResumeRun) Op() Op { return OpRunResume }

func (c ResumeRun) prepare(d *draft) *plan[*Run] {
	return runPlan(d, c.Run, c, func(w *work) error {
		err := w.move("run.resumed")
		w.run.Paused = false
		return err
	})
}

// RequestCancel asks the owner of a run to cancel it. One that has never begun and that nobody owns is
// cancelled at once: there is nothing to undo. Asking again finds the request (W5).
type RequestCancel struct {
	Run string `json:"run"`
}

// Op returns "run.request_cancel".
func (RequestCancel) Op() Op { return OpRunRequestCancel }

func (c RequestCancel) prepare(d *draft) *plan[*Run] {
	settlement := d.settlement()
	p := runPlan(d, c.Run, c, func(w *work) error {
		w.run.CancelRequestedAt = w.f.now
		owned, err := w.owned()
		if err != nil {
			return err
		}
		if w.run.Status == RunQueued && w.run.StartedAt == 0 && w.attempt == nil && !owned {
			return w.end("run.cancelled", settlement)
		}
		return w.move("run.cancel_requested")
	})
	p.existing = func(rx *sqlite.Rx) (*Run, bool, error) {
		r, _, err := getRun(rx, c.Run)
		return &r, r.CancelRequestedAt != 0, err
	}
	return p
}

// owned reports whether somebody owns the run now.
func (w *work) owned() (bool, error) {
	l, err := getLease(w.f.Rx, w.run.Resource())
	return l.Owner != nil && l.at(w.f.now) < l.ExpiresAt, err
}

// RequestDeletion asks for the deletion of what is kept of a run, in whatever state that is. Asking again
// finds the request (W5).
type RequestDeletion struct {
	Run string `json:"run"`
}

// Op returns "run.request_deletion".
func (RequestDeletion) Op() Op { return OpRunRequestDeletion }

func (c RequestDeletion) prepare(d *draft) *plan[*Run] {
	p := runPlan(d, c.Run, c, func(w *work) error {
		w.run.DeletionRequestedAt = w.f.now
		return w.move("run.deletion_requested")
	})
	p.existing = func(rx *sqlite.Rx) (*Run, bool, error) {
		r, _, err := getRun(rx, c.Run)
		return &r, r.DeletionRequestedAt != 0, err
	}
	return p
}
