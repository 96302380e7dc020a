package store

import (
	"context"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// deliveryKind is what differs between notifications and turns in the commands that they share.
type deliveryKind[T any] struct {
	resource ResourceType
	get      func(rx *sqlite.Rx, id string) (*T, error) // nil: there is none
	base     func(*T) *Delivery
	update   string
}

func (k deliveryKind[T]) mustGet(rx *sqlite.Rx, id string) (*T, error) {
	t, err := k.get(rx, id)
	if err == nil && t == nil {
		err = notFound(string(k.resource), id)
	}
	return t, err
}

// plan is the plan of a command that resolves a delivery. decide gets it with its effect, and says how; cancel
// says that the effect is cancelled with it.
func (k deliveryKind[T]) plan(d *draft, id string, asked any, decide func(f *facts, b *Delivery, e Effect) (cancel bool, err error)) *plan[*T] {
	d.id(string(k.resource), id)
	resource := NewResourceID(k.resource, id)
	return &plan[*T]{
		subject:  resource,
		payload:  asked,
		repeated: func(rx *sqlite.Rx, _ Event) (*T, error) { return k.mustGet(rx, id) },
		decide: func(f *facts) (*change[*T], error) {
			t, err := k.mustGet(f.Rx, id)
			if err != nil {
				return nil, err
			}
			b := k.base(t)
			if err := sessionsOwn(f, b.Session); err != nil {
				return nil, err
			}
			if b.Resolution != "" {
				return nil, illegal(f, string(b.Resolution))
			}
			e, found, err := getEffect(f.Rx, b.Effect)
			if err == nil && !found {
				err = notFound("effect", b.Effect)
			}
			if err != nil {
				return nil, err
			}
			cancel, err := decide(f, b, e)
			if err != nil {
				return nil, err
			}
			b.Revision, b.ResolvedAt = b.Revision+1, f.now
			ch := &change[*T]{
				result: t,
				steps:  []step{{resource: resource, ends: true, event: string(k.resource) + "." + string(b.Resolution), run: b.Run}},
				rows: func(tx *sqlite.Tx) error {
					n, err := tx.Exec(k.update, id, string(b.Resolution), orNull(b.Entry), int64(b.ResolvedAt))
					if err == nil && n != 1 {
						err = schema.Errorf(schema.Storage, "%s: %d rows were unresolved", resource, n)
					}
					return err
				},
			}
			if cancel {
				cancelWith(f, ch, e)
			}
			return ch, nil
		},
	}
}

// resolve is the plan of a command that records what the receipt of the effect says.
func (k deliveryKind[T]) resolve(d *draft, id string, asked any) *plan[*T] {
	p := k.plan(d, id, asked, func(f *facts, b *Delivery, e Effect) (cancel bool, err error) {
		switch e.Status {
		case EffectApplied:
			b.Resolution, b.Entry = ResolvedDelivered, e.ExternalRef
		case EffectRejected:
			b.Resolution = ResolvedFailed
		case EffectCancelled:
			b.Resolution = ResolvedCancelled
		default:
			err = illegal(f, "unresolved, and its effect "+string(e.Status))
		}
		return false, err
	})
	p.existing = func(rx *sqlite.Rx) (*T, bool, error) {
		t, err := k.get(rx, id)
		return t, t != nil && k.base(t).Resolution != "", err
	}
	return p
}

// withdraw is the plan of a command that gives up what nobody has begun.
func (k deliveryKind[T]) withdraw(d *draft, id string, resolution DeliveryResolution, asked any) *plan[*T] {
	if resolution != ResolvedSuperseded && resolution != ResolvedCancelled {
		d.invalid("resolution %q: it is %s or %s", resolution, ResolvedSuperseded, ResolvedCancelled)
	}
	p := k.plan(d, id, asked, func(f *facts, b *Delivery, e Effect) (cancel bool, err error) {
		if e.Status != EffectPending && e.Status != EffectCancelled {
			return false, illegal(f, "unresolved, and its effect "+string(e.Status))
		}
		b.Resolution = resolution
		return e.Status == EffectPending, nil
	})
	p.owner = func(rx *sqlite.Rx, _ Ownership) (ResourceID, error) {
		t, err := k.mustGet(rx, id)
		if err != nil {
			return "", err
		}
		return parentToOwn(rx, k.base(t).Run)
	}
	p.existing = func(rx *sqlite.Rx) (*T, bool, error) {
		t, err := k.get(rx, id)
		if err != nil || t == nil || k.base(t).Resolution == "" {
			return nil, false, err
		}
		if k.base(t).Resolution != resolution {
			err = conflict("resolution of "+string(k.resource)+" "+id, *t)
		}
		return t, true, err
	}
	return p
}

// conflict says that something else is stored under an identity.
func conflict(identity string, winner any) error {
	return refuse(schema.Conflict, &ConflictError{identity, winner})
}

// What is to be shown in a session and has been, or never will be, without anybody having said so.
const (
	selSettledNotifications = `
		SELECT n.notification_id
		  FROM notifications AS n
		 CROSS JOIN effects AS e ON e.effect_id = n.effect_id
		 WHERE n.pi_session_id = ?1
		   AND n.resolved_at IS NULL
		   AND e.settled_at IS NOT NULL
		 ORDER BY n.created_at, n.notification_id
		 LIMIT ?2`

	selSettledTurns = `
		SELECT n.turn_intent_id
		  FROM turn_intents AS n
		 CROSS JOIN effects AS e ON e.effect_id = n.effect_id
		 WHERE n.pi_session_id = ?1
		   AND n.resolved_at IS NULL
		   AND e.settled_at IS NOT NULL
		 ORDER BY n.eligible_at, n.turn_intent_id
		 LIMIT ?2`
)

// ResolveDeliveries resolves the notifications and turns of a Pi session whose effects are settled, at most
// limit of each. It comes after the [EffectWorker] of the [SessionScope], at any time and in several
// processes at once: each is resolved once. It returns how many were not resolved before.
func ResolveDeliveries(ctx context.Context, s *Store, actor Actor, session string, limit int) (resolved int, err error) {
	if err := checkPage(limit); err != nil {
		return 0, err
	}
	permit := Permit{Actor: actor, Expected: AnyRevision}
	settled, err := listIDs(ctx, s, selSettledNotifications, session, limit)
	if err != nil {
		return 0, err
	}
	for _, id := range settled {
		done, err := Do(ctx, s, permit, ResolveNotification{id})
		if err != nil {
			return resolved, err
		}
		if !done.Adopted {
			resolved++
		}
	}
	if settled, err = listIDs(ctx, s, selSettledTurns, session, limit); err != nil {
		return resolved, err
	}
	for _, id := range settled {
		done, err := Do(ctx, s, permit, ResolveTurn{id})
		if err != nil {
			return resolved, err
		}
		if !done.Adopted {
			resolved++
		}
	}
	return resolved, nil
}

func listIDs(ctx context.Context, s *Store, sql string, args ...any) ([]string, error) {
	return viewList(ctx, &s.Queries, func(r sqlite.Row) string { return r.Text(0) }, sql, args...)
}
