// How the host of pistate_sql_v1 opens the one database that was granted: for writing, or to be looked at without
// a trace.

import fs from "node:fs";

import { fail } from "./errors.js";
import * as place from "./place.js";
import { BUSY, SqliteError, connect, sqlite } from "./sqlite.js";

/** openWriter opens a database for reading and writing, and creates it with its directory if it is missing. */
export function openWriter(file) {
  place.mustBeResolved(file);
  place.create(file);
  const before = place.identity(file);
  const db = connect(file);
  if (before === "" || place.identity(file) !== before) {
    db.close();
    fail("replaced", `${file} was replaced while it was being opened; open it again`);
  }
  return { db, identity: before, close: () => db.close() };
}

/**
 * openReader opens a database that exists and changes nothing, not even files beside it (S4). How depends on what is
 * there:
 *
 * - No WAL and no journal: it is at rest, and read as if it could not change. If somebody begins to write meanwhile,
 *   what was read may be torn: closing says BUSY then, and the module reads it again.
 * - A WAL with its -shm file: other processes have it open, or were killed. It is read together with them.
 * - A WAL alone, which is what an exclusive owner leaves that was killed: it is read without making a -shm file.
 * - A journal: read together with whoever writes it. One that waits to be played back can't be, as that would be a
 *   change; the database is then read as it is.
 */
export function openReader(file) {
  place.mustBeResolved(file);
  const size = place.size(file);
  if (!size) fail("not_found", size === 0 ? `${file} is an empty file` : `${file} does not exist`);
  const identity = place.identity(file);
  if (!sqlite().uris) return openReaderByName(file, identity);
  if (!holds(`${file}-wal`)) {
    if (holds(`${file}-journal`) && !isHot(file)) return reading(uri(file, "mode=ro"), identity);
    return readingAtRest(file, identity);
  }
  if (fs.existsSync(`${file}-shm`)) return reading(uri(file, "mode=ro"), identity);
  const opened = reading(uri(file, "mode=ro&vfs=unix-none"), identity);
  opened.db.exec("PRAGMA locking_mode = EXCLUSIVE");
  return { ...opened, close: () => closeUnlocked(opened.db) };
}

function reading(location, identity) {
  const db = connect(location, { readOnly: true });
  return { db, identity, close: () => db.close() };
}

function readingAtRest(file, identity) {
  const before = place.changes(file);
  const opened = reading(uri(file, "mode=ro&immutable=1"), identity);
  return {
    ...opened,
    close() {
      opened.close();
      if (place.changes(file) !== before) throw new SqliteError(BUSY, "the files have changed while they were read");
    },
  };
}

function holds(file) {
  return (fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0;
}

/** isHot reports whether a journal waits to be played back. */
function isHot(file) {
  const { db, close } = reading(uri(file, "mode=ro"));
  try {
    db.prepare("SELECT count(*) FROM sqlite_schema").get();
    return false;
  } catch (e) {
    return (e.errcode & 0xff) === 8 || (e.errcode & 0xff) === 14; // SQLITE_READONLY, SQLITE_CANTOPEN
  } finally {
    close();
  }
}

/** uri spells a path so that SQLite opens exactly that file, whatever characters are in it (S10). */
function uri(file, query) {
  return `file://${encodeURI(file).replace(/[?#]/g, encodeURIComponent)}?${query}`;
}

const kept = []; // so that the garbage collector does not close them

/**
 * closeUnlocked closes a connection that has read a WAL alone. It can't checkpoint, as it may not write; but a WAL
 * without one complete transaction it would take for done with, and delete.
 */
function closeUnlocked(db) {
  try {
    if (db.prepare("PRAGMA wal_checkpoint(PASSIVE)").get().log > 0) {
      db.close();
      return;
    }
  } catch {
    // It was never read.
  }
  kept.push(db);
}

/**
 * openReaderByName is for a Node.js before 22.15, which can't be told how to open a file. SQLite then makes -wal and
 * -shm files beside a database that was in WAL mode and at rest; closing takes them away again, by SQLite itself, which
 * knows whether somebody else uses them by now.
 */
function openReaderByName(file, identity) {
  const wasAlone = !fs.existsSync(`${file}-wal`) && !fs.existsSync(`${file}-shm`);
  const opened = reading(file, identity);
  return {
    ...opened,
    close() {
      opened.close();
      if (!wasAlone || !fs.existsSync(`${file}-wal`) || holds(`${file}-wal`)) return;
      const db = connect(file);
      try {
        db.prepare("SELECT count(*) FROM sqlite_schema").get();
      } catch {
        // It may be anything; then there is nothing to take away.
      } finally {
        db.close();
      }
    },
  };
}
