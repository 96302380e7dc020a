package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// CapturedEntry is an entry of a capture, as it was stored.
type CapturedEntry struct {
	Segment    string `json:"segment"`
	Ordinal    int    `json:"ordinal"`  // of the segment within its run
	Sequence   int64  `json:"sequence"` // within the segment, from 1
	ID         string `json:"id,omitempty"`
	Parent     string `json:"parent,omitempty"`
	Type       string `json:"type,omitempty"`
	Digest     Digest `json:"digest"` // of the line
	Length     int64  `json:"length"` // of the line, in bytes
	CapturedAt Millis `json:"captured_at"`
	Line       string `json:"line,omitempty"` // verbatim; "" unless it was asked for
}

// CapturedEvent is an event of a capture, as it was stored. Its payload is null unless it was asked for.
type CapturedEvent struct {
	Segment  string `json:"segment"`
	Sequence int64  `json:"sequence"` // within the segment, from 1
	Digest   Digest `json:"digest"`   // of the payload
	Length   int64  `json:"length"`   // of the payload, in bytes
	PiEvent
}

// SegmentFilter chooses the captures of a run, of an attempt, or of a Pi session: exactly one of them.
type SegmentFilter struct {
	Run     string `json:"run,omitempty"`
	Attempt string `json:"attempt,omitempty"`
	Session string `json:"session,omitempty"`
}

const (
	selSegmentsOfRun = `
		SELECT ` + segmentColumns + `
		  FROM session_segments AS s
		  JOIN resources AS r ON r.resource_id = s.resource_id
		 WHERE s.run_id  = ?1
		   AND s.ordinal > ifnull((SELECT ordinal FROM session_segments WHERE segment_id = ?2), 0)
		 ORDER BY s.ordinal
		 LIMIT ?3`

	selSegmentsOfAttempt = `
		SELECT ` + segmentColumns + `
		  FROM session_segments AS s
		  JOIN resources AS r ON r.resource_id = s.resource_id
		 WHERE s.attempt_id = ?1
		   AND s.ordinal > ifnull((SELECT ordinal FROM session_segments WHERE segment_id = ?2), 0)
		 ORDER BY s.ordinal
		 LIMIT ?3`

	selSegmentsOfSession = `
		SELECT ` + segmentColumns + `
		  FROM session_segments AS s
		  JOIN resources AS r ON r.resource_id = s.resource_id
		 WHERE s.pi_session_id = ?1
		   AND (s.started_at, s.segment_id) > (ifnull((SELECT started_at FROM session_segments WHERE segment_id = ?2), 0), ?2)
		 ORDER BY s.started_at, s.segment_id
		 LIMIT ?3`

	// A payload is only read if it was asked for.
	selSegmentEntries = `
		SELECT s.segment_id, s.ordinal, n.sequence, n.entry_id, n.parent_id, n.entry_type, n.entry_blob, b.length,
		       n.captured_at, CASE WHEN ?4 THEN b.bytes END
		  FROM session_segments AS s
		  JOIN session_entries AS n ON n.segment_id = s.segment_id
		  JOIN blobs AS b ON b.digest = n.entry_blob
		 WHERE s.segment_id = ?1
		   AND n.sequence   > ?2
		 ORDER BY n.sequence
		 LIMIT ?3`

	selRunEntries = `
		SELECT s.segment_id, s.ordinal, n.sequence, n.entry_id, n.parent_id, n.entry_type, n.entry_blob, b.length,
		       n.captured_at, CASE WHEN ?4 THEN b.bytes END
		  FROM session_segments AS s
		  JOIN session_entries AS n ON n.segment_id = s.segment_id
		  JOIN blobs AS b ON b.digest = n.entry_blob
		 WHERE s.run_id   = ?1
		   AND s.ordinal >= ?5
		   AND n.sequence > iif(s.ordinal = ?5, ?2, 0)
		 ORDER BY s.ordinal, n.sequence
		 LIMIT ?3`

	selSegmentEvents = `
		SELECT v.segment_id, v.sequence, v.event_type, v.node_id, v.attempt_id, v.turn, v.message_id, v.tool_call_id,
		       v.occurred_at, v.payload_blob, b.length, CASE WHEN ?4 THEN b.bytes END
		  FROM session_events AS v
		  JOIN blobs AS b ON b.digest = v.payload_blob
		 WHERE v.segment_id = ?1
		   AND v.sequence   > ?2
		 ORDER BY v.sequence
		 LIMIT ?3`
)

func scanCapturedEntry(r sqlite.Row) CapturedEntry {
	return CapturedEntry{
		Segment:    r.Text(0),
		Ordinal:    r.Int(1),
		Sequence:   r.Int64(2),
		ID:         r.Text(3),
		Parent:     r.Text(4),
		Type:       r.Text(5),
		Digest:     *digestOf(r.Bytes(6)),
		Length:     r.Int64(7),
		CapturedAt: Millis(r.Int64(8)),
		Line:       r.Text(9),
	}
}

func scanCapturedEvent(r sqlite.Row) CapturedEvent {
	e := CapturedEvent{
		Segment:  r.Text(0),
		Sequence: r.Int64(1),
		PiEvent: PiEvent{
			Type:     r.Text(2),
			Node:     r.Text(3),
			Attempt:  r.Text(4),
			Message:  r.Text(6),
			ToolCall: r.Text(7),
			At:       Millis(r.Int64(8)),
			Payload:  json.RawMessage(r.Bytes(11)),
		},
		Digest: *digestOf(r.Bytes(9)),
		Length: r.Int64(10),
	}
	if !r.IsNull(5) {
		turn := r.Int64(5)
		e.Turn = &turn
	}
	return e
}

// Segments returns at most limit captures after one, by its id ("": from the first): those of a run or an
// attempt in the order of their replay, those of a Pi session in the order in which they began.
func (q *Queries) Segments(ctx context.Context, filter SegmentFilter, after string, limit int) (segments []Segment, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	sql, of := "", ""
	switch filter {
	case SegmentFilter{Run: filter.Run}:
		sql, of = selSegmentsOfRun, filter.Run
	case SegmentFilter{Attempt: filter.Attempt}:
		sql, of = selSegmentsOfAttempt, filter.Attempt
	case SegmentFilter{Session: filter.Session}:
		sql, of = selSegmentsOfSession, filter.Session
	}
	if of == "" {
		return nil, schema.Errorf(schema.Invalid, "segments: one of run, attempt and session is expected")
	}
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		segments = nil
		if after != "" {
			if _, found, err := getSegment(rx, after); err != nil || !found {
				return orNotFound(err, "segment", after)
			}
		}
		return rx.Query(sql, func(r sqlite.Row) error {
			segments = append(segments, scanSegment(r))
			return nil
		}, of, after, limit)
	})
	return segments, err
}

func orNotFound(err error, what, id string) error {
	if err != nil {
		return err
	}
	return notFound(what, id)
}

// maxPageBytes bounds the content in a page, which is never less than one row.
const maxPageBytes = 4 << 20

// pageBytes ends a page before it holds too much content.
type pageBytes int64

var errPageFull = errors.New("the page is full")

// add counts what a row holds.
func (p *pageBytes) add(content []byte, digest Digest) error {
	if *p > 0 && int64(*p)+int64(len(content)) > maxPageBytes {
		return errPageFull
	}
	if content != nil && sha256.Sum256(content) != digest {
		return corruptBlob(digest)
	}
	*p += pageBytes(len(content))
	return nil
}

func endPage(err error) error {
	if errors.Is(err, errPageFull) {
		return nil
	}
	return err
}

// SegmentEntries returns at most limit entries of a capture after a number, in order, with their lines if
// asked for. A page with lines may be shorter than limit, so that it does not get too large; an empty one is
// the end. Errors: [schema.NotFound] for the segment; [schema.Corrupt] for a line that is not the one that was
// captured.
func (q *Queries) SegmentEntries(ctx context.Context, segment string, after int64, limit int, lines bool) (entries []CapturedEntry, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		if _, found, err := getSegment(rx, segment); err != nil || !found {
			return orNotFound(err, "segment", segment)
		}
		entries, err = listEntries(rx, selSegmentEntries, segment, after, limit, lines)
		return err
	})
	return entries, err
}

// ReplayCursor is a place in the replay of a run. The zero value is its beginning.
type ReplayCursor struct {
	Ordinal  int   `json:"ordinal,omitempty"`  // of the segment
	Sequence int64 `json:"sequence,omitempty"` // of the entry
}

// Cursor returns the place behind the entry.
func (e *CapturedEntry) Cursor() ReplayCursor { return ReplayCursor{e.Ordinal, e.Sequence} }

// Replay returns at most limit entries of all captures of a run, in order, as [Queries.SegmentEntries] does.
func (q *Queries) Replay(ctx context.Context, run string, after ReplayCursor, limit int, lines bool) (entries []CapturedEntry, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		if found, err := getResource(rx, NewResourceID(RunResource, run)); err != nil || found.Revision == 0 {
			return orNotFound(err, "run", run)
		}
		entries, err = listEntries(rx, selRunEntries, run, after.Sequence, limit, lines, after.Ordinal)
		return err
	})
	return entries, err
}

func listEntries(rx *sqlite.Rx, sql string, args ...any) (entries []CapturedEntry, err error) {
	var size pageBytes
	err = rx.Query(sql, func(r sqlite.Row) error {
		e := scanCapturedEntry(r)
		if err := size.add(r.Bytes(9), e.Digest); err != nil {
			return err
		}
		entries = append(entries, e)
		return nil
	}, args...)
	return entries, endPage(err)
}

// SegmentEvents returns at most limit events of a capture after a number, in order, with their payloads if
// asked for, as [Queries.SegmentEntries] does.
func (q *Queries) SegmentEvents(ctx context.Context, segment string, after int64, limit int, payloads bool) (events []CapturedEvent, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		events = nil
		if _, found, err := getSegment(rx, segment); err != nil || !found {
			return orNotFound(err, "segment", segment)
		}
		var size pageBytes
		err := rx.Query(selSegmentEvents, func(r sqlite.Row) error {
			e := scanCapturedEvent(r)
			if err := size.add(e.Payload, e.Digest); err != nil {
				return err
			}
			events = append(events, e)
			return nil
		}, segment, after, limit, payloads)
		return endPage(err)
	})
	return events, err
}
