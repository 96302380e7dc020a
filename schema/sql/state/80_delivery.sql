-- Delivery to Pi: what a Pi session is to show, and turns that it is to take later.

CREATE TABLE notifications (
  notification_id    TEXT    NOT NULL PRIMARY KEY,
  resource_id        TEXT    AS ('notification:' || notification_id) REFERENCES resources (resource_id),
  run_id             TEXT    NOT NULL REFERENCES runs (run_id),
  attempt_id         TEXT,
  notification_index INTEGER NOT NULL,              -- its place among those of the attempt, from 0
  kind               TEXT    NOT NULL,
  pi_session_id      TEXT    NOT NULL,
  payload_blob       BLOB    NOT NULL REFERENCES blobs (digest),
  effect_id          TEXT    NOT NULL UNIQUE REFERENCES effects (effect_id) DEFERRABLE INITIALLY DEFERRED,
  resolution         TEXT,                          -- null while it is to be shown
  entry_id           TEXT,                          -- the Pi entry that shows it
  created_at         INTEGER NOT NULL,
  resolved_at        INTEGER,

  FOREIGN KEY (run_id, attempt_id) REFERENCES node_attempts (run_id, attempt_id),

  CONSTRAINT notifications_index      CHECK (notification_index >= 0),
  CONSTRAINT notifications_kind       CHECK (kind IN ('progress', 'final')),
  CONSTRAINT notifications_session    CHECK (pi_session_id <> ''),
  CONSTRAINT notifications_resolution CHECK (resolution IN ('delivered', 'superseded', 'cancelled', 'failed')),
  CONSTRAINT notifications_resolved   CHECK ((resolved_at IS NOT NULL) = (resolution IS NOT NULL)),
  CONSTRAINT notifications_entry      CHECK (entry_id IS NULL OR resolution IS 'delivered')
) STRICT;

-- Those of the run itself have no attempt; the empty text makes them unique too.
CREATE UNIQUE INDEX notifications_one_per_index ON notifications (run_id, ifnull(attempt_id, ''), notification_index);

CREATE INDEX notifications_pending ON notifications (pi_session_id, created_at, notification_id)
 WHERE resolved_at IS NULL;

CREATE TRIGGER notifications_same_request
BEFORE UPDATE OF notification_id, run_id, attempt_id, notification_index, kind, pi_session_id, payload_blob, effect_id,
                 created_at ON notifications
BEGIN
  SELECT RAISE(ABORT, 'notifications: what a notification says is immutable');
END;

CREATE TRIGGER notifications_begin_open
BEFORE INSERT ON notifications
WHEN NEW.resolved_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'notifications: a new notification is unresolved');
END;

CREATE TRIGGER notifications_end_once
BEFORE UPDATE ON notifications
WHEN OLD.resolved_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'notifications: a resolved notification is immutable');
END;

CREATE TRIGGER notifications_end_resource
BEFORE UPDATE OF resolved_at ON notifications
WHEN OLD.resolved_at IS NULL
 AND NEW.resolved_at IS NOT (SELECT ended_at FROM resources WHERE resource_id = 'notification:' || NEW.notification_id)
BEGIN
  SELECT RAISE(ABORT, 'notifications: the resource of the notification must end first, at the same time');
END;

CREATE TABLE turn_intents (
  turn_intent_id TEXT    NOT NULL PRIMARY KEY,
  resource_id    TEXT    AS ('turn_intent:' || turn_intent_id) REFERENCES resources (resource_id),
  run_id         TEXT             REFERENCES runs (run_id),
  pi_session_id  TEXT    NOT NULL,
  intent_key     TEXT    NOT NULL,               -- the same key again is the same turn
  payload_blob   BLOB    NOT NULL REFERENCES blobs (digest),
  effect_id      TEXT    NOT NULL UNIQUE REFERENCES effects (effect_id) DEFERRABLE INITIALLY DEFERRED,
  eligible_at    INTEGER NOT NULL,               -- not to be taken before
  resolution     TEXT,                           -- null while it is to be taken
  entry_id       TEXT,                           -- the Pi entry that took it
  created_at     INTEGER NOT NULL,
  resolved_at    INTEGER,

  UNIQUE (pi_session_id, intent_key),

  CONSTRAINT turn_intents_session    CHECK (pi_session_id <> ''),
  CONSTRAINT turn_intents_key        CHECK (intent_key <> ''),
  CONSTRAINT turn_intents_resolution CHECK (resolution IN ('delivered', 'superseded', 'cancelled', 'failed')),
  CONSTRAINT turn_intents_resolved   CHECK ((resolved_at IS NOT NULL) = (resolution IS NOT NULL)),
  CONSTRAINT turn_intents_entry      CHECK (entry_id IS NULL OR resolution IS 'delivered')
) STRICT;

CREATE INDEX turn_intents_pending ON turn_intents (pi_session_id, eligible_at, turn_intent_id)
 WHERE resolved_at IS NULL;
CREATE INDEX turn_intents_by_run  ON turn_intents (run_id, created_at, turn_intent_id)
 WHERE run_id IS NOT NULL;

CREATE TRIGGER turn_intents_same_request
BEFORE UPDATE OF turn_intent_id, run_id, pi_session_id, intent_key, payload_blob, effect_id, created_at ON turn_intents
BEGIN
  SELECT RAISE(ABORT, 'turn_intents: what a turn is about is immutable');
END;

CREATE TRIGGER turn_intents_begin_open
BEFORE INSERT ON turn_intents
WHEN NEW.resolved_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'turn_intents: a new turn is unresolved');
END;

CREATE TRIGGER turn_intents_end_once
BEFORE UPDATE ON turn_intents
WHEN OLD.resolved_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'turn_intents: a resolved turn is immutable');
END;

CREATE TRIGGER turn_intents_end_resource
BEFORE UPDATE OF resolved_at ON turn_intents
WHEN OLD.resolved_at IS NULL
 AND NEW.resolved_at IS NOT (SELECT ended_at FROM resources WHERE resource_id = 'turn_intent:' || NEW.turn_intent_id)
BEGIN
  SELECT RAISE(ABORT, 'turn_intents: the resource of the turn must end first, at the same time');
END;
