-- Shared lifecycle: what each mutable aggregate has in common. A resource counts its revisions, a lease says
-- who may write it, an event tells what each revision was.

CREATE TABLE resources (
  resource_id    TEXT    NOT NULL PRIMARY KEY,
  resource_type  TEXT    NOT NULL,
  aggregate_key  TEXT    NOT NULL,  -- the id of the row that this resource versions
  revision       INTEGER NOT NULL DEFAULT 0,
  event_revision INTEGER AS (nullif(revision, 0)),
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  ended_at       INTEGER,           -- when it reached its final state; nobody owns it from then on

  UNIQUE (resource_type, aggregate_key),
  FOREIGN KEY (resource_id, event_revision) REFERENCES events (resource_id, revision) DEFERRABLE INITIALLY DEFERRED,

  CONSTRAINT resources_type     CHECK (resource_type IN ('run', 'session', 'decision', 'controller', 'effect',
                                                         'channel', 'notification', 'turn_intent')),
  CONSTRAINT resources_key      CHECK (aggregate_key <> ''),
  CONSTRAINT resources_id       CHECK (resource_id = resource_type || ':' || aggregate_key),
  CONSTRAINT resources_revision CHECK (revision >= 0)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER resources_same_identity
BEFORE UPDATE OF resource_id, resource_type, aggregate_key, created_at ON resources
BEGIN
  SELECT RAISE(ABORT, 'resources: the identity of a resource is immutable');
END;

CREATE TRIGGER resources_next_revision
BEFORE UPDATE OF revision ON resources
WHEN NEW.revision <> OLD.revision + 1
BEGIN
  SELECT RAISE(ABORT, 'resources: a revision grows by one');
END;

-- With the foreign key to events this leaves no gap: the last revision has its event at COMMIT, each earlier
-- one had it before the next began.
CREATE TRIGGER resources_no_gap
BEFORE UPDATE OF revision ON resources
WHEN OLD.revision > 0
 AND NOT EXISTS (SELECT 1
                   FROM events
                  WHERE resource_id = OLD.resource_id
                    AND revision    = OLD.revision)
BEGIN
  SELECT RAISE(ABORT, 'resources: the current revision has no event yet');
END;

CREATE TRIGGER resources_end_once
BEFORE UPDATE OF ended_at ON resources
WHEN OLD.ended_at IS NOT NULL
 AND NEW.ended_at IS NOT OLD.ended_at
BEGIN
  SELECT RAISE(ABORT, 'resources: an ended resource stays ended');
END;

CREATE TRIGGER resources_end_released
BEFORE UPDATE OF ended_at ON resources
WHEN NEW.ended_at IS NOT NULL
 AND EXISTS (SELECT 1
               FROM leases
              WHERE resource_id = NEW.resource_id
                AND owner_id IS NOT NULL)
BEGIN
  SELECT RAISE(ABORT, 'resources: release the lease before the resource ends');
END;

CREATE TRIGGER resources_no_delete
BEFORE DELETE ON resources
BEGIN
  SELECT RAISE(ABORT, 'resources: a resource cannot be deleted');
END;

CREATE TABLE leases (
  resource_id  TEXT    NOT NULL PRIMARY KEY REFERENCES resources (resource_id),
  generation   INTEGER NOT NULL,  -- grows with each new owner, stays on release
  owner_type   TEXT,
  owner_id     TEXT,
  token_digest BLOB,              -- SHA-256 of the claim token, which is stored nowhere
  acquired_at  INTEGER,
  heartbeat_at INTEGER,
  expires_at   INTEGER,

  CONSTRAINT leases_generation CHECK (generation >= 0),
  CONSTRAINT leases_owner_type CHECK (owner_type IN ('session', 'host', 'controller', 'channel', 'system')),
  CONSTRAINT leases_owner_id   CHECK (owner_id <> ''),
  CONSTRAINT leases_token      CHECK (length(token_digest) = 32),
  CONSTRAINT leases_owner      CHECK ((owner_type  IS NULL) + (owner_id     IS NULL) + (token_digest IS NULL)
                                    + (acquired_at IS NULL) + (heartbeat_at IS NULL) + (expires_at   IS NULL)
                                     IN (0, 6)),
  CONSTRAINT leases_owned      CHECK (owner_type IS NULL OR generation > 0),
  CONSTRAINT leases_times      CHECK (acquired_at <= heartbeat_at AND heartbeat_at < expires_at)
) STRICT, WITHOUT ROWID;

CREATE INDEX leases_by_expiry ON leases (expires_at, resource_id)
 WHERE owner_id IS NOT NULL;
CREATE INDEX leases_by_owner  ON leases (owner_type, owner_id, resource_id)
 WHERE owner_id IS NOT NULL;

CREATE TRIGGER leases_generation_grows
BEFORE UPDATE OF generation ON leases
WHEN NEW.generation < OLD.generation
BEGIN
  SELECT RAISE(ABORT, 'leases: a generation never decreases');
END;

CREATE TRIGGER leases_new_owner
BEFORE UPDATE OF owner_type, owner_id, token_digest, generation ON leases
WHEN NEW.owner_id IS NOT NULL
 AND NEW.generation = OLD.generation
 AND (NEW.owner_type, NEW.owner_id, NEW.token_digest) IS NOT (OLD.owner_type, OLD.owner_id, OLD.token_digest)
BEGIN
  SELECT RAISE(ABORT, 'leases: a new owner needs a new generation');
END;

CREATE TRIGGER leases_claim_ended
BEFORE UPDATE OF owner_id, generation ON leases
WHEN NEW.owner_id IS NOT NULL
 AND (SELECT ended_at FROM resources WHERE resource_id = NEW.resource_id) IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'leases: the resource has ended');
END;

CREATE TRIGGER leases_create_ended
BEFORE INSERT ON leases
WHEN NEW.owner_id IS NOT NULL
 AND (SELECT ended_at FROM resources WHERE resource_id = NEW.resource_id) IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'leases: the resource has ended');
END;

CREATE TRIGGER leases_no_delete
BEFORE DELETE ON leases
BEGIN
  SELECT RAISE(ABORT, 'leases: a lease is released, never deleted: its generation must stay');
END;

CREATE TABLE events (
  sequence         INTEGER NOT NULL PRIMARY KEY,  -- one order for the whole database
  event_id         TEXT    NOT NULL UNIQUE,
  command_digest   BLOB,                          -- what was asked, to tell a repeated command from another one
  resource_id      TEXT    NOT NULL REFERENCES resources (resource_id),
  revision         INTEGER NOT NULL,
  run_id           TEXT             REFERENCES runs (run_id) DEFERRABLE INITIALLY DEFERRED,  -- the run it belongs to
  event_type       TEXT    NOT NULL,
  actor_class      TEXT    NOT NULL,
  actor_id         TEXT,                          -- private: status never prints it
  lease_generation INTEGER,
  payload_blob     BLOB    NOT NULL REFERENCES blobs (digest),
  committed_at     INTEGER NOT NULL,

  UNIQUE (resource_id, revision),

  CONSTRAINT events_id         CHECK (event_id <> ''),
  CONSTRAINT events_command    CHECK (length(command_digest) = 32),
  CONSTRAINT events_revision   CHECK (revision > 0),
  CONSTRAINT events_type       CHECK (event_type <> ''),
  CONSTRAINT events_actor      CHECK (actor_class IN ('session', 'host', 'controller', 'channel', 'human', 'policy',
                                                      'control', 'system')),
  CONSTRAINT events_generation CHECK (lease_generation > 0)
) STRICT;

CREATE INDEX events_by_run  ON events (run_id)
 WHERE run_id IS NOT NULL;
CREATE INDEX events_by_type ON events (event_type);
CREATE INDEX events_by_time ON events (committed_at);

CREATE TRIGGER events_current_revision
BEFORE INSERT ON events
WHEN NEW.revision <> (SELECT revision FROM resources WHERE resource_id = NEW.resource_id)
BEGIN
  SELECT RAISE(ABORT, 'events: the revision is not the current one of the resource');
END;

-- INSERT OR REPLACE would delete the old row without a word.
CREATE TRIGGER events_no_replace
BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE sequence = NEW.sequence)
  OR EXISTS (SELECT 1 FROM events WHERE event_id = NEW.event_id)
  OR EXISTS (SELECT 1 FROM events WHERE resource_id = NEW.resource_id AND revision = NEW.revision)
BEGIN
  SELECT RAISE(ABORT, 'events: this event exists, and events are immutable');
END;

CREATE TRIGGER events_no_update
BEFORE UPDATE ON events
BEGIN
  SELECT RAISE(ABORT, 'events: events are immutable');
END;

CREATE TRIGGER events_no_delete
BEFORE DELETE ON events
BEGIN
  SELECT RAISE(ABORT, 'events: events are immutable');
END;
