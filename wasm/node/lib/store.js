// What a program has: stores, and the states of plugins in them.

import { readFileSync } from "node:fs";

import { StateError, fail } from "./errors.js";
import { noFile, ownedFile } from "./file.js";
import { Guest } from "./guest.js";
import * as place from "./place.js";
import { lentSqlite } from "./sql.js";
import { sqlite } from "./sqlite.js";
import { State } from "./state.js";
import { Trees } from "./tree.js";

const PATIENCE = 5000; // ms that another owner of a file is waited for

const open = new Map(); // the stores of this process by database and path (Y10)


/**
 * openStore is described in index.d.ts. internals are for tests: patience in milliseconds, and the surroundings of
 * wasi.js.
 */
export function openStore(options, { patience = PATIENCE, ...surroundings } = {}) {
  const { wasm, database, path, memory = false, coherent = false, cacheBytes, appVersion } = options ?? {};
  if (database !== "sessions" && database !== "workflow") {
    fail("invalid", `database ${JSON.stringify(database)}: it is either "sessions" or "workflow"`);
  }
  if (memory ? path !== undefined : path === undefined) fail("invalid", "either path or memory: true is needed");
  const { code, lent } = compile(wasm);
  const config = { database, coherent: Boolean(coherent), memory: Boolean(memory) };
  if (cacheBytes !== undefined) config.cache_bytes = cacheBytes;
  if (appVersion !== undefined) config.app_version = appVersion;
  if (memory) {
    if (lent) fail("invalid", "memory: true needs store-sqlite.wasm: store.wasm uses the SQLite of Node.js");
    return new Store(new Shared(new Guest(code, noFile, { ...config, name: "/memory" }, surroundings), config));
  }
  const file = place.resolve(path);
  const key = `${database}\0${file}`;
  if (!open.has(key)) {
    sqlite(); // before anything is touched
    config.name = file;
    const host = lent ? lentSqlite(file) : ownedFile(file, patience, code, config, surroundings);
    const guest = new Guest(code, host, config, surroundings);
    if (lent) place.restrict(file);
    open.set(key, new Shared(guest, config, () => open.delete(key)));
  }
  const shared = open.get(key);
  if (coherent && !shared.config.coherent) {
    fail("invalid", `${file} is open in this process already, without coherent: open it with coherent: true everywhere`);
  }
  return new Store(shared);
}

const modules = new Map(); // by path

/** compile returns a module, and whether the host has to lend it SQLite. A file that has not changed is compiled once. */
function compile(wasm) {
  if (typeof wasm !== "string" && !(wasm instanceof URL)) return judge(wasm);
  const key = String(wasm);
  const bytes = place.storage(`read ${key}`, () => readFileSync(wasm));
  const known = modules.get(key);
  if (known?.bytes.equals(bytes)) return known.judged;
  const judged = judge(bytes);
  modules.set(key, { bytes, judged });
  return judged;
}

function judge(wasm) {
  let code = wasm;
  try {
    if (!(wasm instanceof WebAssembly.Module)) code = new WebAssembly.Module(wasm);
  } catch (cause) {
    fail("invalid", `wasm is no WebAssembly module: ${cause.message}`, { cause });
  }
  const from = new Set(WebAssembly.Module.imports(code).map((i) => i.module));
  if (!from.has("pistate_sql_v1") && !from.has("pistate_file_v1")) fail("invalid", "wasm is neither store.wasm nor store-sqlite.wasm");
  return { code, lent: from.has("pistate_sql_v1") };
}

/** Shared is the one store of a path in this process, for all that have opened it. */
class Shared {
  handles = 0;
  #closed;

  constructor(guest, config, closed = () => {}) {
    this.guest = guest;
    this.trees = new Trees(guest);
    this.config = config;
    this.#closed = closed;
  }

  release() {
    if (--this.handles > 0) return;
    this.#closed();
    this.guest.close();
  }
}

/** Store is described in index.d.ts, and so are its methods. */
export class Store {
  #shared;

  constructor(shared) {
    shared.handles++;
    this.#shared = shared;
  }

  #use() {
    return this.#shared ?? fail("closed", "the store is closed");
  }

  get path() {
    return this.#use().config.memory ? undefined : this.#use().config.name;
  }

  state(pluginId, scope) {
    this.#use();
    return new State(() => this.#use(), pluginId, scope);
  }

  callText(request) {
    if (typeof request !== "string" || !request.isWellFormed()) fail("invalid", "the request is not Unicode text");
    return this.#use().guest.call(request);
  }

  call(request) {
    const answer = JSON.parse(this.callText(JSON.stringify(request) ?? ""));
    if (!answer.ok) throw new StateError(answer.code, answer.detail, answer);
    return answer;
  }

  refresh() {
    this.call({ op: "session.refresh" });
  }

  forceRefresh(session) {
    this.call({ op: "session.force_refresh", args: { session } });
  }

  status(session) {
    return this.call({ op: "session.status", args: session === undefined ? {} : { session } }).result;
  }

  close() {
    const shared = this.#shared;
    this.#shared = undefined;
    shared?.release();
  }

  [Symbol.dispose ?? Symbol.for("nodejs.dispose")]() {
    this.close();
  }
}
