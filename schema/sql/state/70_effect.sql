-- Effects: the outbox. A command records what must follow from it; workers do it later, and each try is kept.

CREATE TABLE effects (
  sequence           INTEGER NOT NULL PRIMARY KEY,  -- the order in which they were recorded
  effect_id          TEXT    NOT NULL UNIQUE,       -- derived from source, type and key
  resource_id        TEXT    AS ('effect:' || effect_id) REFERENCES resources (resource_id),
  source_resource_id TEXT    NOT NULL,
  source_revision    INTEGER NOT NULL,              -- the command that it follows from
  effect_type        TEXT    NOT NULL,
  idempotency_key    TEXT    NOT NULL,
  payload_blob       BLOB    NOT NULL REFERENCES blobs (digest),  -- another payload under the same key is a conflict
  is_external        INTEGER NOT NULL,              -- it leaves this database: never repeated on a guess
  scope_type         TEXT    NOT NULL,              -- whose owner applies it
  scope_id           TEXT    NOT NULL,
  run_id             TEXT    AS (CASE scope_type  WHEN 'run'              THEN scope_id END),
  controller_uid     TEXT    AS (CASE scope_type  WHEN 'controller'       THEN scope_id END),
  channel_id         TEXT    AS (CASE scope_type  WHEN 'channel'          THEN scope_id END),
  queued_run_id      TEXT    AS (CASE effect_type WHEN 'run.settle_queue' THEN substr(source_resource_id, 5) END),
  status             TEXT    NOT NULL DEFAULT 'pending',
  available_at       INTEGER,                       -- while pending: not to be tried before
  attempt_count      INTEGER NOT NULL DEFAULT 0,
  result_blob        BLOB             REFERENCES blobs (digest),
  error_blob         BLOB             REFERENCES blobs (digest),  -- of the last try that failed
  external_ref       TEXT,                          -- the provider's name for what was done; not secret
  created_at         INTEGER NOT NULL,
  updated_at         INTEGER NOT NULL,
  settled_at         INTEGER,

  UNIQUE (source_resource_id, effect_type, idempotency_key),
  FOREIGN KEY (source_resource_id, source_revision) REFERENCES events (resource_id, revision),
  FOREIGN KEY (run_id)                              REFERENCES runs (run_id),
  FOREIGN KEY (controller_uid)                      REFERENCES controller_resources (controller_uid),
  FOREIGN KEY (channel_id)                          REFERENCES channels (channel_id),
  FOREIGN KEY (queued_run_id)                       REFERENCES run_queue (run_id),

  CONSTRAINT effects_type      CHECK (effect_type <> ''),
  CONSTRAINT effects_key       CHECK (idempotency_key <> ''),
  CONSTRAINT effects_external  CHECK (is_external IN (0, 1)),
  CONSTRAINT effects_scope     CHECK (scope_type IN ('run', 'controller', 'channel', 'system')),
  CONSTRAINT effects_scope_id  CHECK (scope_id <> ''),
  CONSTRAINT effects_queue     CHECK (effect_type <> 'run.settle_queue' OR source_resource_id GLOB 'run:?*'),
  CONSTRAINT effects_status    CHECK (status IN ('pending', 'applying', 'ambiguous',
                                                 'applied', 'rejected', 'cancelled')),
  CONSTRAINT effects_available CHECK ((available_at IS NOT NULL) = (status = 'pending')),
  CONSTRAINT effects_attempts  CHECK (attempt_count >= 0
                                 AND (attempt_count > 0 OR status NOT IN ('applying', 'ambiguous'))),
  CONSTRAINT effects_settled   CHECK ((settled_at IS NOT NULL) = (status IN ('applied', 'rejected', 'cancelled'))),
  CONSTRAINT effects_result    CHECK (result_blob IS NULL OR status = 'applied'),
  CONSTRAINT effects_error     CHECK ((status <> 'rejected' OR error_blob IS NOT NULL)
                                 AND (status <> 'applied'  OR error_blob IS NULL))
) STRICT;

CREATE INDEX effects_by_scope  ON effects (scope_type, scope_id);
CREATE INDEX effects_due       ON effects (scope_type, scope_id, available_at)
 WHERE status = 'pending';
CREATE INDEX effects_applying  ON effects (scope_type, scope_id)
 WHERE status = 'applying';
CREATE INDEX effects_by_status ON effects (status);
CREATE INDEX effects_unsettled ON effects (settled_at)
 WHERE settled_at IS NULL;

CREATE TRIGGER effects_same_request
BEFORE UPDATE OF sequence, effect_id, source_resource_id, source_revision, effect_type, idempotency_key, payload_blob,
                 is_external, scope_type, scope_id, created_at ON effects
BEGIN
  SELECT RAISE(ABORT, 'effects: what an effect is to do is immutable');
END;

CREATE TRIGGER effects_begin_open
BEFORE INSERT ON effects
WHEN NEW.settled_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'effects: a new effect is unsettled');
END;

CREATE TRIGGER effects_attempts_grow
BEFORE UPDATE OF attempt_count ON effects
WHEN NEW.attempt_count < OLD.attempt_count
BEGIN
  SELECT RAISE(ABORT, 'effects: an attempt count never decreases');
END;

CREATE TRIGGER effects_ambiguous_observed
BEFORE UPDATE OF status ON effects
WHEN OLD.status = 'ambiguous'
 AND NEW.status = 'applying'
BEGIN
  SELECT RAISE(ABORT, 'effects: observe what became of an ambiguous effect before it is tried again');
END;

CREATE TRIGGER effects_end_once
BEFORE UPDATE ON effects
WHEN OLD.settled_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'effects: a settled effect is immutable');
END;

CREATE TRIGGER effects_end_resource
BEFORE UPDATE OF settled_at ON effects
WHEN OLD.settled_at IS NULL
 AND NEW.settled_at IS NOT (SELECT ended_at FROM resources WHERE resource_id = 'effect:' || NEW.effect_id)
BEGIN
  SELECT RAISE(ABORT, 'effects: the resource of the effect must end first, at the same time');
END;

CREATE TRIGGER effects_end_attempts
BEFORE UPDATE OF settled_at ON effects
WHEN NEW.settled_at IS NOT NULL
 AND EXISTS (SELECT 1
               FROM effect_attempts
              WHERE effect_id = NEW.effect_id
                AND ended_at IS NULL)
BEGIN
  SELECT RAISE(ABORT, 'effects: end the open attempt before the effect');
END;

CREATE TRIGGER effects_no_delete
BEFORE DELETE ON effects
BEGIN
  SELECT RAISE(ABORT, 'effects: an effect cannot be deleted');
END;

CREATE TABLE effect_attempts (
  effect_id        TEXT    NOT NULL REFERENCES effects (effect_id),
  attempt_number   INTEGER NOT NULL,  -- from 1
  owner_type       TEXT    NOT NULL,
  owner_id         TEXT    NOT NULL,  -- private
  lease_generation INTEGER NOT NULL,  -- of the lease on the effect
  outcome          TEXT,
  error_blob       BLOB             REFERENCES blobs (digest),
  started_at       INTEGER NOT NULL,
  ended_at         INTEGER,

  PRIMARY KEY (effect_id, attempt_number),

  CONSTRAINT effect_attempts_owner_type CHECK (owner_type IN ('session', 'host', 'controller', 'channel', 'system')),
  CONSTRAINT effect_attempts_owner_id   CHECK (owner_id <> ''),
  CONSTRAINT effect_attempts_generation CHECK (lease_generation > 0),
  CONSTRAINT effect_attempts_outcome    CHECK (outcome IN ('applied', 'rejected', 'ambiguous', 'interrupted')),
  CONSTRAINT effect_attempts_ended      CHECK ((ended_at IS NOT NULL) = (outcome IS NOT NULL)),
  CONSTRAINT effect_attempts_error      CHECK (error_blob IS NULL OR (outcome IS NOT NULL AND outcome <> 'applied'))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX effect_attempts_one_open ON effect_attempts (effect_id)
 WHERE ended_at IS NULL;

CREATE TRIGGER effect_attempts_next
BEFORE INSERT ON effect_attempts
WHEN NEW.attempt_number <> (SELECT ifnull(max(attempt_number), 0) + 1
                              FROM effect_attempts
                             WHERE effect_id = NEW.effect_id)
BEGIN
  SELECT RAISE(ABORT, 'effect_attempts: attempts are numbered without a gap');
END;

CREATE TRIGGER effect_attempts_open_effect
BEFORE INSERT ON effect_attempts
WHEN (SELECT settled_at FROM effects WHERE effect_id = NEW.effect_id) IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'effect_attempts: the effect is settled');
END;

CREATE TRIGGER effect_attempts_same_try
BEFORE UPDATE OF effect_id, attempt_number, owner_type, owner_id, lease_generation, started_at ON effect_attempts
BEGIN
  SELECT RAISE(ABORT, 'effect_attempts: who tried what is immutable');
END;

CREATE TRIGGER effect_attempts_end_once
BEFORE UPDATE ON effect_attempts
WHEN OLD.ended_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'effect_attempts: an ended attempt is immutable');
END;

CREATE TRIGGER effect_attempts_no_delete
BEFORE DELETE ON effect_attempts
BEGIN
  SELECT RAISE(ABORT, 'effect_attempts: an attempt cannot be deleted');
END;
