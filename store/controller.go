package store

import (
	"encoding/json"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// The operations on controller resources.
const (
	OpControllerApply           Op = "controller.apply"
	OpControllerRequestDeletion Op = "controller.request_deletion"
	OpControllerAddFinalizer    Op = "controller.add_finalizer"
	OpControllerRemoveFinalizer Op = "controller.remove_finalizer"
	OpControllerSetStatus       Op = "controller.set_status"
	OpControllerRecord          Op = "controller.record"
	OpControllerEnqueue         Op = "controller.enqueue"
	OpControllerClaim           Op = "controller.claim"
	OpControllerSettle          Op = "controller.settle"
	OpControllerRequeue         Op = "controller.requeue"
	OpControllerBackOff         Op = "controller.back_off"
	OpControllerReserve         Op = "controller.reserve_workflow"
	OpControllerObserve         Op = "controller.observe_workflows"
	OpControllerAbandon         Op = "controller.abandon_workflow"
)

// controllerOwners can own the lease of a controller resource.
var controllerOwners = []ActorClass{SessionActor, HostActor, ControllerActor, SystemActor}

// What its owner writes needs no revision: there is one owner, and others only change the wish, the queue or
// the request for deletion, which the owner reads with its claim and gets again through the queue.
var (
	byControllerOwner = rights(Right{Own: OwnSubject}, controllerOwners...)

	controllerOperations = []Operation{
		{
			Op: OpControllerApply, Does: "say how something is to be: create a controller resource, or change its spec",
			AnyRevision: true, // a permit with a revision changes what it has seen, and nothing else
			Rights:      rights(Right{}, SessionActor, HostActor, ControllerActor, ControlActor, SystemActor),
		},
		{
			Op: OpControllerRequestDeletion, Does: "ask for the end of a controller resource, which comes when its finalizers are done",
			AnyRevision: true, // it is requested once
			Rights:      rights(Right{}, SessionActor, HostActor, ControllerActor, ControlActor, SystemActor),
		},
		{Op: OpControllerAddFinalizer, Does: "keep a controller resource until something is done", AnyRevision: true, Rights: byControllerOwner},
		{Op: OpControllerRemoveFinalizer, Does: "say that it is done, and let the resource go after the last", AnyRevision: true, Rights: byControllerOwner},
		{Op: OpControllerSetStatus, Does: "say how something is", AnyRevision: true, Rights: byControllerOwner},
		{Op: OpControllerRecord, Does: "record something that a controller has seen or done", AnyRevision: true, Rights: byControllerOwner},
		{
			Op: OpControllerEnqueue, Does: "have a controller look at its resource",
			AnyRevision: true, // the queue has a version of its own
			Rights:      rights(Right{}, SessionActor, HostActor, ControllerActor, ChannelActor, ControlActor, SystemActor),
		},
		{
			Op: OpControllerClaim, Does: "become the owner of the next controller resource that is due",
			AnyRevision: true, // it is not known before
			Rights:      rights(Right{}, controllerOwners...),
		},
		{Op: OpControllerSettle, Does: "end the work on a controller resource until it is enqueued again", AnyRevision: true, Rights: byControllerOwner},
		{Op: OpControllerRequeue, Does: "end the work on a controller resource for some time", AnyRevision: true, Rights: byControllerOwner},
		{Op: OpControllerBackOff, Does: "end the work on a controller resource after an error, and try again later", AnyRevision: true, Rights: byControllerOwner},
		{Op: OpControllerReserve, Does: "ask for a run for a controller resource, and reserve its id", AnyRevision: true, Rights: byControllerOwner},
		{Op: OpControllerObserve, Does: "note for a controller resource how the runs are that it asked for", AnyRevision: true, Rights: byControllerOwner},
		{Op: OpControllerAbandon, Does: "give up a run that was asked for and does not exist yet", AnyRevision: true, Rights: byControllerOwner},
	}
)

// The largest values of a controller resource, in bytes as they were sent.
const (
	MaxSpecBytes            = 256 << 10
	MaxStatusBytes          = 256 << 10
	MaxControllerEventBytes = 64 << 10
	MaxWorkflowInputBytes   = 1 << 20
	MaxFinalizers           = 32
)

// Controller is one thing that a controller looks after (D11): how it is to be, how it is, what must be done
// before it may go, and when to look at it again. Spec and status are blobs.
type Controller struct {
	UID        string          `json:"uid"`      // never used again, not even for the same name and key
	Revision   int64           `json:"revision"` // counts the accepted commands
	Project    string          `json:"project"`
	Name       string          `json:"name"` // of the controller
	Key        string          `json:"key"`  // of the thing
	Spec       Digest          `json:"spec"`
	Generation int64           `json:"generation"` // counts the specs, from 1
	Status     *Digest         `json:"status,omitempty"`
	Observed   int64           `json:"observed_generation"` // the spec that the status is about; 0: there is no status
	Finalizers []string        `json:"finalizers"`          // in the order in which they are to be done
	Queue      ControllerQueue `json:"queue"`
	CreatedAt  Millis          `json:"created_at"`
	UpdatedAt  Millis          `json:"updated_at"`

	DeletionRequestedAt Millis `json:"deletion_requested_at,omitempty"`
	DeletedAt           Millis `json:"deleted_at,omitempty"`
}

// ControllerQueue is when a controller is to look at its resource.
type ControllerQueue struct {
	AvailableAt Millis `json:"available_at,omitempty"` // not before; 0: there is nothing to do
	Version     int64  `json:"version"`                // grows each time that it is enqueued
	Errors      int    `json:"errors,omitempty"`       // in a row
	ErrorCode   string `json:"error_code,omitempty"`   // of the last of them
	EnqueuedAt  Millis `json:"enqueued_at"`
	UpdatedAt   Millis `json:"updated_at"`
}

// Resource returns the resource that it is.
func (c *Controller) Resource() ResourceID { return NewResourceID(ControllerResource, c.UID) }

// state names the part of its life in which the resource is.
func (c *Controller) state() string {
	switch {
	case c.DeletedAt != 0:
		return "deleted"
	case c.DeletionRequestedAt != 0:
		return "to be deleted"
	}
	return "live"
}

// The finalizers are few and short.
const controllerColumns = `c.controller_uid, r.revision, c.project_id, c.name, c.key, c.spec_blob, c.generation, c.status_blob,
		       c.observed_generation, c.created_at, c.updated_at, c.deletion_requested_at, c.deleted_at,
		       q.available_at, q.queue_version, q.error_count, q.error_code, q.enqueued_at, q.updated_at,
		       (SELECT json_group_array(f.finalizer ORDER BY f.position)
		          FROM controller_finalizers AS f
		         WHERE f.controller_uid = c.controller_uid)`

const (
	selController = `
		SELECT ` + controllerColumns + `
		  FROM controller_resources AS c
		  JOIN controller_queue AS q ON q.controller_uid = c.controller_uid
		  JOIN resources        AS r ON r.resource_id    = c.resource_id
		 WHERE c.controller_uid = ?1`

	selLiveController = `
		SELECT ` + controllerColumns + `
		  FROM controller_resources AS c
		  JOIN controller_queue AS q ON q.controller_uid = c.controller_uid
		  JOIN resources        AS r ON r.resource_id    = c.resource_id
		 WHERE c.project_id = ?1
		   AND c.name       = ?2
		   AND c.key        = ?3
		   AND c.deleted_at IS NULL`

	insController = `
		INSERT INTO controller_resources (controller_uid, project_id, name, key, spec_blob, created_at, updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)`

	insControllerQueue = `
		INSERT INTO controller_queue (controller_uid, project_id, available_at, enqueued_at, updated_at)
		VALUES (?1, ?2, ?3, ?3, ?3)`

	updController = `
		UPDATE controller_resources
		   SET spec_blob             = ?2,
		       generation            = ?3,
		       status_blob           = ?4,
		       observed_generation   = ?5,
		       updated_at            = ?6,
		       deletion_requested_at = ?7,
		       deleted_at            = ?8
		 WHERE controller_uid = ?1
		   AND deleted_at IS NULL`

	updControllerQueue = `
		UPDATE controller_queue
		   SET available_at  = ?2,
		       queue_version = ?3,
		       error_count   = ?4,
		       error_code    = ?5,
		       enqueued_at   = ?6,
		       updated_at    = ?7
		 WHERE controller_uid = ?1`
)

func scanController(r sqlite.Row) (Controller, error) {
	c := Controller{
		UID:        r.Text(0),
		Revision:   r.Int64(1),
		Project:    r.Text(2),
		Name:       r.Text(3),
		Key:        r.Text(4),
		Spec:       *digestOf(r.Bytes(5)),
		Generation: r.Int64(6),
		Status:     digestOf(r.Bytes(7)),
		Observed:   r.Int64(8),
		CreatedAt:  Millis(r.Int64(9)),
		UpdatedAt:  Millis(r.Int64(10)),
		Queue: ControllerQueue{
			AvailableAt: Millis(r.Int64(13)),
			Version:     r.Int64(14),
			Errors:      r.Int(15),
			ErrorCode:   r.Text(16),
			EnqueuedAt:  Millis(r.Int64(17)),
			UpdatedAt:   Millis(r.Int64(18)),
		},
		DeletionRequestedAt: Millis(r.Int64(11)),
		DeletedAt:           Millis(r.Int64(12)),
	}
	if err := json.Unmarshal([]byte(r.Text(19)), &c.Finalizers); err != nil {
		return c, schema.Errorf(schema.Corrupt, "finalizers of %s: %w", c.Resource(), err)
	}
	return c, nil
}

// oneController returns the controller resource that a query finds, or nil.
func oneController(rx *sqlite.Rx, sql string, args ...any) (c *Controller, err error) {
	_, err = rx.QueryRow(sql, func(r sqlite.Row) error {
		found, err := scanController(r)
		c = &found
		return err
	}, args...)
	return c, err
}

// getController is oneController for one that must be there.
func getController(rx *sqlite.Rx, uid string) (*Controller, error) {
	c, err := oneController(rx, selController, uid)
	if err == nil && c == nil {
		err = notFound("controller resource", uid)
	}
	return c, err
}

func insertController(tx *sqlite.Tx, c *Controller) error {
	_, err := tx.Exec(insController, c.UID, c.Project, c.Name, c.Key, c.Spec[:], int64(c.CreatedAt))
	if err != nil {
		return err
	}
	_, err = tx.Exec(insControllerQueue, c.UID, c.Project, int64(c.Queue.AvailableAt))
	return err
}

// saveController stores what has changed of a controller resource and its place in the queue.
func saveController(tx *sqlite.Tx, c *Controller) error {
	n, err := tx.Exec(updController, c.UID, c.Spec[:], c.Generation, c.Status.bytes(), c.Observed, int64(c.UpdatedAt),
		orNull(int64(c.DeletionRequestedAt)), orNull(int64(c.DeletedAt)))
	if err == nil && n != 1 {
		err = schema.Errorf(schema.Storage, "controller resource %s: %d live rows", c.UID, n)
	}
	if err != nil {
		return err
	}
	q := c.Queue
	n, err = tx.Exec(updControllerQueue, c.UID, orNull(int64(q.AvailableAt)), q.Version, q.Errors, orNull(q.ErrorCode),
		int64(q.EnqueuedAt), int64(q.UpdatedAt))
	if err == nil && n != 1 {
		err = schema.Errorf(schema.Storage, "controller resource %s: %d rows in the queue", c.UID, n)
	}
	return err
}

// controlled is a controller resource as a command finds it and as it leaves it.
type controlled struct {
	*Controller
	f        *facts
	event    string
	payload  *content                 // of the event; nil: the command
	releases bool                     // nobody owns the resource afterwards
	rows     []func(*sqlite.Tx) error // besides the resource's own, and before them
}

// illegal says that the state of the resource does not allow the command.
func (w *controlled) illegal(from string) error {
	return refuse(schema.IllegalTransition, &TransitionError{w.Resource(), from, w.f.op})
}

// write adds a statement to what the command writes.
func (w *controlled) write(sql string, args ...any) {
	w.rows = append(w.rows, func(tx *sqlite.Tx) error {
		_, err := tx.Exec(sql, args...)
		return err
	})
}

// enqueue has the controller look at its resource at a time, or before.
func (w *controlled) enqueue(at Millis) {
	q := &w.Queue
	if q.AvailableAt == 0 || at < q.AvailableAt {
		q.AvailableAt = at
	}
	q.Version, q.EnqueuedAt, q.UpdatedAt = q.Version+1, w.f.now, w.f.now
}

// end deletes the resource if that was requested and nothing keeps it.
func (w *controlled) end() {
	if w.DeletionRequestedAt != 0 && len(w.Finalizers) == 0 {
		w.DeletedAt, w.Queue.AvailableAt, w.Queue.UpdatedAt = w.f.now, 0, w.f.now
	}
}

// change returns the change that the command makes.
func (w *controlled) change() *change[*Controller] {
	w.Revision, w.UpdatedAt = w.Revision+1, w.f.now
	return &change[*Controller]{
		result: w.Controller,
		steps:  []step{{resource: w.Resource(), ends: w.DeletedAt != 0, event: w.event, payload: w.payload}},
		rows: func(tx *sqlite.Tx) error {
			if w.releases {
				if err := clearOwner(tx, w.Resource()); err != nil {
					return err
				}
			}
			for _, row := range w.rows {
				if err := row(tx); err != nil {
					return err
				}
			}
			return saveController(tx, w.Controller)
		},
	}
}

// controllerPlan is the plan of a command on a controller resource. decide gets the resource as it is and
// changes it.
func controllerPlan(d *draft, uid string, asked any, decide func(w *controlled) error) *plan[*Controller] {
	d.id("controller", uid)
	return &plan[*Controller]{
		subject:  NewResourceID(ControllerResource, uid),
		payload:  asked,
		repeated: func(rx *sqlite.Rx, _ Event) (*Controller, error) { return getController(rx, uid) },
		decide: func(f *facts) (*change[*Controller], error) {
			c, err := getController(f.Rx, uid)
			if err != nil {
				return nil, err
			}
			w := &controlled{Controller: c, f: f}
			if c.DeletedAt != 0 {
				return nil, w.illegal(c.state())
			}
			if err := decide(w); err != nil {
				return nil, err
			}
			return w.change(), nil
		},
	}
}
