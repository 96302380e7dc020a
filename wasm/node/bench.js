// node bench.js store.wasm [store-sqlite.wasm]: what a store costs here, against node:sqlite alone. All in one run,
// interleaved; medians. Trust the ratios.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { spawnSync } from "node:child_process";

import { openStore } from "./index.js";

const [lent, inside] = process.argv.slice(2);
if (!lent) {
  console.error("usage: node bench.js store.wasm [store-sqlite.wasm]");
  process.exit(2);
}
if (lent === "--cold") {
  openStore({ wasm: inside, database: "sessions", path: process.argv[4] }).close();
  process.stdout.write(String(performance.now()));
  process.exit(0); // V8 may still compile
}

const dir = fs.mkdtempSync(path.join(os.tmpdir(), "pistate-bench-"));
process.on("exit", () => fs.rmSync(dir, { recursive: true, force: true }));
const ROUNDS = 400;
const WARM = 100;
const value = (i) => ({ open: ["write a benchmark"], done: i, note: "x".repeat(100) });
const entries = Array.from({ length: 1000 }, (_, i) => ({ id: `e${i}`, parentId: i ? `e${i - 1}` : null }));
const context = { sessionManager: { getSessionId: () => "s", getLeafId: () => "e999", getEntries: () => entries.slice() } };

/** plain is a store of the same value by node:sqlite alone, with the settings of a writer. */
function plain() {
  const db = new DatabaseSync(path.join(dir, "plain.sqlite"));
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 1000; PRAGMA journal_size_limit = 33554432");
  db.exec("CREATE TABLE state (plugin_id TEXT NOT NULL, session_id TEXT NOT NULL, branch_id TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (plugin_id, session_id, branch_id))");
  db.exec("CREATE TABLE write_lock (session_id TEXT PRIMARY KEY, holder TEXT NOT NULL, acquired_at INTEGER NOT NULL)");
  const [begin, commit, cookie, lock, upsert, select] = [
    "BEGIN IMMEDIATE",
    "COMMIT",
    "PRAGMA schema_version",
    "SELECT holder, acquired_at FROM write_lock WHERE session_id = ?",
    "INSERT INTO state VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
    "SELECT value FROM state WHERE plugin_id = ? AND session_id = ? AND branch_id = ?",
  ].map((sql) => db.prepare(sql));
  return {
    write(v) {
      begin.run();
      upsert.run("p", "s", "", JSON.stringify(v));
      commit.run();
    },
    /** checked looks at what a store looks at before it writes: the files, the schema, the session's lock. */
    checked(v) {
      begin.run();
      for (const suffix of ["", "-wal", "-shm"]) fs.lstatSync(path.join(dir, `plain.sqlite${suffix}`), { bigint: true });
      cookie.get();
      lock.get("s");
      upsert.run("p", "s", "", JSON.stringify(v));
      commit.run();
    },
    read: () => JSON.parse(select.get("p", "s", "").value),
  };
}

function measure(jobs, rounds, inner = 1) {
  const times = jobs.map(() => []);
  for (let i = 0; i < rounds + WARM; i++) {
    jobs.forEach(([, job], j) => {
      const begin = process.hrtime.bigint();
      for (let k = 0; k < inner; k++) job(i * inner + k);
      if (i >= WARM) times[j].push(Number(process.hrtime.bigint() - begin) / 1000 / inner);
    });
  }
  const medians = times.map((t) => t.sort((a, b) => a - b)[t.length >> 1]);
  jobs.forEach(([name], j) => console.log(`${name.padEnd(58)} ${medians[j].toFixed(2).padStart(10)} us ${(medians[j] / medians[0]).toFixed(2).padStart(8)}`));
  console.log();
}

const direct = plain();
const options = { database: "sessions" };
const stores = [["store.wasm", openStore({ ...options, wasm: lent, path: path.join(dir, "lent.sqlite") })]];
const coherent = openStore({ ...options, wasm: lent, path: path.join(dir, "coherent.sqlite"), coherent: true });
if (inside) {
  stores.push(["store-sqlite.wasm, file", openStore({ ...options, wasm: inside, path: path.join(dir, "inside.sqlite") })]);
  stores.push(["store-sqlite.wasm, memory", openStore({ ...options, wasm: inside, memory: true })]);
}
const states = stores.map(([name, store]) => [name, store.state("p", "session"), store.state("p", "branch")]);

console.log(`Node.js ${process.version}, SQLite ${process.versions.sqlite}; the last column is the ratio to the first line of its group\n`);
measure(
  [
    ["durable write: node:sqlite, one transaction", (i) => direct.write(value(i))],
    ["durable write: the same, with the checks of a store", (i) => direct.checked(value(-i))],
    ...states.map(([name, state]) => [`durable write: ${name}`, (i) => state.write(context, value(i))]),
  ],
  ROUNDS,
);
for (const [, , branch] of states) branch.write(context, value(0));
const watched = coherent.state("p", "session");
watched.write(context, value(0));
measure(
  [
    ["read: node:sqlite, SELECT and JSON.parse", () => direct.read()],
    ...states.flatMap(([name, state, branch]) => [
      [`cached read: ${name}, text`, () => state.readText(context)],
      [`cached read: ${name}, parsed`, () => state.read(context)],
      [`cached read: ${name}, branch of 1,000 entries, text`, () => branch.readText(context)],
    ]),
    ["coherent read: store.wasm, text", () => watched.readText(context)],
  ],
  ROUNDS,
  50,
);
for (const [, store] of [...stores, ["", coherent]]) store.close();

const cold = (name, wasm, file) => {
  const times = Array.from({ length: 9 }, () => {
    const { stdout, stderr } = spawnSync(process.execPath, ["--no-warnings", import.meta.filename, "--cold", wasm, path.join(dir, file)], { encoding: "utf8" });
    if (!(Number(stdout) > 0)) throw new Error(stderr);
    return Number(stdout);
  });
  console.log(`${name.padEnd(58)} ${times.sort((a, b) => a - b)[4].toFixed(0).padStart(10)} ms`);
};
console.log("from the start of a process to a database that was opened and closed:");
cold("store.wasm", lent, "lent.sqlite");
if (inside) cold("store-sqlite.wasm, file", inside, "inside.sqlite");
