package store

import (
	"context"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// RunStatus is where a run is.
type RunStatus string

// The statuses of a run. The last four are final: a run has one of them once, and for good (D7).
const (
	RunQueued    RunStatus = "queued" // to be started, or started again
	RunRunning   RunStatus = "running"
	RunWaiting   RunStatus = "waiting" // for something outside, as a decision
	RunCompleted RunStatus = "completed"
	RunFailed    RunStatus = "failed"
	RunTimedOut  RunStatus = "timed_out"
	RunCancelled RunStatus = "cancelled"
)

// RunMode says where a run shows itself.
type RunMode string

// The modes.
const (
	InteractiveMode RunMode = "interactive" // in the Pi session that it came from
	HeadlessMode    RunMode = "headless"    // nowhere in particular
)

// SourceType says where a definition came from.
type SourceType string

// The source types.
const (
	BuiltinSource SourceType = "builtin"
	FileSource    SourceType = "file"
)

// RunSource is where the definition of a run came from.
type RunSource struct {
	Type     SourceType `json:"type"`
	Ref      string     `json:"ref"`                // the name of a builtin, or the path of a file
	Revision string     `json:"revision,omitempty"` // of the builtin or file
}

// Run is one execution of a definition (D1). Its content is named by digest.
type Run struct {
	ID                  string    `json:"id"`
	Revision            int64     `json:"revision"` // counts the accepted commands
	Project             string    `json:"project"`
	Parent              string    `json:"parent,omitempty"` // the run that it is a part or the continuation of
	Definition          Digest    `json:"definition"`
	Source              RunSource `json:"source"`
	Title               string    `json:"title"`
	Mode                RunMode   `json:"mode"`
	Session             string    `json:"session,omitempty"` // the Pi session that it came from
	Status              RunStatus `json:"status"`
	Detail              string    `json:"detail,omitempty"` // of the status, for people
	Paused              bool      `json:"paused,omitempty"`
	Input               Digest    `json:"input"`
	Output              *Digest   `json:"output,omitempty"`
	Error               *Digest   `json:"error,omitempty"`
	CreatedAt           Millis    `json:"created_at"`
	UpdatedAt           Millis    `json:"updated_at"`
	StartedAt           Millis    `json:"started_at,omitempty"`
	DeadlineAt          Millis    `json:"deadline_at,omitempty"`
	CancelRequestedAt   Millis    `json:"cancel_requested_at,omitempty"`
	DeletionRequestedAt Millis    `json:"deletion_requested_at,omitempty"`
	EndedAt             Millis    `json:"ended_at,omitempty"`

	request Digest // what was asked for under its id
}

// Resource returns the resource that the run is.
func (r *Run) Resource() ResourceID { return NewResourceID(RunResource, r.ID) }

const runColumns = `r.run_id, v.revision, r.project_id, r.parent_run_id, r.definition_digest, r.source_type, r.source_ref,
		       r.source_revision, r.title, b.mode, b.pi_session_id, r.status, r.status_detail, r.is_paused,
		       r.input_blob, r.output_blob, r.error_blob, r.created_at, r.updated_at, r.started_at,
		       r.deadline_at, r.cancel_requested_at, r.deletion_requested_at, r.ended_at, r.request_digest`

const (
	selRun = `
		SELECT ` + runColumns + `
		  FROM runs AS r
		  JOIN run_bindings AS b ON b.run_id      = r.run_id
		  JOIN resources    AS v ON v.resource_id = r.resource_id
		 WHERE r.run_id = ?1`

	insRun = `
		INSERT INTO runs (run_id, project_id, parent_run_id, definition_digest, source_type, source_ref,
		                  source_revision, request_digest, title, input_blob, created_at, updated_at, deadline_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?12)`

	insBinding = `
		INSERT INTO run_bindings (run_id, pi_session_id, mode, bound_at)
		VALUES (?1, ?2, ?3, ?4)`

	updRun = `
		UPDATE runs
		   SET status                = ?3,
		       status_detail         = ?4,
		       is_paused             = ?5,
		       output_blob           = ?6,
		       error_blob            = ?7,
		       updated_at            = ?8,
		       started_at            = ?9,
		       cancel_requested_at   = ?10,
		       deletion_requested_at = ?11,
		       ended_at              = ?12
		 WHERE run_id = ?1
		   AND status = ?2`
)

func scanRun(r sqlite.Row) Run {
	return Run{
		ID:                  r.Text(0),
		Revision:            r.Int64(1),
		Project:             r.Text(2),
		Parent:              r.Text(3),
		Definition:          *digestOf(r.Bytes(4)),
		Source:              RunSource{SourceType(r.Text(5)), r.Text(6), r.Text(7)},
		Title:               r.Text(8),
		Mode:                RunMode(r.Text(9)),
		Session:             r.Text(10),
		Status:              RunStatus(r.Text(11)),
		Detail:              r.Text(12),
		Paused:              r.Bool(13),
		Input:               *digestOf(r.Bytes(14)),
		Output:              digestOf(r.Bytes(15)),
		Error:               digestOf(r.Bytes(16)),
		CreatedAt:           Millis(r.Int64(17)),
		UpdatedAt:           Millis(r.Int64(18)),
		StartedAt:           Millis(r.Int64(19)),
		DeadlineAt:          Millis(r.Int64(20)),
		CancelRequestedAt:   Millis(r.Int64(21)),
		DeletionRequestedAt: Millis(r.Int64(22)),
		EndedAt:             Millis(r.Int64(23)),
		request:             *digestOf(r.Bytes(24)),
	}
}

func getRun(rx *sqlite.Rx, id string) (run Run, found bool, err error) {
	found, err = rx.QueryRow(selRun, func(r sqlite.Row) error {
		run = scanRun(r)
		return nil
	}, id)
	return run, found, err
}

func insertRun(tx *sqlite.Tx, r Run) error {
	_, err := tx.Exec(insRun, r.ID, r.Project, orNull(r.Parent), r.Definition[:], string(r.Source.Type), r.Source.Ref,
		orNull(r.Source.Revision), r.request[:], r.Title, r.Input[:], int64(r.CreatedAt), orNull(int64(r.DeadlineAt)))
	if err != nil {
		return err
	}
	_, err = tx.Exec(insBinding, r.ID, orNull(r.Session), string(r.Mode), int64(r.CreatedAt))
	return err
}

// saveRun stores what has changed of a run that had a status.
func saveRun(tx *sqlite.Tx, r Run, from RunStatus) error {
	n, err := tx.Exec(updRun, r.ID, string(from), string(r.Status), orNull(r.Detail), r.Paused, r.Output.bytes(),
		r.Error.bytes(), int64(r.UpdatedAt), orNull(int64(r.StartedAt)), orNull(int64(r.CancelRequestedAt)),
		orNull(int64(r.DeletionRequestedAt)), orNull(int64(r.EndedAt)))
	if err == nil && n != 1 {
		err = schema.Errorf(schema.Storage, "run %s: %d rows were %s", r.ID, n, from)
	}
	return err
}

// Run returns a run by its id. Errors: [schema.NotFound].
func (q *Queries) Run(ctx context.Context, id string) (run Run, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		found := false
		run, found, err = getRun(rx, id)
		if err == nil && !found {
			err = notFound("run", id)
		}
		return err
	})
	return run, err
}
