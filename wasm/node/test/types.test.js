// The types: of the package itself, of a program that uses it, and of Pi's own session managers as its context.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";

const here = new URL("..", import.meta.url).pathname;
const tsc = path.join(here, "node_modules/typescript/bin/tsc");

test("the declarations are right, and say what the program does", { skip: !fs.existsSync(tsc) && "TypeScript is not installed: npm install --ignore-scripts" }, () => {
  const { stdout, status } = spawnSync(process.execPath, [tsc, "-p", path.join(here, "test/tools/tsconfig.json")], { encoding: "utf8" });
  assert.equal(stdout, "");
  assert.equal(status, 0);
});

test("everything that is declared is there", async () => {
  const declared = [...fs.readFileSync(path.join(here, "index.d.ts"), "utf8").matchAll(/^export (?:class|function) (\w+)/gm)].map((m) => m[1]);
  assert.deepEqual(Object.keys(await import("../index.js")).toSorted(), declared.toSorted());
  const { Store } = await import("../lib/store.js");
  const { State } = await import("../lib/state.js");
  const text = fs.readFileSync(path.join(here, "index.d.ts"), "utf8");
  for (const [name, { prototype }] of Object.entries({ Store, State })) {
    const body = text.match(new RegExp(`^export interface ${name} \\{$([^]*?)^\\}$`, "m"))[1];
    const members = [...body.matchAll(/^ {2}(?:readonly )?(\w+)[(<:]/gm)].map((m) => m[1]);
    const own = Object.getOwnPropertyNames(prototype).filter((m) => m !== "constructor");
    assert.deepEqual(own.toSorted(), members.toSorted());
  }
});
