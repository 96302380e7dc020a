// Another program that keeps session state in the same file, by the table definitions alone: every write is
// three statements that commit by themselves (insert the lock row, upsert the value, delete the lock row).
//
//   node peer.mjs write PATH PLUGIN SESSION COUNT   writes 1..COUNT, prints one line for each
//   node peer.mjs hold PATH SESSION                 takes the lock, prints "held" and keeps it
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";

const LEASE = 60_000;
const [mode, path, ...rest] = process.argv.slice(2);
const db = new DatabaseSync(path);
db.exec("PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
db.exec(`CREATE TABLE IF NOT EXISTS state (
  plugin_id TEXT NOT NULL, session_id TEXT NOT NULL, branch_id TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (plugin_id, session_id, branch_id))`);
db.exec(`CREATE TABLE IF NOT EXISTS write_lock (
  session_id TEXT PRIMARY KEY, holder TEXT NOT NULL, acquired_at INTEGER NOT NULL)`);

const insert = db.prepare("INSERT INTO write_lock (session_id, holder, acquired_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING");
const look = db.prepare("SELECT holder, acquired_at FROM write_lock WHERE session_id = ?");
const take = db.prepare("UPDATE write_lock SET holder = ?, acquired_at = ? WHERE session_id = ? AND holder = ? AND acquired_at = ?");
const release = db.prepare("DELETE FROM write_lock WHERE session_id = ? AND holder = ?");
const upsert = db.prepare(`INSERT INTO state VALUES (?, ?, '', ?)
  ON CONFLICT (plugin_id, session_id, branch_id) DO UPDATE SET value = excluded.value`);
const me = `pid:${process.pid}`;

function lives(holder) {
  try {
    process.kill(Number(holder.slice("pid:".length)), 0);
    return true;
  } catch (e) {
    return e.code === "EPERM";
  }
}

function acquire(session) {
  if (insert.run(session, me, Date.now()).changes === 1) return true;
  const row = look.get(session);
  if (row === undefined) return false;
  if (row.holder !== me && lives(row.holder) && Date.now() - row.acquired_at <= LEASE) return false;
  return take.run(me, Date.now(), session, row.holder, row.acquired_at).changes === 1;
}

if (mode === "hold") {
  if (!acquire(rest[0])) process.exit(5);
  console.log("held");
  await sleep(600_000);
}

const [plugin, session, count] = rest;
for (let i = 1; i <= Number(count); i++) {
  while (!acquire(session)) await sleep(1);
  try {
    upsert.run(plugin, session, String(i));
  } finally {
    release.run(session, me);
  }
  console.log(i);
}
