// node bench.js store.wasm [store-sqlite.wasm]: what a store costs here, against node:sqlite alone. All in one run,
// interleaved; medians. Trust the ratios.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { spawnSync } from "node:child_process";

const [lent, inside] = process.argv.slice(2);
if (!lent) {
  console.error("usage: node bench.js store.wasm [store-sqlite.wasm]");
  process.exit(2);
}
if (lent === "--cold-plain") {
  const db = new DatabaseSync(inside);
  db.prepare("SELECT count(*) AS n FROM state").get();
  db.close();
  finish();
}
const { openStore } = await import("./index.js");
if (lent === "--cold") {
  openStore({ wasm: inside, database: "sessions", path: process.argv[4] }).close();
  finish();
}

/** finish tells how long the process took to get here, and ends it: V8 may still compile. */
function finish() {
  process.stdout.write(String(performance.now()));
  process.exit(0);
}

const dir = fs.mkdtempSync(path.join(os.tmpdir(), "pistate-bench-"));
process.on("exit", () => fs.rmSync(dir, { recursive: true, force: true }));
const ROUNDS = 400;
const WARM = 100; // rounds before those that count: the code that runs is not the one that the engine started with
const LONG = 1000; // rounds until a WAL has its full length, and writing to it no longer makes a file grow
const value = (i) => ({ open: ["write a benchmark"], done: i, note: "x".repeat(100) });
const entries = Array.from({ length: 1000 }, (_, i) => ({ id: `e${i}`, parentId: i ? `e${i - 1}` : null }));
const context = { sessionManager: { getSessionId: () => "s", getLeafId: () => "e999", getEntries: () => entries.slice() } };

/** plain is a store of the same value by node:sqlite alone, with the settings of a writer. */
function plain(name) {
  const file = path.join(dir, name);
  const db = new DatabaseSync(file);
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
      for (const suffix of ["", "-wal", "-shm"]) fs.lstatSync(file + suffix, { bigint: true });
      cookie.get();
      lock.get("s");
      upsert.run("p", "s", "", JSON.stringify(v));
      commit.run();
    },
    read: () => JSON.parse(select.get("p", "s", "").value),
  };
}

function measure(jobs, { warm = WARM, inner = 1 } = {}) {
  const times = jobs.map(() => []);
  for (let i = 0; i < warm + ROUNDS; i++) {
    jobs.forEach(([, job], j) => {
      const begin = process.hrtime.bigint();
      for (let k = 0; k < inner; k++) job(i * inner + k);
      if (i >= warm) times[j].push(Number(process.hrtime.bigint() - begin) / 1000 / inner);
    });
  }
  const medians = times.map((t) => t.sort((a, b) => a - b)[t.length >> 1]);
  jobs.forEach(([name], j) => console.log(`${name.padEnd(58)} ${medians[j].toFixed(2).padStart(10)} us ${(medians[j] / medians[0]).toFixed(2).padStart(8)}`));
  console.log();
}

const direct = plain("plain.sqlite");
const careful = plain("checked.sqlite");
const options = { database: "sessions" };
const stores = [["store.wasm", openStore({ ...options, wasm: lent, path: path.join(dir, "lent.sqlite") })]];
const coherent = openStore({ ...options, wasm: lent, path: path.join(dir, "coherent.sqlite"), coherent: true });
if (inside) {
  stores.push(["store-sqlite.wasm, file", openStore({ ...options, wasm: inside, path: path.join(dir, "inside.sqlite") })]);
  stores.push(["store-sqlite.wasm, memory", openStore({ ...options, wasm: inside, memory: true })]);
}
const states = stores.map(([name, store]) => [name, store.state("p", "session"), store.state("p", "branch")]);

console.log(`Node.js ${process.version}, SQLite ${process.versions.sqlite}; the last column is the ratio to the first line of its group\n`);
const writes = [
  ["durable write: node:sqlite, one transaction", (i) => direct.write(value(i))],
  ["durable write: the same, with the checks of a store", (i) => careful.checked(value(i))],
  ...states.map(([name, state]) => [`durable write: ${name}`, (i) => state.write(context, value(i))]),
];
measure(writes);
console.log("the same, once the WAL has its full length:");
measure(writes, { warm: LONG });
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
  { inner: 50 },
);
for (const [, store] of [...stores, ["", coherent]]) store.close();

/** cold measures processes that do one of several things, which take turns. */
function cold(jobs) {
  const times = jobs.map(() => []);
  for (let i = 0; i < 9; i++) {
    jobs.forEach(([, ...args], j) => {
      const { stdout, stderr } = spawnSync(process.execPath, ["--no-warnings", import.meta.filename, ...args], { encoding: "utf8" });
      if (!(Number(stdout) > 0)) throw new Error(stderr);
      times[j].push(Number(stdout));
    });
  }
  const medians = times.map((t) => t.sort((a, b) => a - b)[t.length >> 1]);
  jobs.forEach(([name], j) => console.log(`${name.padEnd(58)} ${medians[j].toFixed(0).padStart(10)} ms ${(medians[j] / medians[0]).toFixed(2).padStart(8)}`));
}

console.log("from the start of a process to a database that was opened, looked into and closed:");
cold([
  ["node:sqlite", "--cold-plain", path.join(dir, "lent.sqlite")],
  ["store.wasm", "--cold", lent, path.join(dir, "lent.sqlite")],
  ...(inside ? [["store-sqlite.wasm, file", "--cold", inside, path.join(dir, "inside.sqlite")]] : []),
]);
