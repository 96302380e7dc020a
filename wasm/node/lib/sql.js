// The host of pistate_sql_v1: the statements of store.wasm run by node:sqlite on one granted file. Numbers and
// layouts are those of ../../STORE.md.

import { Database } from "./database.js";
import { StateError, fail, sqlNumberOf } from "./errors.js";
import { Text, pack } from "./pack.js";
import * as place from "./place.js";
import { openReader, openWriter } from "./sqlfile.js";
import { MISUSE } from "./sqlite.js";
import { HEADER } from "./statement.js";

const MAX_MESSAGE = 4096;

/** lentSqlite returns what makes the host of an instance that uses node:sqlite on one file. */
export function lentSqlite(file) {
  return (memory) => {
    const host = new SqlHost(file, memory);
    return { name: "pistate_sql_v1", functions: host.imports(), close: () => host.closeAll() };
  };
}

/** SqlHost lends SQLite on one file. memory is the guest's, for as long as one instance lives. */
export class SqlHost {
  #file;
  #memory;
  #databases = new Map();
  #statements = new Map();
  #handle = 0;
  #message = "";

  constructor(file, memory) {
    this.#file = file;
    this.#memory = memory;
  }

  /** imports returns the functions of the import module. */
  imports() {
    const text = (ptr, len) => this.#memory.text(ptr, len);
    // run is written out: it is most of what a module calls.
    const i32 = (f) => (...args) => Number(this.#guard(() => f(...args)));
    const i64 = (f) => (...args) => BigInt(this.#guard(() => f(...args)));
    return {
      open: i32((mode) => this.open(mode)),
      close: i32((db) => this.close(db)),
      prepare: i32((db, ptr, len) => this.prepare(db, text(ptr, len))),
      finalize: i32((stmt) => this.finalize(stmt)),
      run: (stmt, ptr, len, buf, cap) => {
        try {
          return BigInt(this.run(stmt, ptr, len, buf, cap));
        } catch (e) {
          return BigInt(this.#failed(e));
        }
      },
      next: i64((stmt, buf, cap) => this.next(stmt, buf, cap)),
      reset: i32((stmt) => this.reset(stmt)),
      script: i32((db, ptr, len) => this.script(db, text(ptr, len))),
      in_transaction: i32((db) => (this.#database(db).inTransaction() ? 1 : 0)),
      in_place: i32((db) => this.inPlace(db)),
      unresolved: i32((db) => this.#database(db) && 0),
      beside: i64((buf, cap) => this.#memory.give(this.beside(), buf, cap)),
      error: i64((buf, cap) => this.#memory.give(message(this.#message), buf, cap)),
    };
  }

  #guard(answer) {
    try {
      return answer();
    } catch (e) {
      return this.#failed(e);
    }
  }

  /** #failed keeps the text of a failure and returns its number. */
  #failed(e) {
    this.#message = textOf(e);
    if (e instanceof StateError) return sqlNumberOf(e.code);
    if (e instanceof RangeError) return -MISUSE; // a window, a text or values that can't be
    return Number.isInteger(e.errcode) && e.errcode > 0 ? -e.errcode : sqlNumberOf("storage");
  }

  /** open opens the file; mode 0 reads it without a trace, mode 1 writes it. */
  open(mode) {
    if (mode !== 0 && mode !== 1) fail("invalid", `there is no mode ${mode}`);
    const opened = place.storage(this.#file, () => (mode === 0 ? openReader : openWriter)(this.#file));
    this.#databases.set(++this.#handle, new Database(this.#file, opened));
    return this.#handle;
  }

  close(handle) {
    const db = this.#database(handle);
    for (const [id, statement] of this.#statements) {
      if (statement.database === db) this.finalize(id);
    }
    this.#databases.delete(handle);
    db.close();
    return 0;
  }

  /** closeAll closes whatever is open, in the middle of whatever it is. */
  closeAll() {
    for (const handle of [...this.#databases.keys()]) this.#guard(() => this.close(handle));
  }

  prepare(handle, sql) {
    const statement = this.#database(handle).prepare(sql);
    this.#statements.set(++this.#handle, statement);
    return this.#handle;
  }

  finalize(handle) {
    this.#statement(handle).reset();
    this.#statements.delete(handle);
    return 0;
  }

  run(handle, ptr, len, buf, cap) {
    const params = this.#memory.values(ptr, len);
    const { begin, end } = this.#answerRange(buf, cap);
    const statement = this.#statement(handle);
    statement.reset();
    statement.run(params);
    return statement.answer(this.#memory, begin, end);
  }

  next(handle, buf, cap) {
    const { begin, end } = this.#answerRange(buf, cap);
    return this.#statement(handle).answer(this.#memory, begin, end);
  }

  #answerRange(buf, cap) {
    const range = this.#memory.range(buf, cap);
    if (range.end - range.begin < HEADER) throw new RangeError(`an answer needs at least ${HEADER} bytes`);
    return range;
  }

  reset(handle) {
    this.#statement(handle).reset();
    return 0;
  }

  script(handle, sql) {
    this.#database(handle).script(sql);
    return 0;
  }

  inPlace(handle) {
    this.#database(handle).mustBeInPlace();
    return 0;
  }

  beside() {
    return pack([place.size(this.#file) ? 1n : 0n, ...place.beside(this.#file).map((name) => new Text(name))]);
  }

  #database(handle) {
    return this.#databases.get(handle) ?? fail("invalid", `there is no database ${handle}`);
  }

  #statement(handle) {
    return this.#statements.get(handle) ?? fail("invalid", `there is no statement ${handle}`);
  }
}

/** textOf returns the text of a failure, that of an SQLite one as every host says it. */
function textOf(e) {
  if (e instanceof StateError) return e.detail;
  if (e.errstr === undefined) return e.message;
  return e.errstr === e.message ? `sqlite3: ${e.errstr}` : `sqlite3: ${e.errstr}: ${e.message}`;
}

function message(text) {
  return Buffer.from(text).subarray(0, MAX_MESSAGE);
}
