// The host of pistate_sql_v1 on its own, as a module would call it: through its imports, in a memory.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { Memory } from "../lib/memory.js";
import { pack } from "../lib/pack.js";
import { lentSqlite } from "../lib/sql.js";
import { sqlite } from "../lib/sqlite.js";
import { dirOf, files } from "./tools/files.js";

const READ = 0;
const WRITE = 1;

/** guest is the other side of the imports. */
function guest(t, file) {
  const memory = new Memory();
  const wasm = new WebAssembly.Memory({ initial: 4 });
  memory.attach(wasm);
  const host = lentSqlite(file)(memory);
  t.after(() => host.close());
  const f = host.functions;
  const put = (bytes, at = 0) => {
    memory.bytes.set(bytes, at);
    return [at, bytes.length];
  };
  const BUF = 65536;
  const answer = (n) => {
    assert.ok(n >= 0n, `${n}: ${text()}`);
    const { view } = memory;
    const rows = view.getUint32(BUF + 4, true);
    const columns = view.getUint16(BUF + 2, true);
    const values = memory.values(BUF + 16, Number(n) - 16);
    return {
      done: view.getUint8(BUF) === 1,
      within: view.getUint8(BUF + 1) === 1,
      changes: view.getBigInt64(BUF + 8, true),
      rows: Array.from({ length: rows }, (_, i) => values.slice(i * columns, (i + 1) * columns)),
    };
  };
  const text = () => {
    const n = Number(f.error(0, 4096));
    return memory.text(0, n);
  };
  return {
    f,
    memory,
    wasm,
    text,
    answer,
    prepare: (db, sql) => f.prepare(db, ...put(Buffer.from(sql))),
    script: (db, sql) => f.script(db, ...put(Buffer.from(sql))),
    run: (stmt, values = [], cap = 65536) => f.run(stmt, ...put(pack(values)), BUF, cap),
    next: (stmt, cap = 65536) => f.next(stmt, BUF, cap),
    /** sql runs one statement to its end. */
    sql(db, sql, values = []) {
      const stmt = this.prepare(db, sql);
      assert.ok(stmt > 0, `${sql}: ${stmt} ${text()}`);
      const n = this.run(stmt, values);
      if (n < 0n) {
        f.finalize(stmt);
        return Number(n);
      }
      const whole = answer(n);
      while (!whole.done) {
        const more = answer(this.next(stmt));
        whole.rows.push(...more.rows);
        Object.assign(whole, { done: more.done, changes: more.changes, within: more.within });
      }
      assert.equal(f.finalize(stmt), 0);
      return whole;
    },
  };
}

function created(t) {
  const file = path.join(dirOf(t), "new", "x.db");
  const g = guest(t, file);
  const db = g.f.open(WRITE);
  assert.ok(db > 0, g.text());
  return { ...g, db, file, sql: (sql, values) => g.sql.call(g, db, sql, values) };
}

test("every kind of value goes in and comes out", (t) => {
  const { sql } = created(t);
  const values = [null, 9007199254740993n, -(2n ** 63n), 1.5, -0.0, "", "a\0b", "ä\u{1f600}", "\ufeff\ufffd", new Uint8Array(), new Uint8Array([0, 255])];
  for (const v of values) {
    assert.deepEqual(sql("SELECT ?1, typeof(?1), ?1", [v]).rows, [[v, { bigint: "integer", number: "real", string: "text" }[typeof v] ?? (v ? "blob" : "null"), v]]);
  }
  sql("CREATE TABLE t (a)");
  sql("INSERT INTO t VALUES (?)", [5n]);
  assert.deepEqual(sql("INSERT INTO t VALUES (?1), (?2) RETURNING a, typeof(a) AS kind", [2n ** 62n, "x"]).rows, [[2n ** 62n, "integer"], ["x", "text"]]);
});

test("columns of the same name, and of names like numbers, keep their values and their order", (t) => {
  const { sql } = created(t);
  assert.deepEqual(sql("SELECT 2, 1, 2, 'x' AS a, 'y' AS a, 3 AS \"0\"").rows, [[2n, 1n, 2n, "x", "y", 3n]]);
  assert.deepEqual(sql("VALUES (1, 2), (3, 4)").rows, [[1n, 2n], [3n, 4n]]);
  assert.deepEqual(sql("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3) SELECT x, x FROM c ORDER BY x DESC; -- end").rows, [[3n, 3n], [2n, 2n], [1n, 1n]]);
});

test("a text comes with its very bytes", (t) => {
  const { f, memory, sql, prepare, run, db } = created(t);
  sql("CREATE TABLE t (a)");
  sql("INSERT INTO t VALUES (CAST(x'61ff00' AS TEXT))");
  const stmt = prepare(db, "SELECT a FROM t");
  const n = Number(run(stmt));
  assert.equal(Buffer.from(memory.window(65536 + 16, n - 16)).toString("hex"), "030300000061ff00");
  f.finalize(stmt);
});

test("rows come in parts that fit, and none is lost", (t) => {
  const { f, prepare, run, next, answer, sql, db } = created(t);
  sql("CREATE TABLE t (a)");
  for (let i = 0n; i < 10n; i++) sql("INSERT INTO t VALUES (?1)", [i]);
  const stmt = prepare(db, "SELECT a FROM t ORDER BY a");
  const seen = [];
  let a = answer(run(stmt, [], 16 + 3 * 9));
  for (; !a.done; a = answer(next(stmt, 16 + 2 * 9))) {
    assert.ok(a.rows.length === 3 || a.rows.length === 2);
    seen.push(...a.rows.flat());
  }
  seen.push(...a.rows.flat());
  assert.deepEqual(seen, [0n, 1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n, 9n]);
  assert.deepEqual(answer(next(stmt)).rows, []);

  const long = prepare(db, "SELECT 'a' AS a UNION ALL SELECT printf('%.100c', 'x') UNION ALL SELECT 'z'");
  assert.deepEqual(answer(run(long, [], 30)).rows, [["a"]]);
  assert.equal(next(long, 16), BigInt(16 + 5 + 100));
  assert.equal(next(long, 16 + 5 + 99), BigInt(16 + 5 + 100));
  const rest = answer(next(long, 16 + 5 + 100));
  assert.deepEqual([rest.rows, rest.done], [[["x".repeat(100)]], false]);
  assert.deepEqual(answer(next(long)), { done: true, within: false, changes: 1n, rows: [["z"]] });
  assert.equal(run(long, [], 15), -21n);
  f.finalize(long);
});

test("one statement gives few rows and many, time after time", (t) => {
  const { f, prepare, run, next, answer, db } = created(t);
  const stmt = prepare(db, "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c) SELECT x FROM c LIMIT ?1");
  for (const count of [1n, 0n, 1n, 2n, 1n, 3n, 2n, 0n, 4n]) {
    const seen = [];
    for (let a = answer(run(stmt, [count], 25)); ; a = answer(next(stmt, 25))) {
      seen.push(...a.rows.flat());
      if (a.done) break;
    }
    assert.deepEqual(seen, Array.from({ length: Number(count) }, (_, i) => BigInt(i + 1)));
  }
  f.finalize(stmt);
});

test("several statements are open at once, and ended early", (t) => {
  const { f, prepare, run, next, answer, sql, db } = created(t);
  sql("CREATE TABLE t (a)");
  sql("INSERT INTO t VALUES (1), (2), (3)");
  const a = prepare(db, "SELECT a FROM t ORDER BY a");
  const b = prepare(db, "SELECT a FROM t ORDER BY a");
  assert.deepEqual(answer(run(a, [], 25)).rows, [[1n]]);
  assert.deepEqual(answer(run(b, [], 25)).rows, [[1n]]);
  assert.deepEqual(answer(next(a, 25)).rows, [[2n]]);
  assert.equal(f.reset(a), 0);
  assert.deepEqual(answer(next(a)).rows, []);
  assert.deepEqual(answer(next(b)).rows, [[2n], [3n]]);
  assert.deepEqual(answer(run(a)).rows.length, 3);
  answer(run(a, [], 25));
  assert.equal(f.close(db), 0); // ends its statements
  assert.equal(f.reset(a), -65536 - 2);
  assert.equal(f.finalize(b), -65536 - 2);
});

test("transactions are seen, whatever ends them", (t) => {
  const { f, sql, script, db } = created(t);
  const within = () => f.in_transaction(db);
  sql("CREATE TABLE t (a PRIMARY KEY)");
  assert.equal(within(), 0);
  assert.equal(sql("BEGIN IMMEDIATE").within, true);
  assert.equal(within(), 1);
  sql("INSERT INTO t VALUES (1)");
  assert.equal(sql("INSERT INTO t VALUES (1)"), -1555);
  assert.equal(within(), 1);
  assert.equal(sql("INSERT OR ROLLBACK INTO t VALUES (1)"), -1555);
  assert.equal(within(), 0);
  sql("SAVEPOINT a");
  assert.equal(within(), 1);
  sql("ROLLBACK TO a");
  assert.equal(within(), 1);
  sql("RELEASE a");
  assert.equal(within(), 0);
  assert.equal(script(db, "BEGIN; CREATE TABLE u (a); COMMIT"), 0);
  assert.equal(within(), 0);
  assert.equal(script(db, "BEGIN; CREATE TABLE v (a)"), 0);
  assert.equal(within(), 1);
  assert.equal(sql("COMMIT").within, false);
  assert.equal(sql("COMMIT"), -1);
});

test("changes are counted", (t) => {
  const { sql } = created(t);
  sql("CREATE TABLE t (a)");
  assert.equal(sql("INSERT INTO t VALUES (1), (2), (3)").changes, 3n);
  assert.equal(sql("UPDATE t SET a = 9 WHERE a > 1").changes, 2n);
  assert.equal(sql("DELETE FROM t WHERE a = 9 RETURNING a").changes, 2n);
  assert.equal(sql("DELETE FROM t WHERE a = 9").changes, 0n);
});

test("errors have SQLite's extended codes and a text", (t) => {
  const { f, sql, script, prepare, run, text, db } = created(t);
  sql("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT UNIQUE, c CHECK (c > 0)) STRICT".replace("c CHECK", "c INT CHECK"));
  sql("INSERT INTO t VALUES (1, 'x', 1)");
  assert.equal(sql("INSERT INTO t VALUES (1, 'y', 1)"), -1555); // CONSTRAINT_PRIMARYKEY
  assert.equal(sql("INSERT INTO t VALUES (2, 'x', 1)"), -2067); // CONSTRAINT_UNIQUE
  assert.equal(text(), "sqlite3: constraint failed: UNIQUE constraint failed: t.b");
  assert.equal(sql("INSERT INTO t VALUES (2, 'y', 0)"), -275); // CONSTRAINT_CHECK
  assert.equal(prepare(db, "SELECT nothing"), -1);
  assert.equal(prepare(db, "SELECT 1; SELECT 2"), -21);
  assert.equal(prepare(db, ""), -21);
  assert.equal(prepare(db, "SELECT :name"), -21);
  assert.equal(script(db, "SELECT 1; nonsense"), -1);
  const stmt = prepare(db, "SELECT ?2");
  assert.equal(run(stmt, [1n]), -25n);
  assert.equal(run(stmt, [1n, 2n, 3n]), -25n);
  assert.equal(run(stmt + 1, []), BigInt(-65536 - 2));
  assert.equal(prepare(99, "SELECT 1"), -65536 - 2);
  assert.equal(f.open(7), -65536 - 2);
});

test("a statement that has failed can be used again", (t) => {
  const { prepare, run, answer, sql, db, file, f } = created(t);
  sql("PRAGMA journal_mode = WAL");
  sql("CREATE TABLE t (a UNIQUE)");
  const other = guest(t, file);
  const holder = other.f.open(WRITE);
  const begin = prepare(db, "BEGIN IMMEDIATE");
  const insert = prepare(db, "INSERT INTO t VALUES (?1) RETURNING a");
  for (let i = 0n; i < 3n; i++) {
    other.sql(holder, "BEGIN IMMEDIATE");
    assert.equal(run(begin), -5n);
    assert.equal(run(begin), -5n);
    other.sql(holder, "ROLLBACK");
    assert.equal(answer(run(begin)).within, true);
    assert.deepEqual(answer(run(insert, [i])).rows, [[i]]);
    assert.equal(run(insert, [i]), -2067n);
    assert.equal(sql("ROLLBACK").within, false);
    assert.deepEqual(answer(run(insert, [i])).rows, [[i]]);
  }
  f.finalize(begin);
});

test("the garbage collector takes away nothing that is in use", (t) => {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc");
  const { prepare, run, next, answer, sql, db } = created(t);
  sql("CREATE TABLE t (a)");
  for (let i = 0n; i < 20n; i++) sql("INSERT INTO t VALUES (?1)", [i]);
  const statements = [];
  for (let i = 0; i < 20; i++) {
    const stmt = prepare(db, `SELECT a, ${i} FROM t ORDER BY a`);
    assert.ok(stmt > 0);
    answer(run(stmt, [], 16 + 18));
    statements.push(stmt);
    if (i % 5 === 0) gc();
  }
  setFlagsFromString("--gc-interval=500"); // in the middle of preparing, too
  t.after(() => setFlagsFromString("--gc-interval=-1"));
  const sum = Array.from({ length: 30 }, (_, i) => `(SELECT count(*) FROM t WHERE a > ${i})`).join(" + ");
  for (let i = 0; i < 60; i++) assert.ok(prepare(db, `SELECT ${i}, ${sum}, a FROM t`) > 0);
  setFlagsFromString("--gc-interval=-1");
  for (let i = 1n; i < 20n; i++) {
    for (const [k, stmt] of statements.entries()) assert.deepEqual(answer(next(stmt, 16 + 18)).rows, [[i, BigInt(k)]]);
    if (i % 5n === 0n) gc();
  }
});

test("windows outside of the memory, and what is no text, are errors", (t) => {
  const { f, wasm, db, memory } = created(t);
  const size = wasm.buffer.byteLength;
  assert.equal(f.prepare(db, size - 1, 2), -21);
  assert.equal(f.prepare(db, -16, 32), -21);
  assert.equal(f.prepare(db, 0, -1), -21);
  memory.bytes.set([0xff, 0xfe], 0);
  assert.equal(f.prepare(db, 0, 2), -21);
  assert.equal(f.beside(size, 1), -21n);
  assert.ok(f.beside(size, 0) > 0n);
});

test("a view is made again after the memory has grown", (t) => {
  const { sql, wasm, memory } = created(t);
  const before = memory.bytes;
  wasm.grow(1);
  assert.equal(before.length, 0); // detached
  assert.deepEqual(sql("SELECT 'still'").rows, [["still"]]);
});

test("no other database is reached (Z2)", (t) => {
  const { f, prepare, script, run, sql, db, file } = created(t);
  const other = path.join(path.dirname(file), "other.db");
  sql("CREATE TABLE t (a)");
  const refused = (sql) => {
    const stmt = prepare(db, sql);
    return stmt < 0 ? stmt : Number(run(stmt));
  };
  for (const sql of [`ATTACH '${other}' AS o`, `/* */ attach '${other}' as o`, "DETACH main", `VACUUM INTO '${other}'`, `VACUUM main INTO '${other}'`]) {
    assert.ok(refused(sql) < 0, sql);
    assert.ok(script(db, `SELECT 1; ${sql}`) < 0, sql);
  }
  assert.ok(refused("SELECT load_extension('x')") < 0);
  assert.equal(fs.existsSync(other), false);
  assert.equal(f.in_transaction(db), 0);
});

test("directories have mode 0700 and files 0600, whatever the umask (S5)", (t) => {
  for (const umask of [0o000, 0o022, 0o277]) {
    const before = process.umask(umask);
    try {
      const { sql, file } = created(t);
      sql("PRAGMA journal_mode = WAL");
      sql("CREATE TABLE t (a)");
      const mode = (name) => (fs.statSync(name).mode & 0o777).toString(8);
      assert.deepEqual([path.dirname(file), file, `${file}-wal`, `${file}-shm`].map(mode), ["700", "600", "600", "600"]);
    } finally {
      process.umask(before);
    }
  }
});

test("a path means itself (S10)", (t) => {
  for (const name of ["a?mode=memory", "a#b", "a%41", "a b", "file:a", "ä'\"", "a;b&c"]) {
    const dir = dirOf(t);
    const file = path.join(dir, name);
    const g = guest(t, file);
    let db = g.f.open(WRITE);
    g.sql(db, "CREATE TABLE t (a)");
    g.f.close(db);
    assert.deepEqual(fs.readdirSync(dir), [name]);
    db = g.f.open(READ);
    assert.ok(db > 0, g.text());
    assert.deepEqual(g.sql(db, "SELECT name FROM sqlite_schema").rows, [["t"]]);
    g.f.close(db);
  }
});

test("a link that has come since is not followed (S10, C34)", (t) => {
  const dir = dirOf(t);
  fs.mkdirSync(path.join(dir, "real"));
  const file = path.join(dir, "real", "x.db");
  const g = guest(t, file);
  g.f.close(g.f.open(WRITE));
  fs.renameSync(path.join(dir, "real"), path.join(dir, "moved"));
  fs.symlinkSync("moved", path.join(dir, "real"));
  assert.equal(g.f.open(WRITE), -65552);
  assert.equal(g.f.open(READ), -65552);
  fs.rmSync(path.join(dir, "real"));
  fs.mkdirSync(path.join(dir, "real"));
  fs.symlinkSync(path.join(dir, "moved", "x.db"), file);
  assert.equal(g.f.open(WRITE), -65552);
  assert.equal(g.f.open(READ), -65552);
});

test("a file that was replaced is noticed (S9)", (t) => {
  for (const suffix of ["", "-wal", "-shm"]) {
    for (const how of ["removed", "replaced"]) {
      const { f, sql, db, file, text } = created(t);
      sql("PRAGMA journal_mode = WAL");
      sql("CREATE TABLE t (a)");
      assert.equal(f.in_place(db), 0);
      fs.renameSync(file + suffix, `${file}.away`);
      if (how === "replaced") fs.copyFileSync(`${file}.away`, file + suffix);
      assert.equal(f.in_place(db), -65552, `${suffix} ${how}`);
      assert.match(text(), /no longer the file/);
    }
  }
});

test("the names beside the database (S6)", (t) => {
  const dir = dirOf(t);
  const file = path.join(dir, "x.db");
  const g = guest(t, file);
  const beside = () => g.memory.values(0, Number(g.f.beside(0, 1000)));
  assert.deepEqual(beside(), [0n]);
  for (const name of ["ä", "b", "Z", "x.db"]) fs.writeFileSync(path.join(dir, name), "");
  assert.deepEqual(beside(), [0n, "Z", "b", "x.db", "ä"]);
  fs.writeFileSync(file, "content");
  assert.equal(beside()[0], 1n);
});

test("reading changes nothing, not even beside the database (S4)", async (t) => {
  const look = (file, want) => {
    const before = files(path.dirname(file));
    const g = guest(t, file);
    const db = g.f.open(READ);
    assert.ok(db > 0, g.text());
    assert.deepEqual(g.sql(db, "SELECT a FROM t").rows, want);
    assert.ok(g.sql(db, "INSERT INTO t VALUES (9)") < 0);
    assert.equal(g.f.close(db), 0, g.text());
    assert.deepEqual(files(path.dirname(file)), before);
  };
  const modern = sqlite().uris;
  await t.test("at rest, in WAL mode", (t) => {
    const { f, sql, db, file } = created(t);
    sql("PRAGMA journal_mode = WAL");
    sql("CREATE TABLE t (a)");
    sql("INSERT INTO t VALUES (1)");
    f.close(db);
    look(file, [[1n]]);
  });
  await t.test("at rest, with a rollback journal", (t) => {
    const { f, sql, db, file } = created(t);
    sql("CREATE TABLE t (a)");
    f.close(db);
    look(file, []);
  });
  await t.test("as somebody who was killed has left it", (t) => {
    const { sql, file } = created(t);
    sql("PRAGMA journal_mode = WAL");
    sql("CREATE TABLE t (a)");
    sql("INSERT INTO t VALUES (1)");
    const copy = path.join(dirOf(t), "x.db");
    for (const suffix of ["", "-wal"]) fs.copyFileSync(file + suffix, copy + suffix);
    if (modern) look(copy, [[1n]]);
    const cut = path.join(dirOf(t), "x.db"); // a WAL that holds no transaction is no reason to delete it
    fs.copyFileSync(file, cut);
    fs.writeFileSync(`${cut}-wal`, fs.readFileSync(`${file}-wal`).subarray(0, 40));
    if (modern) {
      const before = files(path.dirname(cut));
      const g = guest(t, cut);
      const db = g.f.open(READ);
      g.sql(db, "SELECT count(*) FROM sqlite_schema");
      assert.equal(g.f.close(db), 0);
      assert.deepEqual(files(path.dirname(cut)), before);
    }
  });
  await t.test("while somebody has it open", (t) => {
    const { sql, file } = created(t);
    sql("PRAGMA journal_mode = WAL");
    sql("CREATE TABLE t (a)");
    sql("INSERT INTO t VALUES (1)");
    const g = guest(t, file);
    const db = g.f.open(READ);
    assert.deepEqual(g.sql(db, "SELECT a FROM t").rows, [[1n]]);
    g.f.close(db);
    sql("INSERT INTO t VALUES (2)");
    assert.equal(sql("SELECT count(*) FROM t").rows[0][0], 2n);
  });
  await t.test("changed while it is read", { skip: !modern && "this Node.js reads it together with others" }, (t) => {
    const { f, sql, db, file } = created(t);
    sql("CREATE TABLE t (a)");
    f.close(db);
    const g = guest(t, file);
    const reading = g.f.open(READ);
    fs.utimesSync(file, 1, 1);
    assert.equal(g.f.close(reading), -5); // BUSY: read it again
  });
  await t.test("nothing there", (t) => {
    const dir = dirOf(t);
    const file = path.join(dir, "sub", "x.db");
    assert.equal(guest(t, file).f.open(READ), -65536 - 4);
    assert.deepEqual(fs.readdirSync(dir), []);
    fs.mkdirSync(path.dirname(file));
    fs.writeFileSync(file, "");
    assert.equal(guest(t, file).f.open(READ), -65536 - 4);
    assert.equal(guest(t, path.dirname(file)).f.open(WRITE), -65536 - 2);
  });
});
