package store

import (
	"context"
	"encoding/json"
	"fmt"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// InboxOutcome is what became of something that came in.
type InboxOutcome string

// The outcomes.
const (
	InboxAccepted InboxOutcome = "accepted"
	InboxIgnored  InboxOutcome = "ignored"  // it is not for us
	InboxRejected InboxOutcome = "rejected" // it is, and can't be used
)

// InboxEvent is something that came in through a channel.
type InboxEvent struct {
	Channel     string       `json:"channel"`
	ID          string       `json:"external_event"` // the provider's own id
	Type        string       `json:"type"`
	Payload     Digest       `json:"payload"`
	Outcome     InboxOutcome `json:"outcome,omitempty"` // "": nobody has looked at it
	Detail      string       `json:"detail,omitempty"`
	ReceivedAt  Millis       `json:"received_at"`
	ProcessedAt Millis       `json:"processed_at,omitempty"`
}

// Place returns where a list of what came in continues after this one.
func (e *InboxEvent) Place() Place { return Place{e.ReceivedAt, e.ID} }

// MaxIncoming is how much one command can keep of what came in, MaxIncomingBytes how long each payload can
// be.
const (
	MaxIncoming      = 256
	MaxIncomingBytes = 256 << 10
)

const inboxColumns = `i.channel_id, i.external_event_id, i.event_type, i.payload_blob, i.outcome, i.detail, i.received_at,
		       i.processed_at`

const (
	selIncoming = `
		SELECT ` + inboxColumns + `
		  FROM channel_inbox AS i
		 WHERE i.channel_id        = ?1
		   AND i.external_event_id = ?2`

	selInbox = `
		SELECT ` + inboxColumns + `
		  FROM channel_inbox AS i
		 WHERE i.channel_id = ?1
		   AND (i.received_at, i.external_event_id) > (?2, ?3)
		 ORDER BY i.received_at, i.external_event_id
		 LIMIT ?4`

	selUnprocessed = `
		SELECT ` + inboxColumns + `
		  FROM channel_inbox AS i
		 WHERE i.channel_id = ?1
		   AND i.processed_at IS NULL
		   AND (i.received_at, i.external_event_id) > (?2, ?3)
		 ORDER BY i.received_at, i.external_event_id
		 LIMIT ?4`

	insIncoming = `
		INSERT INTO channel_inbox (channel_id, external_event_id, event_type, payload_blob, received_at)
		VALUES (?1, ?2, ?3, ?4, ?5)`

	updProcessed = `
		UPDATE channel_inbox
		   SET outcome      = ?3,
		       detail       = ?4,
		       processed_at = ?5
		 WHERE channel_id        = ?1
		   AND external_event_id = ?2
		   AND processed_at IS NULL`
)

func scanIncoming(r sqlite.Row) InboxEvent {
	return InboxEvent{
		Channel:     r.Text(0),
		ID:          r.Text(1),
		Type:        r.Text(2),
		Payload:     *digestOf(r.Bytes(3)),
		Outcome:     InboxOutcome(r.Text(4)),
		Detail:      r.Text(5),
		ReceivedAt:  Millis(r.Int64(6)),
		ProcessedAt: Millis(r.Int64(7)),
	}
}

// oneIncoming returns what came in under the provider's id, or nil.
func oneIncoming(rx *sqlite.Rx, channel, id string) (e *InboxEvent, err error) {
	_, err = rx.QueryRow(selIncoming, func(r sqlite.Row) error {
		found := scanIncoming(r)
		e = &found
		return nil
	}, channel, id)
	return e, err
}

// NewIncoming is something that came in, as the adapter got it.
type NewIncoming struct {
	ID      string          `json:"external_event"` // the provider's own id
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
}

// Received says what was kept of a batch.
type Received struct {
	New        int      `json:"new"`
	Duplicates []string `json:"duplicates,omitempty"` // ids that had come in before; what came first stays
}

// ReceiveEvents keeps what came in through a channel and says, in the same transaction, how far the channel
// has been read: nothing is lost between the two, and nothing counts twice. What the provider sends again,
// even with another payload, is harmless. A batch of which everything is there already is found (W5).
//
// A payload with the shape of a secret is refused like any other (R11): an adapter that passes on what
// people write takes such things out of it.
//
// Errors: [schema.IllegalTransition] for progress before the position of the cursor; [schema.Limit] for more
// than MaxIncoming events or MaxIncomingBytes of a payload.
type ReceiveEvents struct {
	Channel  string        `json:"channel"`
	Events   []NewIncoming `json:"events"`
	Progress *Progress     `json:"progress,omitempty"`
}

// Op returns "channel.receive".
func (ReceiveEvents) Op() Op { return OpChannelReceive }

// incoming is what came in, made ready before the transaction. In JSON its payload is a digest.
type incoming struct {
	NewIncoming
	Payload *content `json:"payload"`
}

func (c ReceiveEvents) prepare(d *draft) *plan[*Received] {
	if n := len(c.Events); n > MaxIncoming {
		d.fail(schema.Errorf(schema.Limit, "%d events; one command keeps at most %d", n, MaxIncoming))
		return nil
	}
	if len(c.Events) == 0 {
		d.invalid("nothing came in: say how far the channel was read with %s", OpChannelAdvance)
	}
	if c.Progress != nil {
		c.Progress.check(d)
	}
	events := make([]incoming, len(c.Events))
	for i, e := range c.Events {
		d.id("external_event", e.ID)
		d.id("type", e.Type)
		events[i] = incoming{e, d.limited(fmt.Sprintf("events[%d].payload", i), e.Payload, MaxIncomingBytes)}
	}
	asked := struct {
		ReceiveEvents
		Events []incoming `json:"events"`
	}{c, events}
	p := channelPlan(d, c.Channel, asked, "channel.received", func(f *facts) (*Received, func(*sqlite.Tx) error, error) {
		if c.Progress != nil {
			if err := c.Progress.may(f, c.Channel); err != nil {
				return nil, nil, err
			}
		}
		fresh, received, err := c.sort(f.Rx, events)
		return received, func(tx *sqlite.Tx) error { return c.save(tx, fresh, f.now) }, err
	})
	p.existing = func(rx *sqlite.Rx) (*Received, bool, error) {
		fresh, received, err := c.sort(rx, events)
		if err != nil || len(fresh) > 0 || c.Progress == nil {
			return received, len(fresh) == 0, err
		}
		stored, _, err := c.Progress.stored(rx, c.Channel)
		return received, stored != nil && stored.Position >= c.Progress.Position, err
	}
	p.repeated = func(rx *sqlite.Rx, _ Event) (*Received, error) {
		_, received, err := c.sort(rx, events)
		return received, err
	}
	return p
}

// sort tells what is new in the batch from what had come in before.
func (c *ReceiveEvents) sort(rx *sqlite.Rx, events []incoming) (fresh []incoming, r *Received, err error) {
	r = &Received{}
	seen := map[string]bool{}
	for _, e := range events {
		stored, err := oneIncoming(rx, c.Channel, e.ID)
		if err != nil {
			return nil, nil, err
		}
		if stored != nil || seen[e.ID] {
			r.Duplicates = append(r.Duplicates, e.ID)
			continue
		}
		seen[e.ID] = true
		fresh = append(fresh, e)
	}
	r.New = len(fresh)
	return fresh, r, nil
}

func (c *ReceiveEvents) save(tx *sqlite.Tx, fresh []incoming, now Millis) error {
	for _, e := range fresh {
		if _, err := tx.Exec(insIncoming, c.Channel, e.ID, e.Type, e.Payload.digest[:], int64(now)); err != nil {
			return err
		}
	}
	if c.Progress == nil {
		return nil
	}
	return c.Progress.save(tx, c.Channel, now)
}

// ProcessEvent says what became of something that came in. Doing it again is found (W5).
//
// Errors: [schema.Conflict] with the stored [InboxEvent] as the winner for another outcome;
// [schema.NotFound].
type ProcessEvent struct {
	Channel string       `json:"channel"`
	Event   string       `json:"external_event"`
	Outcome InboxOutcome `json:"outcome"`
	Detail  string       `json:"detail,omitempty"` // for people
}

// Op returns "channel.process".
func (ProcessEvent) Op() Op { return OpChannelProcess }

func (c ProcessEvent) prepare(d *draft) *plan[*InboxEvent] {
	d.id("external_event", c.Event)
	d.line("detail", c.Detail, maxReasonBytes)
	if c.Outcome != InboxAccepted && c.Outcome != InboxIgnored && c.Outcome != InboxRejected {
		d.invalid("outcome %q: it is %s, %s or %s", c.Outcome, InboxAccepted, InboxIgnored, InboxRejected)
	}
	p := channelPlan(d, c.Channel, c, "channel.processed", func(f *facts) (*InboxEvent, func(*sqlite.Tx) error, error) {
		e, err := oneIncoming(f.Rx, c.Channel, c.Event)
		if err == nil && e == nil {
			err = notFound("event in the inbox of channel "+c.Channel, c.Event)
		}
		if err != nil {
			return nil, nil, err
		}
		e.Outcome, e.Detail, e.ProcessedAt = c.Outcome, c.Detail, f.now
		return e, func(tx *sqlite.Tx) error {
			n, err := tx.Exec(updProcessed, c.Channel, c.Event, string(c.Outcome), orNull(c.Detail), int64(f.now))
			if err == nil && n != 1 {
				err = schema.Errorf(schema.Storage, "event %s of channel %s: %d open rows", c.Event, c.Channel, n)
			}
			return err
		}, nil
	})
	p.existing = func(rx *sqlite.Rx) (*InboxEvent, bool, error) {
		e, err := oneIncoming(rx, c.Channel, c.Event)
		if err != nil || e == nil || e.Outcome == "" {
			return nil, false, err
		}
		if e.Outcome != c.Outcome {
			err = conflict("outcome of event "+c.Event, *e)
		}
		return e, true, err
	}
	p.repeated = func(rx *sqlite.Rx, _ Event) (*InboxEvent, error) { return oneIncoming(rx, c.Channel, c.Event) }
	return p
}

// Inbox returns at most limit events that came in through a channel, the oldest first, after a place in the
// list: all, or those that nobody has looked at.
func (q *Queries) Inbox(ctx context.Context, channel string, unprocessed bool, after Place, limit int) (events []InboxEvent, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	sql := selInbox
	if unprocessed {
		sql = selUnprocessed
	}
	return viewList(ctx, q, scanIncoming, sql, channel, int64(after.At), after.ID, limit)
}
