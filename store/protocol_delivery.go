package store

import (
	"context"
)

var deliveryEndpoints = []Endpoint{
	command[CreateNotification](),
	command[ResolveNotification](),
	command[WithdrawNotification](),
	query("notification.get", "a notification",
		func(ctx context.Context, q *Queries, a notificationArgs) (NotificationView, error) {
			return q.Notification(ctx, a.Notification)
		}),
	query("notification.pending", "notifications that a Pi session is to show, the oldest first",
		func(ctx context.Context, q *Queries, a sessionPageArgs) ([]NotificationView, error) {
			return q.PendingNotifications(ctx, a.Session, a.After, a.limit())
		}),
	query("notification.list", "the notifications of a run by attempt and index, those of the run itself first",
		func(ctx context.Context, q *Queries, a notificationListArgs) ([]NotificationView, error) {
			var after *Notification
			if a.After != nil {
				after = &Notification{Attempt: a.After.Attempt, Index: a.After.Index}
			}
			return q.NotificationsOfRun(ctx, a.Run, after, a.limit())
		}),
	command[CreateTurn](),
	command[ResolveTurn](),
	command[WithdrawTurn](),
	query("turn.get", "a deferred turn",
		func(ctx context.Context, q *Queries, a turnArgs) (TurnView, error) {
			return q.Turn(ctx, a.Turn)
		}),
	query("turn.pending", "turns that a Pi session is to take, in the order in which they may be taken",
		func(ctx context.Context, q *Queries, a turnPageArgs) ([]TurnView, error) {
			return q.PendingTurns(ctx, a.Session, a.After, a.limit())
		}),
	query("turn.list", "the turns of a run, the oldest first",
		func(ctx context.Context, q *Queries, a turnListArgs) ([]TurnView, error) {
			return q.TurnsOfRun(ctx, a.Run, a.After, a.limit())
		}),
}

type notificationArgs struct {
	Notification string `json:"notification"` // its id
}

type sessionPageArgs struct {
	Session string `json:"session"`
	After   Place  `json:"after,omitzero"` // created_at and id of the last one that was returned
	pageArgs
}

type notificationListArgs struct {
	Run   string             `json:"run"`
	After *notificationPlace `json:"after,omitempty"` // of the last one that was returned
	pageArgs
}

type notificationPlace struct {
	Attempt string `json:"attempt,omitempty"`
	Index   int    `json:"index"`
}

type turnArgs struct {
	Turn string `json:"turn"` // its id
}

type turnPageArgs struct {
	Session string `json:"session"`
	After   Place  `json:"after,omitzero"` // eligible_at and id of the last one that was returned
	pageArgs
}

type turnListArgs struct {
	Run   string `json:"run"`
	After Place  `json:"after,omitzero"` // created_at and id of the last one that was returned
	pageArgs
}
