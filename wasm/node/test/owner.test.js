// store-sqlite.wasm as the only owner of a file (Z2): others get BUSY and never damage, and the other way round.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";

import { Owner } from "../lib/owner.js";
import { openStore } from "../lib/store.js";
import { dirOf, files } from "./tools/files.js";
import { insideModule, lentModule, pihost, skip } from "./tools/modules.js";
import { trapping } from "./tools/trap.js";
import { context } from "./tools/sessions.js";

const ownerProgram = new URL("tools/owner.js", import.meta.url).pathname;
const opener = new URL("tools/opener.js", import.meta.url).pathname;
const ctx = context("s", "a");

/** start starts an owner in a process of its own and waits for its first, or last, write. */
async function start(t, file, count) {
  const child = spawn(process.execPath, [...process.execArgv, ownerProgram, file, ...(count ? [count] : [])], { stdio: ["pipe", "pipe", "pipe"] });
  t.after(() => child.kill("SIGKILL"));
  const ended = new Promise((resolve) => child.once("close", (code, signal) => resolve(signal ?? code)));
  let out = "";
  let err = "";
  child.stderr.on("data", (d) => (err += d));
  await new Promise((resolve, reject) => {
    child.stdout.on("data", (d) => {
      out += d;
      if (out.split("\n").length > Number(count ?? 1)) resolve();
    });
    child.once("close", () => reject(new Error(`the owner ended: ${err}`)));
  });
  return {
    last: () => Number(out.trimEnd().split("\n").at(-1)),
    kill: () => (child.kill("SIGKILL"), ended),
    stop: () => (child.stdin.end(), ended),
  };
}

/** run runs a program to its end and returns what it says. */
function run(program, ...args) {
  return new Promise((resolve) => {
    const child = spawn(program, args);
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (d) => (said += d));
    child.on("error", (e) => resolve(e.code === "ENOENT" ? "locked, as there is no such program" : e.message));
    child.on("close", () => resolve(said));
  });
}

/** others are the programs that must not get at a file that is owned; each returns what it says. */
const others = {
  "the SQLite of this process": (file) => {
    const db = new DatabaseSync(file);
    try {
      db.exec("INSERT INTO state VALUES ('x', 'x', '', '1')");
      return "it was let in";
    } catch (e) {
      return e.message;
    } finally {
      db.close();
    }
  },
  "the sqlite3 program": (file) => run("sqlite3", file, "SELECT count(*) FROM state"),
  "a native program": (file) => {
    const session = `${file}.jsonl`;
    fs.writeFileSync(session, '{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}\n');
    return run(pihost, "write", "--plugin", "go", "--session", session, "--db", file, "1");
  },
  "store.wasm": (file) => run(process.execPath, ...process.execArgv, opener, lentModule, file),
  "store-sqlite.wasm": (file) => run(process.execPath, ...process.execArgv, opener, insideModule, file),
};

test("whoever else comes gets BUSY, and the owner goes on", { skip }, async (t) => {
  const file = path.join(dirOf(t), "x.sqlite");
  const owner = await start(t, file, 3);
  const said = await Promise.all(Object.entries(others).map(async ([name, open]) => [name, await open(file)]));
  for (const [name, text] of said) assert.match(text, /locked|busy/, name); // some of them have waited for 10 s
  assert.equal(await owner.stop(), 0);
  const store = openStore({ wasm: lentModule, database: "sessions", path: file });
  t.after(() => store.close());
  assert.equal(store.state("owner", "session").read(ctx), 3);
});

test("an owner in this process keeps the others away too, and closing a descriptor does not let go of the locks", { skip }, async (t) => {
  const file = path.join(dirOf(t), "x.sqlite");
  const store = openStore({ wasm: insideModule, database: "sessions", path: file });
  const state = store.state("owner", "session");
  state.write(ctx, 1);
  assert.match(others["the SQLite of this process"](file), /locked/);
  assert.match(await others["the sqlite3 program"](file), /locked/);
  assert.throws(() => new Owner(file, 20), { code: "busy" });
  assert.match(await others["the sqlite3 program"](file), /locked/);
  state.write(ctx, 2);
  store.close();
  assert.equal(others["the SQLite of this process"](file), "it was let in");
});

test("whoever has the file open keeps an owner away, and nothing changes", { skip }, (t) => {
  const dir = dirOf(t);
  const file = path.join(dir, "x.sqlite");
  const store = openStore({ wasm: lentModule, database: "sessions", path: file });
  store.state("p", "session").write(ctx, 1);
  store.close();
  const db = new DatabaseSync(file);
  db.exec("UPDATE state SET value = '2'");
  const look = () => ({ ...files(dir), "x.sqlite-shm": "in it are the locks" });
  const before = look();
  const own = () => openStore({ wasm: insideModule, database: "sessions", path: file }, { patience: 50 });
  assert.throws(own, { code: "busy" });
  assert.deepEqual(look(), before);
  db.exec("UPDATE state SET value = '3'"); // its locks are still there
  assert.throws(own, { code: "busy" });
  db.close();
  const owned = openStore({ wasm: insideModule, database: "sessions", path: file });
  t.after(() => owned.close());
  assert.equal(owned.state("p", "session").read(ctx), 3);
});

test("an owner that is killed loses nothing that it had stored", { skip }, async (t) => {
  const file = path.join(dirOf(t), "x.sqlite");
  let stored = 0;
  for (let round = 0; round < 4; round++) {
    const owner = await start(t, file);
    await new Promise((resolve) => setTimeout(resolve, 10 * round + 5));
    assert.equal(await owner.kill(), "SIGKILL");
    const last = owner.last();
    assert.ok(last > stored);
    const next = openStore({ wasm: round % 2 ? insideModule : lentModule, database: "sessions", path: file });
    stored = next.state("owner", "session").read(ctx);
    assert.ok(stored === last || stored === last + 1, `${stored} is stored, ${last} was acknowledged`);
    next.close();
    const db = new DatabaseSync(file);
    assert.equal(db.prepare("PRAGMA integrity_check").get().integrity_check, "ok");
    db.close();
  }
});

test("an instance that is lost in the middle leaves its WAL to the next", { skip }, (t) => {
  const file = path.join(dirOf(t), "x.sqlite");
  const { trap, around } = trapping();
  const store = openStore({ wasm: insideModule, database: "sessions", path: file }, { around, patience: 100 });
  t.after(() => store.close());
  const state = store.state("owner", "session");
  for (let i = 1; i <= 5; i++) {
    state.write(ctx, i);
    assert.ok(fs.statSync(`${file}-wal`).size > 0);
    trap(() => assert.throws(() => state.write(ctx, -1), { code: "storage" }));
    assert.ok(fs.statSync(`${file}-wal`).size > 0); // nobody has checkpointed or deleted it
    assert.equal(state.read(ctx), i);
  }
});

test("a journal that waits to be played back is played back", { skip }, (t) => {
  const dir = dirOf(t);
  const file = path.join(dir, "x.sqlite");
  const store = openStore({ wasm: lentModule, database: "sessions", path: file });
  store.state("owner", "session").write(ctx, "kept");
  store.close();
  const db = new DatabaseSync(file);
  db.exec("PRAGMA journal_mode = DELETE; PRAGMA cache_spill = 1; PRAGMA cache_size = 1; BEGIN; UPDATE state SET value = '1'");
  db.exec("INSERT INTO state SELECT 'junk', 's', value, zeroblob(9000) || hex(randomblob(9000)) FROM generate_series(1, 50)".replace("generate_series(1, 50)", "(WITH RECURSIVE c(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM c WHERE value < 50) SELECT value FROM c)"));
  for (const suffix of ["", "-journal"]) fs.copyFileSync(file + suffix, `${path.join(dir, "hot.sqlite")}${suffix}`);
  db.exec("ROLLBACK");
  db.close();
  assert.ok(fs.statSync(path.join(dir, "hot.sqlite-journal")).size > 0);
  const owned = openStore({ wasm: insideModule, database: "sessions", path: path.join(dir, "hot.sqlite") });
  t.after(() => owned.close());
  assert.equal(owned.state("owner", "session").read(ctx), "kept");
});

test("without node:sqlite there is a database in memory, and a clear error for a file", { skip }, async (t) => {
  const dir = dirOf(t);
  const program = `
    import { openStore } from ${JSON.stringify(new URL("../index.js", import.meta.url).href)};
    const options = { wasm: ${JSON.stringify(insideModule)}, database: "sessions" };
    const store = openStore({ ...options, memory: true });
    const ctx = { sessionManager: { getSessionId: () => "s", getLeafId: () => null, getEntries: () => [] } };
    store.state("p", "session").write(ctx, [1]);
    console.log(JSON.stringify(store.state("p", "session").read(ctx)));
    for (const wasm of [options.wasm, ${JSON.stringify(lentModule)}]) {
      try { openStore({ ...options, wasm, path: ${JSON.stringify(path.join(dir, "sub", "x.sqlite"))} }); } catch (e) { console.log(e.code, e.detail); }
    }`;
  const said = await run(process.execPath, ...process.execArgv, "--no-experimental-sqlite", "--input-type=module", "-e", program);
  assert.match(said, /^\[1\]\nstorage .*no node:sqlite.*\nstorage .*no node:sqlite.*\n$/);
  assert.deepEqual(fs.readdirSync(dir), []);
});
