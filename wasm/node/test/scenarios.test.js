// The scripted scenarios give the same answers, byte for byte, as natively, given the same clock and random bytes.

import assert from "node:assert/strict";
import { randomFillSync } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";

import { MONOTONIC, time } from "../lib/wasi.js";
import { dirOf } from "./tools/files.js";
import { kinds, skip } from "./tools/modules.js";

const scenarios = new URL("../../../testdata/scenarios/", import.meta.url);
const seeded = process.env.PISTATE_SEED_1; // a file with what the seed 1 of pihost exec gives
const begin = 1_800_000_000_000n; // ms, of its clock

for (const kind of kinds) {
  test(`the scenarios with ${kind.name}`, { skip: skip || (!seeded && "go test ./wasm/node has the random bytes that this needs") }, async (t) => {
    for (const name of fs.readdirSync(scenarios).filter((f) => /^[^.]+\.jsonl$/.test(f))) {
      await t.test(name, (t) => {
        let now = begin;
        let random; // until the store is open, the bytes are for the module's own use
        const store = kind.open(t, path.join(dirOf(t), "state.sqlite"), { database: "workflow" }, {
          clock: (id) => (id === MONOTONIC ? time(id) : now * 1_000_000n),
          random: (bytes) => {
            if (!random) return randomFillSync(bytes);
            bytes.set(random.subarray(0, bytes.length));
            random = random.subarray(bytes.length);
          },
        });
        random = fs.readFileSync(seeded);
        const answers = [];
        for (const line of fs.readFileSync(new URL(name, scenarios), "utf8").split("\n")) {
          if (line.trim() === "" || line.startsWith("#")) continue;
          const request = line.includes("clock.advance") && JSON.parse(line);
          if (request?.op === "clock.advance") {
            now += BigInt(request.args.ms);
            answers.push(`{"ok":true,"result":{"now":${now}}}`);
          } else {
            answers.push(store.callText(line.trim()));
          }
        }
        const golden = fs.readFileSync(new URL(name.replace(".jsonl", ".golden.jsonl"), scenarios), "utf8").trimEnd().split("\n");
        answers.forEach((answer, i) => assert.equal(answer, golden[i], `answer ${i + 1} of ${name}`));
        assert.equal(answers.length, golden.length);
      });
    }
  });
}
