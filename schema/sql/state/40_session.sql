-- Session capture: what Pi sessions said while they worked for a run, entry by entry.

CREATE TABLE session_segments (
  segment_id        TEXT    NOT NULL PRIMARY KEY,
  resource_id       TEXT    AS ('session:' || segment_id) REFERENCES resources (resource_id),
  run_id            TEXT    NOT NULL REFERENCES runs (run_id),
  ordinal           INTEGER NOT NULL,           -- its place in the replay of the run, from 1
  attempt_id        TEXT,
  pi_session_id     TEXT    NOT NULL,
  capture_key       TEXT    NOT NULL,           -- the same key again is the same capture
  status            TEXT    NOT NULL DEFAULT 'recording',
  entry_count       INTEGER NOT NULL DEFAULT 0,
  event_count       INTEGER NOT NULL DEFAULT 0,
  prompt_entry_id   TEXT,                       -- of an assistant message: the Pi entries from prompt
  response_entry_id TEXT,                       -- to response
  error_blob        BLOB             REFERENCES blobs (digest),
  started_at        INTEGER NOT NULL,
  updated_at        INTEGER NOT NULL,
  ended_at          INTEGER,

  UNIQUE (run_id, ordinal),
  UNIQUE (run_id, capture_key),
  FOREIGN KEY (run_id, attempt_id) REFERENCES node_attempts (run_id, attempt_id),

  CONSTRAINT session_segments_session CHECK (pi_session_id <> ''),
  CONSTRAINT session_segments_key     CHECK (capture_key <> ''),
  CONSTRAINT session_segments_status  CHECK (status IN ('recording', 'complete', 'failed')),
  CONSTRAINT session_segments_counts  CHECK (entry_count >= 0 AND event_count >= 0),
  CONSTRAINT session_segments_ended   CHECK ((ended_at IS NOT NULL) = (status IN ('complete', 'failed'))),
  CONSTRAINT session_segments_error   CHECK ((error_blob IS NOT NULL) = (status = 'failed'))
) STRICT;

CREATE INDEX session_segments_by_attempt ON session_segments (attempt_id)
 WHERE attempt_id IS NOT NULL;
CREATE INDEX session_segments_by_session ON session_segments (pi_session_id, started_at, segment_id);

CREATE TRIGGER session_segments_next
BEFORE INSERT ON session_segments
WHEN NEW.ordinal <> (SELECT ifnull(max(ordinal), 0) + 1
                       FROM session_segments
                      WHERE run_id = NEW.run_id)
BEGIN
  SELECT RAISE(ABORT, 'session_segments: segments are numbered without a gap');
END;

CREATE TRIGGER session_segments_same_identity
BEFORE UPDATE OF segment_id, run_id, ordinal, attempt_id, pi_session_id, capture_key, started_at ON session_segments
BEGIN
  SELECT RAISE(ABORT, 'session_segments: the identity of a segment is immutable');
END;

CREATE TRIGGER session_segments_begin_open
BEFORE INSERT ON session_segments
WHEN NEW.ended_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'session_segments: a new segment is open');
END;

CREATE TRIGGER session_segments_end_once
BEFORE UPDATE ON session_segments
WHEN OLD.ended_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'session_segments: an ended segment is immutable');
END;

CREATE TRIGGER session_segments_end_resource
BEFORE UPDATE OF ended_at ON session_segments
WHEN OLD.ended_at IS NULL
 AND NEW.ended_at IS NOT (SELECT ended_at FROM resources WHERE resource_id = 'session:' || NEW.segment_id)
BEGIN
  SELECT RAISE(ABORT, 'session_segments: the resource of the segment must end first, at the same time');
END;

CREATE TABLE session_entries (
  segment_id  TEXT    NOT NULL REFERENCES session_segments (segment_id),
  sequence    INTEGER NOT NULL,             -- from 1
  entry_id    TEXT,                         -- as Pi wrote it, like the two below
  parent_id   TEXT,
  entry_type  TEXT,
  entry_blob  BLOB    NOT NULL REFERENCES blobs (digest),  -- the verbatim line
  captured_at INTEGER NOT NULL,

  PRIMARY KEY (segment_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER session_entries_next
BEFORE INSERT ON session_entries
WHEN NEW.sequence <> (SELECT ifnull(max(sequence), 0) + 1
                        FROM session_entries
                       WHERE segment_id = NEW.segment_id)
BEGIN
  SELECT RAISE(ABORT, 'session_entries: entries are numbered without a gap');
END;

CREATE TRIGGER session_entries_open_segment
BEFORE INSERT ON session_entries
WHEN (SELECT ended_at FROM session_segments WHERE segment_id = NEW.segment_id) IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'session_entries: the segment has ended');
END;

CREATE TRIGGER session_entries_no_update
BEFORE UPDATE ON session_entries
BEGIN
  SELECT RAISE(ABORT, 'session_entries: a captured entry is immutable');
END;

CREATE TABLE session_events (
  segment_id   TEXT    NOT NULL REFERENCES session_segments (segment_id),
  sequence     INTEGER NOT NULL,            -- from 1
  event_type   TEXT    NOT NULL,
  node_id      TEXT,
  attempt_id   TEXT             REFERENCES node_attempts (attempt_id),
  turn         INTEGER,
  message_id   TEXT,
  tool_call_id TEXT,
  payload_blob BLOB    NOT NULL REFERENCES blobs (digest),
  occurred_at  INTEGER NOT NULL,

  PRIMARY KEY (segment_id, sequence),

  CONSTRAINT session_events_type CHECK (event_type <> ''),
  CONSTRAINT session_events_turn CHECK (turn >= 0)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER session_events_next
BEFORE INSERT ON session_events
WHEN NEW.sequence <> (SELECT ifnull(max(sequence), 0) + 1
                        FROM session_events
                       WHERE segment_id = NEW.segment_id)
BEGIN
  SELECT RAISE(ABORT, 'session_events: events are numbered without a gap');
END;

CREATE TRIGGER session_events_open_segment
BEFORE INSERT ON session_events
WHEN (SELECT ended_at FROM session_segments WHERE segment_id = NEW.segment_id) IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'session_events: the segment has ended');
END;

CREATE TRIGGER session_events_no_update
BEFORE UPDATE ON session_events
BEGIN
  SELECT RAISE(ABORT, 'session_events: a captured event is immutable');
END;
