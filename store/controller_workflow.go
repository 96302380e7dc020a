package store

import (
	"crypto/sha256"
	"encoding/json"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// WorkflowStatus is how a run is for the controller resource that asked for it.
type WorkflowStatus string

// The statuses. The last three are of runs that have ended.
const (
	WorkflowPending     WorkflowStatus = "pending" // its id is reserved; it does not exist yet
	WorkflowRunning     WorkflowStatus = "running" // or about to, in the queue
	WorkflowWaiting     WorkflowStatus = "waiting"
	WorkflowSucceeded   WorkflowStatus = "succeeded"
	WorkflowFailed      WorkflowStatus = "failed"      // it failed, came too late, or never came into being
	WorkflowInterrupted WorkflowStatus = "interrupted" // somebody cancelled it
)

// workflowStatus is the status of the run for the controller resource: the run decides, once it exists.
const workflowStatus = `ifnull(CASE r.status
		                WHEN 'queued'    THEN 'running'
		                WHEN 'completed' THEN 'succeeded'
		                WHEN 'timed_out' THEN 'failed'
		                WHEN 'cancelled' THEN 'interrupted'
		                ELSE r.status END, w.status)`

// ControllerWorkflow is a run that a controller resource asked for (D11). It is shown as its run is,
// whatever the controller has noted of that.
type ControllerWorkflow struct {
	Controller  string         `json:"controller"` // uid
	Key         string         `json:"request_key"`
	Fingerprint Digest         `json:"input_fingerprint"` // of workflow and input: another one under the key is a conflict
	Input       Digest         `json:"input"`
	Run         string         `json:"run"` // reserved, from the beginning
	Status      WorkflowStatus `json:"status"`
	Noted       WorkflowStatus `json:"noted"` // the status that the controller has noted last
	Output      *Digest        `json:"output,omitempty"`
	Error       *Digest        `json:"error,omitempty"`
	CreatedAt   Millis         `json:"created_at"`
	UpdatedAt   Millis         `json:"updated_at"` // of what was noted
	EndedAt     Millis         `json:"ended_at,omitempty"`
}

const workflowColumns = `w.controller_uid, w.request_key, w.input_fingerprint, w.input_blob, w.run_id, w.status,
		       ifnull(r.output_blob, w.output_blob), ifnull(r.error_blob, w.error_blob), w.created_at,
		       w.updated_at, ifnull(r.ended_at, w.ended_at), ` + workflowStatus

const (
	selWorkflow = `
		SELECT ` + workflowColumns + `
		  FROM controller_workflows AS w
		  LEFT JOIN runs AS r ON r.run_id = w.run_id
		 WHERE w.controller_uid = ?1
		   AND w.request_key    = ?2`

	selWorkflows = `
		SELECT ` + workflowColumns + `
		  FROM controller_workflows AS w
		  LEFT JOIN runs AS r ON r.run_id = w.run_id
		 WHERE w.controller_uid = ?1
		   AND w.request_key    > ?2
		 ORDER BY w.request_key
		 LIMIT ?3`

	// There are as many rows to look at as runs go on, or have ended unnoticed.
	selUnnoted = `
		SELECT ` + workflowColumns + `
		  FROM controller_workflows AS w
		  JOIN runs AS r ON r.run_id = w.run_id
		 WHERE w.controller_uid = ?1
		   AND w.ended_at IS NULL
		   AND ` + workflowStatus + ` <> w.status
		 ORDER BY w.created_at, w.request_key
		 LIMIT ?2`

	insWorkflow = `
		INSERT INTO controller_workflows (controller_uid, request_key, input_fingerprint, input_blob, run_id,
		                                  created_at, updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)`

	updWorkflow = `
		UPDATE controller_workflows
		   SET status      = ?3,
		       output_blob = ?4,
		       error_blob  = ?5,
		       updated_at  = ?6,
		       ended_at    = ?7
		 WHERE controller_uid = ?1
		   AND request_key    = ?2
		   AND ended_at IS NULL`
)

func scanWorkflow(r sqlite.Row) ControllerWorkflow {
	return ControllerWorkflow{
		Controller:  r.Text(0),
		Key:         r.Text(1),
		Fingerprint: *digestOf(r.Bytes(2)),
		Input:       *digestOf(r.Bytes(3)),
		Run:         r.Text(4),
		Noted:       WorkflowStatus(r.Text(5)),
		Output:      digestOf(r.Bytes(6)),
		Error:       digestOf(r.Bytes(7)),
		CreatedAt:   Millis(r.Int64(8)),
		UpdatedAt:   Millis(r.Int64(9)),
		EndedAt:     Millis(r.Int64(10)),
		Status:      WorkflowStatus(r.Text(11)),
	}
}

// oneWorkflow returns the run that a controller resource asked for under a key, or nil.
func oneWorkflow(rx *sqlite.Rx, uid, key string) (w *ControllerWorkflow, err error) {
	_, err = rx.QueryRow(selWorkflow, func(r sqlite.Row) error {
		found := scanWorkflow(r)
		w = &found
		return nil
	}, uid, key)
	return w, err
}

func saveWorkflow(tx *sqlite.Tx, w ControllerWorkflow) error {
	n, err := tx.Exec(updWorkflow, w.Controller, w.Key, string(w.Noted), w.Output.bytes(), w.Error.bytes(),
		int64(w.UpdatedAt), orNull(int64(w.EndedAt)))
	if err == nil && n != 1 {
		err = schema.Errorf(schema.Storage, "workflow %s of controller resource %s: %d open rows", w.Key, w.Controller, n)
	}
	return err
}

// ReserveWorkflow asks for a run for a controller resource and reserves its id, for the owner of the
// resource, who then creates the run with [CreateRun]. After a crash in between the same request finds the
// same id. A run that can't come into being is given up with [AbandonWorkflow].
//
// Errors: [schema.Limit] for an input of more than MaxWorkflowInputBytes; [schema.Conflict] with the stored
// [ControllerWorkflow] as the winner if another workflow or input was asked for under the key.
type ReserveWorkflow struct {
	Controller string          `json:"controller"` // uid
	Key        string          `json:"request_key"`
	Workflow   string          `json:"workflow"` // what is to run: a name, or the digest of a definition
	Input      json.RawMessage `json:"input"`
}

// Op returns "controller.reserve_workflow".
func (ReserveWorkflow) Op() Op { return OpControllerReserve }

// workflowRunID returns the id of the run that a controller resource asks for under a key.
func workflowRunID(uid, key string) string { return derivedID("run", "controller", uid, key) }

// reservation is a request made ready before the transaction. In JSON its input is a digest.
type reservation struct {
	ReserveWorkflow
	Input *content `json:"input"`

	fingerprint Digest
}

func (c ReserveWorkflow) prepare(d *draft) *plan[*ControllerWorkflow] {
	d.id("request_key", c.Key)
	d.id("workflow", c.Workflow)
	r := &reservation{ReserveWorkflow: c, Input: d.limited("input", c.Input, MaxWorkflowInputBytes)}
	if r.Input != nil {
		r.fingerprint = sha256.Sum256(append([]byte(c.Workflow+"\n"), r.Input.bytes...))
	}
	stored := &ControllerWorkflow{
		Controller: c.Controller, Key: c.Key, Fingerprint: r.fingerprint, Run: workflowRunID(c.Controller, c.Key),
		Status: WorkflowPending, Noted: WorkflowPending,
	}
	p := controllerPlan(d, c.Controller, r, func(w *controlled) error {
		stored.Input, stored.CreatedAt, stored.UpdatedAt = r.Input.digest, w.f.now, w.f.now
		w.event = "controller.workflow_reserved"
		w.write(insWorkflow, w.UID, c.Key, r.fingerprint[:], r.Input.digest[:], stored.Run, int64(w.f.now))
		return nil
	})
	return workflowPlan(p, stored, func(rx *sqlite.Rx) (*ControllerWorkflow, bool, error) {
		found, err := oneWorkflow(rx, c.Controller, c.Key)
		if found != nil && found.Fingerprint != r.fingerprint {
			err = refuse(schema.Conflict, &ConflictError{"workflow " + c.Key + " of controller resource " + c.Controller, *found})
		}
		return found, found != nil, err
	})
}

// workflowPlan is the plan of a command on a controller resource whose result is a run that it asked for.
func workflowPlan(p *plan[*Controller], result *ControllerWorkflow, existing func(*sqlite.Rx) (*ControllerWorkflow, bool, error)) *plan[*ControllerWorkflow] {
	return &plan[*ControllerWorkflow]{
		subject:  p.subject,
		payload:  p.payload,
		existing: existing,
		repeated: func(rx *sqlite.Rx, _ Event) (*ControllerWorkflow, error) {
			return oneWorkflow(rx, result.Controller, result.Key)
		},
		decide: func(f *facts) (*change[*ControllerWorkflow], error) {
			c, err := p.decide(f)
			if err != nil {
				return nil, err
			}
			return changeOf(c, result), nil
		},
	}
}

// AbandonWorkflow gives up a run that was asked for and does not exist: it has failed. It can't come into
// being any more.
//
// Errors: [schema.IllegalTransition] for a run that exists, which can be cancelled instead;
// [schema.NotFound].
type AbandonWorkflow struct {
	Controller string          `json:"controller"` // uid
	Key        string          `json:"request_key"`
	Error      json.RawMessage `json:"error"` // why
}

// Op returns "controller.abandon_workflow".
func (AbandonWorkflow) Op() Op { return OpControllerAbandon }

func (c AbandonWorkflow) prepare(d *draft) *plan[*ControllerWorkflow] {
	d.id("request_key", c.Key)
	fault := d.limited("error", c.Error, MaxControllerEventBytes)
	asked := struct {
		AbandonWorkflow
		Error *content `json:"error"`
	}{c, fault}
	result := &ControllerWorkflow{Controller: c.Controller, Key: c.Key}
	p := controllerPlan(d, c.Controller, asked, func(w *controlled) error {
		stored, err := oneWorkflow(w.f.Rx, c.Controller, c.Key)
		switch {
		case err != nil:
			return err
		case stored == nil:
			return notFound("workflow of controller resource "+c.Controller, c.Key)
		case stored.Status != WorkflowPending:
			return w.illegal(w.state() + ", and its workflow " + c.Key + " is " + string(stored.Status))
		}
		*result = *stored
		result.Status, result.Noted, result.Error = WorkflowFailed, WorkflowFailed, &fault.digest
		result.UpdatedAt, result.EndedAt = w.f.now, w.f.now
		w.event = "controller.workflow_abandoned"
		w.rows = append(w.rows, func(tx *sqlite.Tx) error { return saveWorkflow(tx, *result) })
		return nil
	})
	return workflowPlan(p, result, nil)
}

// ObserveWorkflows notes for a controller resource how the runs are that it asked for, for its owner: those
// of which it has noted something else, at most MaxPage at once. Where there are none, that is found (W5).
type ObserveWorkflows struct {
	Controller string `json:"controller"` // uid
}

// Op returns "controller.observe_workflows".
func (ObserveWorkflows) Op() Op { return OpControllerObserve }

func (c ObserveWorkflows) prepare(d *draft) *plan[*Controller] {
	p := controllerPlan(d, c.Controller, c, func(w *controlled) error {
		unnoted, err := list(w.f.Rx, scanWorkflow, selUnnoted, c.Controller, MaxPage)
		if err != nil {
			return err
		}
		w.event = "controller.workflows_observed"
		for _, child := range unnoted {
			child.Noted, child.UpdatedAt = child.Status, w.f.now
			w.rows = append(w.rows, func(tx *sqlite.Tx) error { return saveWorkflow(tx, child) })
		}
		return nil
	})
	p.existing = func(rx *sqlite.Rx) (*Controller, bool, error) {
		unnoted, err := list(rx, scanWorkflow, selUnnoted, c.Controller, 1)
		if err != nil || len(unnoted) > 0 {
			return nil, false, err
		}
		stored, err := oneController(rx, selController, c.Controller)
		return stored, stored != nil, err
	}
	return p
}
