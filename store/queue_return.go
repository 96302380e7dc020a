package store

import (
	"pistate/internal/sqlite"
)

// The operations on the queue.
const (
	OpQueueEnqueue Op = "queue.enqueue"
	OpQueueClaim   Op = "queue.claim"
	OpQueueRetry   Op = "queue.retry"
)

var queueOperations = []Operation{
	{Op: OpQueueEnqueue, Does: "let a run wait in the queue for somebody to run it", Rights: byOwner},
	{
		Op: OpQueueClaim, Does: "become the owner of the next run in the queue of a project",
		Rights: rights(Right{}, runOwners...),
	},
	{Op: OpQueueRetry, Does: "give a run back to the queue after an error, to be tried again later", Rights: byOwner},
}

// EnqueueRun gives a run that its owner doesn't go on with a place in the queue, or its place back to one
// that was parked. Its lease is released. An interactive run reserves its Pi session.
//
// Errors: [schema.Locked] with a [*ReservedError] if the session is reserved for another run;
// [schema.IllegalTransition] while an attempt is running.
type EnqueueRun struct {
	Run string `json:"run"`
	QueuePlace
}

// Op returns "queue.enqueue".
func (EnqueueRun) Op() Op { return OpQueueEnqueue }

func (c EnqueueRun) prepare(d *draft) *plan[*QueueRow] {
	d.place(c.QueuePlace)
	return queuePlan(d, c.Run, c, func(w *work) (before []*work, err error) {
		w.place(c.QueuePlace)
		if err := w.move("queue.enqueued"); err != nil {
			return nil, err
		}
		return w.wantSession()
	})
}

// maxErrorCodeBytes is how long a code for an error can be.
const maxErrorCodeBytes = 100

// RetryRun gives a run back to the queue after an error, to be claimed again after a delay. The error is
// counted; an attempt that was running is interrupted; the lease of the run is released.
type RetryRun struct {
	Run  string `json:"run"`
	Code string `json:"code"` // of the error
	// DelayMS is how long the run waits. nil: from one second to five minutes, twice as long after each
	// error, less up to half of it, at random.
	DelayMS *int64 `json:"delay_ms,omitempty"`
}

// Op returns "queue.retry".
func (RetryRun) Op() Op { return OpQueueRetry }

func (c RetryRun) prepare(d *draft) *plan[*QueueRow] {
	if c.Code == "" {
		d.invalid("a retry needs the code of the error")
	}
	d.line("code", c.Code, maxErrorCodeBytes)
	if c.DelayMS != nil && *c.DelayMS < 0 {
		d.invalid("delay_ms %d is negative", *c.DelayMS)
	}
	jitter, err := d.store.random.fraction()
	d.fail(err)
	return queuePlan(d, c.Run, c, func(w *work) ([]*work, error) {
		if err := w.move("queue.retried"); err != nil {
			return nil, err
		}
		w.queue.failed(c.Code)
		delay := Backoff{Base: defaultBackoff, Max: defaultMaxBackoff}.after(w.queue.Errors, jitter)
		if c.DelayMS != nil {
			delay = *c.DelayMS
		}
		w.queue.AvailableAt = w.f.now + Millis(delay)
		return w.wantSession()
	})
}

// failed counts an error.
func (q *QueueRow) failed(code string) { q.Errors, q.ErrorCode = q.Errors+1, code }

// queuePlan is the plan of a command that gives a run back to the queue: nobody owns it afterwards. decide
// moves the work, and returns the work on other runs that comes before.
func queuePlan(d *draft, run string, asked any, decide func(w *work) (before []*work, err error)) *plan[*QueueRow] {
	d.id("run", run)
	return &plan[*QueueRow]{
		subject: NewResourceID(RunResource, run),
		payload: asked,
		repeated: func(rx *sqlite.Rx, _ Event) (*QueueRow, error) {
			return oneQueueRow(rx, selQueueRow, run)
		},
		decide: func(f *facts) (*change[*QueueRow], error) {
			w, err := loadWork(f, run)
			if err != nil {
				return nil, err
			}
			w.releases = true
			before, err := decide(w)
			if err != nil {
				return nil, err
			}
			return changed(w, w.queue, before...), nil
		},
	}
}
