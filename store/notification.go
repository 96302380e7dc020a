package store

import (
	"encoding/json"
	"fmt"
	"strconv"

	"pistate/internal/sqlite"
)

// NotificationKind says what a notification is about.
type NotificationKind string

// The kinds.
const (
	ProgressNotification NotificationKind = "progress"
	FinalNotification    NotificationKind = "final" // the end of a run or attempt
)

// Notification is something of a run that a Pi session is to show once.
type Notification struct {
	Delivery
	Attempt string           `json:"attempt,omitempty"` // "": of the run itself
	Index   int              `json:"index"`             // its place among those of the attempt, from 0
	Kind    NotificationKind `json:"kind"`
}

// Resource returns the resource that the notification is.
func (n *Notification) Resource() ResourceID { return NewResourceID(NotificationResource, n.ID) }

const notificationColumns = `n.notification_id, r.revision, n.run_id, n.pi_session_id, n.payload_blob, n.effect_id, n.resolution,
		       n.entry_id, n.created_at, n.resolved_at, n.attempt_id, n.notification_index, n.kind`

const (
	selNotification = `
		SELECT ` + notificationColumns + `
		  FROM notifications AS n
		  JOIN resources AS r ON r.resource_id = n.resource_id
		 WHERE n.notification_id = ?1`

	insNotification = `
		INSERT INTO notifications (notification_id, run_id, attempt_id, notification_index, kind, pi_session_id,
		                           payload_blob, effect_id, created_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)`

	updNotification = `
		UPDATE notifications
		   SET resolution  = ?2,
		       entry_id    = ?3,
		       resolved_at = ?4
		 WHERE notification_id = ?1
		   AND resolved_at IS NULL`

	selAttemptOfRun = `
		SELECT 1
		  FROM node_attempts
		 WHERE run_id     = ?1
		   AND attempt_id = ?2`
)

func scanDelivery(r sqlite.Row) Delivery {
	return Delivery{
		ID:         r.Text(0),
		Revision:   r.Int64(1),
		Run:        r.Text(2),
		Session:    r.Text(3),
		Payload:    *digestOf(r.Bytes(4)),
		Effect:     r.Text(5),
		Resolution: DeliveryResolution(r.Text(6)),
		Entry:      r.Text(7),
		CreatedAt:  Millis(r.Int64(8)),
		ResolvedAt: Millis(r.Int64(9)),
	}
}

func scanNotification(r sqlite.Row) Notification {
	return Notification{
		Delivery: scanDelivery(r),
		Attempt:  r.Text(10),
		Index:    r.Int(11),
		Kind:     NotificationKind(r.Text(12)),
	}
}

// oneNotification returns a notification by its id, or nil.
func oneNotification(rx *sqlite.Rx, id string) (n *Notification, err error) {
	_, err = rx.QueryRow(selNotification, func(r sqlite.Row) error {
		found := scanNotification(r)
		n = &found
		return nil
	}, id)
	return n, err
}

// NewNotification is something that a Pi session is to show once. Run, attempt and index are its identity.
type NewNotification struct {
	Run     string           `json:"run"`
	Attempt string           `json:"attempt,omitempty"` // "": of the run itself
	Index   int              `json:"index"`             // its place among those of the attempt, from 0
	Kind    NotificationKind `json:"kind"`
	Session string           `json:"session"` // the Pi session that it is for
	Payload json.RawMessage  `json:"payload"`
}

// notificationID returns the id that run, attempt and index determine.
func notificationID(run, attempt string, index int) string {
	return derivedID("ntf", run, attempt, strconv.Itoa(index))
}

// notificationDraft is a notification made ready before the transaction. In JSON its payload is a digest.
type notificationDraft struct {
	NewNotification
	Payload *content `json:"payload"`

	*newDelivery `json:"-"`
}

// notification makes a notification ready that is caused by a command on source.
func (d *draft) notification(source ResourceID, c NewNotification) *notificationDraft {
	d.id("run", c.Run)
	if c.Attempt != "" {
		d.id("attempt", c.Attempt)
	}
	switch {
	case c.Index < 0:
		d.invalid("index %d: notifications count from 0", c.Index)
	case c.Kind != ProgressNotification && c.Kind != FinalNotification:
		d.invalid("kind %q: it is %s or %s", c.Kind, ProgressNotification, FinalNotification)
	}
	id := notificationID(c.Run, c.Attempt, c.Index)
	n := d.deliver(source, NewResourceID(NotificationResource, id), NotificationEffect, c.Session, c.Payload, 0)
	n.event, n.run = "notification.created", c.Run
	nd := &notificationDraft{c, n.payload, n}
	n.find = func(rx *sqlite.Rx) (bool, error) {
		stored, err := nd.stored(rx)
		return stored != nil, err
	}
	n.insert = nd.insert
	return nd
}

// stored returns the notification if it is there already. Errors: [schema.Conflict] if another one is.
func (n *notificationDraft) stored(rx *sqlite.Rx) (*Notification, error) {
	stored, err := oneNotification(rx, n.resource.Aggregate())
	if stored != nil && (stored.Kind != n.Kind || stored.Session != n.Session || stored.Payload != n.payload.digest) {
		err = conflict(fmt.Sprintf("notification %d of run %s, attempt %q", n.Index, n.Run, n.Attempt), *stored)
	}
	return stored, err
}

func (n *notificationDraft) insert(tx *sqlite.Tx, now Millis) error {
	if n.Attempt != "" {
		found, err := tx.QueryRow(selAttemptOfRun, func(sqlite.Row) error { return nil }, n.Run, n.Attempt)
		if err == nil && !found {
			err = notFound("attempt", n.Attempt+" of run "+n.Run)
		}
		if err != nil {
			return err
		}
	}
	_, err := tx.Exec(insNotification, n.resource.Aggregate(), n.Run, orNull(n.Attempt), n.Index, string(n.Kind), n.Session,
		n.payload.digest[:], n.effect.id, int64(now))
	return err
}

// CreateNotification has a Pi session show something of a run, for the owner of the run, or for anybody who
// can own runs once it has ended. It is for what no other command causes; see [Delivering]. The same
// notification again is found (W5).
//
// Errors: [schema.Conflict] with the stored [Notification] as the winner if another one has its run, attempt
// and index; [schema.NotFound] for the attempt; [schema.Limit] for a payload of more than MaxDeliveryBytes.
type CreateNotification struct {
	NewNotification
}

// Op returns "notification.create".
func (CreateNotification) Op() Op { return OpNotificationCreate }

func (c CreateNotification) prepare(d *draft) *plan[*Notification] {
	run := NewResourceID(RunResource, c.Run)
	n := d.notification(run, c.NewNotification)
	return &plan[*Notification]{
		subject: run,
		payload: n,
		owner:   func(rx *sqlite.Rx, _ Ownership) (ResourceID, error) { return parentToOwn(rx, c.Run) },
		existing: func(rx *sqlite.Rx) (*Notification, bool, error) {
			stored, err := n.stored(rx)
			return stored, stored != nil, err
		},
		repeated: func(rx *sqlite.Rx, _ Event) (*Notification, error) { return n.stored(rx) },
		decide: func(f *facts) (*change[*Notification], error) {
			ch := &change[*Notification]{
				result: &Notification{
					Delivery: Delivery{
						ID: n.resource.Aggregate(), Revision: 1, Run: c.Run, Session: c.Session, Payload: n.payload.digest,
						Effect: n.effect.id, CreatedAt: f.now,
					},
					Attempt: c.Attempt, Index: c.Index, Kind: c.Kind,
				},
				steps: []step{{resource: run, event: "run.notified"}},
			}
			return ch, addDeliveries(f, ch, []*newDelivery{n.newDelivery})
		},
	}
}

var notifications = deliveryKind[Notification]{
	resource: NotificationResource,
	get:      oneNotification,
	base:     func(n *Notification) *Delivery { return &n.Delivery },
	update:   updNotification,
}

// ResolveNotification records what became of a notification: it was delivered, has failed or was cancelled,
// as the receipt of its effect says (V1). A Pi session does it for itself. A resolution that is there
// already is found (W5).
//
// Errors: [schema.IllegalTransition] while the effect is not settled, an ambiguous one included.
type ResolveNotification struct {
	Notification string `json:"notification"`
}

// Op returns "notification.resolve".
func (ResolveNotification) Op() Op { return OpNotificationResolve }

func (c ResolveNotification) prepare(d *draft) *plan[*Notification] {
	return notifications.resolve(d, c.Notification, c)
}

// WithdrawNotification gives up a notification that nobody has begun to show, and its effect with it.
//
// Errors: [schema.IllegalTransition] for one that is being shown or may have been; [schema.Conflict] with the
// stored [Notification] as the winner for one that is resolved in another way.
type WithdrawNotification struct {
	Notification string             `json:"notification"`
	Resolution   DeliveryResolution `json:"resolution"` // superseded or cancelled
}

// Op returns "notification.withdraw".
func (WithdrawNotification) Op() Op { return OpNotificationWithdraw }

func (c WithdrawNotification) prepare(d *draft) *plan[*Notification] {
	return notifications.withdraw(d, c.Notification, c.Resolution, c)
}
