package store

import (
	"pistate/internal/sqlite"
)

// The operations on runs.
const (
	OpRunCreate          Op = "run.create"
	OpRunStart           Op = "run.start"
	OpRunPark            Op = "run.park"
	OpRunPause           Op = "run.pause"
	OpRunResume          Op = "run.resume"
	OpRunRequestCancel   Op = "run.request_cancel"
	OpRunRequestDeletion Op = "run.request_deletion"
	OpRunComplete        Op = "run.complete"
	OpRunFail            Op = "run.fail"
	OpRunTimeOut         Op = "run.time_out"
	OpRunCancel          Op = "run.cancel"
)

// runOwners can own the lease of a run.
var runOwners = []ActorClass{SessionActor, HostActor, SystemActor}

var (
	byOwner   = rights(Right{Own: OwnSubject}, runOwners...)
	byControl = merge(
		rights(Right{}, ControlActor, SessionActor, HostActor, SystemActor),
		rights(Right{Own: OwnController}, ControllerActor), // of the runs that it started
	)
)

var runOperations = []Operation{
	{
		Op: OpRunCreate, Does: "bring a run into being",
		Rights: merge(rights(Right{Own: OwnRun}, runOwners...), rights(Right{Own: OwnController}, ControllerActor)),
	},
	{Op: OpRunStart, Does: "begin to work on a run", Rights: byOwner},
	{Op: OpRunPark, Does: "stop working on a run until something outside has happened", Rights: byOwner},
	{Op: OpRunPause, Does: "let nothing more of a run begin", AnyRevision: true, Rights: byControl},
	{Op: OpRunResume, Does: "undo a pause", AnyRevision: true, Rights: byControl},
	{Op: OpRunRequestCancel, Does: "ask the owner of a run to cancel it", AnyRevision: true, Rights: byControl},
	{Op: OpRunRequestDeletion, Does: "ask for the deletion of what is kept of a run", AnyRevision: true, Rights: byControl},
	{Op: OpRunComplete, Does: "end a run with its output", Rights: byOwner},
	{Op: OpRunFail, Does: "end a run with an error", Rights: byOwner},
	{Op: OpRunTimeOut, Does: "end a run whose deadline has passed", Rights: byOwner},
	{Op: OpRunCancel, Does: "end a run because somebody wanted it to", Rights: byOwner},
}

// runPlan is the plan of a command on a run. decide moves the work.
func runPlan(d *draft, run string, asked any, decide func(w *work) error) *plan[*Run] {
	d.id("run", run)
	return &plan[*Run]{
		subject: NewResourceID(RunResource, run),
		payload: asked,
		owner: func(rx *sqlite.Rx, _ Ownership) (ResourceID, error) {
			return controllerOf(rx, run)
		},
		repeated: func(rx *sqlite.Rx, _ Event) (*Run, error) {
			r, _, err := getRun(rx, run)
			return &r, err
		},
		decide: func(f *facts) (*change[*Run], error) {
			w, err := loadWork(f, run)
			if err == nil {
				err = decide(w)
			}
			if err != nil {
				return nil, err
			}
			return changed(w, &w.run), nil
		},
	}
}

const selControllerOf = `
	SELECT controller_uid
	  FROM controller_workflows
	 WHERE run_id = ?1`

// controllerOf returns the controller resource that started a run. Errors: [schema.NotFound].
func controllerOf(rx *sqlite.Rx, run string) (resource ResourceID, err error) {
	found, err := rx.QueryRow(selControllerOf, func(r sqlite.Row) error {
		resource = NewResourceID(ControllerResource, r.Text(0))
		return nil
	}, run)
	if err == nil && !found {
		err = notFound("controller that started run", run)
	}
	return resource, err
}

// StartRun begins to work on a run, for its owner: a direct one whose lease was claimed, or one that was
// claimed from the queue. A run that is to be cancelled does not start.
type StartRun struct {
	Run string `json:"run"`
}

// Op returns "run.start".
func (StartRun) Op() Op { return OpRunStart }

func (c StartRun) prepare(d *draft) *plan[*Run] {
	return runPlan(d, c.Run, c, func(w *work) error { return w.move("run.started") })
}

// ParkRun lets a run wait for something outside, with nobody at work on it: its lease is released, and its
// Pi session is free for another run (D2). [EnqueueRun] makes it go on.
//
// Errors: [schema.IllegalTransition] while an attempt is running.
type ParkRun struct {
	Run    string `json:"run"`
	Detail string `json:"detail,omitempty"` // what it waits for, for people
}

// Op returns "run.park".
func (ParkRun) Op() Op { return OpRunPark }

func (c ParkRun) prepare(d *draft) *plan[*Run] {
	d.line("detail", c.Detail, maxReasonBytes)
	return runPlan(d, c.Run, c, func(w *work) error {
		w.releases = true
		err := w.move("run.parked")
		w.run.Detail = c.Detail
		return err
	})
}
