-- Session state: one JSON value per plugin, session and branch, and who is writing to which session.
-- Other programs create and write the same two tables, so this text is the interface.

CREATE TABLE IF NOT EXISTS state (
  plugin_id  TEXT NOT NULL,
  session_id TEXT NOT NULL,
  branch_id  TEXT NOT NULL,   -- '' is session scope
  value      TEXT NOT NULL,   -- JSON
  PRIMARY KEY (plugin_id, session_id, branch_id)
);

CREATE TABLE IF NOT EXISTS write_lock (
  session_id TEXT PRIMARY KEY,
  holder      TEXT NOT NULL,
  acquired_at INTEGER NOT NULL  -- the moment it was acquired, in ms
);
