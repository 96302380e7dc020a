package store

import (
	"context"

	"pistate/internal/sqlite"
)

// MessageView is what can be said of a message in one snapshot.
type MessageView struct {
	ChannelMessage
	EffectStatus EffectStatus  `json:"effect_status,omitempty"` // of the sending
	Parts        []MessagePart `json:"parts"`
}

const (
	selMessages = `
		SELECT ` + messageColumns + `
		  FROM channel_messages AS m
		 WHERE m.channel_id = ?1
		   AND (m.created_at, m.message_id) > (?2, ?3)
		 ORDER BY m.created_at, m.message_id
		 LIMIT ?4`

	selOpenMessages = `
		SELECT ` + messageColumns + `
		  FROM channel_messages AS m
		 WHERE m.channel_id = ?1
		   AND m.settled_at IS NULL
		   AND (m.created_at, m.message_id) > (?2, ?3)
		 ORDER BY m.created_at, m.message_id
		 LIMIT ?4`

	selMessagesOfDecision = `
		SELECT ` + messageColumns + `
		  FROM channel_messages AS m
		 WHERE m.decision_id = ?1
		   AND (m.created_at, m.message_id) > (?2, ?3)
		 ORDER BY m.created_at, m.message_id
		 LIMIT ?4`

	// People were asked, the decision is resolved, and nobody has told them. CROSS JOIN keeps the order.
	selUnannounced = `
		SELECT ` + messageColumns + `
		  FROM channel_messages AS m
		 CROSS JOIN human_decisions AS d ON d.decision_id = m.decision_id
		 WHERE m.channel_id = ?1
		   AND m.kind = 'delivery'
		   AND d.status <> 'pending'
		   AND (m.status = 'pending' OR EXISTS (SELECT 1
		                                          FROM channel_message_parts AS p
		                                         WHERE p.message_id = m.message_id
		                                           AND p.status IN ('confirmed', 'ambiguous')))
		   AND NOT EXISTS (SELECT 1
		                     FROM channel_messages AS s INDEXED BY channel_messages_by_decision
		                    WHERE s.decision_id = m.decision_id
		                      AND s.channel_id  = m.channel_id
		                      AND s.kind        = 'settlement')
		   AND (m.created_at, m.message_id) > (?2, ?3)
		 ORDER BY m.created_at, m.message_id
		 LIMIT ?4`
)

// Message returns a message with its parts. Errors: [schema.NotFound].
func (q *Queries) Message(ctx context.Context, id string) (v MessageView, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		m, err := oneMessage(rx, id)
		if err == nil && m == nil {
			err = notFound("message", id)
		}
		if err != nil {
			return err
		}
		v = MessageView{ChannelMessage: *m}
		if m.Effect != "" {
			e, _, err := getEffect(rx, m.Effect)
			if err != nil {
				return err
			}
			v.EffectStatus = e.Status
		}
		v.Parts, err = listParts(rx, id)
		return err
	})
	return v, err
}

// Messages returns at most limit messages of a channel, the oldest first, after a place in the list: all, or
// those that are not settled.
func (q *Queries) Messages(ctx context.Context, channel string, open bool, after Place, limit int) ([]ChannelMessage, error) {
	sql := selMessages
	if open {
		sql = selOpenMessages
	}
	return q.listMessages(ctx, sql, channel, after, limit)
}

// MessagesOfDecision returns at most limit messages about a decision, the oldest first, after a place in the
// list.
func (q *Queries) MessagesOfDecision(ctx context.Context, decision string, after Place, limit int) ([]ChannelMessage, error) {
	return q.listMessages(ctx, selMessagesOfDecision, decision, after, limit)
}

// UnannouncedMessages returns at most limit deliveries of a channel about decisions that are resolved without a
// settlement message that says so, the oldest first, after a place in the list: those that somebody has got,
// or may have, and those that were not sent yet, which can be withdrawn.
func (q *Queries) UnannouncedMessages(ctx context.Context, channel string, after Place, limit int) ([]ChannelMessage, error) {
	return q.listMessages(ctx, selUnannounced, channel, after, limit)
}

func (q *Queries) listMessages(ctx context.Context, sql, of string, after Place, limit int) (messages []ChannelMessage, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	return viewList(ctx, q, scanMessage, sql, of, int64(after.At), after.ID, limit)
}
