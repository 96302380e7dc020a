// node:sqlite as far as this Node.js has it, with its differences between versions in one place.

import { createRequire } from "node:module";

import { fail } from "./errors.js";
import { statements, reachesOut } from "./sqltext.js";

let loaded;

/** sqlite returns node:sqlite and what it can do; a "storage" failure without it. */
export function sqlite() {
  loaded ??= load();
  return loaded;
}

function load() {
  let module;
  try {
    module = createRequire(import.meta.url)("node:sqlite");
  } catch (cause) {
    fail("storage", `Node.js ${process.version} has no node:sqlite: use 22.13 or later, or store-sqlite.wasm with memory: true`, { cause });
  }
  const { DatabaseSync, StatementSync } = module;
  const db = new DatabaseSync(":memory:");
  try {
    return {
      DatabaseSync,
      constants: module.constants,
      version: db.prepare("SELECT sqlite_version() AS v").get().v,
      arrays: "setReturnArrays" in StatementSync.prototype, // 22.16
      columns: "columns" in StatementSync.prototype, // 22.16
      authorizer: "setAuthorizer" in DatabaseSync.prototype, // 24.10
      transaction: "isTransaction" in db, // 22.16
      positional: works(() => db.prepare("SELECT ?1").get(1)), // before, ?1 was a name
      uris: works(() => new DatabaseSync("file:x?mode=memory", { readOnly: true }).close()), // 22.15
    };
  } finally {
    db.close();
  }
}

function works(attempt) {
  try {
    attempt();
    return true;
  } catch {
    return false;
  }
}

/**
 * connect opens a connection that reaches its one database and no other (Z2). Where SQLite can't be asked to see
 * to that, whoever uses the connection has to call refuseReachingOut before each text.
 */
export function connect(location, options) {
  const { DatabaseSync, authorizer, constants } = sqlite();
  const db = new DatabaseSync(location, { ...options, enableForeignKeyConstraints: false });
  if (authorizer) {
    const { SQLITE_OK, SQLITE_DENY, SQLITE_ATTACH, SQLITE_DETACH } = constants;
    db.setAuthorizer((action) => (action === SQLITE_ATTACH || action === SQLITE_DETACH ? SQLITE_DENY : SQLITE_OK));
  }
  return db;
}

/** SqliteError is a failure with one of SQLite's result codes. */
export class SqliteError extends Error {
  constructor(errcode, message) {
    super(message);
    this.errcode = errcode;
  }
}

export const BUSY = 5;
export const AUTH = 23;
export const MISUSE = 21;
export const RANGE = 25;

/** refuseReachingOut refuses ATTACH, DETACH and VACUUM INTO by the text of the statements (Z2). */
export function refuseReachingOut(sql, found = statements(sql)) {
  for (const statement of found) {
    const what = reachesOut(statement);
    if (what) throw new SqliteError(AUTH, `not authorized: ${what} reaches beyond the one database`);
  }
}
