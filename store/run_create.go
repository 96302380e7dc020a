package store

import (
	"encoding/json"

	"pistate/internal/sqlite"
	"pistate/schema"
)

const (
	maxTitleBytes = 1000
	maxRefBytes   = 4096 // a path
)

// RunSpec is what a run is asked to do, under its id for good.
type RunSpec struct {
	ID         string          `json:"run"`
	Project    string          `json:"project"`
	Parent     string          `json:"parent,omitempty"` // the run that it is a part or the continuation of
	Definition Digest          `json:"definition"`
	Source     RunSource       `json:"source"`
	Title      string          `json:"title"`
	Input      json.RawMessage `json:"input"`
	Mode       RunMode         `json:"mode"`
	Session    string          `json:"session,omitempty"` // the Pi session that it comes from; needed of an interactive run
	DeadlineAt Millis          `json:"deadline_at,omitempty"`

	// Queue: the run waits there for somebody to run it, an interactive one for its session alone. nil: it
	// is run directly, by whoever claims its lease.
	Queue *QueuePlace `json:"queue,omitempty"`
	// Continues: the run goes on where its parent was parked. The parent's place in the queue is settled.
	Continues bool `json:"continues,omitempty"`
}

// runDraft is a run made ready before the transaction. In JSON its input is a digest. Every command that
// brings a run into being makes one.
type runDraft struct {
	RunSpec
	Input *content `json:"input"`

	request     Digest // what is asked for under the run's id, whichever command asks
	reservedFor string // "controller:" or "continuation:" and the id of what the run's id was reserved for
}

// run makes a run ready.
func (d *draft) run(spec RunSpec) *runDraft {
	d.id("run", spec.ID)
	d.id("project", spec.Project)
	if spec.Parent != "" {
		d.id("parent", spec.Parent)
	}
	if spec.Source.Type != BuiltinSource && spec.Source.Type != FileSource {
		d.invalid("source type %q: it is %s or %s", spec.Source.Type, BuiltinSource, FileSource)
	}
	if spec.Source.Ref == "" {
		d.invalid("source: ref is empty")
	}
	d.line("source ref", spec.Source.Ref, maxRefBytes)
	d.line("source revision", spec.Source.Revision, maxIDBytes)
	d.line("title", spec.Title, maxTitleBytes)
	if spec.Session != "" {
		d.id("session", spec.Session)
	}
	switch {
	case spec.Mode != InteractiveMode && spec.Mode != HeadlessMode:
		d.invalid("mode %q: it is %s or %s", spec.Mode, InteractiveMode, HeadlessMode)
	case spec.Mode == InteractiveMode && spec.Session == "":
		d.invalid("an interactive run needs the session that it comes from")
	case spec.Parent == spec.ID:
		d.invalid("run %s is named as its own parent", spec.ID)
	case spec.Continues && (spec.Parent == "" || spec.Queue == nil):
		d.invalid("a run that continues another needs that one as its parent, and a place in the queue")
	}
	d.moment("deadline_at", spec.DeadlineAt)
	if spec.Queue != nil {
		d.place(*spec.Queue)
	}
	r := &runDraft{RunSpec: spec, Input: d.json("input", spec.Input)}
	if d.problem == nil {
		asked, err := json.Marshal(r)
		d.fail(err)
		c, err := jsonContent("run", asked)
		d.fail(err)
		if c != nil {
			r.request = c.digest
		}
	}
	return r
}

// moment checks a time that may be absent.
func (d *draft) moment(field string, at Millis) {
	if at < 0 {
		d.invalid("%s %d is negative", field, at)
	}
}

// find looks for the run among those created before. Errors: [schema.Conflict] with the stored [Run] as the
// winner if something else was asked for under its id.
func (r *runDraft) find(rx *sqlite.Rx) (*Run, bool, error) {
	run, found, err := getRun(rx, r.ID)
	if found && run.request != r.request {
		err = refuse(schema.Conflict, &ConflictError{"run " + r.ID, run})
	}
	return &run, found, err
}

const selReservedFor = `
	SELECT 'controller:' || controller_uid
	  FROM controller_workflows
	 WHERE run_id = ?1
	 UNION ALL
	SELECT 'continuation:' || continuation_id
	  FROM continuations
	 WHERE child_run_id = ?1`

// create returns the work that brings the run into being, and what must be done for other runs before.
//
// Errors: [schema.NotFound] for a project, definition or parent that is not known; [schema.Conflict] for an
// id that is reserved for something else; [schema.Locked] with a [*ReservedError] if the session is reserved
// for another run; [schema.IllegalTransition] if the run is to continue a parent that is not parked.
func (r *runDraft) create(f *facts) (w *work, before []*work, err error) {
	if err := r.check(f); err != nil {
		return nil, nil, err
	}
	w = &work{f: f, creates: true, foundRun: RunStatus(StateNone)}
	w.run = Run{
		ID: r.ID, Project: r.Project, Parent: r.Parent, Definition: r.Definition, Source: r.Source, Title: r.Title,
		Mode: r.Mode, Session: r.Session, Status: RunStatus(StateNone), Input: r.Input.digest, CreatedAt: f.now,
		DeadlineAt: r.DeadlineAt, request: r.request,
	}
	if r.Queue == nil {
		return w, nil, w.moveAs(OpRunCreate, "run.created")
	}
	if r.Continues {
		parent, err := loadWork(f, r.Parent)
		if err == nil {
			err = parent.moveAs(OpRunCreate, "queue.continued")
		}
		if err != nil {
			return nil, nil, err
		}
		before = append(before, parent)
	}
	w.place(*r.Queue)
	if err := w.moveAs(OpRunCreate, "run.queued"); err != nil {
		return nil, nil, err
	}
	stale, err := w.wantSession()
	return w, append(before, stale...), err
}

// check looks whether all is there that the run refers to, and whether its id is free for it.
func (r *runDraft) check(f *facts) error {
	_, found, err := getProject(f.Rx, r.Project)
	if err == nil && !found {
		err = notFound("project", r.Project)
	}
	if err != nil {
		return err
	}
	_, found, err = getDefinition(f.Rx, r.Definition)
	if err == nil && !found {
		err = notFound("definition", r.Definition.String())
	}
	if err != nil {
		return err
	}
	if r.Parent != "" {
		parent, found, err := getRun(f.Rx, r.Parent)
		switch {
		case err != nil:
			return err
		case !found:
			return notFound("run", r.Parent)
		case parent.Project != r.Project:
			return schema.Errorf(schema.Invalid, "parent %s belongs to project %s, not to %s", r.Parent, parent.Project, r.Project)
		}
	}
	reserved := ""
	_, err = f.QueryRow(selReservedFor, func(row sqlite.Row) error {
		reserved = row.Text(0)
		return nil
	}, r.ID)
	if err == nil && reserved != r.reservedFor {
		if reserved == "" {
			return notFound("reservation of run "+r.ID+" for", r.reservedFor)
		}
		err = refuse(schema.Conflict, &ConflictError{"run " + r.ID, reserved})
	}
	return err
}

// CreateRun brings a run into being. It is queued from then on: in the queue, or for whoever claims its
// lease. The same command again finds the run; its id is the identity (W5).
//
// A run with a parent needs the claim on the parent while that goes on; a controller's needs the claim on
// the controller resource that the run's id was reserved for.
//
// Errors: those of a run that can't be; see RunSpec.
type CreateRun struct {
	RunSpec
	Controller string `json:"controller,omitempty"` // the uid of the controller resource whose child the run is
}

// Op returns "run.create".
func (CreateRun) Op() Op { return OpRunCreate }

// A controller's child is running for the controller as soon as the run exists.
const updChildStarted = `
	UPDATE controller_workflows
	   SET status     = 'running',
	       updated_at = ?3
	 WHERE run_id     = ?1
	   AND input_blob = ?2
	   AND status     = 'pending'`

func (c CreateRun) prepare(d *draft) *plan[*Run] {
	r := d.run(c.RunSpec)
	if c.Controller != "" {
		d.id("controller", c.Controller)
		r.reservedFor = "controller:" + c.Controller
	}
	if isController := d.permit.Actor.Class == ControllerActor; isController != (c.Controller != "") {
		d.fail(refuse(schema.Denied, &DeniedError{c.Op(), d.permit.Actor.Class, "a controller, and only a controller, creates a run for its resource"}))
	}
	return &plan[*Run]{
		subject: NewResourceID(RunResource, c.ID),
		creates: true,
		payload: struct {
			*runDraft
			Controller string `json:"controller,omitempty"`
		}{r, c.Controller},
		owner: func(rx *sqlite.Rx, own Ownership) (ResourceID, error) {
			if own == OwnController {
				return NewResourceID(ControllerResource, c.Controller), nil
			}
			return parentToOwn(rx, c.Parent)
		},
		existing: r.find,
		repeated: func(rx *sqlite.Rx, _ Event) (*Run, error) {
			run, _, err := r.find(rx)
			return run, err
		},
		decide: func(f *facts) (*change[*Run], error) {
			w, before, err := r.create(f)
			if err != nil {
				return nil, err
			}
			ch := changed(w, &w.run, before...)
			if c.Controller == "" {
				return ch, nil
			}
			rows := ch.rows
			ch.rows = func(tx *sqlite.Tx) error {
				n, err := tx.Exec(updChildStarted, c.ID, w.run.Input[:], int64(f.now))
				if err == nil && n != 1 {
					err = refuse(schema.Conflict, &ConflictError{"run " + c.ID, r.reservedFor})
				}
				if err != nil {
					return err
				}
				return rows(tx)
			}
			return ch, nil
		},
	}
}

// parentToOwn returns the run whose owner alone may give it a child. One that has ended has no owner.
func parentToOwn(rx *sqlite.Rx, parent string) (ResourceID, error) {
	if parent == "" {
		return "", nil
	}
	run, found, err := getRun(rx, parent)
	if err != nil || !found || run.EndedAt != 0 {
		return "", err
	}
	return run.Resource(), nil
}
