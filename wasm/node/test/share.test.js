// One database that others write at the same time (Z2).

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";

import { openStore } from "../lib/store.js";
import { dirOf } from "./tools/files.js";
import { lentModule, pihost, skip } from "./tools/modules.js";
import { Manager, context } from "./tools/sessions.js";

const counter = new URL("tools/counter.js", import.meta.url).pathname;

/** run runs a program to its end and returns what it has printed; it has to succeed. */
function run(program, args, input) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"] });
    let out = "";
    let err = "";
    child.stdout.on("data", (d) => (out += d));
    child.stderr.on("data", (d) => (err += d));
    child.on("error", reject);
    child.on("close", (code) => (code === 0 ? resolve(out) : reject(new Error(`${program} ${args[0]} ended with ${code}: ${err}`))));
    child.stdin.on("error", () => {});
    child.stdin.end(input);
  });
}

async function hasSqlite3() {
  return run("sqlite3", ["--version"]).then(() => true, () => false);
}

function integrity(file) {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    return db.prepare("PRAGMA integrity_check").all().map((r) => r.integrity_check);
  } finally {
    db.close();
  }
}

test("session state that Node.js, native processes and the sqlite3 program write at the same time", { skip }, async (t) => {
  const dir = dirOf(t);
  const file = path.join(dir, "states.sqlite");
  const session = path.join(dir, "session.jsonl");
  fs.writeFileSync(session, '{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}\n{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z"}\n');
  const count = 150;
  const native = async (plugin) => {
    for (let i = 1; i <= 15; i++) {
      await run(pihost, ["write", "--plugin", plugin, "--session", session, "--scope", "branch", "--db", file, String(i)]);
    }
  };
  const other = async () => {
    if (!(await hasSqlite3())) return;
    const writes = Array.from({ length: 100 }, (_, i) => `INSERT INTO state VALUES ('cli', 's1', 'k${i}', '${i}'); PRAGMA wal_checkpoint(${["PASSIVE", "RESTART", "TRUNCATE"][i % 3]});`);
    await run("sqlite3", [file, "-cmd", ".timeout 10000", "-cmd", ".bail on"], writes.join("\n"));
  };
  openStore({ wasm: lentModule, database: "sessions", path: file }).close();
  await Promise.all([
    run(process.execPath, [...process.execArgv, counter, file, "node-1", "s1", count]),
    run(process.execPath, [...process.execArgv, counter, file, "node-2", "s1", count]),
    run(process.execPath, [...process.execArgv, counter, file, "node-3", "s2", count]),
    native("go-1"),
    native("go-2"),
    other(),
  ]);
  const store = openStore({ wasm: lentModule, database: "sessions", path: file });
  t.after(() => store.close());
  const s1 = context("s1", "a");
  assert.equal(store.state("shared", "session").read(s1), 2 * count); // C22
  assert.equal(store.state("shared", "session").read(context("s2", "a")), count);
  for (const plugin of ["node-1", "node-2"]) assert.deepEqual(store.state(plugin, "branch").read(s1), { plugin, i: count });
  for (const plugin of ["go-1", "go-2"]) assert.equal(store.state(plugin, "branch").read(s1), 15);
  const status = store.status();
  if (await hasSqlite3()) assert.equal(status.plugins.find((p) => p.plugin === "cli").rows, 100);
  assert.deepEqual(status.locks ?? [], []);
  assert.deepEqual(integrity(file), ["ok"]);
});

test("a workflow database that Node.js and native processes write at the same time", { skip }, async (t) => {
  const dir = dirOf(t);
  const file = path.join(dir, "state.sqlite");
  const store = openStore({ wasm: lentModule, database: "workflow", path: file });
  t.after(() => store.close());
  const register = (i) => {
    const project = path.join(dir, `p${i}`);
    fs.mkdirSync(project);
    return { op: "project.register", actor: { class: "host", id: "h" }, args: { path: project } };
  };
  const count = 60;
  const requests = Array.from({ length: count }, (_, i) => JSON.stringify(register(`go-${i}`))).join("\n");
  const natives = Promise.all([run(pihost, ["exec", "--db", file], requests), run(pihost, ["exec", "--db", file], requests)]);
  for (let i = 0; i < count; i++) {
    const { result } = store.call(register(`node-${i}`));
    assert.equal(result.path, path.join(dir, `p${`node-${i}`}`));
    await new Promise((resolve) => setImmediate(resolve));
  }
  for (const answers of await natives) {
    for (const answer of answers.trim().split("\n")) assert.equal(JSON.parse(answer).ok, true, answer);
  }
  const db = new DatabaseSync(file, { readOnly: true });
  assert.equal(db.prepare("SELECT count(*) AS n FROM projects").get().n, 2 * count);
  db.close();
  assert.deepEqual(integrity(file), ["ok"]);
});

test("a session that a live process holds is refused with the four elements (Y5)", { skip }, (t) => {
  const file = path.join(dirOf(t), "states.sqlite");
  const store = openStore({ wasm: lentModule, database: "sessions", path: file });
  t.after(() => store.close());
  const state = store.state("p", "session");
  const ctx = context("held", "a");
  const db = new DatabaseSync(file);
  t.after(() => db.close());
  const hold = (pid) => db.prepare("INSERT OR REPLACE INTO write_lock VALUES ('held', ?, ?)").run(`pid:${pid}`, Date.now());
  hold(process.ppid);
  assert.throws(
    () => state.write(ctx, 1),
    ({ code, facts }) => {
      assert.equal(code, "locked");
      assert.equal(facts.holder, `pid:${process.ppid}`);
      for (const element of ["initiator", "action", "object", "reason"]) assert.ok(facts[element].length > 0, element);
      assert.ok(facts.until > facts.since);
      return true;
    },
  );
  assert.equal(store.status("held").locks[0].alive, "yes");
  assert.equal(state.read(ctx), undefined); // reading takes no lock (Y6)
  store.forceRefresh("held");
  state.write(ctx, 2);
  hold(process.pid); // this process itself
  state.write(ctx, 3);
  hold(2 ** 22 + 1); // nobody
  state.write(ctx, 4);
  assert.equal(state.read(ctx), 4);
});

test("with coherent, a read sees what others have written; without it, after refresh (Y12)", { skip }, (t) => {
  for (const coherent of [true, false]) {
    const file = path.join(dirOf(t), "states.sqlite");
    const store = openStore({ wasm: lentModule, database: "sessions", path: file, coherent });
    t.after(() => store.close());
    const state = store.state("p", "session");
    const ctx = { sessionManager: new Manager("s") };
    state.write(ctx, 1);
    assert.equal(state.read(ctx), 1);
    const db = new DatabaseSync(file);
    db.exec("UPDATE state SET value = '2'");
    assert.equal(state.read(ctx), coherent ? 2 : 1);
    store.refresh();
    assert.equal(state.read(ctx), 2);
    db.exec("UPDATE state SET value = CAST(x'ff' AS TEXT)");
    store.refresh();
    assert.throws(() => state.readText(ctx), { code: "corrupt" });
    db.exec("UPDATE state SET value = 'no json'");
    store.refresh();
    assert.equal(state.readText(ctx), "no json");
    assert.throws(() => state.read(ctx), { code: "corrupt" });
    db.close();
  }
});

test("a database that others keep busy", { skip }, (t) => {
  const file = path.join(dirOf(t), "states.sqlite");
  const store = openStore({ wasm: lentModule, database: "sessions", path: file });
  t.after(() => store.close());
  const db = new DatabaseSync(file);
  t.after(() => db.close());
  db.exec("BEGIN IMMEDIATE");
  const state = store.state("p", "session");
  const ctx = context("s", "a");
  assert.throws(() => state.write(ctx, 1), { code: "busy" });
  db.exec("ROLLBACK");
  state.write(ctx, 1);
  assert.equal(state.read(ctx), 1);
});
