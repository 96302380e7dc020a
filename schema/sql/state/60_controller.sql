-- Controllers: wanted state, what keeps it from being deleted, when to look at it again, and the runs it starts.

CREATE TABLE controller_resources (
  controller_uid        TEXT    NOT NULL PRIMARY KEY,  -- never reused: not even for the same name and key
  resource_id           TEXT    AS ('controller:' || controller_uid) REFERENCES resources (resource_id),
  project_id            TEXT    NOT NULL REFERENCES projects (project_id),
  name                  TEXT    NOT NULL,              -- of the controller
  key                   TEXT    NOT NULL,              -- of the thing that it looks after
  spec_blob             BLOB    NOT NULL REFERENCES blobs (digest),
  generation            INTEGER NOT NULL DEFAULT 1,    -- counts the specs
  status_blob           BLOB             REFERENCES blobs (digest),
  observed_generation   INTEGER NOT NULL DEFAULT 0,    -- the spec that the status is about
  created_at            INTEGER NOT NULL,
  updated_at            INTEGER NOT NULL,
  deletion_requested_at INTEGER,
  deleted_at            INTEGER,

  CONSTRAINT controller_resources_name       CHECK (name <> '' AND key <> ''),
  CONSTRAINT controller_resources_generation CHECK (generation > 0),
  CONSTRAINT controller_resources_observed   CHECK (observed_generation BETWEEN 0 AND generation),
  CONSTRAINT controller_resources_status     CHECK (status_blob IS NOT NULL OR observed_generation = 0),
  CONSTRAINT controller_resources_deleted    CHECK (deleted_at IS NULL OR deletion_requested_at IS NOT NULL)
) STRICT;

CREATE UNIQUE INDEX controller_resources_one_live ON controller_resources (project_id, name, key)
 WHERE deleted_at IS NULL;

CREATE INDEX controller_resources_by_name    ON controller_resources (name, key, controller_uid);
CREATE INDEX controller_resources_by_project ON controller_resources (project_id, name, key, controller_uid);

CREATE TRIGGER controller_resources_same_identity
BEFORE UPDATE OF controller_uid, project_id, name, key, created_at ON controller_resources
BEGIN
  SELECT RAISE(ABORT, 'controller_resources: the identity of a controller resource is immutable');
END;

CREATE TRIGGER controller_resources_next_generation
BEFORE UPDATE OF spec_blob, generation ON controller_resources
WHEN NEW.generation <> OLD.generation + (NEW.spec_blob <> OLD.spec_blob)
BEGIN
  SELECT RAISE(ABORT, 'controller_resources: the generation grows by one with each other spec, and only then');
END;

CREATE TRIGGER controller_resources_begin_open
BEFORE INSERT ON controller_resources
WHEN NEW.deleted_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'controller_resources: a new row is open');
END;

CREATE TRIGGER controller_resources_end_once
BEFORE UPDATE ON controller_resources
WHEN OLD.deleted_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'controller_resources: a deleted controller resource is immutable');
END;

CREATE TRIGGER controller_resources_end_finalized
BEFORE UPDATE OF deleted_at ON controller_resources
WHEN NEW.deleted_at IS NOT NULL
 AND EXISTS (SELECT 1 FROM controller_finalizers WHERE controller_uid = NEW.controller_uid)
BEGIN
  SELECT RAISE(ABORT, 'controller_resources: finalizers keep the controller resource');
END;

CREATE TRIGGER controller_resources_end_resource
BEFORE UPDATE OF deleted_at ON controller_resources
WHEN OLD.deleted_at IS NULL
 AND NEW.deleted_at IS NOT (SELECT ended_at FROM resources WHERE resource_id = 'controller:' || NEW.controller_uid)
BEGIN
  SELECT RAISE(ABORT, 'controller_resources: the shared resource must end first, at the same time');
END;

CREATE TRIGGER controller_resources_no_delete
BEFORE DELETE ON controller_resources
BEGIN
  SELECT RAISE(ABORT, 'controller_resources: set deleted_at; the row keeps its uid from being used again');
END;

-- What must be done before the resource may go, in this order. A row goes when it is done.
CREATE TABLE controller_finalizers (
  controller_uid TEXT    NOT NULL REFERENCES controller_resources (controller_uid),
  position       INTEGER NOT NULL,
  finalizer      TEXT    NOT NULL,
  added_at       INTEGER NOT NULL,

  PRIMARY KEY (controller_uid, position),
  UNIQUE (controller_uid, finalizer),

  CONSTRAINT controller_finalizers_position CHECK (position > 0),
  CONSTRAINT controller_finalizers_name     CHECK (finalizer <> '')
) STRICT, WITHOUT ROWID;

CREATE TRIGGER controller_finalizers_live
BEFORE INSERT ON controller_finalizers
WHEN (SELECT deletion_requested_at FROM controller_resources WHERE controller_uid = NEW.controller_uid) IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'controller_finalizers: deletion was requested; no finalizer can be added');
END;

-- One row per controller resource. Settling takes the row out of the line only if its version is still the
-- one that was claimed: what was enqueued meanwhile is not lost.
CREATE TABLE controller_queue (
  controller_uid TEXT    NOT NULL PRIMARY KEY REFERENCES controller_resources (controller_uid),
  project_id     TEXT    NOT NULL REFERENCES projects (project_id),  -- of the resource; hosts claim by project
  available_at   INTEGER,                      -- not to be claimed before; null while there is nothing to do
  queue_version  INTEGER NOT NULL DEFAULT 1,   -- grows each time that it is enqueued
  error_count    INTEGER NOT NULL DEFAULT 0,   -- in a row
  error_code     TEXT,                         -- of the last error
  enqueued_at    INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,

  CONSTRAINT controller_queue_version CHECK (queue_version > 0),
  CONSTRAINT controller_queue_errors  CHECK (error_count >= 0 AND (error_count > 0 OR error_code IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX controller_queue_open ON controller_queue (available_at, controller_uid)
 WHERE available_at IS NOT NULL;
CREATE INDEX controller_queue_due  ON controller_queue (project_id, available_at, controller_uid)
 WHERE available_at IS NOT NULL;

CREATE TRIGGER controller_queue_same_project
BEFORE INSERT ON controller_queue
WHEN NEW.project_id <> (SELECT project_id FROM controller_resources WHERE controller_uid = NEW.controller_uid)
BEGIN
  SELECT RAISE(ABORT, 'controller_queue: the controller resource belongs to another project');
END;

CREATE TRIGGER controller_queue_same_resource
BEFORE UPDATE OF controller_uid, project_id ON controller_queue
BEGIN
  SELECT RAISE(ABORT, 'controller_queue: a queue row stays with its controller resource');
END;

CREATE TRIGGER controller_queue_version_grows
BEFORE UPDATE OF queue_version ON controller_queue
WHEN NEW.queue_version < OLD.queue_version
BEGIN
  SELECT RAISE(ABORT, 'controller_queue: a queue version never decreases');
END;

-- The runs that a controller resource asked for. The run id is reserved before the run exists.
CREATE TABLE controller_workflows (
  controller_uid    TEXT    NOT NULL REFERENCES controller_resources (controller_uid),
  request_key       TEXT    NOT NULL,
  input_fingerprint BLOB    NOT NULL,             -- another input under the same key is a conflict
  input_blob        BLOB    NOT NULL REFERENCES blobs (digest),
  run_id            TEXT    NOT NULL UNIQUE,
  started_run_id    TEXT    AS (CASE WHEN status IN ('running', 'waiting', 'succeeded') THEN run_id END),
  status            TEXT    NOT NULL DEFAULT 'pending',
  output_blob       BLOB             REFERENCES blobs (digest),
  error_blob        BLOB             REFERENCES blobs (digest),
  created_at        INTEGER NOT NULL,
  updated_at        INTEGER NOT NULL,
  ended_at          INTEGER,

  PRIMARY KEY (controller_uid, request_key),
  FOREIGN KEY (started_run_id) REFERENCES runs (run_id) DEFERRABLE INITIALLY DEFERRED,

  CONSTRAINT controller_workflows_key         CHECK (request_key <> ''),
  CONSTRAINT controller_workflows_fingerprint CHECK (length(input_fingerprint) = 32),
  CONSTRAINT controller_workflows_run         CHECK (run_id <> ''),
  CONSTRAINT controller_workflows_status      CHECK (status IN ('pending', 'running', 'waiting',
                                                                'succeeded', 'failed', 'interrupted')),
  CONSTRAINT controller_workflows_ended       CHECK ((ended_at IS NOT NULL)
                                                    = (status IN ('succeeded', 'failed', 'interrupted'))),
  CONSTRAINT controller_workflows_output      CHECK (output_blob IS NULL OR status = 'succeeded'),
  CONSTRAINT controller_workflows_error       CHECK (error_blob  IS NULL OR status IN ('failed', 'interrupted'))
) STRICT;

CREATE INDEX controller_workflows_open ON controller_workflows (controller_uid, created_at, request_key)
 WHERE ended_at IS NULL;

CREATE TRIGGER controller_workflows_same_request
BEFORE UPDATE OF controller_uid, request_key, input_fingerprint, input_blob, run_id, created_at ON controller_workflows
BEGIN
  SELECT RAISE(ABORT, 'controller_workflows: what a controller asked for is immutable');
END;

-- An interrupted one can go on: its run can be resumed.
CREATE TRIGGER controller_workflows_end_once
BEFORE UPDATE OF status ON controller_workflows
WHEN OLD.status IN ('succeeded', 'failed')
 AND NEW.status <> OLD.status
BEGIN
  SELECT RAISE(ABORT, 'controller_workflows: an ended workflow never leaves its status');
END;
