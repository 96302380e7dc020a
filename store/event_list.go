package store

import (
	"context"
	"slices"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// EventQuery narrows a list of events further.
type EventQuery struct {
	EventFilter
	Type string // "": all
}

const (
	selEventsOfType = `
		SELECT ` + eventColumns + `
		  FROM events
		 WHERE event_type = ?3
		   AND sequence   > ?1
		 ORDER BY sequence
		 LIMIT ?2`

	selTypedEventsOfResource = `
		SELECT ` + eventColumns + `
		  FROM events
		 WHERE resource_id = ?4
		   AND revision    > ifnull((SELECT max(revision) FROM events WHERE resource_id = ?4 AND sequence <= ?1), 0)
		   AND +event_type = ?3
		 ORDER BY revision
		 LIMIT ?2`

	selTypedEventsOfRun = `
		SELECT ` + eventColumns + `
		  FROM events
		 WHERE run_id = ?4
		   AND +event_type = ?3
		   AND sequence > ?1
		 ORDER BY sequence
		 LIMIT ?2`

	selLastEvents = `
		SELECT ` + eventColumns + `
		  FROM events
		 ORDER BY sequence DESC
		 LIMIT ?1`

	selLastEventsOfType = `
		SELECT ` + eventColumns + `
		  FROM events
		 WHERE event_type = ?2
		 ORDER BY sequence DESC
		 LIMIT ?1`

	selLastEventsOfResource = `
		SELECT ` + eventColumns + `
		  FROM events
		 WHERE resource_id = ?3
		   AND (?2 = '' OR +event_type = ?2)
		 ORDER BY revision DESC
		 LIMIT ?1`

	selLastEventsOfRun = `
		SELECT ` + eventColumns + `
		  FROM events
		 WHERE run_id = ?3
		   AND (?2 = '' OR +event_type = ?2)
		 ORDER BY sequence DESC
		 LIMIT ?1`

	selSequenceAt = `
		SELECT sequence - 1
		  FROM events
		 WHERE committed_at >= ?1
		 ORDER BY committed_at, sequence
		 LIMIT 1`

	selLastSequence = `
		SELECT ifnull(max(sequence), 0)
		  FROM events`
)

func (q EventQuery) check(limit int) error {
	if q.Resource != "" && q.Run != "" {
		return schema.Errorf(schema.Invalid, "events: filter by resource or by run, not by both")
	}
	return checkPage(limit)
}

// EventsOf returns at most limit events after a sequence, in order, without their payloads.
func (q *Queries) EventsOf(ctx context.Context, query EventQuery, after int64, limit int) ([]Event, error) {
	if query.Type == "" {
		return q.Events(ctx, query.EventFilter, after, limit)
	}
	if err := query.check(limit); err != nil {
		return nil, err
	}
	switch {
	case query.Resource != "":
		return viewList(ctx, q, scanEvent, selTypedEventsOfResource, after, limit, query.Type, string(query.Resource))
	case query.Run != "":
		return viewList(ctx, q, scanEvent, selTypedEventsOfRun, after, limit, query.Type, query.Run)
	}
	return viewList(ctx, q, scanEvent, selEventsOfType, after, limit, query.Type)
}

// LastEvents returns the last events, at most limit of them, in order, without their payloads.
func (q *Queries) LastEvents(ctx context.Context, query EventQuery, limit int) (events []Event, err error) {
	if err := query.check(limit); err != nil {
		return nil, err
	}
	switch {
	case query.Resource != "":
		events, err = viewList(ctx, q, scanEvent, selLastEventsOfResource, limit, query.Type, string(query.Resource))
	case query.Run != "":
		events, err = viewList(ctx, q, scanEvent, selLastEventsOfRun, limit, query.Type, query.Run)
	case query.Type != "":
		events, err = viewList(ctx, q, scanEvent, selLastEventsOfType, limit, query.Type)
	default:
		events, err = viewList(ctx, q, scanEvent, selLastEvents, limit)
	}
	slices.Reverse(events)
	return events, err
}

// EventsSince returns the sequence after which the events of a time begin: of those that were committed
// then or later, the one that comes first by its time is the next.
func (q *Queries) EventsSince(ctx context.Context, since Millis) (after int64, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		found, err := rx.QueryRow(selSequenceAt, func(r sqlite.Row) error {
			after = r.Int64(0)
			return nil
		}, int64(since))
		if err != nil || found {
			return err
		}
		after, err = lastSequence(rx)
		return err
	})
	return after, err
}

// LastSequence returns the sequence of the last event, 0 if there is none.
func (q *Queries) LastSequence(ctx context.Context) (sequence int64, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) (err error) {
		sequence, err = lastSequence(rx)
		return err
	})
	return sequence, err
}

func lastSequence(rx *sqlite.Rx) (sequence int64, err error) {
	_, err = rx.QueryRow(selLastSequence, func(r sqlite.Row) error {
		sequence = r.Int64(0)
		return nil
	})
	return sequence, err
}
