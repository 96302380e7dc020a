// Against Pi's own SessionManager, and session files that Pi has written.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";

import { dirOf } from "./tools/files.js";
import { kinds, pihost, sessionManagerOfPi, skipPi } from "./tools/modules.js";

const testdata = new URL("../../../testdata/pi-sessions/", import.meta.url).pathname;
const message = (text) => ({ role: "user", content: text, timestamp: 0 });
const answer = (text) => ({ role: "assistant", content: [{ type: "text", text }], timestamp: 0 });

for (const { name, open, shares } of kinds) {
  test(`${name} with Pi's sessions`, { skip: skipPi }, async (t) => {
    const SessionManager = await sessionManagerOfPi();
    const dir = dirOf(t);
    const db = path.join(dir, "states.sqlite");
    const store = open(t, db);
    const state = store.state("todo", "branch");

    for (const file of fs.readdirSync(testdata).filter((f) => f.endsWith(".expected.json"))) {
      await t.test(`the keys of ${file}`, () => {
        const want = JSON.parse(fs.readFileSync(path.join(testdata, file), "utf8"));
        const copy = path.join(dir, "session.jsonl"); // Pi may rewrite what it opens
        fs.copyFileSync(path.join(testdata, file.replace(".expected.json", ".jsonl")), copy);
        const sessionManager = SessionManager.open(copy);
        assert.equal(sessionManager.getSessionId(), want.session_id);
        const ctx = { sessionManager };
        assert.equal(sessionManager.getLeafId(), want.leaf_after_reopen);
        for (const [leaf, key] of Object.entries(want.branch_key_of)) {
          sessionManager.branch(leaf);
          assert.equal(state.branchKey(ctx), key, leaf);
        }
        sessionManager.resetLeaf();
        assert.equal(state.branchKey(ctx), undefined);
      });
    }

    await t.test("a session as it goes: forks, roots, summaries, compaction", () => {
      const sessionManager = SessionManager.create(dir, path.join(dir, "sessions"));
      const ctx = { sessionManager };
      state.write(ctx, "early");
      const first = sessionManager.appendMessage(message("one"));
      assert.equal(state.read(ctx), "early");
      assert.equal(state.branchKey(ctx), first);
      const fork = sessionManager.appendMessage(answer("two"));
      const left = sessionManager.appendMessage(message("left"));
      state.write(ctx, "left");
      assert.equal(state.branchKey(ctx), first);

      const summary = sessionManager.branchWithSummary(fork, "what was on the left");
      assert.equal(state.branchKey(ctx), summary);
      assert.equal(state.read(ctx), "left"); // which was written above the fork, as it turns out
      state.write(ctx, "right");
      sessionManager.appendMessage(answer("right"));
      const compaction = sessionManager.appendCompaction("all of it", first, 1000);
      sessionManager.appendLabelChange(first, "label");
      sessionManager.appendSessionInfo("name");
      sessionManager.appendModelChange("p", "m");
      sessionManager.appendThinkingLevelChange("high");
      sessionManager.appendCustomEntry("todo", { a: 1 });
      assert.equal(state.branchKey(ctx), summary);
      assert.equal(state.read(ctx), "right");
      sessionManager.branch(left);
      assert.equal(state.branchKey(ctx), left);
      assert.equal(state.read(ctx), "left");
      sessionManager.branch(compaction);
      const below = sessionManager.appendMessage(message("below"));
      assert.equal(state.branchKey(ctx), below);
      assert.equal(state.read(ctx), "right");

      sessionManager.resetLeaf(); // the first message is edited: another root (C10)
      assert.equal(state.branchKey(ctx), undefined);
      const root = sessionManager.appendMessage(message("one, edited"));
      assert.equal(state.branchKey(ctx), root);
      assert.equal(state.read(ctx), undefined);
      state.write(ctx, "other root");
      assert.equal(sessionManager.branchWithSummary(null, "from nothing"), state.branchKey(ctx));
      assert.equal(state.read(ctx), undefined);
      sessionManager.branch(below);
      assert.equal(state.read(ctx), "right");

      const before = sessionManager.getSessionId();
      const file = sessionManager.getSessionFile();
      sessionManager.createBranchedSession(below); // a session of its own, with the same entries
      assert.notEqual(sessionManager.getSessionId(), before);
      assert.equal(state.branchKey(ctx), first);
      assert.equal(state.read(ctx), undefined);
      state.write(ctx, "new session");
      sessionManager.newSession();
      assert.equal(state.branchKey(ctx), undefined);
      assert.equal(state.read(ctx), undefined);
      sessionManager.setSessionFile(file); // back again
      sessionManager.branch(below);
      assert.equal(state.branchKey(ctx), below);
      assert.equal(state.read(ctx), "right");
      const again = { sessionManager: SessionManager.open(file) };
      again.sessionManager.branch(left);
      assert.equal(state.read(again), "left");
    });

    await t.test("the native program finds the same keys and values", { skip: !shares && "it can't open the file meanwhile" }, () => {
      const sessionManager = SessionManager.create(dir, path.join(dir, "sessions"));
      const ctx = { sessionManager };
      const at = (leaf) => ["--plugin", "todo", "--session", sessionManager.getSessionFile(), "--leaf", leaf, "--scope", "branch", "--db", db];
      sessionManager.appendMessage(message("one"));
      const a = sessionManager.appendMessage(answer("two"));
      const b = sessionManager.appendMessage(answer("three"));
      state.writeText(ctx, ' {"from": "node"}');
      assert.equal(execFileSync(pihost, ["read", ...at(b)], { encoding: "utf8" }).trimEnd(), ' {"from": "node"}');
      sessionManager.branch(a);
      const c = sessionManager.appendMessage(answer("four"));
      execFileSync(pihost, ["write", ...at(c), '{"from":"go"}']);
      assert.equal(state.branchKey(ctx), c);
      assert.equal(state.readText(ctx), '{"from":"go"}');
    });
  });
}
