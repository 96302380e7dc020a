// A connection of node:sqlite as pistate_sql_v1 has it: what it prepares, whether it is in a transaction, and whether
// its files are still in their place.

import { fail } from "./errors.js";
import * as place from "./place.js";
import { MISUSE, SqliteError, refuseReachingOut, sqlite } from "./sqlite.js";
import { statements } from "./sqltext.js";
import { Statement } from "./statement.js";

/** Database is one open connection. */
export class Database {
  #file;
  #close;
  #files; // the database, its -wal and its -shm, with the identity of each, undefined before it was seen
  #within = false; // a transaction, where node:sqlite can't tell
  #castsText;

  constructor(file, { db, identity, close }) {
    this.#file = file;
    this.#files = ["", "-wal", "-shm"].map((suffix) => ({ name: file + suffix, identity: undefined }));
    this.#files[0].identity = identity;
    this.db = db;
    this.changes = 0n;
    this.#close = close;
  }

  close() {
    this.#close();
  }

  prepare(sql) {
    const found = statements(sql);
    if (found.length !== 1) throw new SqliteError(MISUSE, `one statement expected in ${JSON.stringify(sql)}`);
    refuseReachingOut(sql, found);
    return new Statement(this, sql.slice(0, found[0].end), found[0]);
  }

  script(sql) {
    refuseReachingOut(sql);
    this.track(() => this.db.exec(sql), ["SCRIPT"]);
  }

  inTransaction() {
    return this.db.isTransaction ?? this.#within;
  }

  /** castsText reports whether a TEXT has the same bytes as the BLOB that it is cast to: not in UTF-16. */
  castsText() {
    this.#castsText ??= this.db.prepare("PRAGMA encoding").get().encoding === "UTF-8";
    return this.#castsText;
  }

  /** track runs a statement and keeps in mind, for a node:sqlite that can't tell, whether it begins or ends a transaction. */
  track(run, words) {
    if (sqlite().transaction) return run();
    let known = false;
    try {
      const result = run();
      known = !["SAVEPOINT", "RELEASE", "SCRIPT"].includes(words[0]);
      if (words[0] === "BEGIN") this.#within = true;
      if (["COMMIT", "END"].includes(words[0])) this.#within = false;
      if (words[0] === "ROLLBACK" && !words.includes("TO")) this.#within = false;
      return result;
    } finally {
      if (!known) this.#within = this.#probe(); // an error can end a transaction
    }
  }

  #probe() {
    try {
      this.db.exec("BEGIN");
    } catch {
      return true;
    }
    this.db.exec("ROLLBACK");
    return false;
  }

  /** mustBeInPlace refuses to go on if another file, or none, is at the path of a file that is in use (S9). */
  mustBeInPlace() {
    for (const file of this.#files) {
      const now = place.storage(file.name, () => place.identity(file.name));
      if (file.identity === undefined && now !== "") file.identity = now;
      if (file.identity !== undefined && file.identity !== now) {
        fail("replaced", `${this.#file}: this or its -wal or -shm is no longer the file that was opened (moved, removed or replaced); nothing was done; close it and open it again`);
      }
    }
  }

  /** ownWal forgets the -wal and -shm that were in use: SQLite itself may replace them when the journal mode changes. */
  ownWal() {
    const [, wal, shm] = this.#files;
    wal.identity = undefined;
    shm.identity = undefined;
  }
}
