package store

import (
	"encoding/json"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// The operations on notifications and turns.
const (
	OpNotificationCreate   Op = "notification.create"
	OpNotificationResolve  Op = "notification.resolve"
	OpNotificationWithdraw Op = "notification.withdraw"
	OpTurnCreate           Op = "turn_intent.create"
	OpTurnResolve          Op = "turn_intent.resolve"
	OpTurnWithdraw         Op = "turn_intent.withdraw"
)

// A run that has ended has no owner: then, and for a turn of no run, the claim is not needed.
var (
	byRunOwner = rights(Right{Own: OwnRun}, runOwners...)

	deliveryOperations = []Operation{
		{Op: OpNotificationCreate, Does: "have a Pi session show something of a run", AnyRevision: true, Rights: byRunOwner},
		{
			Op: OpNotificationResolve, Does: "record what became of a notification, as the receipt of its effect says",
			AnyRevision: true, // the receipt decides
			Rights:      rights(Right{}, runOwners...),
		},
		{
			Op: OpNotificationWithdraw, Does: "give up a notification that nobody has begun to show",
			AnyRevision: true, // it is resolved once
			Rights:      merge(byRunOwner, rights(Right{}, ControlActor)),
		},
		{Op: OpTurnCreate, Does: "have a Pi session take a turn later", AnyRevision: true, Rights: byRunOwner},
		{
			Op: OpTurnResolve, Does: "record what became of a turn, as the receipt of its effect says",
			AnyRevision: true, // the receipt decides
			Rights:      rights(Right{}, runOwners...),
		},
		{
			Op: OpTurnWithdraw, Does: "give up a turn that nobody has begun to take",
			AnyRevision: true, // it is resolved once
			Rights:      merge(byRunOwner, rights(Right{}, ControlActor)),
		},
	}
)

// The types of the effects of notifications and turns. They are external: what a Pi session has shown is
// outside this database. Their payload is what is to be shown, and their key the id of the notification or
// turn.
const (
	NotificationEffect = "notification.deliver"
	TurnEffect         = "turn.take"
)

// SessionScope is the scope of what is to be shown in a Pi session: nobody's in particular, under the
// session's name. The program that runs the session applies it, with an [EffectWorker].
func SessionScope(session string) Scope { return Scope{SystemScope, "pi:" + session} }

// MaxDeliveryBytes is the largest payload of a notification or turn.
const MaxDeliveryBytes = 1 << 20

// DeliveryResolution is what became of a notification or turn.
type DeliveryResolution string

// The resolutions. Each is final.
const (
	ResolvedDelivered  DeliveryResolution = "delivered"  // the session shows it
	ResolvedSuperseded DeliveryResolution = "superseded" // a later one made it needless
	ResolvedCancelled  DeliveryResolution = "cancelled"
	ResolvedFailed     DeliveryResolution = "failed" // it can't be shown
)

// Delivery is what notifications and turns have in common (D12).
type Delivery struct {
	ID         string             `json:"id"`       // derived from what may exist only once
	Revision   int64              `json:"revision"` // counts the accepted commands
	Run        string             `json:"run,omitempty"`
	Session    string             `json:"session"` // the Pi session that it is for
	Payload    Digest             `json:"payload"`
	Effect     string             `json:"effect"`
	Resolution DeliveryResolution `json:"resolution,omitempty"` // "": it is to be shown
	Entry      string             `json:"entry,omitempty"`      // the Pi entry that shows it
	CreatedAt  Millis             `json:"created_at"`
	ResolvedAt Millis             `json:"resolved_at,omitempty"`
}

// newDelivery is a notification or turn made ready before the transaction. It comes into being with the
// command that causes it: a resource with a first event, a row, and an effect.
type newDelivery struct {
	resource ResourceID
	event    string
	run      string // that it belongs to; "": none
	payload  *content
	effect   *effectDraft

	find   func(*sqlite.Rx) (found bool, err error) // Errors: [schema.Conflict] for another one under its identity
	insert func(tx *sqlite.Tx, now Millis) error
}

// deliver makes ready what is to be shown in a session, as a consequence of a command on source.
func (d *draft) deliver(source, resource ResourceID, effect, session string, payload json.RawMessage, notBefore Millis) *newDelivery {
	d.id("session", session)
	if len(payload) > MaxDeliveryBytes {
		d.fail(schema.Errorf(schema.Limit, "payload has %d bytes; at most %d are allowed", len(payload), MaxDeliveryBytes))
		payload = nil
	}
	e := d.effect(source, EffectSpec{
		Type: effect, Key: resource.Aggregate(), Payload: payload, External: true, Scope: SessionScope(session), NotBefore: notBefore,
	})
	return &newDelivery{resource: resource, payload: e.Payload, effect: e}
}

// addDeliveries lets notifications and turns come into being with a change. Those that are there already
// stay as they are.
func addDeliveries[R any](f *facts, c *change[R], deliveries []*newDelivery) error {
	var fresh []*newDelivery
	for _, n := range deliveries {
		found, err := n.find(f.Rx)
		if err != nil {
			return err
		}
		if !found {
			fresh = append(fresh, n)
			c.steps = append(c.steps, step{resource: n.resource, creates: true, event: n.event, payload: n.payload, run: n.run})
			c.effects = append(c.effects, n.effect)
		}
	}
	rows := c.rows
	c.rows = func(tx *sqlite.Tx) error {
		if rows != nil {
			if err := rows(tx); err != nil {
				return err
			}
		}
		for _, n := range fresh {
			if err := n.insert(tx, f.now); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

// Delivering is a command together with the notifications and turns that it causes: all of it is carried
// out, or nothing. It is for commands under a claim on the run that these belong to.
//
// Errors: those of the command; [schema.Conflict] with the stored [Notification] or [TurnIntent] as the
// winner if another one has its identity; [schema.Denied] without the claim.
type Delivering[R any] struct {
	Command Command[R]
	Notify  []NewNotification
	Turns   []NewTurn
}

// maxDeliveries is how many notifications and turns one command can cause.
const maxDeliveries = 100

// Op returns the command's own.
func (c Delivering[R]) Op() Op { return c.Command.Op() }

func (c Delivering[R]) prepare(d *draft) *plan[R] {
	p := c.Command.prepare(d)
	if p == nil {
		return nil
	}
	if n := len(c.Notify) + len(c.Turns); n > maxDeliveries {
		d.fail(schema.Errorf(schema.Limit, "%d notifications and turns; one command causes at most %d", n, maxDeliveries))
		return nil
	}
	if p.subject == "" {
		d.invalid("%s can cause no notification or turn", c.Op())
		return nil
	}
	var caused []*newDelivery
	var asked []any
	for _, spec := range c.Notify {
		n := d.notification(p.subject, spec)
		caused, asked = append(caused, n.newDelivery), append(asked, n)
	}
	for _, spec := range c.Turns {
		n := d.turn(p.subject, spec)
		caused, asked = append(caused, n.newDelivery), append(asked, n)
	}
	whole := *p
	whole.payload = struct {
		Command any   `json:"command"`
		Causes  []any `json:"causes"`
	}{p.payload, asked}
	if p.existing != nil {
		whole.existing = func(rx *sqlite.Rx) (result R, found bool, err error) {
			if result, found, err = p.existing(rx); !found || err != nil {
				return result, found, err
			}
			return result, true, allFound(rx, caused)
		}
	}
	whole.decide = func(f *facts) (*change[R], error) {
		for _, n := range caused {
			if n.run != "" && f.lease.Resource != NewResourceID(RunResource, n.run) || f.lease.Owner == nil {
				return nil, refuse(schema.Denied, &DeniedError{f.op, f.actor.Class, "what it causes for a session needs a claim on the run"})
			}
		}
		c, err := p.decide(f)
		if err == nil {
			err = addDeliveries(f, c, caused)
		}
		return c, err
	}
	return &whole
}

// allFound refuses to find a command that was carried out without what it is to cause now.
func allFound(rx *sqlite.Rx, caused []*newDelivery) error {
	for _, n := range caused {
		found, err := n.find(rx)
		if err == nil && !found {
			err = refuse(schema.Conflict, &ConflictError{"command without " + string(n.resource), nil})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cancelWith lets an effect that nobody has begun be cancelled along with a change.
func cancelWith[R any](f *facts, c *change[R], e Effect) {
	e.Revision, e.Status, e.AvailableAt, e.UpdatedAt, e.SettledAt = e.Revision+1, EffectCancelled, 0, f.now, f.now
	c.steps = append(c.steps, step{resource: e.Resource(), ends: true, event: "effect.cancelled", run: e.run()})
	rows := c.rows
	c.rows = func(tx *sqlite.Tx) error {
		if err := rows(tx); err != nil {
			return err
		}
		return saveEffect(tx, e, EffectPending)
	}
}

// sessionsOwn refuses a Pi session that speaks for another one.
func sessionsOwn(f *facts, session string) error {
	if f.actor.Class == SessionActor && f.actor.ID != session {
		return refuse(schema.Denied, &DeniedError{f.op, f.actor.Class, "it speaks for itself alone"})
	}
	return nil
}
