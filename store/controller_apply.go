package store

import (
	"encoding/json"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// ApplyController says how something is to be. Where no live controller resource has the name and key in the
// project, it comes into being with a new uid; else its spec changes. The generation grows only if the
// canonical form of the spec is another one, and then the controller gets to look at it; a spec that is
// there already is found (W5).
//
// With a permit that expects revision 0 it only creates; with another revision it only changes that one.
//
// Errors: [schema.Limit] for a spec of more than MaxSpecBytes; [schema.Conflict] with the live [Controller]
// as the winner for one that is to be created with another spec; [schema.StaleRevision];
// [schema.IllegalTransition] while the resource is to be deleted; [schema.NotFound] for the project, or for
// a resource of the expected revision.
type ApplyController struct {
	Project string          `json:"project"`
	Name    string          `json:"name"` // of the controller
	Key     string          `json:"key"`  // of the thing that it looks after
	Spec    json.RawMessage `json:"spec"`
}

// Op returns "controller.apply".
func (ApplyController) Op() Op { return OpControllerApply }

// applyDraft is a spec made ready before the transaction. In JSON it is a digest.
type applyDraft struct {
	ApplyController
	Spec *content `json:"spec"`

	uid      string // if it comes into being
	expected int64
}

func (c ApplyController) prepare(d *draft) *plan[*Controller] {
	d.id("project", c.Project)
	d.id("name", c.Name)
	d.id("key", c.Key)
	uid, err := d.store.random.randomID("ctl")
	d.fail(err)
	a := &applyDraft{
		ApplyController: c,
		Spec:            d.limited("spec", c.Spec, MaxSpecBytes),
		uid:             uid,
		expected:        d.permit.Expected,
	}
	return &plan[*Controller]{
		// The subject is the one that has the name and key, which only the database knows.
		payload:  a,
		existing: a.find,
		repeated: func(rx *sqlite.Rx, e Event) (*Controller, error) {
			return getController(rx, e.Resource.Aggregate())
		},
		decide: a.decide,
	}
}

// limited is json for a value of at most max bytes.
func (d *draft) limited(field string, value json.RawMessage, max int) *content {
	if len(value) > max {
		d.fail(schema.Errorf(schema.Limit, "%s has %d bytes; at most %d are allowed", field, len(value), max))
		return nil
	}
	return d.json(field, value)
}

func (a *applyDraft) live(rx *sqlite.Rx) (*Controller, error) {
	return oneController(rx, selLiveController, a.Project, a.Name, a.Key)
}

// find looks for a live resource that has the spec already.
func (a *applyDraft) find(rx *sqlite.Rx) (*Controller, bool, error) {
	c, err := a.live(rx)
	return c, c != nil && c.Spec == a.Spec.digest && c.DeletionRequestedAt == 0, err
}

func (a *applyDraft) decide(f *facts) (*change[*Controller], error) {
	c, err := a.live(f.Rx)
	switch {
	case err != nil:
		return nil, err
	case c != nil:
		return a.apply(f, c)
	case a.expected > 0:
		return nil, notFound("live controller resource", a.Name+" "+a.Key)
	}
	return a.create(f)
}

func (a *applyDraft) create(f *facts) (*change[*Controller], error) {
	_, found, err := getProject(f.Rx, a.Project)
	if err == nil && !found {
		err = notFound("project", a.Project)
	}
	if err != nil {
		return nil, err
	}
	c := &Controller{
		UID: a.uid, Revision: 1, Project: a.Project, Name: a.Name, Key: a.Key, Spec: a.Spec.digest, Generation: 1,
		Finalizers: []string{}, CreatedAt: f.now, UpdatedAt: f.now,
		Queue: ControllerQueue{AvailableAt: f.now, Version: 1, EnqueuedAt: f.now, UpdatedAt: f.now},
	}
	return &change[*Controller]{
		result: c,
		steps:  []step{{resource: c.Resource(), creates: true, event: "controller.created"}},
		rows:   func(tx *sqlite.Tx) error { return insertController(tx, c) },
	}, nil
}

func (a *applyDraft) apply(f *facts, c *Controller) (*change[*Controller], error) {
	w, err := f.control(c)
	if err != nil {
		return nil, err
	}
	switch {
	case a.expected == 0:
		return nil, refuse(schema.Conflict, &ConflictError{"controller resource " + c.Name + " " + c.Key, *c})
	case a.expected != AnyRevision && a.expected != c.Revision:
		return nil, refuse(schema.StaleRevision, &RevisionError{c.Resource(), a.expected, c.Revision})
	case c.DeletionRequestedAt != 0:
		return nil, w.illegal(c.state())
	}
	w.event, w.Spec, w.Generation = "controller.spec_changed", a.Spec.digest, c.Generation+1
	w.enqueue(f.now)
	return w.change(), nil
}

// control makes a controller resource the subject that was found in the transaction only.
func (f *facts) control(c *Controller) (w *controlled, err error) {
	if f.subject, err = getResource(f.Rx, c.Resource()); err != nil {
		return nil, err
	}
	f.now = max(f.now, f.subject.UpdatedAt)
	return &controlled{Controller: c, f: f}, nil
}

// RequestControllerDeletion asks for the end of a controller resource. It comes at once if no finalizer keeps
// the resource, also while somebody owns it, who then is no longer its owner; else the controller gets to
// look at it, and does what its finalizers stand for. Asking again finds the request (W5).
//
// The name and key are free for another resource, with another uid, when the deletion has come.
type RequestControllerDeletion struct {
	Controller string `json:"controller"` // uid
}

// Op returns "controller.request_deletion".
func (RequestControllerDeletion) Op() Op { return OpControllerRequestDeletion }

func (c RequestControllerDeletion) prepare(d *draft) *plan[*Controller] {
	p := controllerPlan(d, c.Controller, c, func(w *controlled) error {
		w.event, w.DeletionRequestedAt = "controller.deletion_requested", w.f.now
		w.enqueue(w.f.now)
		if w.end(); w.DeletedAt != 0 {
			w.event = "controller.deleted"
		}
		return nil
	})
	p.existing = func(rx *sqlite.Rx) (*Controller, bool, error) {
		stored, err := oneController(rx, selController, c.Controller)
		return stored, stored != nil && stored.DeletionRequestedAt != 0, err
	}
	return p
}
