-- Channels: where people are reached outside Pi. Cursors, references and payloads here are not secret;
-- credentials stay in files of their own.

CREATE TABLE channels (
  channel_id   TEXT    NOT NULL PRIMARY KEY,
  resource_id  TEXT    AS ('channel:' || channel_id) REFERENCES resources (resource_id),
  adapter_type TEXT    NOT NULL,
  profile      TEXT    NOT NULL,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,

  UNIQUE (adapter_type, profile),

  CONSTRAINT channels_adapter CHECK (adapter_type <> ''),
  CONSTRAINT channels_profile CHECK (profile <> '')
) STRICT;

CREATE TRIGGER channels_same_identity
BEFORE UPDATE OF channel_id, adapter_type, profile, created_at ON channels
BEGIN
  SELECT RAISE(ABORT, 'channels: the identity of a channel is immutable');
END;

CREATE TRIGGER channels_no_delete
BEFORE DELETE ON channels
BEGIN
  SELECT RAISE(ABORT, 'channels: a channel cannot be deleted');
END;

CREATE TABLE channel_cursors (
  channel_id  TEXT    NOT NULL REFERENCES channels (channel_id),
  cursor_name TEXT    NOT NULL,
  position    INTEGER NOT NULL,  -- never goes back
  reference   TEXT,              -- the provider's own word for the position
  updated_at  INTEGER NOT NULL,

  PRIMARY KEY (channel_id, cursor_name),

  CONSTRAINT channel_cursors_name CHECK (cursor_name <> '')
) STRICT, WITHOUT ROWID;

CREATE TRIGGER channel_cursors_forward
BEFORE UPDATE OF position ON channel_cursors
WHEN NEW.position < OLD.position
BEGIN
  SELECT RAISE(ABORT, 'channel_cursors: a cursor never goes back');
END;

CREATE TRIGGER channel_cursors_no_delete
BEFORE DELETE ON channel_cursors
BEGIN
  SELECT RAISE(ABORT, 'channel_cursors: a cursor never goes back');
END;

-- What came in. The provider's own id makes a duplicate harmless.
CREATE TABLE channel_inbox (
  channel_id        TEXT    NOT NULL REFERENCES channels (channel_id),
  external_event_id TEXT    NOT NULL,
  event_type        TEXT    NOT NULL,
  payload_blob      BLOB    NOT NULL REFERENCES blobs (digest),
  outcome           TEXT,               -- null while nobody has looked at it
  detail            TEXT,
  received_at       INTEGER NOT NULL,
  processed_at      INTEGER,

  PRIMARY KEY (channel_id, external_event_id),

  CONSTRAINT channel_inbox_id        CHECK (external_event_id <> ''),
  CONSTRAINT channel_inbox_type      CHECK (event_type <> ''),
  CONSTRAINT channel_inbox_outcome   CHECK (outcome IN ('accepted', 'ignored', 'rejected')),
  CONSTRAINT channel_inbox_processed CHECK ((processed_at IS NOT NULL) = (outcome IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX channel_inbox_by_time ON channel_inbox (channel_id, received_at, external_event_id);
CREATE INDEX channel_inbox_new     ON channel_inbox (channel_id, received_at, external_event_id)
 WHERE processed_at IS NULL;

CREATE TRIGGER channel_inbox_same_event
BEFORE UPDATE OF channel_id, external_event_id, event_type, payload_blob, received_at ON channel_inbox
BEGIN
  SELECT RAISE(ABORT, 'channel_inbox: what came in is immutable');
END;

CREATE TRIGGER channel_inbox_end_once
BEFORE UPDATE ON channel_inbox
WHEN OLD.processed_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'channel_inbox: a processed event is immutable');
END;

-- What goes out: a request delivered to people, or the news that it is settled.
CREATE TABLE channel_messages (
  message_id   TEXT    NOT NULL PRIMARY KEY,
  channel_id   TEXT    NOT NULL REFERENCES channels (channel_id),
  kind         TEXT    NOT NULL,
  message_key  TEXT    NOT NULL,           -- the same key again is the same message
  decision_id  TEXT             REFERENCES human_decisions (decision_id),
  effect_id    TEXT             REFERENCES effects (effect_id) DEFERRABLE INITIALLY DEFERRED,
  payload_blob BLOB    NOT NULL REFERENCES blobs (digest),
  status       TEXT    NOT NULL DEFAULT 'pending',
  error_blob   BLOB             REFERENCES blobs (digest),
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  settled_at   INTEGER,

  UNIQUE (channel_id, kind, message_key),

  CONSTRAINT channel_messages_id      CHECK (message_id <> ''),
  CONSTRAINT channel_messages_kind    CHECK (kind IN ('delivery', 'settlement')),
  CONSTRAINT channel_messages_key     CHECK (message_key <> ''),
  CONSTRAINT channel_messages_status  CHECK (status IN ('pending', 'confirmed', 'failed', 'ambiguous')),
  CONSTRAINT channel_messages_settled CHECK ((settled_at IS NOT NULL) = (status IN ('confirmed', 'failed')))
) STRICT;

CREATE INDEX channel_messages_by_time     ON channel_messages (channel_id, created_at, message_id);
CREATE INDEX channel_messages_open        ON channel_messages (channel_id, created_at, message_id)
 WHERE settled_at IS NULL;
CREATE INDEX channel_messages_by_decision ON channel_messages (decision_id, created_at, message_id)
 WHERE decision_id IS NOT NULL;
CREATE INDEX channel_messages_by_effect   ON channel_messages (effect_id)
 WHERE effect_id IS NOT NULL;

CREATE TRIGGER channel_messages_same_request
BEFORE UPDATE OF message_id, channel_id, kind, message_key, decision_id, effect_id, payload_blob, created_at
    ON channel_messages
BEGIN
  SELECT RAISE(ABORT, 'channel_messages: what a message says is immutable');
END;

CREATE TRIGGER channel_messages_end_once
BEFORE UPDATE ON channel_messages
WHEN OLD.settled_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'channel_messages: a settled message is immutable');
END;

CREATE TABLE channel_message_parts (
  message_id   TEXT    NOT NULL REFERENCES channel_messages (message_id),
  recipient    TEXT    NOT NULL,           -- private, and not secret
  part_number  INTEGER NOT NULL,           -- from 1
  payload_blob BLOB    NOT NULL REFERENCES blobs (digest),  -- as rendered for the recipient
  status       TEXT    NOT NULL DEFAULT 'pending',
  external_ref TEXT,                       -- the provider's name for what was sent; private
  error_blob   BLOB             REFERENCES blobs (digest),
  updated_at   INTEGER NOT NULL,
  settled_at   INTEGER,

  PRIMARY KEY (message_id, recipient, part_number),

  CONSTRAINT channel_message_parts_recipient CHECK (recipient <> ''),
  CONSTRAINT channel_message_parts_number    CHECK (part_number > 0),
  CONSTRAINT channel_message_parts_status    CHECK (status IN ('pending', 'confirmed', 'failed', 'ambiguous')),
  CONSTRAINT channel_message_parts_settled   CHECK ((settled_at IS NOT NULL) = (status IN ('confirmed', 'failed')))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER channel_message_parts_same_part
BEFORE UPDATE OF message_id, recipient, part_number, payload_blob ON channel_message_parts
BEGIN
  SELECT RAISE(ABORT, 'channel_message_parts: what a part says is immutable');
END;

CREATE TRIGGER channel_message_parts_end_once
BEFORE UPDATE ON channel_message_parts
WHEN OLD.settled_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'channel_message_parts: a settled part is immutable');
END;
