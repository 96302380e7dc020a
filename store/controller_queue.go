package store

import (
	"encoding/json"
	"fmt"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// EnqueueController has a controller look at its resource after a delay, or before: it never makes the
// resource wait for longer. If the controller is at work on it, it looks again when it has ended. Where a
// look of that kind is to come anyway, that is found (W5).
//
// Errors: [schema.IllegalTransition] for a deleted resource.
type EnqueueController struct {
	Controller string `json:"controller"` // uid
	DelayMS    int64  `json:"delay_ms,omitempty"`
}

// Op returns "controller.enqueue".
func (EnqueueController) Op() Op { return OpControllerEnqueue }

func (c EnqueueController) prepare(d *draft) *plan[*Controller] {
	d.delay("delay_ms", c.DelayMS)
	p := controllerPlan(d, c.Controller, c, func(w *controlled) error {
		w.event = "controller.enqueued"
		w.enqueue(w.f.now + Millis(c.DelayMS))
		return nil
	})
	p.existing = func(rx *sqlite.Rx) (*Controller, bool, error) {
		stored, err := oneController(rx, selController, c.Controller)
		if err != nil || stored == nil || stored.Queue.AvailableAt == 0 {
			return nil, false, err
		}
		// Who owns it, even without knowing that its lease has expired, may have begun to look before.
		l, err := getLease(rx, stored.Resource())
		latest := MillisOf(d.store.now()) + Millis(c.DelayMS)
		return stored, l.Owner == nil && stored.Queue.AvailableAt <= latest, err
	}
	return p
}

// maxDelayMS is the longest delay: more is a mistake in the unit.
const maxDelayMS = int64(366 * 24 * time.Hour / time.Millisecond)

func (d *draft) delay(field string, ms int64) {
	if ms < 0 || ms > maxDelayMS {
		d.invalid("%s %d: it is from 0 to %d, which is a year", field, ms, maxDelayMS)
	}
}

// NoKeyDueError says that no controller resource of a project is to be claimed now: [schema.NotFound].
type NoKeyDueError struct {
	Project string `json:"project"`
	// Next is when the next one becomes due; 0: none does. Others may come before, by being enqueued or lost
	// by their owners.
	Next Millis `json:"next,omitempty"`
}

func (e *NoKeyDueError) Error() string {
	if e.Next == 0 {
		return "no controller resource of project " + e.Project + " is due, and none waits for its time"
	}
	return fmt.Sprintf("no controller resource of project %s is due before %s", e.Project, e.Next.Time().UTC().Format(time.RFC3339Nano))
}

// ControllerClaim is a controller resource that was claimed, for its new owner.
type ControllerClaim struct {
	// Controller is the resource. The version of its queue tells, when the work is settled, whether
	// something was enqueued meanwhile.
	Controller Controller `json:"controller"`
	Claim      *Claim     `json:"claim"`
	// TakenOver: the owner before was lost, which counts as an error.
	TakenOver bool `json:"taken_over,omitempty"`
}

// ClaimController makes the actor the owner of the controller resource of a project that has been due for
// longest and that nobody owns. Of those who claim at once each gets another one.
//
// Errors: [schema.NotFound] with a [*NoKeyDueError].
type ClaimController struct {
	Project string   `json:"project"`
	Names   []string `json:"names,omitempty"` // of the controllers that the claimer is; none: all
	TTLMS   int64    `json:"ttl_ms"`          // how long the lease lasts without a renewal
}

// Op returns "controller.claim".
func (ClaimController) Op() Op { return OpControllerClaim }

// There are as many rows to pass over as resources are worked on, or belong to other controllers.
const (
	selDueController = `
		SELECT q.controller_uid
		  FROM controller_queue AS q
		  JOIN controller_resources AS c ON c.controller_uid = q.controller_uid
		  LEFT JOIN leases          AS l ON l.resource_id    = 'controller:' || q.controller_uid
		 WHERE q.project_id    = ?1
		   AND q.available_at <= ?2
		   AND (?3 = '[]' OR c.name IN (SELECT value FROM json_each(?3)))
		   AND ifnull(max(l.heartbeat_at, ?2) >= l.expires_at, 1)
		 ORDER BY q.available_at, q.controller_uid
		 LIMIT 1`

	selNextController = `
		SELECT q.available_at
		  FROM controller_queue AS q
		  JOIN controller_resources AS c ON c.controller_uid = q.controller_uid
		 WHERE q.project_id   = ?1
		   AND q.available_at > ?2
		   AND (?3 = '[]' OR c.name IN (SELECT value FROM json_each(?3)))
		 ORDER BY q.available_at
		 LIMIT 1`
)

const maxNames = 100

func (c ClaimController) prepare(d *draft) *plan[*ControllerClaim] {
	d.id("project", c.Project)
	if len(c.Names) > maxNames {
		d.fail(schema.Errorf(schema.Limit, "%d names; at most %d are allowed", len(c.Names), maxNames))
	}
	for _, name := range c.Names {
		d.id("name", name)
	}
	names, err := json.Marshal(append([]string{}, c.Names...))
	d.fail(err)
	g := d.grant(c.TTLMS)
	return &plan[*ControllerClaim]{
		// The subject is the one that is due, which only the database knows.
		payload: c,
		repeated: func(_ *sqlite.Rx, e Event) (*ControllerClaim, error) {
			return nil, refuse(schema.Conflict, &ConflictError{Identity: "request " + e.ID + ", whose claim was handed out once", Winner: e})
		},
		decide: func(f *facts) (*change[*ControllerClaim], error) {
			uid, err := c.choose(f, string(names))
			if err != nil {
				return nil, err
			}
			return claimController(f, uid, g)
		},
	}
}

// choose returns the uid of the resource to claim.
func (c ClaimController) choose(f *facts, names string) (uid string, err error) {
	found, err := f.QueryRow(selDueController, func(r sqlite.Row) error {
		uid = r.Text(0)
		return nil
	}, c.Project, int64(f.now), names)
	if found || err != nil {
		return uid, err
	}
	nothing := &NoKeyDueError{Project: c.Project}
	_, err = f.QueryRow(selNextController, func(r sqlite.Row) error {
		nothing.Next = Millis(r.Int64(0))
		return nil
	}, c.Project, int64(f.now), names)
	if err == nil {
		err = refuse(schema.NotFound, nothing)
	}
	return "", err
}

// claimController takes the lease of a resource that is due.
func claimController(f *facts, uid string, g *grant) (*change[*ControllerClaim], error) {
	c, err := getController(f.Rx, uid)
	if err != nil {
		return nil, err
	}
	w, err := f.control(c)
	if err != nil {
		return nil, err
	}
	next, claim, tookOver, err := g.take(f, c.Resource())
	if err != nil {
		return nil, err
	}
	w.event = "controller.claimed"
	if tookOver {
		w.event = "controller.taken_over"
		w.failed("owner_lost")
	}
	w.rows = append(w.rows, func(tx *sqlite.Tx) error { return putLease(tx, next) })
	ch := changeOf(w.change(), &ControllerClaim{Claim: claim, TakenOver: tookOver})
	ch.result.Controller = *c
	ch.steps[0].generation = next.Generation
	return ch, nil
}

// changeOf is a change with another result.
func changeOf[R, S any](c *change[S], result R) *change[R] {
	return &change[R]{result: result, steps: c.steps, rows: c.rows, effects: c.effects}
}

// failed counts an error.
func (w *controlled) failed(code string) {
	q := &w.Queue
	q.Errors, q.ErrorCode, q.UpdatedAt = q.Errors+1, code, w.f.now
}
