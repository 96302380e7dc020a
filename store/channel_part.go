package store

import (
	"encoding/json"
	"fmt"
	"slices"

	"pistate/internal/sqlite"
	"pistate/schema"
)

const (
	updMessage = `
		UPDATE channel_messages
		   SET status     = ?2,
		       error_blob = ?3,
		       updated_at = ?4,
		       settled_at = ?5
		 WHERE message_id = ?1
		   AND settled_at IS NULL`

	updPart = `
		UPDATE channel_message_parts
		   SET status       = ?4,
		       external_ref = ?5,
		       error_blob   = ?6,
		       updated_at   = ?7,
		       settled_at   = ?8
		 WHERE message_id  = ?1
		   AND recipient   = ?2
		   AND part_number = ?3
		   AND settled_at IS NULL`
)

// PartOutcome is what became of a part of a message. A part that is pending can be of any status then. One
// that is ambiguous needs evidence: it was sent (confirmed), or it was not, and is sent again (pending) or
// given up (failed).
type PartOutcome struct {
	Recipient   string          `json:"recipient"`
	Number      int             `json:"part"`
	Status      MessageStatus   `json:"status"`
	ExternalRef string          `json:"external_ref,omitempty"` // the provider's name for what was sent
	Error       json.RawMessage `json:"error,omitempty"`        // if it failed or is ambiguous
}

// SettleParts says, for the owner of the channel, which parts of a message were sent. The message follows from
// its parts. What is there already is found (W5).
//
// Errors: [schema.Conflict] with the stored [MessagePart] as the winner for one that is settled in another
// way; [schema.IllegalTransition] for one that is pending and stays so; [schema.NotFound] for the message or
// part.
type SettleParts struct {
	Channel string        `json:"channel"`
	Message string        `json:"message"`
	Parts   []PartOutcome `json:"parts"`
}

// Op returns "channel.settle_parts".
func (SettleParts) Op() Op { return OpChannelSettle }

// partOutcome is an outcome made ready before the transaction. In JSON its error is a digest.
type partOutcome struct {
	PartOutcome
	Error *Digest `json:"error,omitempty"`
}

func (c SettleParts) prepare(d *draft) *plan[*ChannelMessage] {
	d.id("message", c.Message)
	if n := len(c.Parts); n == 0 || n > MaxParts {
		d.fail(schema.Errorf(schema.Limit, "%d parts: a message has from 1 to %d", n, MaxParts))
		return nil
	}
	outcomes := make([]partOutcome, len(c.Parts))
	for i, p := range c.Parts {
		d.line("external_ref", p.ExternalRef, maxIDBytes)
		switch p.Status {
		case MessagePending, MessageAmbiguous, MessageConfirmed, MessageFailed:
		default:
			d.invalid("parts[%d]: status %q: it is pending, ambiguous, confirmed or failed", i, p.Status)
		}
		if p.Error != nil && p.Status != MessageFailed && p.Status != MessageAmbiguous {
			d.invalid("parts[%d]: only what failed or is ambiguous has an error", i)
		}
		outcomes[i] = partOutcome{p, d.optional(fmt.Sprintf("parts[%d].error", i), p.Error)}
	}
	asked := struct {
		SettleParts
		Parts []partOutcome `json:"parts"`
	}{c, outcomes}
	p := channelPlan(d, c.Channel, asked, "channel.parts_settled", func(f *facts) (*ChannelMessage, func(*sqlite.Tx) error, error) {
		w, err := loadMessage(f, c.Channel, c.Message)
		for _, o := range outcomes {
			if err == nil {
				err = w.settle(o)
			}
		}
		if err != nil {
			return nil, nil, err
		}
		w.follow()
		return w.message, w.save, nil
	})
	p.existing = func(rx *sqlite.Rx) (*ChannelMessage, bool, error) {
		stored, err := oneMessage(rx, c.Message)
		if err != nil || stored == nil || stored.Channel != c.Channel {
			return nil, false, err
		}
		parts, err := listParts(rx, c.Message)
		for _, o := range outcomes {
			i := slices.IndexFunc(parts, o.isFor)
			if i < 0 || !o.same(&parts[i]) {
				return nil, false, err
			}
		}
		return stored, true, err
	}
	p.repeated = func(rx *sqlite.Rx, _ Event) (*ChannelMessage, error) { return oneMessage(rx, c.Message) }
	return p
}

func (o *partOutcome) isFor(p MessagePart) bool {
	return p.Recipient == o.Recipient && p.Number == o.Number
}

// same reports whether the part has that status already. What the provider calls it, or says about it, may
// be told once.
func (o *partOutcome) same(p *MessagePart) bool {
	return p.Status == o.Status && (o.ExternalRef == "" || o.ExternalRef == p.ExternalRef)
}

// sending is a message with its parts, as a command finds it and as it leaves it.
type sending struct {
	f       *facts
	message *ChannelMessage
	parts   []MessagePart
	changed []int // parts
}

// loadMessage reads a message of a channel that is not settled.
func loadMessage(f *facts, channel, id string) (*sending, error) {
	m, err := oneMessage(f.Rx, id)
	if err == nil && (m == nil || m.Channel != channel) {
		err = notFound("message of channel "+channel, id)
	}
	if err != nil {
		return nil, err
	}
	parts, err := listParts(f.Rx, id)
	return &sending{f: f, message: m, parts: parts}, err
}

func (w *sending) illegal(from string) error {
	return illegal(w.f, "a channel with message "+w.message.ID+", "+from)
}

// settle gives a part its outcome.
func (w *sending) settle(o partOutcome) error {
	i := slices.IndexFunc(w.parts, o.isFor)
	if i < 0 {
		return notFound(fmt.Sprintf("part %d of message %s for recipient", o.Number, w.message.ID), o.Recipient)
	}
	p := &w.parts[i]
	switch {
	case o.same(p) && p.Status != MessagePending:
		return nil
	case p.Status.final():
		return conflict(fmt.Sprintf("part %d of message %s for %s", p.Number, w.message.ID, p.Recipient), *p)
	case p.Status == MessagePending && o.Status == MessagePending:
		return w.illegal("of which " + p.name() + " is pending")
	}
	w.set(i, o.Status, o.Error)
	if o.ExternalRef != "" {
		p.ExternalRef = o.ExternalRef
	}
	return nil
}

func (w *sending) set(i int, status MessageStatus, fault *Digest) {
	p := &w.parts[i]
	p.Status, p.Error, p.UpdatedAt, p.SettledAt = status, fault, w.f.now, 0
	if status.final() {
		p.SettledAt = w.f.now
	}
	w.changed = append(w.changed, i)
}

// follow gives the message the status that its parts make.
func (w *sending) follow() {
	m := w.message
	m.Status, m.Error, m.UpdatedAt, m.SettledAt = MessageConfirmed, nil, w.f.now, 0
	for _, status := range []MessageStatus{MessageFailed, MessagePending, MessageAmbiguous} {
		i := slices.IndexFunc(w.parts, func(p MessagePart) bool { return p.Status == status })
		if i >= 0 {
			m.Status, m.Error = status, w.parts[i].Error
		}
	}
	if m.Status.final() {
		m.SettledAt = w.f.now
	}
}

func (w *sending) save(tx *sqlite.Tx) error {
	for _, i := range w.changed {
		p := w.parts[i]
		n, err := tx.Exec(updPart, w.message.ID, p.Recipient, p.Number, string(p.Status), orNull(p.ExternalRef), p.Error.bytes(),
			int64(p.UpdatedAt), orNull(int64(p.SettledAt)))
		if err == nil && n != 1 {
			err = schema.Errorf(schema.Storage, "message %s: %d open rows of %s", w.message.ID, n, p.name())
		}
		if err != nil {
			return err
		}
	}
	m := w.message
	n, err := tx.Exec(updMessage, m.ID, string(m.Status), m.Error.bytes(), int64(m.UpdatedAt), orNull(int64(m.SettledAt)))
	if err == nil && n != 1 {
		err = schema.Errorf(schema.Storage, "message %s: %d open rows", m.ID, n)
	}
	return err
}

// WithdrawMessage gives up a message that nobody is sending, and its effect with it: the parts that were not
// sent have failed. A message that failed for the same reason is found (W5).
//
// Errors: [schema.IllegalTransition] for a message that is settled, that is being sent, or of which nobody
// knows whether it was.
type WithdrawMessage struct {
	Channel string          `json:"channel"`
	Message string          `json:"message"`
	Error   json.RawMessage `json:"error"` // why
}

// Op returns "channel.withdraw".
func (WithdrawMessage) Op() Op { return OpChannelWithdraw }

func (c WithdrawMessage) prepare(d *draft) *plan[*ChannelMessage] {
	d.id("message", c.Message)
	fault := d.fault(c.Error)
	asked := struct {
		WithdrawMessage
		Error *Digest `json:"error"`
	}{c, fault}
	var effect Effect
	p := channelPlan(d, c.Channel, asked, "channel.withdrawn", func(f *facts) (*ChannelMessage, func(*sqlite.Tx) error, error) {
		w, err := loadMessage(f, c.Channel, c.Message)
		if err == nil {
			effect, _, err = getEffect(f.Rx, w.message.Effect)
		}
		switch {
		case err != nil:
			return nil, nil, err
		case w.message.Status != MessagePending:
			return nil, nil, w.illegal("which is " + string(w.message.Status))
		case effect.Status != EffectPending:
			return nil, nil, w.illegal("whose effect is " + string(effect.Status))
		}
		for i := range w.parts {
			if w.parts[i].Status == MessagePending {
				w.set(i, MessageFailed, fault)
			}
		}
		w.follow()
		return w.message, w.save, nil
	})
	p.existing = func(rx *sqlite.Rx) (*ChannelMessage, bool, error) {
		stored, err := oneMessage(rx, c.Message)
		if err != nil || stored == nil || stored.Channel != c.Channel || stored.Status != MessageFailed {
			return nil, false, err
		}
		return stored, stored.Error != nil && *stored.Error == *fault, nil
	}
	p.repeated = func(rx *sqlite.Rx, _ Event) (*ChannelMessage, error) { return oneMessage(rx, c.Message) }
	decide := p.decide
	p.decide = func(f *facts) (*change[*ChannelMessage], error) {
		ch, err := decide(f)
		if err == nil {
			cancelWith(f, ch, effect)
		}
		return ch, err
	}
	return p
}
