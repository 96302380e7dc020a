import assert from "node:assert/strict";
import fs from "node:fs";
import { test } from "node:test";

import { processLives } from "../lib/host.js";
import { Memory } from "../lib/memory.js";
import { Exit, MONOTONIC, REALTIME, time, wasi } from "../lib/wasi.js";
import { insideModule, lentModule, skip } from "./tools/modules.js";

/** shim returns the functions for a module that would import all of these. */
function shim(names, surroundings) {
  const memory = new Memory();
  memory.attach(new WebAssembly.Memory({ initial: 1 }));
  const leb = (n) => (n < 128 ? [n] : [(n & 127) | 128, n >> 7]);
  const text = (s) => [...leb(s.length), ...Buffer.from(s)];
  const imports = names.flatMap((n) => [...text("wasi_snapshot_preview1"), ...text(n), 0, 0]);
  const section = (id, content) => [id, ...leb(content.length), ...content];
  const bytes = [0, 97, 115, 109, 1, 0, 0, 0, ...section(1, [1, 0x60, 0, 0]), ...section(2, [...leb(names.length), ...imports])];
  return { f: wasi(new WebAssembly.Module(new Uint8Array(bytes)), memory, surroundings), memory };
}

test("nothing is behind it (Z2)", () => {
  const { f, memory } = shim(["fd_prestat_get", "path_open", "fd_read", "fd_readdir", "sock_accept", "args_sizes_get", "environ_sizes_get", "proc_exit"]);
  for (let fd = 0; fd < 6; fd++) assert.equal(f.fd_prestat_get(fd, 0), 8);
  assert.equal(f.path_open(3, 0, 0, 1, 0, 0n, 0n, 0, 8), 52);
  assert.equal(f.fd_read(0, 0, 0, 0), 8);
  assert.equal(f.fd_readdir(3, 0, 0, 0n, 0), 8);
  assert.equal(f.sock_accept(3, 0, 0), 52);
  memory.bytes.fill(9, 0, 8);
  assert.equal(f.args_sizes_get(0, 4), 0);
  assert.equal(memory.view.getBigUint64(0, true), 0n);
  memory.bytes.fill(9, 0, 8);
  assert.equal(f.environ_sizes_get(0, 4), 0);
  assert.equal(memory.view.getBigUint64(0, true), 0n);
  assert.throws(() => f.proc_exit(2), Exit);
});

test("clocks, random bytes, and what is printed", () => {
  const printed = [];
  const { f, memory } = shim(["clock_time_get", "random_get", "fd_write"], { clock: (id) => [5n, 6n][id], stderr: (b) => printed.push(Buffer.from(b).toString()) });
  assert.equal(f.clock_time_get(0, 0n, 8), 0);
  assert.equal(memory.view.getBigUint64(8, true), 5n);
  assert.equal(f.clock_time_get(1, 0n, 8), 0);
  assert.equal(memory.view.getBigUint64(8, true), 6n);
  assert.equal(f.clock_time_get(2, 0n, 8), 28);
  f.random_get(16, 32);
  assert.ok(memory.bytes.subarray(16, 48).some((b) => b !== 0));
  assert.throws(() => f.random_get(65530, 100), RangeError);
  memory.bytes.set(Buffer.from("hello"), 100);
  memory.view.setUint32(0, 100, true);
  memory.view.setUint32(4, 5, true);
  assert.equal(f.fd_write(2, 0, 1, 40), 0);
  assert.equal(memory.view.getUint32(40, true), 5);
  assert.equal(f.fd_write(3, 0, 1, 40), 8);
  assert.deepEqual(printed, ["hello"]);
});

test("the clocks of this machine", () => {
  assert.ok(time(REALTIME) / 1_000_000n - BigInt(Date.now()) <= 1n);
  assert.ok(time(MONOTONIC) < time(MONOTONIC));
  assert.equal(time(2), undefined);
});

test("a sleep takes its time, and tells which clocks were due", () => {
  const { f, memory } = shim(["poll_oneoff"]);
  const subscribe = (i, userdata, kind, timeout, absolute = false) => {
    memory.bytes.fill(0, i * 48, i * 48 + 48);
    memory.view.setBigUint64(i * 48, userdata, true);
    memory.view.setUint8(i * 48 + 8, kind);
    memory.view.setUint32(i * 48 + 16, 1, true);
    memory.view.setBigUint64(i * 48 + 24, timeout, true);
    memory.view.setUint16(i * 48 + 40, absolute ? 1 : 0, true);
  };
  const events = () => Array.from({ length: memory.view.getUint32(1000, true) }, (_, i) => memory.view.getBigUint64(2000 + 32 * i, true));
  subscribe(0, 7n, 0, 30_000_000n);
  subscribe(1, 8n, 0, 60_000_000_000n);
  const begin = process.hrtime.bigint();
  assert.equal(f.poll_oneoff(0, 2000, 2, 1000), 0);
  assert.ok(process.hrtime.bigint() - begin >= 29_000_000n);
  assert.deepEqual(events(), [7n]);
  subscribe(0, 9n, 0, 1n, true); // long ago
  assert.equal(f.poll_oneoff(0, 2000, 2, 1000), 0);
  assert.deepEqual(events(), [9n]);
  subscribe(0, 10n, 1, 0n); // a file: at once, as an error
  assert.equal(f.poll_oneoff(0, 2000, 2, 1000), 0);
  assert.deepEqual(events(), [10n]);
  assert.equal(memory.view.getUint16(2008, true), 8);
  assert.equal(f.poll_oneoff(0, 2000, 0, 1000), 28);
});

test("the modules import nothing that this package has not", { skip }, () => {
  for (const [file, own] of [[lentModule, "pistate_sql_v1"], [insideModule, "pistate_file_v1"]]) {
    const from = new Set(WebAssembly.Module.imports(new WebAssembly.Module(fs.readFileSync(file))).map((i) => i.module));
    assert.deepEqual([...from].toSorted(), ["pistate_host_v1", own, "wasi_snapshot_preview1"].toSorted());
  }
});

test("processes that live, are gone, are zombies, or can't be", async () => {
  const { spawn } = await import("node:child_process");
  assert.equal(processLives(process.pid), 1);
  assert.equal(processLives(1), 1);
  assert.equal(processLives(2 ** 22 + 1), 0);
  for (const pid of [0, -1, 1.5, NaN]) assert.equal(processLives(pid), -1);
  // Its own child, which nobody waits for, is a zombie.
  const parent = spawn("sh", ["-c", "sleep 0 & echo $!; exec sleep 5"]);
  const zombie = Number(await new Promise((resolve) => parent.stdout.once("data", resolve)));
  if (fs.existsSync(`/proc/${zombie}`)) {
    for (let i = 0; i < 100 && processLives(zombie) === 1; i++) await new Promise((resolve) => setTimeout(resolve, 10));
    assert.equal(processLives(zombie), 0);
  }
  parent.kill();
});
