-- Workflows: what can run, what runs, who waits to run it, and each try of each node.

CREATE TABLE workflow_definitions (
  definition_digest BLOB    NOT NULL PRIMARY KEY REFERENCES blobs (digest),  -- the definition is that content
  name              TEXT    NOT NULL,
  created_at        INTEGER NOT NULL,

  CONSTRAINT workflow_definitions_name CHECK (name <> '')
) STRICT;

CREATE INDEX workflow_definitions_by_name ON workflow_definitions (name, created_at, definition_digest);

CREATE TRIGGER workflow_definitions_no_replace
BEFORE INSERT ON workflow_definitions
WHEN EXISTS (SELECT 1
               FROM workflow_definitions
              WHERE definition_digest = NEW.definition_digest
                AND name <> NEW.name)
BEGIN
  SELECT RAISE(ABORT, 'workflow_definitions: a definition is immutable');
END;

CREATE TRIGGER workflow_definitions_no_update
BEFORE UPDATE ON workflow_definitions
BEGIN
  SELECT RAISE(ABORT, 'workflow_definitions: a definition is immutable');
END;

CREATE TRIGGER workflow_definitions_no_delete
BEFORE DELETE ON workflow_definitions
BEGIN
  SELECT RAISE(ABORT, 'workflow_definitions: a definition is immutable');
END;

CREATE TABLE runs (
  run_id                TEXT    NOT NULL PRIMARY KEY,
  resource_id           TEXT    AS ('run:' || run_id) REFERENCES resources (resource_id),
  project_id            TEXT    NOT NULL REFERENCES projects (project_id),
  parent_run_id         TEXT             REFERENCES runs (run_id),
  definition_digest     BLOB    NOT NULL REFERENCES workflow_definitions (definition_digest),
  source_type           TEXT    NOT NULL,
  source_ref            TEXT    NOT NULL,            -- name of the builtin, or path of the file
  source_revision       TEXT,
  request_digest        BLOB    NOT NULL,            -- what was asked for under this run id
  title                 TEXT    NOT NULL,
  status                TEXT    NOT NULL DEFAULT 'queued',
  status_detail         TEXT,
  is_paused             INTEGER NOT NULL DEFAULT 0,
  input_blob            BLOB    NOT NULL REFERENCES blobs (digest),
  output_blob           BLOB             REFERENCES blobs (digest),
  error_blob            BLOB             REFERENCES blobs (digest),
  created_at            INTEGER NOT NULL,
  updated_at            INTEGER NOT NULL,
  started_at            INTEGER,
  deadline_at           INTEGER,
  cancel_requested_at   INTEGER,
  deletion_requested_at INTEGER,
  ended_at              INTEGER,

  CONSTRAINT runs_parent  CHECK (parent_run_id <> run_id),
  CONSTRAINT runs_source  CHECK (source_type IN ('builtin', 'file')),
  CONSTRAINT runs_ref     CHECK (source_ref <> ''),
  CONSTRAINT runs_request CHECK (length(request_digest) = 32),
  CONSTRAINT runs_status  CHECK (status IN ('queued', 'running', 'waiting',
                                            'completed', 'failed', 'timed_out', 'cancelled')),
  CONSTRAINT runs_paused  CHECK (is_paused IN (0, 1) AND (is_paused = 0 OR ended_at IS NULL)),
  CONSTRAINT runs_started CHECK (started_at IS NOT NULL OR status NOT IN ('running', 'waiting', 'completed')),
  CONSTRAINT runs_ended   CHECK ((ended_at IS NOT NULL)
                                = (status IN ('completed', 'failed', 'timed_out', 'cancelled'))),
  CONSTRAINT runs_output  CHECK (output_blob IS NULL OR status = 'completed'),
  CONSTRAINT runs_error   CHECK ((error_blob IS NOT NULL) = (status = 'failed') OR status IN ('timed_out', 'cancelled'))
) STRICT;

CREATE INDEX runs_by_time     ON runs (created_at, run_id);
CREATE INDEX runs_by_project  ON runs (project_id, created_at, run_id);
CREATE INDEX runs_by_status   ON runs (status, created_at, run_id);
CREATE INDEX runs_by_parent   ON runs (parent_run_id, created_at, run_id)
 WHERE parent_run_id IS NOT NULL;
CREATE INDEX runs_by_deadline ON runs (deadline_at, run_id)
 WHERE deadline_at IS NOT NULL AND ended_at IS NULL;

CREATE TRIGGER runs_same_request
BEFORE UPDATE OF run_id, project_id, parent_run_id, definition_digest, source_type, source_ref, source_revision,
                 request_digest, input_blob, created_at ON runs
BEGIN
  SELECT RAISE(ABORT, 'runs: what a run was asked to do is immutable');
END;

CREATE TRIGGER runs_begin_open
BEFORE INSERT ON runs
WHEN NEW.ended_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'runs: a new run is open');
END;

CREATE TRIGGER runs_end_once
BEFORE UPDATE OF status, output_blob, error_blob, ended_at ON runs
WHEN OLD.ended_at IS NOT NULL
 AND (NEW.status, NEW.output_blob, NEW.error_blob, NEW.ended_at)
     IS NOT (OLD.status, OLD.output_blob, OLD.error_blob, OLD.ended_at)
BEGIN
  SELECT RAISE(ABORT, 'runs: a terminal run never leaves its status');
END;

CREATE TRIGGER runs_end_resource
BEFORE UPDATE OF ended_at ON runs
WHEN OLD.ended_at IS NULL
 AND NEW.ended_at IS NOT (SELECT ended_at FROM resources WHERE resource_id = 'run:' || NEW.run_id)
BEGIN
  SELECT RAISE(ABORT, 'runs: the resource of the run must end first, at the same time');
END;

CREATE TRIGGER runs_end_attempts
BEFORE UPDATE OF ended_at ON runs
WHEN NEW.ended_at IS NOT NULL
 AND EXISTS (SELECT 1
               FROM node_attempts
              WHERE run_id = NEW.run_id
                AND status IN ('pending', 'running', 'waiting'))
BEGIN
  SELECT RAISE(ABORT, 'runs: end the active attempt before the run');
END;

CREATE TRIGGER runs_no_delete
BEFORE DELETE ON runs
BEGIN
  SELECT RAISE(ABORT, 'runs: a run cannot be deleted; request its deletion');
END;

CREATE TABLE run_bindings (
  run_id        TEXT    NOT NULL PRIMARY KEY REFERENCES runs (run_id),
  pi_session_id TEXT,                -- the Pi session that the run came from
  mode          TEXT    NOT NULL,
  bound_at      INTEGER NOT NULL,    -- with the run, so that a session's runs list in the order of runs

  CONSTRAINT run_bindings_session CHECK (pi_session_id <> ''),
  CONSTRAINT run_bindings_mode    CHECK (mode IN ('interactive', 'headless')),
  CONSTRAINT run_bindings_origin  CHECK (pi_session_id IS NOT NULL OR mode = 'headless')
) STRICT, WITHOUT ROWID;

CREATE INDEX run_bindings_by_session ON run_bindings (pi_session_id, bound_at, run_id)
 WHERE pi_session_id IS NOT NULL;

-- One row per run that waits, or waited, for somebody to run it.
CREATE TABLE run_queue (
  run_id        TEXT    NOT NULL PRIMARY KEY REFERENCES runs (run_id),
  project_id    TEXT    NOT NULL REFERENCES projects (project_id),  -- of the run; hosts claim by project
  pi_session_id TEXT,                          -- the Pi session that is reserved for the run
  affinity      TEXT,                          -- who alone may claim it; anybody if null
  status        TEXT    NOT NULL DEFAULT 'queued',
  available_at  INTEGER NOT NULL,              -- not to be claimed before
  error_count   INTEGER NOT NULL DEFAULT 0,
  error_code    TEXT,                          -- of the last error
  enqueued_at   INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL,
  settled_at    INTEGER,

  CONSTRAINT run_queue_session  CHECK (pi_session_id <> ''),
  CONSTRAINT run_queue_affinity CHECK (affinity <> ''),
  CONSTRAINT run_queue_status   CHECK (status IN ('queued', 'starting', 'running', 'parked',
                                                  'done', 'failed', 'cancelled')),
  CONSTRAINT run_queue_errors   CHECK (error_count >= 0 AND (error_count > 0 OR error_code IS NULL)),
  CONSTRAINT run_queue_failed   CHECK (error_code IS NOT NULL OR status <> 'failed'),
  CONSTRAINT run_queue_settled  CHECK ((settled_at IS NOT NULL) = (status IN ('done', 'failed', 'cancelled')))
) STRICT, WITHOUT ROWID;

-- A parked parent doesn't count: its continuation may take the session.
CREATE UNIQUE INDEX run_queue_one_per_session ON run_queue (pi_session_id)
 WHERE status IN ('queued', 'starting', 'running');

CREATE INDEX run_queue_due       ON run_queue (project_id, available_at, run_id)
 WHERE status = 'queued';
CREATE INDEX run_queue_open      ON run_queue (available_at, run_id)
 WHERE settled_at IS NULL;
CREATE INDEX run_queue_by_status ON run_queue (status, available_at, run_id);

CREATE TRIGGER run_queue_same_project
BEFORE INSERT ON run_queue
WHEN NEW.project_id <> (SELECT project_id FROM runs WHERE run_id = NEW.run_id)
BEGIN
  SELECT RAISE(ABORT, 'run_queue: the run belongs to another project');
END;

CREATE TRIGGER run_queue_same_run
BEFORE UPDATE OF run_id, project_id, enqueued_at ON run_queue
BEGIN
  SELECT RAISE(ABORT, 'run_queue: a queue row stays with its run');
END;

CREATE TRIGGER run_queue_settle_once
BEFORE UPDATE OF status, settled_at ON run_queue
WHEN OLD.settled_at IS NOT NULL
 AND (NEW.status, NEW.settled_at) IS NOT (OLD.status, OLD.settled_at)
BEGIN
  SELECT RAISE(ABORT, 'run_queue: a settled row never leaves its status');
END;

CREATE TRIGGER run_queue_no_delete
BEFORE DELETE ON run_queue
BEGIN
  SELECT RAISE(ABORT, 'run_queue: a queue row is settled, never deleted');
END;

CREATE TABLE node_attempts (
  attempt_id      TEXT    NOT NULL PRIMARY KEY,
  run_id          TEXT    NOT NULL REFERENCES runs (run_id),
  ordinal         INTEGER NOT NULL,             -- its place among the attempts of the run, from 1
  node_id         TEXT    NOT NULL,
  attempt_number  INTEGER NOT NULL,             -- its place among the attempts of the node, from 1
  node_type       TEXT    NOT NULL,
  expected_output TEXT,                         -- of an agent node
  status          TEXT    NOT NULL DEFAULT 'pending',
  input_blob      BLOB             REFERENCES blobs (digest),
  contract_blob   BLOB             REFERENCES blobs (digest),
  prompt_blob     BLOB             REFERENCES blobs (digest),
  output_blob     BLOB             REFERENCES blobs (digest),  -- of an assistant message, its exact text
  result_blob     BLOB             REFERENCES blobs (digest),  -- of an assistant message, its receipt
  error_blob      BLOB             REFERENCES blobs (digest),
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  started_at      INTEGER,
  deadline_at     INTEGER,
  interrupted_at  INTEGER,                      -- its owner was lost; null again once it was resumed
  ended_at        INTEGER,

  UNIQUE (run_id, attempt_id),
  UNIQUE (run_id, ordinal),
  UNIQUE (run_id, node_id, attempt_number),

  CONSTRAINT node_attempts_id       CHECK (attempt_id <> ''),
  CONSTRAINT node_attempts_node     CHECK (node_id <> '' AND node_type <> ''),
  CONSTRAINT node_attempts_expected CHECK (expected_output IN ('submitted', 'assistant-message')),
  CONSTRAINT node_attempts_status   CHECK (status IN ('pending', 'running', 'waiting',
                                                      'completed', 'failed', 'timed_out', 'cancelled')),
  CONSTRAINT node_attempts_started  CHECK (started_at IS NOT NULL OR status NOT IN ('running', 'waiting', 'completed')),
  CONSTRAINT node_attempts_ended    CHECK ((ended_at IS NOT NULL)
                                          = (status IN ('completed', 'failed', 'timed_out', 'cancelled'))),
  CONSTRAINT node_attempts_output   CHECK (output_blob IS NULL OR status = 'completed'),
  CONSTRAINT node_attempts_error    CHECK ((error_blob IS NOT NULL) = (status = 'failed')
                                           OR status IN ('timed_out', 'cancelled')),
  CONSTRAINT node_attempts_receipt  CHECK (NOT (status = 'completed' AND expected_output IS 'assistant-message')
                                           OR (output_blob IS NOT NULL AND result_blob IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX node_attempts_one_active ON node_attempts (run_id)
 WHERE status IN ('pending', 'running', 'waiting');

CREATE INDEX node_attempts_by_deadline ON node_attempts (deadline_at, attempt_id)
 WHERE deadline_at IS NOT NULL AND ended_at IS NULL;

CREATE TRIGGER node_attempts_next
BEFORE INSERT ON node_attempts
WHEN NEW.ordinal <> (SELECT ifnull(max(ordinal), 0) + 1
                       FROM node_attempts
                      WHERE run_id = NEW.run_id)
  OR NEW.attempt_number <> (SELECT ifnull(max(attempt_number), 0) + 1
                              FROM node_attempts
                             WHERE run_id  = NEW.run_id
                               AND node_id = NEW.node_id)
BEGIN
  SELECT RAISE(ABORT, 'node_attempts: attempts are numbered without a gap');
END;

CREATE TRIGGER node_attempts_open_run
BEFORE INSERT ON node_attempts
WHEN (SELECT ended_at FROM runs WHERE run_id = NEW.run_id) IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'node_attempts: the run has ended');
END;

CREATE TRIGGER node_attempts_same_identity
BEFORE UPDATE OF attempt_id, run_id, ordinal, node_id, attempt_number, node_type, created_at ON node_attempts
BEGIN
  SELECT RAISE(ABORT, 'node_attempts: the identity of an attempt is immutable');
END;

CREATE TRIGGER node_attempts_end_once
BEFORE UPDATE ON node_attempts
WHEN OLD.ended_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'node_attempts: an ended attempt is immutable');
END;

CREATE TRIGGER node_attempts_no_delete
BEFORE DELETE ON node_attempts
BEGIN
  SELECT RAISE(ABORT, 'node_attempts: an attempt cannot be deleted');
END;

-- The current value of a type and key is the one with the largest sequence.
CREATE TABLE workflow_updates (
  attempt_id  TEXT    NOT NULL REFERENCES node_attempts (attempt_id),
  sequence    INTEGER NOT NULL,  -- from 1
  update_type TEXT    NOT NULL,
  update_key  TEXT    NOT NULL,
  data_blob   BLOB    NOT NULL REFERENCES blobs (digest),
  created_at  INTEGER NOT NULL,

  PRIMARY KEY (attempt_id, sequence),

  CONSTRAINT workflow_updates_type CHECK (update_type <> '')
) STRICT, WITHOUT ROWID;

CREATE INDEX workflow_updates_by_key ON workflow_updates (attempt_id, update_type, update_key, sequence);

CREATE TRIGGER workflow_updates_next
BEFORE INSERT ON workflow_updates
WHEN NEW.sequence <> (SELECT ifnull(max(sequence), 0) + 1
                        FROM workflow_updates
                       WHERE attempt_id = NEW.attempt_id)
BEGIN
  SELECT RAISE(ABORT, 'workflow_updates: updates are numbered without a gap');
END;

CREATE TRIGGER workflow_updates_no_update
BEFORE UPDATE ON workflow_updates
BEGIN
  SELECT RAISE(ABORT, 'workflow_updates: an accepted update is immutable');
END;
