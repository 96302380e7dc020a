package store

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// MaxBatch is the most that one command appends to a capture, entries and events together.
const MaxBatch = 1000

// PiEvent is an event that a Pi session has sent.
type PiEvent struct {
	Type     string          `json:"type"`
	Node     string          `json:"node,omitempty"`    // of the workflow, at work when it was sent
	Attempt  string          `json:"attempt,omitempty"` // of that node
	Turn     *int64          `json:"turn,omitempty"`
	Message  string          `json:"message,omitempty"`   // the Pi message that it is about
	ToolCall string          `json:"tool_call,omitempty"` // the tool call that it is about
	At       Millis          `json:"at"`                  // when it was sent
	Payload  json.RawMessage `json:"payload,omitempty"`   // any JSON
}

// AppendSegment adds a batch to a capture, in one transaction. The batch says which numbers its entries and
// events get: a batch that is stored already is found, so whoever has lost an answer sends the same again.
// The permit's claim is on the run.
//
// An entry is one line of a Pi session file without its line break, and comes back byte for byte; a line
// that is no JSON is kept as well. The ids and the type in it are the store's to find. Whatever occurs twice
// is stored once.
//
// Errors: [schema.Conflict] with the stored [Segment] as the winner if the batch does not begin where the
// segment ends and is not what is stored there; [schema.IllegalTransition] for a segment that has ended;
// [schema.NotFound] for an attempt that the run doesn't have; [schema.Limit] for more than [MaxBatch] entries
// and events, or more than [MaxContentBytes] bytes of them.
type AppendSegment struct {
	Segment    string    `json:"segment"`
	FirstEntry int64     `json:"first_entry,omitempty"` // the number of the first of entries
	Entries    []string  `json:"entries,omitempty"`
	FirstEvent int64     `json:"first_event,omitempty"` // the number of the first of events
	Events     []PiEvent `json:"events,omitempty"`
}

// Op returns "segment.append".
func (AppendSegment) Op() Op { return OpSegmentAppend }

// batch is what is to be appended, made ready before the transaction.
type batch struct {
	AppendSegment
	entries []entryDraft
	events  []eventDraft
}

// entryDraft is an entry made ready. The digest says it all.
type entryDraft struct {
	Content *content `json:"content"`

	id, parent, kind string
}

// eventDraft is an event made ready. In JSON its payload is a digest.
type eventDraft struct {
	PiEvent
	Payload *content `json:"payload"`
}

// batchFacts are what the event of the command records: where the batch is, and that it was this one. The
// batch itself is in its rows, which are immutable.
type batchFacts struct {
	Segment    string `json:"segment"`
	FirstEntry int64  `json:"first_entry,omitempty"`
	Entries    int    `json:"entries,omitempty"`
	FirstEvent int64  `json:"first_event,omitempty"`
	Events     int    `json:"events,omitempty"`
	Batch      Digest `json:"batch"`
}

func (c AppendSegment) prepare(d *draft) *plan[*Segment] {
	b := d.batch(c)
	asked := batchFacts{c.Segment, c.FirstEntry, len(c.Entries), c.FirstEvent, len(c.Events), b.digest(d)}
	p := segmentPlan(d, c.Segment, asked, "segment.appended", b.decide)
	p.existing = b.find
	return p
}

func (d *draft) batch(c AppendSegment) *batch {
	b := &batch{AppendSegment: c}
	switch n := len(c.Entries) + len(c.Events); {
	case n == 0:
		d.invalid("the batch is empty")
	case n > MaxBatch:
		d.fail(schema.Errorf(schema.Limit, "the batch has %d entries and events; at most %d are possible", n, MaxBatch))
		return b
	}
	d.first("first_entry", c.FirstEntry, len(c.Entries))
	d.first("first_event", c.FirstEvent, len(c.Events))
	size := 0
	for _, line := range c.Entries {
		size += len(line)
	}
	for i := range c.Events {
		size += len(c.Events[i].Payload)
	}
	if d.fail(checkSize("batch", size)); d.problem != nil {
		return b
	}
	for i, line := range c.Entries {
		b.entries = append(b.entries, d.entry(fmt.Sprintf("entries[%d]", i), line))
	}
	for i, event := range c.Events {
		b.events = append(b.events, d.piEvent(fmt.Sprintf("events[%d]", i), event))
	}
	return b
}

// first checks where a part of the batch begins.
func (d *draft) first(field string, first int64, n int) {
	if n == 0 && first != 0 || n > 0 && first < 1 {
		d.invalid("%s %d: it is the number of the first one, from 1, where there is one", field, first)
	}
}

func (d *draft) entry(field, line string) entryDraft {
	if line == "" || strings.Contains(line, "\n") {
		d.invalid("%s is not one line", field)
	}
	e := entryDraft{Content: d.text(field, line)}
	e.id, e.parent, e.kind = readEntry(line)
	return e
}

func (d *draft) piEvent(field string, e PiEvent) eventDraft {
	d.id(field+".type", e.Type)
	for _, id := range [...]struct{ name, value string }{
		{"node", e.Node}, {"attempt", e.Attempt}, {"message", e.Message}, {"tool_call", e.ToolCall},
	} {
		if id.value != "" {
			d.id(field+"."+id.name, id.value)
		}
	}
	if e.Turn != nil && *e.Turn < 0 {
		d.invalid("%s.turn %d is negative", field, *e.Turn)
	}
	if e.At <= 0 {
		d.invalid("%s.at %d: the time at which it was sent is expected", field, e.At)
	}
	return eventDraft{e, d.json(field+".payload", e.Payload)}
}

// digest returns the digest of all that the batch holds.
func (b *batch) digest(d *draft) (digest Digest) {
	text, err := json.Marshal([]any{b.entries, b.events})
	d.fail(err)
	return sha256.Sum256(text)
}

// readEntry returns what Pi wrote of an entry's place in the tree: "" for what is not there, or can't be an
// id. The last of several members with one name counts, as it does for Pi.
func readEntry(line string) (id, parent, kind string) {
	d := jsontext.NewDecoder(strings.NewReader(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != jsontext.KindBeginObject {
		return "", "", ""
	}
	for d.PeekKind() == jsontext.KindString {
		name, err := d.ReadToken()
		if err != nil {
			return "", "", ""
		}
		var into *string
		switch name.String() {
		case "id":
			into = &id
		case "parentId":
			into = &parent
		case "type":
			into = &kind
		}
		if into == nil {
			if d.SkipValue() != nil {
				return "", "", ""
			}
			continue
		}
		*into = ""
		if d.PeekKind() != jsontext.KindString {
			if d.SkipValue() != nil {
				return "", "", ""
			}
			continue
		}
		value, err := d.ReadToken()
		if err != nil {
			return "", "", ""
		}
		if text := value.String(); checkID("", text) == nil {
			*into = text
		}
	}
	if _, err := d.ReadToken(); err != nil { // the end of the object
		return "", "", ""
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return "", "", ""
	}
	return id, parent, kind
}

const (
	selStoredEntries = `
		SELECT entry_blob
		  FROM session_entries
		 WHERE segment_id = ?1
		   AND sequence  >= ?2
		 ORDER BY sequence
		 LIMIT ?3`

	selStoredEvents = `
		SELECT event_type, node_id, attempt_id, turn, message_id, tool_call_id, occurred_at, payload_blob
		  FROM session_events
		 WHERE segment_id = ?1
		   AND sequence  >= ?2
		 ORDER BY sequence
		 LIMIT ?3`

	insSessionEntry = `
		INSERT INTO session_entries (segment_id, sequence, entry_id, parent_id, entry_type, entry_blob, captured_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`

	insSessionEvent = `
		INSERT INTO session_events (segment_id, sequence, event_type, node_id, attempt_id, turn, message_id,
		                            tool_call_id, payload_blob, occurred_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`
)

// continues reports whether the batch begins where the segment ends.
func (b *batch) continues(s *Segment) bool {
	return (len(b.entries) == 0 || b.FirstEntry == s.Entries+1) && (len(b.events) == 0 || b.FirstEvent == s.Events+1)
}

// find looks for the batch among what is stored. Errors: [schema.Conflict] if it neither is there nor
// continues the segment.
func (b *batch) find(rx *sqlite.Rx) (*Segment, bool, error) {
	s, found, err := getSegment(rx, b.Segment)
	if err != nil || !found || b.continues(&s) {
		return nil, false, err
	}
	same, err := b.isStored(rx)
	if err == nil && !same {
		identity := fmt.Sprintf("entry %d and event %d of segment %s, which ends with entry %d and event %d", b.FirstEntry, b.FirstEvent, s.ID, s.Entries, s.Events)
		err = refuse(schema.Conflict, &ConflictError{identity, s})
	}
	return &s, same, err
}

// isStored compares the whole batch with the rows that have its numbers.
func (b *batch) isStored(rx *sqlite.Rx) (bool, error) {
	entries, events := 0, 0
	err := rx.Query(selStoredEntries, func(r sqlite.Row) error {
		if string(r.Bytes(0)) == string(b.entries[entries].Content.digest[:]) {
			entries++
			return nil
		}
		return errOther
	}, b.Segment, b.FirstEntry, len(b.entries))
	if err == nil {
		err = rx.Query(selStoredEvents, func(r sqlite.Row) error {
			if b.events[events].isStored(r) {
				events++
				return nil
			}
			return errOther
		}, b.Segment, b.FirstEvent, len(b.events))
	}
	if errors.Is(err, errOther) {
		return false, nil
	}
	return entries == len(b.entries) && events == len(b.events), err
}

var errOther = errors.New("something else is stored")

func (e *eventDraft) isStored(r sqlite.Row) bool {
	turn := e.Turn == nil && r.IsNull(3) || e.Turn != nil && !r.IsNull(3) && *e.Turn == r.Int64(3)
	return turn && e.Type == r.Text(0) && e.Node == r.Text(1) && e.Attempt == r.Text(2) && e.Message == r.Text(4) &&
		e.ToolCall == r.Text(5) && e.At == Millis(r.Int64(6)) && string(e.Payload.digest[:]) == string(r.Bytes(7))
}

func (b *batch) decide(f *facts, s *Segment) (func(*sqlite.Tx) error, error) {
	known := map[string]bool{"": true}
	for _, e := range b.events {
		if known[e.Attempt] {
			continue
		}
		if err := mustBeAttemptOf(f.Rx, s.Run, e.Attempt); err != nil {
			return nil, err
		}
		known[e.Attempt] = true
	}
	s.Entries += int64(len(b.entries))
	s.Events += int64(len(b.events))
	return func(tx *sqlite.Tx) error { return b.write(tx, f.now) }, nil
}

func (b *batch) write(tx *sqlite.Tx, now Millis) error {
	for i, e := range b.entries {
		_, err := tx.Exec(insSessionEntry, b.Segment, b.FirstEntry+int64(i), orNull(e.id), orNull(e.parent), orNull(e.kind),
			e.Content.digest[:], int64(now))
		if err != nil {
			return err
		}
	}
	for i, e := range b.events {
		var turn any
		if e.Turn != nil {
			turn = *e.Turn
		}
		_, err := tx.Exec(insSessionEvent, b.Segment, b.FirstEvent+int64(i), e.Type, orNull(e.Node), orNull(e.Attempt), turn,
			orNull(e.Message), orNull(e.ToolCall), e.Payload.digest[:], int64(e.At))
		if err != nil {
			return err
		}
	}
	return nil
}
