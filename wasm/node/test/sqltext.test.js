import assert from "node:assert/strict";
import { test } from "node:test";

import { kindOf, reachesOut, statements } from "../lib/sqltext.js";

const texts = (sql) => statements(sql).length;

test("statements are told apart by SQLite's own rules", () => {
  for (const [sql, count] of [
    ["", 0],
    [" ; -- nothing\n;/* ; */", 0],
    ["SELECT 1", 1],
    ["SELECT 1;", 1],
    ["SELECT 1; -- the end", 1],
    ["SELECT 1; SELECT 2", 2],
    ["SELECT ';' ; SELECT \";\", [;], `;`", 2],
    ["SELECT 'it''s;'", 1],
    ["SELECT /* ; */ 1 -- ; \n + 1", 1],
    ["CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; SELECT 2; END; SELECT 3", 2],
    ["CREATE TEMP TRIGGER t AFTER INSERT ON a BEGIN SELECT CASE 1 WHEN 1 THEN 2 END; END", 1],
    ["CREATE TABLE trigger_x (a); CREATE TABLE b (a)", 2],
  ]) {
    assert.equal(texts(sql), count, sql);
  }
});

test("the end of a statement is where its semicolon is", () => {
  const sql = "SELECT 1 -- x\n ; \n-- rest";
  const [s] = statements(sql);
  assert.equal(sql.slice(0, s.end), "SELECT 1 -- x\n ");
});

test("parameters are found outside of quotes only", () => {
  const [s] = statements("SELECT ?1, '?2', \"?3\", ?, :a, @b, $c::d /* ?4 */ -- ?5");
  assert.deepEqual(s.parameters, ["?1", "?", ":a", "@b", "$c::d"]);
});

test("kinds", () => {
  for (const [sql, kind] of [
    ["select 1", "select"],
    ["VALUES (1)", "select"],
    ["WITH a AS (INSERT) SELECT 1", "select"],
    ["WITH RECURSIVE a(x) AS (SELECT 1) INSERT INTO t SELECT x FROM a", "silent"],
    ["INSERT INTO t VALUES (1)", "silent"],
    ["REPLACE INTO t VALUES (1)", "silent"],
    ["UPDATE t SET a = (SELECT returning FROM x)", "silent"],
    ["DELETE FROM t RETURNING a", "other"],
    ["PRAGMA user_version", "pragma"],
    ["BEGIN IMMEDIATE", "silent"],
    ["rollback to a", "silent"],
    ["CREATE TABLE t (a)", "other"],
    ["EXPLAIN SELECT 1", "other"],
  ]) {
    assert.equal(kindOf(statements(sql)[0]), kind, sql);
  }
});

test("what reaches out is found, whatever is around it (Z2)", () => {
  for (const sql of [
    "ATTACH 'x' AS y",
    " /* c */ aTTach database 'x' AS y",
    "-- c\nDETACH y",
    "VACUUM INTO 'x'",
    "VACUUM main INTO 'x'",
    "vacuum/**/into 'x'",
  ]) {
    assert.ok(reachesOut(statements(sql)[0]), sql);
  }
  for (const sql of ["VACUUM", "SELECT 'ATTACH'", "INSERT INTO attach VALUES (1)", "EXPLAIN ATTACH 'x' AS y"]) {
    assert.equal(reachesOut(statements(sql)[0]), undefined, sql);
  }
});
