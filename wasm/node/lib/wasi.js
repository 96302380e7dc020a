// WASI preview 1 with nothing behind it: clocks, random bytes, sleep, and standard error. A module gets no
// arguments, no environment, no files and no sockets, whatever it asks for (Z2); node:wasi would work too, but has to
// be told to give nothing, and warns that it is an experiment.

import { randomFillSync } from "node:crypto";
import { writeSync } from "node:fs";

const SUCCESS = 0;
const EBADF = 8;
const EINVAL = 28;
const ENOSYS = 52;

export const REALTIME = 0;
export const MONOTONIC = 1;
const CLOCK = 0; // of the kinds of event
const SUBSCRIPTION = 48; // bytes
const EVENT = 32;
const ABSOLUTE = 1;

/** Exit is how a module ends by itself, which none of ours means to. */
export class Exit extends Error {
  constructor(status) {
    super(`the module ended itself with status ${status}`);
  }
}

/**
 * wasi returns the functions that a module imports from wasi_snapshot_preview1. Those that are not in here fail with
 * ENOSYS. clock and random replace the clocks (nanoseconds by number) and the random bytes, for tests.
 */
export function wasi(module, memory, { clock = time, random = randomFillSync, stderr = (bytes) => writeSync(2, bytes) } = {}) {
  const known = {
    args_get: () => SUCCESS,
    args_sizes_get: none(memory),
    environ_get: () => SUCCESS,
    environ_sizes_get: none(memory),
    sched_yield: () => SUCCESS,
    fd_prestat_get: () => EBADF,
    proc_exit(status) {
      throw new Exit(status);
    },
    random_get(ptr, len) {
      random(memory.window(ptr, len));
      return SUCCESS;
    },
    clock_time_get(id, _precision, at) {
      const now = clock(id);
      if (now === undefined) return EINVAL;
      memory.view.setBigUint64(at >>> 0, now, true);
      return SUCCESS;
    },
    fd_write(fd, list, count, at) {
      if (fd !== 1 && fd !== 2) return EBADF;
      let written = 0;
      for (let i = 0; i < count; i++) {
        const entry = (list >>> 0) + 8 * i;
        const bytes = memory.window(memory.view.getUint32(entry, true), memory.view.getUint32(entry + 4, true));
        if (bytes.length > 0) stderr(bytes.slice());
        written += bytes.length;
      }
      memory.view.setUint32(at >>> 0, written, true);
      return SUCCESS;
    },
    poll_oneoff: (input, output, count, at) => poll(memory, clock, input >>> 0, output >>> 0, count >>> 0, at >>> 0),
  };
  const functions = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    if (from === "wasi_snapshot_preview1") functions[name] = known[name] ?? (name.startsWith("fd_") ? () => EBADF : () => ENOSYS);
  }
  return functions;
}

/** time returns the nanoseconds of a clock, undefined for one that is not there. */
export function time(id) {
  if (id === REALTIME) return BigInt(Date.now()) * 1_000_000n;
  return id === MONOTONIC ? process.hrtime.bigint() : undefined;
}

function none(memory) {
  return (count, size) => {
    memory.view.setUint32(count >>> 0, 0, true);
    memory.view.setUint32(size >>> 0, 0, true);
    return SUCCESS;
  };
}

/**
 * poll waits until the first of the clocks is due, and tells which are. There is nothing else to wait for: a
 * subscription to a file is an error of its own.
 */
function poll(memory, clock, input, output, count, at) {
  if (count === 0) return EINVAL;
  const subscriptions = [];
  for (let i = 0; i < count; i++) {
    const s = input + i * SUBSCRIPTION;
    const { view } = memory;
    const subscription = { userdata: view.getBigUint64(s, true), kind: view.getUint8(s + 8), errno: EBADF, wait: 0n };
    if (subscription.kind === CLOCK) {
      const now = clock(view.getUint32(s + 16, true));
      const timeout = view.getBigUint64(s + 24, true);
      const absolute = (view.getUint16(s + 40, true) & ABSOLUTE) !== 0;
      subscription.errno = now === undefined ? EINVAL : SUCCESS;
      subscription.wait = now === undefined ? 0n : absolute ? timeout - now : timeout;
    }
    subscriptions.push(subscription);
  }
  const first = subscriptions.reduce((wait, s) => (s.wait < wait ? s.wait : wait), subscriptions[0].wait);
  sleep(first);
  let events = 0;
  for (const { userdata, kind, errno, wait } of subscriptions) {
    if (wait > first && wait > 0n) continue;
    const event = output + events++ * EVENT;
    memory.bytes.fill(0, event, event + EVENT);
    memory.view.setBigUint64(event, userdata, true);
    memory.view.setUint16(event + 8, errno, true);
    memory.view.setUint8(event + 10, kind);
  }
  memory.view.setUint32(at, events, true);
  return SUCCESS;
}

const nobody = new Int32Array(new SharedArrayBuffer(4));

function sleep(nanoseconds) {
  if (nanoseconds > 0n) Atomics.wait(nobody, 0, 0, Number(nanoseconds) / 1e6);
}
