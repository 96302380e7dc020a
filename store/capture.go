package store

import (
	"context"
	"encoding/json"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// The operations on captures.
const (
	OpSegmentOpen     Op = "segment.open"
	OpSegmentAppend   Op = "segment.append"
	OpSegmentComplete Op = "segment.complete"
	OpSegmentFail     Op = "segment.fail"
)

var captureOperations = []Operation{
	{
		Op: OpSegmentOpen, Does: "begin to capture a Pi session for a run",
		Rights: rights(Right{Own: OwnRun}, SessionActor, HostActor, SystemActor),
	},
	{
		Op: OpSegmentAppend, Does: "add a batch of Pi entries and events to a capture",
		AnyRevision: true, // the sequence numbers of the batch decide
		Rights:      rights(Right{Own: OwnRun}, SessionActor, HostActor, SystemActor),
	},
	{
		Op: OpSegmentComplete, Does: "end a capture that has everything",
		Rights: rights(Right{Own: OwnRun}, SessionActor, HostActor, SystemActor),
	},
	{
		Op: OpSegmentFail, Does: "end a capture that lacks something",
		Rights: rights(Right{Own: OwnRun}, SessionActor, HostActor, SystemActor),
	},
}

// SegmentStatus is where a capture is.
type SegmentStatus string

// The statuses of a segment. The last two are final.
const (
	SegmentRecording SegmentStatus = "recording"
	SegmentComplete  SegmentStatus = "complete"
	SegmentFailed    SegmentStatus = "failed" // what it has is true, but something is missing
)

// Segment is one capture of a Pi session for a run (D6): its entries, which are the lines of the session
// file, and the events that the session has sent, each numbered from 1.
type Segment struct {
	ID            string        `json:"id"` // derived from run and key
	Revision      int64         `json:"revision"`
	Run           string        `json:"run"`
	Ordinal       int           `json:"ordinal"` // its place in the replay of the run, from 1
	Attempt       string        `json:"attempt,omitempty"`
	Session       string        `json:"session"` // the Pi session's id
	Key           string        `json:"key"`
	Status        SegmentStatus `json:"status"`
	Entries       int64         `json:"entries"`
	Events        int64         `json:"events"`
	PromptEntry   string        `json:"prompt_entry,omitempty"`   // of an assistant message: the Pi entries
	ResponseEntry string        `json:"response_entry,omitempty"` // from the prompt to the response
	Error         *Digest       `json:"error,omitempty"`
	StartedAt     Millis        `json:"started_at"`
	UpdatedAt     Millis        `json:"updated_at"`
	EndedAt       Millis        `json:"ended_at,omitempty"`
}

// Resource returns the resource that the segment is.
func (s *Segment) Resource() ResourceID { return NewResourceID(SessionResource, s.ID) }

// segmentID returns the id that run and key determine.
func segmentID(run, key string) string { return derivedID("seg", run, key) }

const segmentColumns = `s.segment_id, r.revision, s.run_id, s.ordinal, s.attempt_id, s.pi_session_id, s.capture_key,
		       s.status, s.entry_count, s.event_count, s.prompt_entry_id, s.response_entry_id, s.error_blob,
		       s.started_at, s.updated_at, s.ended_at`

const (
	selSegment = `
		SELECT ` + segmentColumns + `
		  FROM session_segments AS s
		  JOIN resources AS r ON r.resource_id = s.resource_id
		 WHERE s.segment_id = ?1`

	selNextOrdinal = `
		SELECT ifnull(max(ordinal), 0) + 1
		  FROM session_segments
		 WHERE run_id = ?1`

	selRunOfAttempt = `
		SELECT run_id
		  FROM node_attempts
		 WHERE attempt_id = ?1`

	insSegment = `
		INSERT INTO session_segments (segment_id, run_id, ordinal, attempt_id, pi_session_id, capture_key, started_at,
		                              updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)`

	updSegment = `
		UPDATE session_segments
		   SET status            = ?2,
		       entry_count       = ?3,
		       event_count       = ?4,
		       prompt_entry_id   = ?5,
		       response_entry_id = ?6,
		       error_blob        = ?7,
		       updated_at        = ?8,
		       ended_at          = ?9
		 WHERE segment_id = ?1
		   AND status     = 'recording'`
)

func scanSegment(r sqlite.Row) Segment {
	return Segment{
		ID:            r.Text(0),
		Revision:      r.Int64(1),
		Run:           r.Text(2),
		Ordinal:       r.Int(3),
		Attempt:       r.Text(4),
		Session:       r.Text(5),
		Key:           r.Text(6),
		Status:        SegmentStatus(r.Text(7)),
		Entries:       r.Int64(8),
		Events:        r.Int64(9),
		PromptEntry:   r.Text(10),
		ResponseEntry: r.Text(11),
		Error:         digestOf(r.Bytes(12)),
		StartedAt:     Millis(r.Int64(13)),
		UpdatedAt:     Millis(r.Int64(14)),
		EndedAt:       Millis(r.Int64(15)),
	}
}

func getSegment(rx *sqlite.Rx, id string) (s Segment, found bool, err error) {
	found, err = rx.QueryRow(selSegment, func(r sqlite.Row) error {
		s = scanSegment(r)
		return nil
	}, id)
	return s, found, err
}

// saveSegment stores what has changed of a segment that was recording.
func saveSegment(tx *sqlite.Tx, s Segment) error {
	n, err := tx.Exec(updSegment, s.ID, string(s.Status), s.Entries, s.Events, orNull(s.PromptEntry), orNull(s.ResponseEntry),
		s.Error.bytes(), int64(s.UpdatedAt), orNull(int64(s.EndedAt)))
	if err == nil && n != 1 {
		err = schema.Errorf(schema.Storage, "segment %s: %d rows were recording", s.ID, n)
	}
	return err
}

// mustBeAttemptOf makes sure that a run has an attempt.
func mustBeAttemptOf(rx *sqlite.Rx, run, attempt string) error {
	of := ""
	_, err := rx.QueryRow(selRunOfAttempt, func(r sqlite.Row) error {
		of = r.Text(0)
		return nil
	}, attempt)
	if err == nil && of != run {
		err = notFound("attempt of run "+run, attempt)
	}
	return err
}

// OpenSegment begins a capture. The same run, key, attempt and session again find it, in whatever state it
// is. The permit's claim is on the run.
//
// Errors: [schema.NotFound] for a run or an attempt of it that is not there; [schema.Conflict] with the
// stored [Segment] as the winner if the run's capture of that key is of another attempt or session.
type OpenSegment struct {
	Run     string `json:"run"`
	Attempt string `json:"attempt,omitempty"` // for which it is; "": for the run as a whole
	Session string `json:"session"`           // the Pi session's id
	Key     string `json:"key"`               // names the capture within the run
}

// Op returns "segment.open".
func (OpenSegment) Op() Op { return OpSegmentOpen }

func (c OpenSegment) prepare(d *draft) *plan[*Segment] {
	d.id("run", c.Run)
	if c.Attempt != "" {
		d.id("attempt", c.Attempt)
	}
	d.id("session", c.Session)
	d.id("key", c.Key)
	s := Segment{ID: segmentID(c.Run, c.Key), Revision: 1, Run: c.Run, Attempt: c.Attempt, Session: c.Session, Key: c.Key, Status: SegmentRecording}
	existing := func(rx *sqlite.Rx) (*Segment, bool, error) {
		stored, found, err := getSegment(rx, s.ID)
		if found && (stored.Attempt != c.Attempt || stored.Session != c.Session) {
			err = refuse(schema.Conflict, &ConflictError{"capture " + c.Key + " of run " + c.Run, stored})
		}
		return &stored, found, err
	}
	return &plan[*Segment]{
		subject:  s.Resource(),
		creates:  true,
		payload:  c,
		existing: existing,
		repeated: func(rx *sqlite.Rx, _ Event) (*Segment, error) {
			stored, _, err := existing(rx)
			return stored, err
		},
		owner: func(rx *sqlite.Rx, _ Ownership) (ResourceID, error) {
			run, err := getResource(rx, NewResourceID(RunResource, c.Run))
			if err == nil && run.Revision == 0 {
				err = notFound("run", c.Run)
			}
			return run.ID, err
		},
		decide: func(f *facts) (*change[*Segment], error) {
			if c.Attempt != "" {
				if err := mustBeAttemptOf(f.Rx, c.Run, c.Attempt); err != nil {
					return nil, err
				}
			}
			_, err := f.QueryRow(selNextOrdinal, func(r sqlite.Row) error {
				s.Ordinal = r.Int(0)
				return nil
			}, c.Run)
			if err != nil {
				return nil, err
			}
			s.StartedAt, s.UpdatedAt = f.now, f.now
			return &change[*Segment]{
				result: &s,
				steps:  []step{{resource: s.Resource(), creates: true, event: "segment.opened", run: c.Run}},
				rows: func(tx *sqlite.Tx) error {
					_, err := tx.Exec(insSegment, s.ID, s.Run, s.Ordinal, orNull(s.Attempt), s.Session, s.Key, int64(f.now))
					return err
				},
			}, nil
		},
	}
}

// segmentPlan is the plan of a command on a segment that is recording. decide gets the segment as it is,
// changes it, and returns what else is to be stored.
func segmentPlan(d *draft, id string, payload any, event string, decide func(f *facts, s *Segment) (rows func(*sqlite.Tx) error, err error)) *plan[*Segment] {
	d.id("segment", id)
	resource := NewResourceID(SessionResource, id)
	return &plan[*Segment]{
		subject: resource,
		payload: payload,
		owner: func(rx *sqlite.Rx, _ Ownership) (ResourceID, error) {
			s, _, err := getSegment(rx, id)
			return NewResourceID(RunResource, s.Run), err
		},
		repeated: func(rx *sqlite.Rx, _ Event) (*Segment, error) {
			s, _, err := getSegment(rx, id)
			return &s, err
		},
		decide: func(f *facts) (*change[*Segment], error) {
			s, _, err := getSegment(f.Rx, id)
			switch {
			case err != nil:
				return nil, err
			case s.Status != SegmentRecording:
				return nil, illegal(f, string(s.Status))
			}
			rows, err := decide(f, &s)
			if err != nil {
				return nil, err
			}
			s.Revision, s.UpdatedAt = s.Revision+1, f.now
			ends := s.Status != SegmentRecording
			if ends {
				s.EndedAt = f.now
			}
			return &change[*Segment]{
				result: &s,
				steps:  []step{{resource: resource, ends: ends, event: event, run: s.Run}},
				rows: func(tx *sqlite.Tx) error {
					if rows != nil {
						if err := rows(tx); err != nil {
							return err
						}
					}
					return saveSegment(tx, s)
				},
			}, nil
		},
	}
}

// CompleteSegment ends a capture that has everything that was to be captured. A segment that is to be
// complete must be completed before its run ends, because afterwards nobody owns the run.
//
// Errors: [schema.NotFound] for a prompt or response that is not among its entries; [schema.IllegalTransition]
// for a segment that has ended.
type CompleteSegment struct {
	Segment string `json:"segment"`
	// PromptEntry and ResponseEntry are the ids of the Pi entries between which an assistant message lies (D4).
	PromptEntry   string `json:"prompt_entry,omitempty"`
	ResponseEntry string `json:"response_entry,omitempty"`
}

// Op returns "segment.complete".
func (CompleteSegment) Op() Op { return OpSegmentComplete }

const (
	selFirstEntry = `
		SELECT min(sequence)
		  FROM session_entries
		 WHERE segment_id = ?1
		   AND entry_id   = ?2
		HAVING min(sequence) IS NOT NULL`

	selLastEntry = `
		SELECT max(sequence)
		  FROM session_entries
		 WHERE segment_id = ?1
		   AND entry_id   = ?2
		HAVING max(sequence) IS NOT NULL`
)

func (c CompleteSegment) prepare(d *draft) *plan[*Segment] {
	d.line("prompt_entry", c.PromptEntry, maxIDBytes)
	d.line("response_entry", c.ResponseEntry, maxIDBytes)
	return segmentPlan(d, c.Segment, c, "segment.completed", func(f *facts, s *Segment) (func(*sqlite.Tx) error, error) {
		prompt, err := findEntry(f.Rx, selFirstEntry, c.Segment, c.PromptEntry)
		if err != nil {
			return nil, err
		}
		response, err := findEntry(f.Rx, selLastEntry, c.Segment, c.ResponseEntry)
		if err != nil {
			return nil, err
		}
		if prompt != 0 && response != 0 && response < prompt {
			return nil, schema.Errorf(schema.Invalid, "response_entry %s comes before prompt_entry %s", c.ResponseEntry, c.PromptEntry)
		}
		s.Status, s.PromptEntry, s.ResponseEntry = SegmentComplete, c.PromptEntry, c.ResponseEntry
		return nil, nil
	})
}

// findEntry returns the number of an entry by its Pi id; 0 for the id "".
func findEntry(rx *sqlite.Rx, sql, segment, id string) (sequence int64, err error) {
	if id == "" {
		return 0, nil
	}
	found, err := rx.QueryRow(sql, func(r sqlite.Row) error {
		sequence = r.Int64(0)
		return nil
	}, segment, id)
	if err == nil && !found {
		err = notFound("entry of segment "+segment, id)
	}
	return sequence, err
}

// FailSegment ends a capture that lacks something. Once its run has ended, and nobody owns that any more, the
// system's upkeep can still do so.
//
// Errors: [schema.IllegalTransition] for a segment that has ended.
type FailSegment struct {
	Segment string          `json:"segment"`
	Error   json.RawMessage `json:"error"` // what went wrong
}

// Op returns "segment.fail".
func (FailSegment) Op() Op { return OpSegmentFail }

func (c FailSegment) prepare(d *draft) *plan[*Segment] {
	fault := d.optional("error", c.Error)
	if c.Error == nil {
		d.invalid("a failed capture needs its error")
	}
	asked := struct {
		FailSegment
		Error *Digest `json:"error"`
	}{c, fault}
	p := segmentPlan(d, c.Segment, asked, "segment.failed", func(_ *facts, s *Segment) (func(*sqlite.Tx) error, error) {
		s.Status, s.Error = SegmentFailed, fault
		return nil, nil
	})
	ofRun := p.owner
	p.owner = func(rx *sqlite.Rx, needs Ownership) (ResourceID, error) {
		id, err := ofRun(rx, needs)
		if err != nil || d.permit.Actor.Class != SystemActor {
			return id, err
		}
		run, err := getResource(rx, id)
		if run.EndedAt != 0 {
			return "", err
		}
		return id, err
	}
	return p
}

// Segment returns a capture by its id. Errors: [schema.NotFound].
func (q *Queries) Segment(ctx context.Context, id string) (s Segment, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		found := false
		s, found, err = getSegment(rx, id)
		if err == nil && !found {
			err = notFound("segment", id)
		}
		return err
	})
	return s, err
}
