import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";

import * as published from "../index.js";
import { StateError } from "../lib/errors.js";
import { openStore } from "../lib/store.js";
import { dirOf, files } from "./tools/files.js";
import { trapping } from "./tools/trap.js";
import { insideModule, kinds, lentModule, onFiles, skip } from "./tools/modules.js";
import { Manager, context } from "./tools/sessions.js";

/** refused asserts that something fails with a code, and returns the failure. */
export function refused(code, f) {
  let failure;
  assert.throws(f, (e) => ((failure = e), e instanceof StateError && e.code === code) || assert.fail(`${code} expected: ${e.stack}`));
  assert.ok(failure.detail.length > 0 && failure.message === `${code}: ${failure.detail}`);
  return failure;
}

for (const { name, open, memory } of kinds) {
  test(name, { skip }, async (t) => {
    const file = path.join(dirOf(t), "agent", "states.sqlite");
    const { trap, around } = trapping();
    const store = open(t, file, {}, { around });
    const session = store.state("todo", "session");
    const branch = store.state("todo", "branch");

    await t.test("a value is read as it was written (Y8, C23)", () => {
      const ctx = context("values", "a");
      assert.equal(session.read(ctx), undefined);
      assert.equal(session.readText(ctx), undefined);
      for (const text of ["null", "0", "-0", "1e400", "9007199254740993", '"\\ud800"', '{"a":1,"a":2}', ' [ 1 , 2 ]\n', '"ä\u{1f600}"', '"\ufeff"', "[" + "1,".repeat(100_000) + "1]"]) {
        session.writeText(ctx, text);
        assert.equal(session.readText(ctx), text);
      }
      for (const value of [null, false, 0, "", [], { deep: [{ a: null }] }, "\ud800"]) {
        session.write(ctx, value);
        const back = session.read(ctx);
        assert.deepEqual(back, value);
        assert.ok(back === null || typeof back !== "object" || back !== session.read(ctx)); // a copy (Y6)
      }
      session.drop(ctx);
      assert.equal(session.read(ctx), undefined);
      session.drop(ctx);
    });

    await t.test("what is no JSON is refused", () => {
      const ctx = context("bad", "a");
      session.writeText(ctx, "1");
      for (const text of ["", "x", "{", "1 2", "NaN", '"\ud800"', undefined, 1, null]) refused("invalid", () => session.writeText(ctx, text));
      const circle = {};
      circle.circle = circle;
      for (const value of [undefined, () => 1, Symbol("s"), 1n, circle]) refused("invalid", () => session.write(ctx, value));
      assert.equal(session.readText(ctx), "1");
    });

    await t.test("plugins, sessions and scopes are apart (Y1)", () => {
      const a = context("apart-a", "1");
      const b = context("apart-b", "1");
      const other = store.state("todo.other-1", "session");
      session.write(a, 1);
      session.write(b, 2);
      other.write(a, 3);
      branch.write(a, 4);
      assert.deepEqual([session.read(a), session.read(b), other.read(a), other.read(b), branch.read(a), branch.read(b)], [1, 2, 3, undefined, 4, undefined]);
      for (const id of ["", "Todo", "a b", "ä", "a/b", "a\0b", undefined, 7]) refused("invalid", () => store.state(id, "session"));
      for (const scope of ["", "both", undefined, 0, "toString"]) refused("invalid", () => store.state("todo", scope));
    });

    await t.test("branches inherit (Y2, Y3)", () => {
      const manager = new Manager("tree").append("root", "a1", "a2");
      const ctx = { sessionManager: manager };
      branch.write(ctx, "before the fork");
      assert.equal(branch.branchKey(ctx), "root");
      assert.equal(session.branchKey(ctx), undefined);
      manager.branch("root").append("b1");
      assert.equal(branch.branchKey(ctx), "b1");
      assert.equal(branch.read(ctx), "before the fork");
      branch.write(ctx, "on b");
      manager.branch("a2");
      assert.equal(branch.branchKey(ctx), "a1"); // the fork has moved it
      assert.equal(branch.read(ctx), "before the fork");
      branch.drop(ctx);
      assert.equal(branch.read(ctx), "before the fork");
      manager.branch("b1").append("b2");
      assert.equal(branch.read(ctx), "on b");
      manager.branch("root");
      assert.equal(branch.read(ctx), "before the fork");
    });

    await t.test("entries are told as they come, whatever the manager does", () => {
      const manager = new Manager("follow").append("r", "x");
      const ctx = { sessionManager: manager };
      branch.write(ctx, 1);
      manager.branch("r").append("y").branch("x"); // appended and gone back: the leaf says nothing of it
      assert.equal(branch.branchKey(ctx), "x");
      manager.load("other", [{ id: "o", parentId: null }]);
      assert.equal(branch.branchKey(ctx), "o");
      assert.equal(branch.read(ctx), undefined);
      manager.load("follow", [{ id: "r", parentId: null }, { id: "x", parentId: "r" }]); // the same session, cut short
      assert.equal(branch.branchKey(ctx), "r");
      assert.equal(branch.read(ctx), 1);
      const copy = context("follow", "q", "p"); // another file of the same session id (C12)
      assert.equal(branch.branchKey(copy), "q");
      assert.equal(branch.branchKey(ctx), "r");
      manager.load("odd", [{ id: "a", parentId: "a" }, { id: "", parentId: null }, {}, null, { id: 5, parentId: 6 }, { id: "b", parentId: "missing" }, { id: "c" }].map((e) => e ?? {}));
      assert.equal(branch.branchKey({ sessionManager: manager }), "c");
      for (let i = 0; i < 40; i++) assert.equal(branch.branchKey(context(`many-${i}`, "k")), "k"); // more than are kept
      manager.load("follow", [{ id: "r", parentId: null }, { id: "x", parentId: "r" }, { id: "y", parentId: "r" }]);
      assert.equal(branch.branchKey(ctx), "y");
    });

    await t.test("a long session is told in parts", () => {
      const manager = new Manager("long").append(...Array.from({ length: 20_000 }, (_, i) => `e${i}`));
      assert.equal(branch.branchKey({ sessionManager: manager }), "e0");
      manager.branch("e9999").append("f");
      assert.equal(branch.branchKey({ sessionManager: manager }), "f");
    });

    await t.test("a value waits for the first entry (Y7)", () => {
      const manager = new Manager("early");
      const ctx = { sessionManager: manager };
      assert.equal(branch.branchKey(ctx), undefined);
      assert.equal(branch.read(ctx), undefined);
      branch.write(ctx, "waiting");
      assert.equal(branch.read(ctx), "waiting");
      manager.append("first");
      assert.equal(branch.read(ctx), "waiting");
      branch.drop(ctx);
      assert.equal(branch.read(ctx), undefined);
    });

    await t.test("a leaf that is not in the tree is not found", () => {
      const manager = new Manager("leaf").append("a").branch("nowhere");
      refused("not_found", () => branch.read({ sessionManager: manager }));
      assert.equal(session.read({ sessionManager: manager }), undefined);
    });

    await t.test("contexts that can't be ones", () => {
      for (const ctx of [undefined, {}, { sessionManager: {} }]) refused("invalid", () => session.read(ctx));
      for (const id of ["", "a\0b", "\ud800", undefined]) {
        const sessionManager = { getSessionId: () => id, getLeafId: () => null, getEntries: () => [] };
        refused("invalid", () => session.read({ sessionManager }));
      }
      const fine = context("fine", "a");
      session.write(fine, 1);
      refused("invalid", () => session.read(context("", "a")));
      assert.equal(session.read(fine), 1); // and not at the place before
    });

    await t.test("compare and write (Y12)", () => {
      const ctx = context("cas", "a");
      session.compareAndWrite(ctx, undefined, " 1");
      const { facts } = refused("conflict", () => session.compareAndWrite(ctx, "1", "2"));
      assert.equal(facts.found, " 1");
      session.compareAndWrite(ctx, " 1", "2");
      refused("conflict", () => session.compareAndWrite(ctx, undefined, "3"));
      session.drop(ctx);
      assert.equal(refused("conflict", () => session.compareAndWrite(ctx, "2", "3")).facts?.found ?? null, null);
      refused("invalid", () => session.compareAndWrite(ctx, undefined, "x"));
      refused("invalid", () => session.compareAndWrite(ctx, "\ud800", "1"));
      assert.equal(session.update(ctx, (n = 0) => n + 1), 1);
      assert.equal(session.update(ctx, (n = 0) => n + 1), 2);
      let calls = 0;
      session.update(ctx, (n) => {
        if (calls++ === 0) session.write(ctx, 10);
        return n + 1;
      });
      assert.deepEqual([session.read(ctx), calls], [11, 2]);
    });

    await t.test("a value larger than every buffer", () => {
      const ctx = context("large", "a");
      const text = JSON.stringify("ä".repeat(3 << 20));
      session.writeText(ctx, text);
      assert.equal(session.readText(ctx), text);
      session.compareAndWrite(ctx, text, "1");
      assert.equal(session.readText(ctx), "1");
      refused("limit", () => session.writeText(ctx, `"${"x".repeat(64 << 20)}"`));
      assert.equal(session.readText(ctx), "1");
    });

    await t.test("status, refresh", () => {
      const status = store.status();
      assert.ok(status.plugins.some((p) => p.plugin === "todo" && p.rows > 3));
      assert.deepEqual(status.locks ?? [], []);
      store.refresh();
      store.forceRefresh("values");
      refused("invalid", () => store.forceRefresh(""));
      assert.equal(refused("invalid", () => store.call({ op: "run.list" })).op, undefined);
      refused("invalid", () => store.call(undefined));
      assert.equal(JSON.parse(store.callText("nonsense")).ok, false);
      refused("invalid", () => store.callText("\ud800"));
    });

    await t.test("after a trap there is a new instance", () => {
      const ctx = context("trap", "a", "b");
      branch.write(ctx, "kept");
      const failure = trap(() => refused("storage", () => store.status()));
      assert.match(failure.detail, /on purpose/);
      if (!memory) trap(() => refused("storage", () => branch.write(ctx, "lost")));
      if (memory) {
        refused("storage", () => branch.read(ctx));
        return;
      }
      assert.equal(branch.read(ctx), "kept"); // and it knows the tree again
      branch.write(ctx, "again");
      assert.equal(branch.read(ctx), "again");
      const { sessionManager } = ctx;
      sessionManager.branch("a").append("c");
      assert.equal(branch.branchKey(ctx), "c");
    });

    await t.test("a closed store", () => {
      store.close();
      store.close();
      refused("closed", () => session.read(context("values", "a")));
      refused("closed", () => store.call({ op: "session.status" }));
      refused("closed", () => store.state("todo", "session"));
    });
  });
}

test("what can't be opened", { skip }, async (t) => {
  const dir = dirOf(t);
  const file = path.join(dir, "x.sqlite");
  for (const [what, options] of [
    ["nothing", undefined],
    ["no database", { wasm: lentModule, path: file }],
    ["another database", { wasm: lentModule, path: file, database: "both" }],
    ["neither path nor memory", { wasm: lentModule, database: "sessions" }],
    ["both", { wasm: insideModule, database: "sessions", path: file, memory: true }],
    ["memory that Node.js would have to lend", { wasm: lentModule, database: "sessions", memory: true }],
    ["a relative path", { wasm: lentModule, database: "sessions", path: "x.sqlite" }],
    ["an empty path", { wasm: lentModule, database: "sessions", path: "" }],
    ["a path with a NUL", { wasm: lentModule, database: "sessions", path: `${file}\0` }],
    ["a path that is no text", { wasm: lentModule, database: "sessions", path: `${file}\ud800` }],
    ["the path of a directory", { wasm: lentModule, database: "sessions", path: `${dir}/` }],
    ["a directory", { wasm: lentModule, database: "sessions", path: dir }],
    ["no module", { database: "sessions", path: file }],
    ["something else", { wasm: Buffer.from("no wasm"), database: "sessions", path: file }],
    ["another module", { wasm: new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]), database: "sessions", path: file }],
  ]) {
    await t.test(what, () => refused("invalid", () => published.openStore(options)));
  }
  refused("storage", () => openStore({ wasm: path.join(dir, "missing.wasm"), database: "sessions", path: file }));
  fs.symlinkSync("nowhere", path.join(dir, "link"));
  refused("invalid", () => openStore({ wasm: lentModule, database: "sessions", path: path.join(dir, "link") }));
  assert.deepEqual(fs.readdirSync(dir), ["link"]);
});

for (const { name, wasm, open } of onFiles) {
  test(`${name}: another program's files are left alone (S4)`, { skip }, async (t) => {
    const { DatabaseSync } = await import("node:sqlite");
    const make = (file, ...sql) => {
      const db = new DatabaseSync(file);
      for (const s of sql) db.exec(s);
      return db;
    };
    for (const [what, code, prepare] of [
      ["another database", "incompatible", (file) => make(file, "CREATE TABLE t (a)").close()],
      ["another database in WAL mode", "incompatible", (file) => make(file, "PRAGMA journal_mode = WAL", "CREATE TABLE t (a)").close()],
      ["a table of the same name", "incompatible", (file) => make(file, "CREATE TABLE state (a)").close()],
      ["a column more", "incompatible", (file) => {
        openStore({ wasm: lentModule, database: "sessions", path: file }).close();
        make(file, "ALTER TABLE state ADD COLUMN more").close();
      }],
      ["no database", "corrupt", (file) => fs.writeFileSync(file, "no database ".repeat(1000))],
      ["half a database", "corrupt", (file) => {
        make(file, "CREATE TABLE state (a)", "INSERT INTO state VALUES (zeroblob(100000))").close();
        fs.truncateSync(file, 1000);
      }],
    ]) {
      await t.test(what, (t) => {
        const dir = dirOf(t);
        const file = path.join(dir, "x.sqlite");
        prepare(file);
        const before = files(dir);
        const failure = refused(code, () => openStore({ wasm, database: "sessions", path: file }));
        assert.ok(failure.detail.includes(file), failure.detail);
        assert.deepEqual(files(dir), before);
      });
    }
    await t.test("older state beside a workflow database (S6)", (t) => {
      const dir = dirOf(t);
      fs.mkdirSync(path.join(dir, "runs"));
      const before = files(dir);
      refused("incompatible", () => openStore({ wasm, database: "workflow", path: path.join(dir, "state.sqlite") }));
      assert.deepEqual(files(dir), before);
    });
  });

  test(`${name}: what is written is on the disk, in files of the right modes (S5)`, { skip }, (t) => {
    const before = process.umask(0);
    t.after(() => process.umask(before));
    const file = path.join(dirOf(t), "a", "b", "x.sqlite");
    const ctx = context("s", "a");
    let store = open(t, file);
    store.state("p", "branch").write(ctx, { n: 1 });
    const modes = fs.readdirSync(path.dirname(file)).map((f) => (fs.statSync(path.join(path.dirname(file), f)).mode & 0o777).toString(8));
    assert.deepEqual(new Set(modes), new Set(["600"]));
    assert.equal(fs.statSync(path.dirname(file)).mode & 0o777, 0o700);
    assert.equal(fs.statSync(path.dirname(path.dirname(file))).mode & 0o777, 0o700);
    store.close();
    assert.deepEqual(fs.readdirSync(path.dirname(file)), ["x.sqlite"]);
    fs.chmodSync(file, 0o644);
    store = open(t, file);
    assert.equal(fs.statSync(file).mode & 0o777, 0o600);
    assert.deepEqual(store.state("p", "branch").read(ctx), { n: 1 });
  });

  test(`${name}: a file that was replaced is noticed (S9)`, { skip }, (t) => {
    const file = path.join(dirOf(t), "x.sqlite");
    const ctx = context("s", "a");
    const store = open(t, file);
    const state = store.state("p", "session");
    state.write(ctx, 1);
    fs.renameSync(file, `${file}.away`);
    refused("replaced", () => state.write(ctx, 2));
    fs.writeFileSync(file, "");
    refused("replaced", () => state.write(ctx, 2));
  });

  test(`${name}: stores of one path share one instance (Y10)`, { skip }, (t) => {
    const dir = dirOf(t);
    const file = path.join(dir, "x.sqlite");
    const a = open(t, file);
    fs.symlinkSync("x.sqlite", path.join(dir, "link"));
    const b = open(t, path.join(dir, "link"));
    assert.equal(b.path, file);
    const ctx = context("s", "a");
    a.state("p", "session").write(ctx, 1);
    assert.equal(b.state("p", "session").read(ctx), 1);
    refused("invalid", () => open(t, file, { coherent: true }));
    a.close();
    b.state("p", "session").write(ctx, 2);
    refused("closed", () => a.state("p", "session"));
    b.close();
    assert.equal(open(t, file, { coherent: true }).state("p", "session").read(ctx), 2);
  });
}

test("the numbers of the codes are those of the ABI", () => {
  const golden = fs.readFileSync(new URL("../../abi/testdata/abi.golden", import.meta.url), "utf8");
  const numbers = [...golden.matchAll(/^number (-?\d+) (\w+)$/gm)].map(([, number, name]) => [name, Number(number)]);
  assert.ok(numbers.length > 15);
  return import("../lib/errors.js").then(({ CODES, codeOf, numberOf }) => {
    const codes = numbers.filter(([name]) => name !== "ok" && name !== "absent");
    assert.deepEqual(CODES.toSorted(), codes.map(([name]) => name).toSorted());
    for (const [name, number] of codes) {
      assert.equal(numberOf(name), number);
      assert.equal(codeOf(number), name);
    }
    assert.equal(codeOf(-1000), "storage");
  });
});
