package store

import (
	"context"
	"strconv"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// Event is one accepted command, as it was recorded (R5). Its payload is the blob.
type Event struct {
	Sequence   int64      `json:"sequence"` // one order for the whole database, from 1, without gaps
	ID         string     `json:"id"`
	Resource   ResourceID `json:"resource"`
	Revision   int64      `json:"revision"`
	Run        string     `json:"run,omitempty"` // the run that it belongs to
	Type       string     `json:"type"`
	Actor      Actor      `json:"actor"`                // its id is private
	Generation int64      `json:"generation,omitempty"` // of the lease that it was done under
	Payload    Digest     `json:"payload"`
	At         Millis     `json:"at"`
}

const eventColumns = `sequence, event_id, resource_id, revision, run_id, event_type, actor_class, actor_id,
		       lease_generation, payload_blob, committed_at`

const (
	insEvent = `
		INSERT INTO events (event_id, command_digest, resource_id, revision, run_id, event_type, actor_class,
		                    actor_id, lease_generation, payload_blob, committed_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
		RETURNING sequence`

	selRequest = `
		SELECT ` + eventColumns + `, command_digest
		  FROM events
		 WHERE event_id = ?1`

	selEvents = `
		SELECT ` + eventColumns + `
		  FROM events
		 WHERE sequence > ?1
		 ORDER BY sequence
		 LIMIT ?2`

	selEventsOfResource = `
		SELECT ` + eventColumns + `
		  FROM events
		 WHERE resource_id = ?3
		   AND revision    > ifnull((SELECT max(revision) FROM events WHERE resource_id = ?3 AND sequence <= ?1), 0)
		 ORDER BY revision
		 LIMIT ?2`

	selEventsOfRun = `
		SELECT ` + eventColumns + `
		  FROM events
		 WHERE run_id = ?3
		   AND sequence > ?1
		 ORDER BY sequence
		 LIMIT ?2`
)

func scanEvent(r sqlite.Row) Event {
	e := Event{
		Sequence:   r.Int64(0),
		ID:         r.Text(1),
		Resource:   ResourceID(r.Text(2)),
		Revision:   r.Int64(3),
		Run:        r.Text(4),
		Type:       r.Text(5),
		Actor:      Actor{ActorClass(r.Text(6)), r.Text(7)},
		Generation: r.Int64(8),
		At:         Millis(r.Int64(10)),
	}
	copy(e.Payload[:], r.Bytes(9))
	return e
}

// writeEvent records what a step did to its resource. The first event of a command is the one that
// findRequest finds.
func (d *draft) writeEvent(tx *sqlite.Tx, st step, revision int64, f *facts) (sequence int64, err error) {
	payload := st.payload
	if payload == nil {
		payload = d.payload
	}
	generation := st.generation
	if generation == 0 {
		generation = f.lease.Generation
	}
	run := st.run
	if run == "" {
		run = st.resource.run()
	}
	id, command := d.eventID, d.digest[:]
	if d.events > 0 {
		id, command = id+"/"+strconv.Itoa(d.events), nil
	}
	d.events++
	_, err = tx.QueryRow(insEvent, func(r sqlite.Row) error {
		sequence = r.Int64(0)
		return nil
	}, id, command, string(st.resource), revision, orNull(run), st.event, string(f.actor.Class), orNull(f.actor.ID),
		orNull(generation), payload.digest[:], int64(f.now))
	return sequence, err
}

// findRequest looks for the command that was accepted under a request's name. Errors: [schema.Conflict] if
// it was another one.
func findRequest(rx *sqlite.Rx, request string, command Digest) (e Event, found bool, err error) {
	same := false
	found, err = rx.QueryRow(selRequest, func(r sqlite.Row) error {
		e = scanEvent(r)
		same = string(r.Bytes(11)) == string(command[:])
		return nil
	}, request)
	if found && !same {
		err = refuse(schema.Conflict, &ConflictError{Identity: "request " + request, Winner: e})
	}
	return e, found, err
}

// orNull returns NULL for the zero value.
func orNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// MaxPage is the most that a list returns at once.
const MaxPage = 1000

// EventFilter narrows a list of events: to one resource, or to one run and all that belongs to it.
type EventFilter struct {
	Resource ResourceID
	Run      string
}

// Events returns at most limit events after a sequence, in order, without their payloads. A program that
// follows the database asks again with the last sequence that it got.
func (q *Queries) Events(ctx context.Context, filter EventFilter, after int64, limit int) (events []Event, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	sql, args := selEvents, []any{after, limit}
	switch {
	case filter.Resource != "" && filter.Run != "":
		return nil, schema.Errorf(schema.Invalid, "events: filter by resource or by run, not by both")
	case filter.Resource != "":
		sql, args = selEventsOfResource, append(args, string(filter.Resource))
	case filter.Run != "":
		sql, args = selEventsOfRun, append(args, filter.Run)
	}
	return viewList(ctx, q, scanEvent, sql, args...)
}

func checkPage(limit int) error {
	if limit < 1 || limit > MaxPage {
		return schema.Errorf(schema.Invalid, "limit %d: it is from 1 to %d", limit, MaxPage)
	}
	return nil
}
