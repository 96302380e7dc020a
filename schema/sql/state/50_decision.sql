-- Human decisions: what was asked, each answer, the one outcome, and the run that goes on from there.

CREATE TABLE human_decisions (
  decision_id       TEXT    NOT NULL PRIMARY KEY,
  resource_id       TEXT    AS ('decision:' || decision_id) REFERENCES resources (resource_id),
  run_id            TEXT    NOT NULL REFERENCES runs (run_id),
  attempt_id        TEXT,
  decision_key      TEXT    NOT NULL,               -- names the question within its run
  request_revision  INTEGER NOT NULL DEFAULT 1,     -- grows when the question is asked again
  request_digest    BLOB    NOT NULL,               -- an answer must name it
  audience          TEXT    NOT NULL,
  title             TEXT    NOT NULL,
  subject_blob      BLOB    NOT NULL REFERENCES blobs (digest),
  presentation_blob BLOB    NOT NULL REFERENCES blobs (digest),
  choices_blob      BLOB    NOT NULL REFERENCES blobs (digest),
  is_protected      INTEGER NOT NULL DEFAULT 1,     -- no model's answer can resolve it
  deadline_at       INTEGER,
  default_choice    TEXT,                           -- taken at the deadline
  default_blob      BLOB             REFERENCES blobs (digest),
  created_at        INTEGER NOT NULL,
  status            TEXT    NOT NULL DEFAULT 'pending',
  resolved_at       INTEGER,

  UNIQUE (run_id, decision_key, request_revision),
  UNIQUE (decision_id, status),                     -- for the resolution to agree with
  FOREIGN KEY (run_id, attempt_id) REFERENCES node_attempts (run_id, attempt_id),

  CONSTRAINT human_decisions_key       CHECK (decision_key <> ''),
  CONSTRAINT human_decisions_revision  CHECK (request_revision > 0),
  CONSTRAINT human_decisions_digest    CHECK (length(request_digest) = 32),
  CONSTRAINT human_decisions_audience  CHECK (audience <> ''),
  CONSTRAINT human_decisions_protected CHECK (is_protected IN (0, 1)),
  CONSTRAINT human_decisions_default   CHECK ((default_choice IS NULL) = (default_blob IS NULL)),
  CONSTRAINT human_decisions_status    CHECK (status IN ('pending', 'accepted', 'cancelled')),
  CONSTRAINT human_decisions_resolved  CHECK ((resolved_at IS NOT NULL) = (status IN ('accepted', 'cancelled')))
) STRICT;

CREATE INDEX human_decisions_by_time     ON human_decisions (created_at, decision_id);
CREATE INDEX human_decisions_by_attempt  ON human_decisions (attempt_id)
 WHERE attempt_id IS NOT NULL;
CREATE INDEX human_decisions_pending     ON human_decisions (created_at, decision_id)
 WHERE status = 'pending';
CREATE INDEX human_decisions_by_audience ON human_decisions (audience, created_at, decision_id)
 WHERE status = 'pending';
CREATE INDEX human_decisions_by_deadline ON human_decisions (deadline_at, decision_id)
 WHERE status = 'pending' AND deadline_at IS NOT NULL;

CREATE TRIGGER human_decisions_same_request
BEFORE UPDATE OF decision_id, run_id, attempt_id, decision_key, request_revision, request_digest, audience, title,
                 subject_blob, presentation_blob, choices_blob, is_protected, deadline_at, default_choice,
                 default_blob, created_at ON human_decisions
BEGIN
  SELECT RAISE(ABORT, 'human_decisions: a request is immutable');
END;

-- INSERT OR REPLACE would delete the old row without a word.
CREATE TRIGGER human_decisions_no_replace
BEFORE INSERT ON human_decisions
WHEN EXISTS (SELECT 1 FROM human_decisions WHERE decision_id = NEW.decision_id)
  OR EXISTS (SELECT 1
               FROM human_decisions
              WHERE run_id = NEW.run_id
                AND decision_key = NEW.decision_key
                AND request_revision = NEW.request_revision)
BEGIN
  SELECT RAISE(ABORT, 'human_decisions: this request exists, and requests are immutable');
END;

CREATE TRIGGER human_decisions_begin_open
BEFORE INSERT ON human_decisions
WHEN NEW.resolved_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'human_decisions: a new decision is pending');
END;

CREATE TRIGGER human_decisions_as_resolved
BEFORE UPDATE OF status, resolved_at ON human_decisions
WHEN (NEW.status, NEW.resolved_at) IS NOT (SELECT outcome, resolved_at
                                             FROM human_decision_resolutions
                                            WHERE decision_id = NEW.decision_id)
BEGIN
  SELECT RAISE(ABORT, 'human_decisions: the status follows the resolution and nothing else');
END;

CREATE TRIGGER human_decisions_end_resource
BEFORE UPDATE OF resolved_at ON human_decisions
WHEN OLD.resolved_at IS NULL
 AND NEW.resolved_at IS NOT (SELECT ended_at FROM resources WHERE resource_id = 'decision:' || NEW.decision_id)
BEGIN
  SELECT RAISE(ABORT, 'human_decisions: the resource of the decision must end first, at the same time');
END;

CREATE TRIGGER human_decisions_no_delete
BEFORE DELETE ON human_decisions
BEGIN
  SELECT RAISE(ABORT, 'human_decisions: a request is immutable');
END;

-- Every answer that anybody gave, whatever became of it.
CREATE TABLE human_decision_submissions (
  decision_id       TEXT    NOT NULL REFERENCES human_decisions (decision_id),
  sequence          INTEGER NOT NULL,               -- from 1
  submission_id     TEXT    NOT NULL UNIQUE,        -- the same id again is the same answer
  request_digest    BLOB    NOT NULL,               -- of the request that the answer was given to
  choice            TEXT,                           -- null if it could not be read
  response_blob     BLOB    NOT NULL REFERENCES blobs (digest),
  actor_class       TEXT    NOT NULL,
  actor_id          TEXT,                           -- private
  channel_id        TEXT,
  external_event_id TEXT,
  outcome           TEXT    NOT NULL,
  detail            TEXT,
  submitted_at      INTEGER NOT NULL,

  PRIMARY KEY (decision_id, sequence),
  FOREIGN KEY (channel_id, external_event_id) REFERENCES channel_inbox (channel_id, external_event_id),

  CONSTRAINT human_decision_submissions_id      CHECK (submission_id <> ''),
  CONSTRAINT human_decision_submissions_digest  CHECK (length(request_digest) = 32),
  CONSTRAINT human_decision_submissions_actor   CHECK (actor_class IN ('session', 'host', 'controller', 'channel',
                                                                      'human', 'policy', 'control', 'system')),
  CONSTRAINT human_decision_submissions_channel CHECK ((channel_id IS NULL) = (external_event_id IS NULL)),
  CONSTRAINT human_decision_submissions_outcome CHECK (outcome IN ('won', 'adopted', 'already_resolved',
                                                                  'stale', 'rejected')),
  CONSTRAINT human_decision_submissions_won     CHECK (choice IS NOT NULL OR outcome NOT IN ('won', 'adopted'))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX human_decision_submissions_one_won  ON human_decision_submissions (decision_id)
 WHERE outcome = 'won';
CREATE        INDEX human_decision_submissions_by_inbox ON human_decision_submissions (channel_id, external_event_id)
 WHERE channel_id IS NOT NULL;

CREATE TRIGGER human_decision_submissions_next
BEFORE INSERT ON human_decision_submissions
WHEN NEW.sequence <> (SELECT ifnull(max(sequence), 0) + 1
                        FROM human_decision_submissions
                       WHERE decision_id = NEW.decision_id)
BEGIN
  SELECT RAISE(ABORT, 'human_decision_submissions: submissions are numbered without a gap');
END;

CREATE TRIGGER human_decision_submissions_won_current
BEFORE INSERT ON human_decision_submissions
WHEN NEW.outcome = 'won'
 AND NEW.request_digest <> (SELECT request_digest FROM human_decisions WHERE decision_id = NEW.decision_id)
BEGIN
  SELECT RAISE(ABORT, 'human_decision_submissions: an answer to another request cannot win');
END;

CREATE TRIGGER human_decision_submissions_won_protected
BEFORE INSERT ON human_decision_submissions
WHEN NEW.outcome = 'won'
 AND NEW.actor_class NOT IN ('human', 'channel')
 AND (SELECT is_protected FROM human_decisions WHERE decision_id = NEW.decision_id)
BEGIN
  SELECT RAISE(ABORT, 'human_decision_submissions: only a person can resolve a protected decision');
END;

CREATE TRIGGER human_decision_submissions_no_replace
BEFORE INSERT ON human_decision_submissions
WHEN EXISTS (SELECT 1 FROM human_decision_submissions WHERE submission_id = NEW.submission_id)
  OR EXISTS (SELECT 1
               FROM human_decision_submissions
              WHERE decision_id = NEW.decision_id
                AND outcome     = 'won'
                AND NEW.outcome = 'won')
BEGIN
  SELECT RAISE(ABORT, 'human_decision_submissions: this answer exists, or another one has won');
END;

CREATE TRIGGER human_decision_submissions_no_update
BEFORE UPDATE ON human_decision_submissions
BEGIN
  SELECT RAISE(ABORT, 'human_decision_submissions: an answer is immutable');
END;

CREATE TRIGGER human_decision_submissions_no_delete
BEFORE DELETE ON human_decision_submissions
BEGIN
  SELECT RAISE(ABORT, 'human_decision_submissions: an answer is immutable');
END;

-- The primary key is where all outcomes race: the first row wins, for good.
CREATE TABLE human_decision_resolutions (
  decision_id         TEXT    NOT NULL PRIMARY KEY,
  outcome             TEXT    NOT NULL,
  reason              TEXT    NOT NULL,
  submission_sequence INTEGER,                      -- the human answer that won
  choice              TEXT,
  response_blob       BLOB             REFERENCES blobs (digest),
  actor_class         TEXT    NOT NULL,
  actor_id            TEXT,                         -- private
  resolved_at         INTEGER NOT NULL,

  FOREIGN KEY (decision_id, submission_sequence) REFERENCES human_decision_submissions (decision_id, sequence),
  FOREIGN KEY (decision_id, outcome)             REFERENCES human_decisions (decision_id, status)
                                                 DEFERRABLE INITIALLY DEFERRED,

  CONSTRAINT human_decision_resolutions_outcome  CHECK (outcome IN ('accepted', 'cancelled')),
  CONSTRAINT human_decision_resolutions_reason   CHECK (reason IN ('human', 'timeout_policy',
                                                                  'explicit_cancel', 'expired_no_default')),
  CONSTRAINT human_decision_resolutions_kind     CHECK ((outcome = 'accepted')
                                                       = (reason IN ('human', 'timeout_policy'))),
  CONSTRAINT human_decision_resolutions_response CHECK ((response_blob IS NOT NULL) = (outcome = 'accepted')
                                                    AND (choice        IS NOT NULL) = (outcome = 'accepted')),
  CONSTRAINT human_decision_resolutions_winner   CHECK ((submission_sequence IS NOT NULL) = (reason = 'human')),
  CONSTRAINT human_decision_resolutions_actor    CHECK (actor_class IN ('session', 'host', 'controller', 'channel',
                                                                       'human', 'policy', 'control', 'system'))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER human_decision_resolutions_human
BEFORE INSERT ON human_decision_resolutions
WHEN NEW.reason = 'human'
 AND ('won', NEW.choice, NEW.response_blob) IS NOT (SELECT outcome, choice, response_blob
                                                      FROM human_decision_submissions
                                                     WHERE decision_id = NEW.decision_id
                                                       AND sequence    = NEW.submission_sequence)
BEGIN
  SELECT RAISE(ABORT, 'human_decision_resolutions: a human resolution is the submission that won');
END;

CREATE TRIGGER human_decision_resolutions_timeout
BEFORE INSERT ON human_decision_resolutions
WHEN NEW.reason = 'timeout_policy'
 AND NOT EXISTS (SELECT 1
                   FROM human_decisions
                  WHERE decision_id    = NEW.decision_id
                    AND default_choice = NEW.choice
                    AND default_blob   = NEW.response_blob
                    AND deadline_at   <= NEW.resolved_at)
BEGIN
  SELECT RAISE(ABORT, 'human_decision_resolutions: timeout policy is the default, after the deadline');
END;

CREATE TRIGGER human_decision_resolutions_expiry
BEFORE INSERT ON human_decision_resolutions
WHEN NEW.reason = 'expired_no_default'
 AND NOT EXISTS (SELECT 1
                   FROM human_decisions
                  WHERE decision_id  = NEW.decision_id
                    AND default_blob IS NULL
                    AND deadline_at <= NEW.resolved_at)
BEGIN
  SELECT RAISE(ABORT, 'human_decision_resolutions: only a decision without default expires, after its deadline');
END;

-- INSERT OR REPLACE would delete the winner without a word.
CREATE TRIGGER human_decision_resolutions_no_replace
BEFORE INSERT ON human_decision_resolutions
WHEN EXISTS (SELECT 1 FROM human_decision_resolutions WHERE decision_id = NEW.decision_id)
BEGIN
  SELECT RAISE(ABORT, 'human_decision_resolutions: the decision has its winner');
END;

CREATE TRIGGER human_decision_resolutions_no_update
BEFORE UPDATE ON human_decision_resolutions
BEGIN
  SELECT RAISE(ABORT, 'human_decision_resolutions: a resolution is immutable');
END;

CREATE TRIGGER human_decision_resolutions_no_delete
BEFORE DELETE ON human_decision_resolutions
BEGIN
  SELECT RAISE(ABORT, 'human_decision_resolutions: a resolution is immutable');
END;

-- A run that goes on from a trigger. The child's id is derived from the trigger and so known before the child.
CREATE TABLE continuations (
  continuation_id TEXT    NOT NULL PRIMARY KEY,
  trigger_type    TEXT    NOT NULL,
  trigger_key     TEXT    NOT NULL,
  decision_id     TEXT    AS (CASE trigger_type WHEN 'decision' THEN trigger_key END),
  parent_run_id   TEXT             REFERENCES runs (run_id),
  child_run_id    TEXT    NOT NULL UNIQUE,
  admitted_run_id TEXT    AS (CASE status WHEN 'admitted' THEN child_run_id END),
  request_digest  BLOB    NOT NULL,
  input_blob      BLOB             REFERENCES blobs (digest),
  status          TEXT    NOT NULL DEFAULT 'pending',
  error_blob      BLOB             REFERENCES blobs (digest),  -- of the last try that failed
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  settled_at      INTEGER,

  UNIQUE (trigger_type, trigger_key),
  FOREIGN KEY (decision_id)     REFERENCES human_decisions (decision_id),
  FOREIGN KEY (admitted_run_id) REFERENCES runs (run_id) DEFERRABLE INITIALLY DEFERRED,

  CONSTRAINT continuations_type    CHECK (trigger_type IN ('decision', 'checkpoint', 'controller', 'manual')),
  CONSTRAINT continuations_key     CHECK (trigger_key <> ''),
  CONSTRAINT continuations_child   CHECK (child_run_id <> '' AND child_run_id IS NOT parent_run_id),
  CONSTRAINT continuations_request CHECK (length(request_digest) = 32),
  CONSTRAINT continuations_status  CHECK (status IN ('pending', 'admitted', 'cancelled')),
  CONSTRAINT continuations_settled CHECK ((settled_at IS NOT NULL) = (status IN ('admitted', 'cancelled')))
) STRICT;

CREATE INDEX continuations_by_parent ON continuations (parent_run_id, created_at, continuation_id)
 WHERE parent_run_id IS NOT NULL;
CREATE INDEX continuations_pending   ON continuations (created_at, continuation_id)
 WHERE status = 'pending';

CREATE TRIGGER continuations_same_trigger
BEFORE UPDATE OF continuation_id, trigger_type, trigger_key, parent_run_id, child_run_id, request_digest, input_blob,
                 created_at ON continuations
BEGIN
  SELECT RAISE(ABORT, 'continuations: what a continuation starts is immutable');
END;

CREATE TRIGGER continuations_settle_once
BEFORE UPDATE OF status ON continuations
WHEN OLD.settled_at IS NOT NULL
 AND NEW.status <> OLD.status
BEGIN
  SELECT RAISE(ABORT, 'continuations: a settled continuation never leaves its status');
END;
