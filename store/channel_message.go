package store

import (
	"encoding/json"
	"fmt"
	"slices"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// MessageKind says what a message is.
type MessageKind string

// The kinds.
const (
	DeliveryMessage   MessageKind = "delivery"   // a request, brought to people
	SettlementMessage MessageKind = "settlement" // the news that it is settled
)

// MessageStatus is how far a message, or a part of one, has come.
type MessageStatus string

// The statuses. The last two are final.
const (
	MessagePending   MessageStatus = "pending"
	MessageAmbiguous MessageStatus = "ambiguous" // nobody knows whether it was sent; not sent again
	MessageConfirmed MessageStatus = "confirmed" // the provider has it
	MessageFailed    MessageStatus = "failed"
)

func (s MessageStatus) final() bool { return s == MessageConfirmed || s == MessageFailed }

// ChannelMessage is something that a channel is to send, or has sent (D13). Its status is that of its parts: an
// ambiguous part makes it ambiguous, else a pending one pending, else a failed one failed.
type ChannelMessage struct {
	ID        string        `json:"id"` // derived from channel, kind and key
	Channel   string        `json:"channel"`
	Kind      MessageKind   `json:"kind"`
	Key       string        `json:"key"` // the same key again is the same message
	Decision  string        `json:"decision,omitempty"`
	Effect    string        `json:"effect,omitempty"` // the sending
	Payload   Digest        `json:"payload"`
	Status    MessageStatus `json:"status"`
	Error     *Digest       `json:"error,omitempty"`
	CreatedAt Millis        `json:"created_at"`
	UpdatedAt Millis        `json:"updated_at"`
	SettledAt Millis        `json:"settled_at,omitempty"`
}

// Place returns where a list of messages continues after this one.
func (m *ChannelMessage) Place() Place { return Place{m.CreatedAt, m.ID} }

// MessagePart is what one recipient gets of a message, or a piece of that.
type MessagePart struct {
	Recipient   string        `json:"recipient"` // private
	Number      int           `json:"part"`      // from 1, for each recipient
	Payload     Digest        `json:"payload"`   // as rendered for the recipient
	Status      MessageStatus `json:"status"`
	ExternalRef string        `json:"external_ref,omitempty"` // the provider's name for what was sent; private
	Error       *Digest       `json:"error,omitempty"`
	UpdatedAt   Millis        `json:"updated_at"`
	SettledAt   Millis        `json:"settled_at,omitempty"`
}

func (p *MessagePart) name() string { return fmt.Sprintf("part %d for %s", p.Number, p.Recipient) }

// MessageEffect is the type of the effect that sends a message. Its key is the id of the message.
const MessageEffect = "channel.send"

// MaxParts is how many parts a message can have, MaxPartBytes how long each can be.
const (
	MaxParts     = 256
	MaxPartBytes = 256 << 10
)

const (
	messageColumns = `m.message_id, m.channel_id, m.kind, m.message_key, m.decision_id, m.effect_id, m.payload_blob, m.status,
		       m.error_blob, m.created_at, m.updated_at, m.settled_at`

	partColumns = `p.recipient, p.part_number, p.payload_blob, p.status, p.external_ref, p.error_blob, p.updated_at,
		       p.settled_at`
)

const (
	selMessage = `
		SELECT ` + messageColumns + `
		  FROM channel_messages AS m
		 WHERE m.message_id = ?1`

	selParts = `
		SELECT ` + partColumns + `
		  FROM channel_message_parts AS p
		 WHERE p.message_id = ?1
		 ORDER BY p.recipient, p.part_number`

	insMessage = `
		INSERT INTO channel_messages (message_id, channel_id, kind, message_key, decision_id, effect_id,
		                              payload_blob, created_at, updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)`

	insPart = `
		INSERT INTO channel_message_parts (message_id, recipient, part_number, payload_blob, updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5)`
)

func scanMessage(r sqlite.Row) ChannelMessage {
	return ChannelMessage{
		ID:        r.Text(0),
		Channel:   r.Text(1),
		Kind:      MessageKind(r.Text(2)),
		Key:       r.Text(3),
		Decision:  r.Text(4),
		Effect:    r.Text(5),
		Payload:   *digestOf(r.Bytes(6)),
		Status:    MessageStatus(r.Text(7)),
		Error:     digestOf(r.Bytes(8)),
		CreatedAt: Millis(r.Int64(9)),
		UpdatedAt: Millis(r.Int64(10)),
		SettledAt: Millis(r.Int64(11)),
	}
}

// oneMessage returns a message by its id, or nil.
func oneMessage(rx *sqlite.Rx, id string) (m *ChannelMessage, err error) {
	_, err = rx.QueryRow(selMessage, func(r sqlite.Row) error {
		found := scanMessage(r)
		m = &found
		return nil
	}, id)
	return m, err
}

// listParts returns the parts of a message by recipient and number.
func listParts(rx *sqlite.Rx, message string) (parts []MessagePart, err error) {
	err = rx.Query(selParts, func(r sqlite.Row) error {
		parts = append(parts, MessagePart{
			Recipient: r.Text(0), Number: r.Int(1), Payload: *digestOf(r.Bytes(2)), Status: MessageStatus(r.Text(3)),
			ExternalRef: r.Text(4), Error: digestOf(r.Bytes(5)), UpdatedAt: Millis(r.Int64(6)), SettledAt: Millis(r.Int64(7)),
		})
		return nil
	}, message)
	return parts, err
}

// NewPart is what one recipient is to get of a message, or a piece of that.
type NewPart struct {
	Recipient string          `json:"recipient"`
	Payload   json.RawMessage `json:"payload"`
}

// ComposeMessage has a channel send a message, for the owner of the channel: a row for the message and each
// of its parts, and the effect that sends them in the order in which they are given for each recipient. The
// same message again is found (W5); a [ChannelSender] sends it.
//
// Errors: [schema.Conflict] with the stored [ChannelMessage] as the winner if another one has its kind and key;
// [schema.NotFound] for the decision; [schema.Limit] for more than MaxParts parts or MaxPartBytes of one.
type ComposeMessage struct {
	Channel   string          `json:"channel"`
	Kind      MessageKind     `json:"kind"`
	Key       string          `json:"key"`
	Decision  string          `json:"decision,omitempty"` // that it is about
	Payload   json.RawMessage `json:"payload"`            // what it says, before it is rendered
	Parts     []NewPart       `json:"parts"`
	NotBefore Millis          `json:"not_before,omitempty"`
}

// Op returns "channel.compose".
func (ComposeMessage) Op() Op { return OpChannelCompose }

// messageID returns the id that channel, kind and key determine.
func messageID(channel string, kind MessageKind, key string) string {
	return derivedID("msg", channel, string(kind), key)
}

// composed is a message made ready before the transaction. In JSON its contents are digests.
type composed struct {
	ComposeMessage
	Payload *content       `json:"payload"`
	Parts   []composedPart `json:"parts"`

	id     string
	effect *effectDraft
}

type composedPart struct {
	Recipient string   `json:"recipient"`
	Number    int      `json:"part"`
	Payload   *content `json:"payload"`
}

func (d *draft) compose(c ComposeMessage) *composed {
	d.id("channel", c.Channel)
	d.id("key", c.Key)
	if c.Decision != "" {
		d.id("decision", c.Decision)
	}
	if c.Kind != DeliveryMessage && c.Kind != SettlementMessage {
		d.invalid("kind %q: it is %s or %s", c.Kind, DeliveryMessage, SettlementMessage)
	}
	d.moment("not_before", c.NotBefore)
	if n := len(c.Parts); n == 0 || n > MaxParts {
		d.fail(schema.Errorf(schema.Limit, "%d parts: a message has from 1 to %d", n, MaxParts))
	}
	m := &composed{ComposeMessage: c, Payload: d.limited("payload", c.Payload, MaxPartBytes), id: messageID(c.Channel, c.Kind, c.Key)}
	numbers := map[string]int{}
	for i, p := range c.Parts[:min(len(c.Parts), MaxParts)] {
		d.id("recipient", p.Recipient)
		numbers[p.Recipient]++
		payload := d.limited(fmt.Sprintf("parts[%d].payload", i), p.Payload, MaxPartBytes)
		m.Parts = append(m.Parts, composedPart{p.Recipient, numbers[p.Recipient], payload})
	}
	what, err := json.Marshal(map[string]string{"message": m.id})
	d.fail(err)
	m.effect = d.effect(NewResourceID(ChannelResource, c.Channel), EffectSpec{
		Type: MessageEffect, Key: m.id, Payload: what, External: true, Scope: Scope{ChannelScope, c.Channel}, NotBefore: c.NotBefore,
	})
	return m
}

// find looks for the message among those that were composed.
func (m *composed) find(rx *sqlite.Rx) (*ChannelMessage, bool, error) {
	stored, err := oneMessage(rx, m.id)
	if stored == nil || err != nil {
		return nil, false, err
	}
	parts, err := listParts(rx, m.id)
	if err != nil {
		return nil, false, err
	}
	if stored.Payload != m.Payload.digest || stored.Decision != m.Decision || !slices.EqualFunc(m.ordered(), parts, samePart) {
		return nil, true, conflict(fmt.Sprintf("%s message %s of channel %s", m.Kind, m.Key, m.Channel), *stored)
	}
	return stored, true, nil
}

// ordered returns the parts in the order in which they are listed.
func (m *composed) ordered() []composedPart {
	return slices.SortedStableFunc(slices.Values(m.Parts), func(a, b composedPart) int {
		switch {
		case a.Recipient < b.Recipient:
			return -1
		case a.Recipient > b.Recipient:
			return 1
		}
		return a.Number - b.Number
	})
}

func samePart(a composedPart, b MessagePart) bool {
	return a.Recipient == b.Recipient && a.Number == b.Number && a.Payload.digest == b.Payload
}

func (c ComposeMessage) prepare(d *draft) *plan[*ChannelMessage] {
	m := d.compose(c)
	p := channelPlan(d, c.Channel, m, "channel.composed", func(f *facts) (*ChannelMessage, func(*sqlite.Tx) error, error) {
		if c.Decision != "" {
			if _, err := getDecision(f.Rx, c.Decision); err != nil {
				return nil, nil, err
			}
		}
		return &ChannelMessage{
			ID: m.id, Channel: c.Channel, Kind: c.Kind, Key: c.Key, Decision: c.Decision, Effect: m.effect.id,
			Payload: m.Payload.digest, Status: MessagePending, CreatedAt: f.now, UpdatedAt: f.now,
		}, func(tx *sqlite.Tx) error { return m.save(tx, f.now) }, nil
	})
	p.existing = m.find
	p.repeated = func(rx *sqlite.Rx, _ Event) (*ChannelMessage, error) { return oneMessage(rx, m.id) }
	decide := p.decide
	p.decide = func(f *facts) (*change[*ChannelMessage], error) {
		ch, err := decide(f)
		if err == nil {
			ch.effects = []*effectDraft{m.effect}
		}
		return ch, err
	}
	return p
}

func (m *composed) save(tx *sqlite.Tx, now Millis) error {
	_, err := tx.Exec(insMessage, m.id, m.Channel, string(m.Kind), m.Key, orNull(m.Decision), m.effect.id, m.Payload.digest[:],
		int64(now))
	for _, p := range m.Parts {
		if err != nil {
			return err
		}
		_, err = tx.Exec(insPart, m.id, p.Recipient, p.Number, p.Payload.digest[:], int64(now))
	}
	return err
}
