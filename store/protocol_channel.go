package store

import (
	"context"
)

var channelEndpoints = []Endpoint{
	command[RegisterChannel](),
	command[AdvanceCursor](),
	command[ReceiveEvents](),
	command[ProcessEvent](),
	command[ComposeMessage](),
	command[SettleParts](),
	command[WithdrawMessage](),
	query("channel.get", "a channel",
		func(ctx context.Context, q *Queries, a channelArgs) (ChannelView, error) {
			return q.Channel(ctx, a.Channel)
		}),
	query("channel.list", "channels by adapter and profile",
		func(ctx context.Context, q *Queries, a channelListArgs) ([]Channel, error) {
			return q.Channels(ctx, Channel{Adapter: a.After.Adapter, Profile: a.After.Profile}, a.limit())
		}),
	query("inbox.list", "the events that came in through a channel, the oldest first",
		func(ctx context.Context, q *Queries, a inboxListArgs) ([]InboxEvent, error) {
			return q.Inbox(ctx, a.Channel, a.Unprocessed, a.After, a.limit())
		}),
	query("message.get", "a message with its parts",
		func(ctx context.Context, q *Queries, a messageArgs) (MessageView, error) {
			return q.Message(ctx, a.Message)
		}),
	query("message.list", "the messages of a channel, the oldest first",
		func(ctx context.Context, q *Queries, a messageListArgs) ([]ChannelMessage, error) {
			return q.Messages(ctx, a.Channel, a.Open, a.After, a.limit())
		}),
	query("message.of_decision", "the messages about a decision, the oldest first",
		func(ctx context.Context, q *Queries, a messageOfDecisionArgs) ([]ChannelMessage, error) {
			return q.MessagesOfDecision(ctx, a.Decision, a.After, a.limit())
		}),
	query("message.unannounced", "deliveries about decisions that are resolved without a message that says so",
		func(ctx context.Context, q *Queries, a unannouncedArgs) ([]ChannelMessage, error) {
			return q.UnannouncedMessages(ctx, a.Channel, a.After, a.limit())
		}),
}

type channelArgs struct {
	Channel string `json:"channel"` // its id
}

type channelListArgs struct {
	After channelPlace `json:"after,omitzero"` // of the last one that was returned
	pageArgs
}

type channelPlace struct {
	Adapter string `json:"adapter"`
	Profile string `json:"profile"`
}

type inboxListArgs struct {
	Channel     string `json:"channel"`
	Unprocessed bool   `json:"unprocessed,omitempty"` // those that nobody has looked at only
	After       Place  `json:"after,omitzero"`        // the time and id of the last one that was returned
	pageArgs
}

type messageArgs struct {
	Message string `json:"message"` // its id
}

type messageListArgs struct {
	Channel string `json:"channel"`
	Open    bool   `json:"open,omitempty"` // those that are not settled only
	After   Place  `json:"after,omitzero"` // the time and id of the last one that was returned
	pageArgs
}

type messageOfDecisionArgs struct {
	Decision string `json:"decision"`
	After    Place  `json:"after,omitzero"` // the time and id of the last one that was returned
	pageArgs
}

type unannouncedArgs struct {
	Channel string `json:"channel"`
	After   Place  `json:"after,omitzero"` // the time and id of the last one that was returned
	pageArgs
}
