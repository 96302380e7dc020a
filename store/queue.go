package store

import (
	"fmt"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// QueueStatus is where a run is in the queue.
type QueueStatus string

// The statuses of a queue row. The last three are final: the row is settled.
const (
	QueueQueued    QueueStatus = "queued"
	QueueStarting  QueueStatus = "starting" // claimed, and not yet started
	QueueRunning   QueueStatus = "running"
	QueueParked    QueueStatus = "parked" // the run waits for something outside, and nobody works on it
	QueueDone      QueueStatus = "done"
	QueueFailed    QueueStatus = "failed"
	QueueCancelled QueueStatus = "cancelled"
)

// QueueRow is the place of a run in the queue (D2). A run that was never queued has none.
type QueueRow struct {
	Run     string `json:"run"`
	Project string `json:"project"`
	// Session is the Pi session that is reserved for the run: that of an interactive run from the beginning,
	// that of a headless one while a session runs it. A session has one reservation at a time.
	Session     string      `json:"session,omitempty"`
	Affinity    string      `json:"affinity,omitempty"` // who alone may claim it; "": anybody
	Status      QueueStatus `json:"status"`
	AvailableAt Millis      `json:"available_at"` // not to be claimed before
	Errors      int         `json:"errors,omitempty"`
	ErrorCode   string      `json:"error_code,omitempty"` // of the last error
	EnqueuedAt  Millis      `json:"enqueued_at"`
	UpdatedAt   Millis      `json:"updated_at"`
	SettledAt   Millis      `json:"settled_at,omitempty"`
}

const queueColumns = `q.run_id, q.project_id, q.pi_session_id, q.affinity, q.status, q.available_at, q.error_count,
		       q.error_code, q.enqueued_at, q.updated_at, q.settled_at`

const (
	selQueueRow = `
		SELECT ` + queueColumns + `
		  FROM run_queue AS q
		 WHERE q.run_id = ?1`

	// The condition is that of the index run_queue_one_per_session.
	selReservation = `
		SELECT ` + queueColumns + `
		  FROM run_queue AS q
		 WHERE q.pi_session_id = ?1
		   AND q.status IN ('queued', 'starting', 'running')`

	insQueueRow = `
		INSERT INTO run_queue (run_id, project_id, pi_session_id, affinity, available_at, enqueued_at, updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)`

	updQueueRow = `
		UPDATE run_queue
		   SET status        = ?3,
		       pi_session_id = ?4,
		       affinity      = ?5,
		       available_at  = ?6,
		       error_count   = ?7,
		       error_code    = ?8,
		       updated_at    = ?9,
		       settled_at    = ?10
		 WHERE run_id = ?1
		   AND status = ?2`
)

func scanQueueRow(r sqlite.Row) QueueRow {
	return QueueRow{
		Run:         r.Text(0),
		Project:     r.Text(1),
		Session:     r.Text(2),
		Affinity:    r.Text(3),
		Status:      QueueStatus(r.Text(4)),
		AvailableAt: Millis(r.Int64(5)),
		Errors:      r.Int(6),
		ErrorCode:   r.Text(7),
		EnqueuedAt:  Millis(r.Int64(8)),
		UpdatedAt:   Millis(r.Int64(9)),
		SettledAt:   Millis(r.Int64(10)),
	}
}

// oneQueueRow returns the row that a query finds, or nil.
func oneQueueRow(rx *sqlite.Rx, sql, key string) (row *QueueRow, err error) {
	_, err = rx.QueryRow(sql, func(r sqlite.Row) error {
		found := scanQueueRow(r)
		row = &found
		return nil
	}, key)
	return row, err
}

func insertQueueRow(tx *sqlite.Tx, q QueueRow) error {
	_, err := tx.Exec(insQueueRow, q.Run, q.Project, orNull(q.Session), orNull(q.Affinity), int64(q.AvailableAt), int64(q.EnqueuedAt))
	return err
}

// saveQueueRow stores what has changed of a row that had a status.
func saveQueueRow(tx *sqlite.Tx, q QueueRow, from QueueStatus) error {
	n, err := tx.Exec(updQueueRow, q.Run, string(from), string(q.Status), orNull(q.Session), orNull(q.Affinity),
		int64(q.AvailableAt), q.Errors, orNull(q.ErrorCode), int64(q.UpdatedAt), orNull(int64(q.SettledAt)))
	if err == nil && n != 1 {
		err = schema.Errorf(schema.Storage, "queue row of run %s: %d rows were %s", q.Run, n, from)
	}
	return err
}

// ReservedError says that a Pi session is reserved for another run: [schema.Locked].
type ReservedError struct {
	Session string      `json:"session"`
	Run     string      `json:"run"`
	Status  QueueStatus `json:"status"` // of that run in the queue
}

func (e *ReservedError) Error() string {
	return fmt.Sprintf("Pi session %s is reserved for run %s, which is %s: wait until that run ends or parks", e.Session, e.Run, e.Status)
}

// reserve makes sure that a Pi session is free for a run. The reservation of a run that has ended, and whose
// place was only not settled yet, is nobody's: to settle it is the work that comes before (V1).
//
// Errors: [schema.Locked] with a [*ReservedError].
func reserve(f *facts, session, run string) (before []*work, err error) {
	if session == "" {
		return nil, nil
	}
	held, err := oneQueueRow(f.Rx, selReservation, session)
	if err != nil || held == nil || held.Run == run {
		return nil, err
	}
	other, err := loadWork(f, held.Run)
	switch {
	case err != nil:
		return nil, err
	case other.run.EndedAt == 0:
		return nil, refuse(schema.Locked, &ReservedError{session, held.Run, held.Status})
	}
	return []*work{other}, other.settle()
}

// QueuePlace asks for a place in the queue.
type QueuePlace struct {
	Affinity    string `json:"affinity,omitempty"`     // who alone may claim the run; "": anybody
	AvailableAt Millis `json:"available_at,omitempty"` // not to be claimed before; 0: now
}

// place checks a place in the queue.
func (d *draft) place(p QueuePlace) {
	d.line("affinity", p.Affinity, maxIDBytes)
	d.moment("available_at", p.AvailableAt)
}

// place gives a run a place in the queue, or changes the one that it has.
func (w *work) place(p QueuePlace) {
	now := w.f.now
	if w.queue == nil {
		w.queue = &QueueRow{Run: w.run.ID, Project: w.run.Project, Status: QueueStatus(StateNone), EnqueuedAt: now}
	}
	w.queue.Affinity, w.queue.AvailableAt, w.queue.UpdatedAt = p.Affinity, max(p.AvailableAt, now), now
}

// wantSession reserves what a run needs while nobody runs it: an interactive one its own session.
func (w *work) wantSession() (before []*work, err error) {
	w.queue.Session = ""
	if w.run.Mode == InteractiveMode {
		w.queue.Session = w.run.Session
	}
	return reserve(w.f, w.queue.Session, w.run.ID)
}
