// The only owner of a database file, for a module that brings its own SQLite. Node.js can't take SQLite's locks; a
// connection of node:sqlite can, and holds them here:
//
// The holder first takes the database out of WAL mode, which SQLite refuses as BUSY while anybody else has it open,
// and which plays back what an owner that was killed has left. Then it begins an exclusive transaction and does nothing
// more. In the mode of the rollback journal it knows of no WAL: whatever the module does next to the file, the
// holder has nothing to write and nothing to delete when it ends. The module goes to WAL mode by itself.
//
// POSIX locks belong to a process, and closing any descriptor of a file drops all of them. So a descriptor of the
// database is closed only by an owner that is about to end anyway, with the holder still there to keep the other
// connections of this process away. One that was opened in vain is parked, and used for the next attempt.

import fs from "node:fs";

import { fail } from "./errors.js";
import * as place from "./place.js";
import { BUSY, connect } from "./sqlite.js";

const parked = new Map(); // descriptors by the identity of their file

/** openMain returns a descriptor of a database file. It must be given to park, or to close by the owner. */
export function openMain(file) {
  const { O_RDWR, O_NOFOLLOW = 0 } = fs.constants;
  const identity = place.identity(file);
  const waiting = unpark(identity);
  if (waiting !== undefined) return waiting;
  if (identity === "") fail("not_found", `${file} does not exist`);
  place.mustBeResolved(file);
  place.size(file);
  const fd = fs.openSync(file, O_RDWR | O_NOFOLLOW);
  if (place.identity(file, fd) === identity) return fd;
  park(fd);
  fail("replaced", `${file} was replaced while it was being opened; open it again`);
}

/** park keeps a descriptor that can't be closed now. */
export function park(fd) {
  parked.set(place.identity("", fd), fd);
}

/** unpark returns the descriptor that waits for a file, if there is one. */
export function unpark(identity) {
  const fd = parked.get(identity);
  parked.delete(identity);
  return fd;
}

/** Owner has a database file to itself until it is closed. */
export class Owner {
  #holder;

  /** The file is created with its directory if it is missing. patience is how long others are waited for, in ms. */
  constructor(file, patience) {
    place.create(file);
    this.#holder = connect(file, { readOnly: false });
    try {
      for (const end = Date.now() + patience; ; ) {
        try {
          this.#take();
          return;
        } catch (e) {
          if ((e.errcode & 0xff) !== BUSY) throw place.storage(file, () => fail(codeOf(e), `${file}: ${e.message}`, { cause: e }));
          if (Date.now() >= end) fail("busy", `${file}: another program has the database open; only one can, with store-sqlite.wasm`, { cause: e });
          Atomics.wait(nobody, 0, 0, 5);
        }
      }
    } catch (e) {
      this.#holder.close();
      throw e;
    }
  }

  #take() {
    const db = this.#holder;
    const { journal_mode: mode } = db.prepare("PRAGMA journal_mode = DELETE").get();
    if (mode !== "delete") throw new Error(`SQLite stays in journal mode ${mode}`);
    // An exclusive transaction on an empty file would begin to create the database, with a journal that says so.
    if (db.prepare("PRAGMA page_count").get().page_count === 0) db.exec("PRAGMA user_version = 0");
    db.exec("BEGIN EXCLUSIVE");
  }

  /** close ends the ownership, after the descriptor of the database, if it is given. */
  close(fd) {
    if (!this.#holder) return;
    const holder = this.#holder;
    this.#holder = undefined;
    try {
      if (fd !== undefined) fs.closeSync(fd);
    } finally {
      holder.close();
    }
  }
}

const nobody = new Int32Array(new SharedArrayBuffer(4));

/** codeOf returns the code of an SQLite failure. */
function codeOf({ errcode }) {
  const primary = (errcode ?? 0) & 0xff;
  return primary === 11 || primary === 26 ? "corrupt" : "storage"; // SQLITE_CORRUPT, SQLITE_NOTADB
}
