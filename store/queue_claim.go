package store

import (
	"errors"
	"fmt"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// NothingDueError says that no run of a project is to be claimed now: [schema.NotFound].
type NothingDueError struct {
	Project string `json:"project"`
	// Next is when the next run becomes due that waits for this claimer; 0: none does. Others may come
	// before, by being queued, resumed, or lost by their owners.
	Next Millis `json:"next,omitempty"`
}

func (e *NothingDueError) Error() string {
	if e.Next == 0 {
		return "no run of project " + e.Project + " is due, and none waits for its time"
	}
	return fmt.Sprintf("no run of project %s is due before %s", e.Project, e.Next.Time().UTC().Format(time.RFC3339Nano))
}

// QueueClaim is a run that was claimed from the queue, for its new owner.
type QueueClaim struct {
	Run   Run      `json:"run"`
	Queue QueueRow `json:"queue"`
	Claim *Claim   `json:"claim"` // on the run
	// TakenOver: the owner before was lost. What it left of an attempt is to be interrupted and resumed.
	TakenOver bool `json:"taken_over,omitempty"`
}

// ClaimNext makes the actor the owner of the next run in the queue of a project: first of one whose owner was
// lost, else of the one that has been due for longest. Paused runs are passed over. The place in the queue
// and the lease of the run change together, so of those who claim at once each gets another run.
//
// A claimer that runs for a Pi session names it. It gets the run that the session is reserved for, if there
// is one; else the session becomes reserved for the headless run that it gets. Interactive runs are only for
// their own session.
//
// Errors: [schema.NotFound] with a [*NothingDueError]; [schema.Locked] with a [*ReservedError] if somebody is
// at work on a run in that session.
type ClaimNext struct {
	Project  string `json:"project"`
	Session  string `json:"session,omitempty"`  // a Pi session claims for itself
	Affinity string `json:"affinity,omitempty"` // runs of this affinity too
	TTLMS    int64  `json:"ttl_ms"`             // how long the lease lasts without a renewal
}

// Op returns "queue.claim".
func (ClaimNext) Op() Op { return OpQueueClaim }

// claimable is what must be true of a queue row besides its status. An interactive run is only for the
// session that it has reserved; a headless one for anybody, whatever session it was run in before.
const claimable = `q.project_id = ?1
		   AND (q.affinity IS NULL OR q.affinity = ?2)
		   AND (b.mode = 'headless' OR q.pi_session_id = ?3)
		   AND r.is_paused = 0
		   AND r.ended_at IS NULL`

const (
	// Rows that somebody has claimed and then lost. There are as many rows to look at as runs are under way.
	selLost = `
		SELECT ` + queueColumns + `
		  FROM run_queue AS q
		  JOIN runs         AS r ON r.run_id = q.run_id
		  JOIN run_bindings AS b ON b.run_id = q.run_id
		  LEFT JOIN leases  AS l ON l.resource_id = 'run:' || q.run_id
		 WHERE q.status IN ('starting', 'running')
		   AND ` + claimable + `
		   AND ifnull(max(l.heartbeat_at, ?4) >= l.expires_at, 1)
		 ORDER BY q.available_at, q.run_id
		 LIMIT 1`

	// The lease of a queued run can be held by somebody who does something else with it.
	selDueRun = `
		SELECT ` + queueColumns + `
		  FROM run_queue AS q
		  JOIN runs         AS r ON r.run_id = q.run_id
		  JOIN run_bindings AS b ON b.run_id = q.run_id
		  LEFT JOIN leases  AS l ON l.resource_id = 'run:' || q.run_id
		 WHERE q.status        = 'queued'
		   AND r.status        = 'queued'
		   AND q.available_at <= ?4
		   AND ` + claimable + `
		   AND ifnull(max(l.heartbeat_at, ?4) >= l.expires_at, 1)
		 ORDER BY q.available_at, q.run_id
		 LIMIT 1`

	selNextDue = `
		SELECT q.available_at
		  FROM run_queue AS q
		  JOIN runs         AS r ON r.run_id = q.run_id
		  JOIN run_bindings AS b ON b.run_id = q.run_id
		 WHERE q.status       = 'queued'
		   AND r.status       = 'queued'
		   AND q.available_at > ?4
		   AND ` + claimable + `
		 ORDER BY q.available_at
		 LIMIT 1`
)

func (c ClaimNext) prepare(d *draft) *plan[*QueueClaim] {
	d.id("project", c.Project)
	d.line("affinity", c.Affinity, maxIDBytes)
	if actor := d.permit.Actor; actor.Class == SessionActor {
		if c.Session != "" && c.Session != actor.ID {
			d.fail(refuse(schema.Denied, &DeniedError{c.Op(), actor.Class, "it claims for itself alone"}))
		}
		c.Session = actor.ID
	}
	if c.Session != "" {
		d.id("session", c.Session)
	}
	g := d.grant(c.TTLMS)
	return &plan[*QueueClaim]{
		payload: c,
		repeated: func(_ *sqlite.Rx, e Event) (*QueueClaim, error) {
			return nil, refuse(schema.Conflict, &ConflictError{Identity: "request " + e.ID + ", whose claim was handed out once", Winner: e})
		},
		decide: func(f *facts) (*change[*QueueClaim], error) {
			row, before, err := c.choose(f)
			if err != nil {
				return nil, err
			}
			return c.claim(f, row, g, before)
		},
	}
}

// choose returns the row to claim.
func (c ClaimNext) choose(f *facts) (row *QueueRow, before []*work, err error) {
	if c.Session != "" {
		before, err = reserve(f, c.Session, "")
		var held *ReservedError
		if errors.As(err, &held) {
			row, err = c.reserved(f, held)
			return row, nil, err
		}
		if err != nil {
			return nil, nil, err
		}
	}
	for _, sql := range []string{selLost, selDueRun} {
		if row, err = c.find(f, sql); err != nil || row != nil {
			return row, before, err
		}
	}
	nothing := &NothingDueError{Project: c.Project}
	_, err = f.QueryRow(selNextDue, func(r sqlite.Row) error {
		nothing.Next = Millis(r.Int64(0))
		return nil
	}, c.args(f)...)
	if err == nil {
		err = refuse(schema.NotFound, nothing)
	}
	return nil, nil, err
}

func (c ClaimNext) args(f *facts) []any { return []any{c.Project, c.Affinity, c.Session, int64(f.now)} }

func (c ClaimNext) find(f *facts, sql string) (row *QueueRow, err error) {
	_, err = f.QueryRow(sql, func(r sqlite.Row) error {
		found := scanQueueRow(r)
		row = &found
		return nil
	}, c.args(f)...)
	return row, err
}

// reserved returns the row that the session is reserved for, if it is to be claimed now.
func (c ClaimNext) reserved(f *facts, held *ReservedError) (*QueueRow, error) {
	w, err := loadWork(f, held.Run)
	if err != nil {
		return nil, err
	}
	owned, err := w.owned()
	nothing := &NothingDueError{Project: c.Project}
	switch {
	case err != nil:
		return nil, err
	case owned && w.queue.Status != QueueQueued:
		return nil, refuse(schema.Locked, held)
	case owned, w.run.Paused, w.run.Project != c.Project, w.queue.Affinity != "" && w.queue.Affinity != c.Affinity:
		return nil, refuse(schema.NotFound, nothing)
	case w.queue.Status == QueueQueued && w.queue.AvailableAt > f.now:
		nothing.Next = w.queue.AvailableAt
		return nil, refuse(schema.NotFound, nothing)
	}
	return w.queue, nil
}

// claim takes the lease of the run and its place in the queue.
func (c ClaimNext) claim(f *facts, row *QueueRow, g *grant, before []*work) (*change[*QueueClaim], error) {
	var err error
	if f.subject, err = getResource(f.Rx, NewResourceID(RunResource, row.Run)); err != nil {
		return nil, err
	}
	f.now = max(f.now, f.subject.UpdatedAt)
	w, err := loadWork(f, row.Run)
	if err != nil {
		return nil, err
	}
	next, claim, _, err := g.take(f, f.subject.ID)
	if err != nil {
		return nil, err
	}
	event := "queue.claimed"
	if row.Status != QueueQueued {
		event = "queue.taken_over"
	}
	if err := w.move(event); err != nil {
		return nil, err
	}
	if row.Status != QueueQueued {
		w.queue.failed("owner_lost")
	}
	w.queue.Session, w.queue.UpdatedAt = c.Session, f.now
	ch := changed(w, &QueueClaim{Claim: claim, TakenOver: row.Status != QueueQueued}, before...)
	ch.result.Run, ch.result.Queue = w.run, *w.queue
	ch.steps[0].generation = next.Generation
	rows := ch.rows
	ch.rows = func(tx *sqlite.Tx) error {
		if err := putLease(tx, next); err != nil {
			return err
		}
		return rows(tx)
	}
	return ch, nil
}
