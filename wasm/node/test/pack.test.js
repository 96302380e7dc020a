import assert from "node:assert/strict";
import { test } from "node:test";

import { Text, pack } from "../lib/pack.js";
import { unpack } from "./tools/packed.js";

test("packed values come back as they were", () => {
  const values = [null, 0n, -(2n ** 63n), 2n ** 63n - 1n, 9007199254740993n, 0.1, -0, Infinity, "", "a\0b", "ä\u{1f600}", "\ufeff\ufffd", new Uint8Array(), new Uint8Array([0, 255])];
  const back = unpack(pack(values));
  assert.deepEqual(back, values);
  assert.ok(Object.is(back[6], -0));
});

test("a text may be given as bytes", () => {
  assert.deepEqual(unpack(pack([new Text(Buffer.from("bytes")), 1n])), ["bytes", 1n]);
});

test("the layout is the one of the specification", () => {
  const hex = (values) => Buffer.from(pack(values)).toString("hex");
  assert.equal(hex([null]), "00");
  assert.equal(hex([-2n]), "01feffffffffffffff");
  assert.equal(hex([1.5]), "02000000000000f83f");
  assert.equal(hex(["é"]), "0302000000c3a9");
  assert.equal(hex([new Uint8Array([7])]), "040100000007");
});

test("what unpack returns is a copy", () => {
  const packed = pack([new Uint8Array([1])]);
  const [blob] = unpack(packed);
  packed.fill(9);
  assert.deepEqual(blob, new Uint8Array([1]));
});

for (const [what, hex] of [
  ["an unknown tag", "05"],
  ["an integer cut off", "01ffff"],
  ["a real cut off", "02"],
  ["a length cut off", "030100"],
  ["a text cut off", "0302000000c3"],
  ["a blob longer than there is", "04ffffffff00"],
  ["a text that is not UTF-8", "0301000000ff"],
]) {
  test(`${what} is a RangeError`, () => {
    assert.throws(() => unpack(Buffer.from(hex, "hex")), RangeError);
  });
}
