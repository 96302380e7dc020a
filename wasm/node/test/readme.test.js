import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import { dirOf } from "./tools/files.js";
import { lentModule, skip } from "./tools/modules.js";
import { Manager } from "./tools/sessions.js";

test("the example of the README works", { skip }, async (t) => {
  const dir = dirOf(t);
  const readme = fs.readFileSync(new URL("../README.md", import.meta.url), "utf8");
  let [, program] = readme.match(/```js\n([^]*?)```/);
  for (const [what, instead] of [
    ["pistate", new URL("../index.js", import.meta.url).href],
    ["/opt/pistate/store.wasm", lentModule],
    ["/home/me/.pi/agent/sessions/states.sqlite", path.join(dir, "agent", "states.sqlite")],
  ]) {
    assert.ok(program.includes(JSON.stringify(what)), what);
    program = program.replace(JSON.stringify(what), JSON.stringify(instead));
  }
  const file = path.join(dir, "extension.mjs");
  fs.writeFileSync(file, program);
  const commands = {};
  (await import(pathToFileURL(file).href)).default({ registerCommand: (name, command) => (commands[name] = command) });

  const said = [];
  const sessionManager = new Manager("s").append("root", "left");
  const ctx = { sessionManager, ui: { notify: (text) => said.push(text) } };
  await commands.todo.handler("write", ctx);
  sessionManager.branch("root").append("right");
  await commands.todo.handler("read", ctx);
  sessionManager.branch("left");
  await commands.todo.handler("sleep", ctx);
  assert.deepEqual(said, ["write", "write, read", "write, sleep"]);
});
