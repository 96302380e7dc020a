package store

import (
	"context"

	"pistate/internal/sqlite"
)

// NotificationView is what can be said of a notification in one snapshot. Until it is resolved, the status of
// its effect tells how far it is; an ambiguous one may have been shown (V1).
type NotificationView struct {
	Notification
	EffectStatus EffectStatus `json:"effect_status"`
}

// TurnView is what can be said of a turn in one snapshot. Until it is resolved, the status of its effect
// tells how far it is; an ambiguous one may have been taken (V1).
type TurnView struct {
	TurnIntent
	EffectStatus EffectStatus `json:"effect_status"`
}

const (
	selPendingNotifications = `
		SELECT ` + notificationColumns + `, e.status
		  FROM notifications AS n
		  JOIN resources AS r ON r.resource_id = n.resource_id
		  JOIN effects   AS e ON e.effect_id   = n.effect_id
		 WHERE n.pi_session_id = ?1
		   AND n.resolved_at IS NULL
		   AND (n.created_at, n.notification_id) > (?2, ?3)
		 ORDER BY n.created_at, n.notification_id
		 LIMIT ?4`

	selNotificationsOfRun = `
		SELECT ` + notificationColumns + `, e.status
		  FROM notifications AS n
		  JOIN resources AS r ON r.resource_id = n.resource_id
		  JOIN effects   AS e ON e.effect_id   = n.effect_id
		 WHERE n.run_id = ?1
		   AND (ifnull(n.attempt_id, ''), n.notification_index) > (?2, ?3)
		 ORDER BY ifnull(n.attempt_id, ''), n.notification_index
		 LIMIT ?4`

	selNotificationView = `
		SELECT ` + notificationColumns + `, e.status
		  FROM notifications AS n
		  JOIN resources AS r ON r.resource_id = n.resource_id
		  JOIN effects   AS e ON e.effect_id   = n.effect_id
		 WHERE n.notification_id = ?1`

	selPendingTurns = `
		SELECT ` + turnColumns + `, e.status
		  FROM turn_intents AS n
		  JOIN resources AS r ON r.resource_id = n.resource_id
		  JOIN effects   AS e ON e.effect_id   = n.effect_id
		 WHERE n.pi_session_id = ?1
		   AND n.resolved_at IS NULL
		   AND (n.eligible_at, n.turn_intent_id) > (?2, ?3)
		 ORDER BY n.eligible_at, n.turn_intent_id
		 LIMIT ?4`

	selTurnsOfRun = `
		SELECT ` + turnColumns + `, e.status
		  FROM turn_intents AS n
		  JOIN resources AS r ON r.resource_id = n.resource_id
		  JOIN effects   AS e ON e.effect_id   = n.effect_id
		 WHERE n.run_id = ?1
		   AND (n.created_at, n.turn_intent_id) > (?2, ?3)
		 ORDER BY n.created_at, n.turn_intent_id
		 LIMIT ?4`

	selTurnView = `
		SELECT ` + turnColumns + `, e.status
		  FROM turn_intents AS n
		  JOIN resources AS r ON r.resource_id = n.resource_id
		  JOIN effects   AS e ON e.effect_id   = n.effect_id
		 WHERE n.turn_intent_id = ?1`
)

// Notification returns a notification by its id. Errors: [schema.NotFound].
func (q *Queries) Notification(ctx context.Context, id string) (NotificationView, error) {
	found, err := q.readNotifications(ctx, selNotificationView, id)
	return only(found, err, "notification", id)
}

// PendingNotifications returns at most limit notifications that a Pi session is to show, the oldest first,
// after a place in the list.
func (q *Queries) PendingNotifications(ctx context.Context, session string, after Place, limit int) ([]NotificationView, error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	return q.readNotifications(ctx, selPendingNotifications, session, int64(after.At), after.ID, limit)
}

// NotificationsOfRun returns at most limit notifications of a run by attempt and index, those of the run
// itself first, after one of them. Of after only these two count; nil is before all.
func (q *Queries) NotificationsOfRun(ctx context.Context, run string, after *Notification, limit int) ([]NotificationView, error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	attempt, index := "", -1
	if after != nil {
		attempt, index = after.Attempt, after.Index
	}
	return q.readNotifications(ctx, selNotificationsOfRun, run, attempt, index, limit)
}

func (q *Queries) readNotifications(ctx context.Context, sql string, args ...any) (notifications []NotificationView, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		notifications = nil
		return rx.Query(sql, func(r sqlite.Row) error {
			notifications = append(notifications, NotificationView{scanNotification(r), EffectStatus(r.Text(13))})
			return nil
		}, args...)
	})
	return notifications, err
}

// Place returns where a list of notifications or turns that is ordered by age continues after this one.
func (d *Delivery) Place() Place { return Place{d.CreatedAt, d.ID} }

// Turn returns a turn by its id. Errors: [schema.NotFound].
func (q *Queries) Turn(ctx context.Context, id string) (TurnView, error) {
	found, err := q.readTurns(ctx, selTurnView, id)
	return only(found, err, "turn", id)
}

// PendingTurns returns at most limit turns that a Pi session is to take, in the order in which they may be
// taken, after a place in the list; those whose time has not come too.
func (q *Queries) PendingTurns(ctx context.Context, session string, after Place, limit int) ([]TurnView, error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	return q.readTurns(ctx, selPendingTurns, session, int64(after.At), after.ID, limit)
}

// TurnsOfRun returns at most limit turns of a run, the oldest first, after a place in the list.
func (q *Queries) TurnsOfRun(ctx context.Context, run string, after Place, limit int) ([]TurnView, error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	return q.readTurns(ctx, selTurnsOfRun, run, int64(after.At), after.ID, limit)
}

func (q *Queries) readTurns(ctx context.Context, sql string, args ...any) (turns []TurnView, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		turns = nil
		return rx.Query(sql, func(r sqlite.Row) error {
			turns = append(turns, TurnView{scanTurn(r), EffectStatus(r.Text(12))})
			return nil
		}, args...)
	})
	return turns, err
}
