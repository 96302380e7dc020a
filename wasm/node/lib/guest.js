// One instance of a store module: how it is made, called, and thrown away after a trap. A Go program still answers
// after one, with a broken runtime; so whatever leaves an export other than by its return ends the instance.

import { ABSENT, StateError, codeOf, fail } from "./errors.js";
import { hostImports } from "./host.js";
import { Memory } from "./memory.js";
import { decode } from "./pack.js";
import { wasi } from "./wasi.js";

const ABI_VERSION = 1;
const SCRATCH = 64 << 10; // bytes
const KEPT_OUTPUT = 1 << 20; // bytes of a larger buffer that is used once
const MAX_STDERR = 4096;

const utf8 = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export class Guest {
  #module;
  #database; // makes the imports that reach the database: (memory) => { name, functions, close }
  #config;
  #surroundings;
  #instance; // undefined after a trap
  #place = "";

  #generation = 0;

  /**
   * The module is a WebAssembly.Module; config is what its export open takes; surroundings are those of wasi, and what
   * tests put around the imports.
   */
  constructor(module, database, config, surroundings = {}) {
    this.#module = module;
    this.#database = database;
    this.#config = config;
    this.#surroundings = surroundings;
    this.#live();
  }

  /** generation counts the instances that were made: what an earlier one was told, the present one does not know. */
  get generation() {
    this.#live();
    return this.#generation;
  }

  /** #live returns the instance, and makes and opens one if there is none. */
  #live() {
    if (this.#instance) return this.#instance;
    if (this.#config.memory && this.#generation > 0) fail("storage", "the module failed, and the database in its memory is lost with it");
    this.#instance = opened(this.#module, this.#database, this.#config, this.#surroundings);
    this.#place = "";
    this.#generation++;
    return this.#instance;
  }

  #use(f) {
    const instance = this.#live();
    try {
      return f(instance);
    } catch (e) {
      if (instance.dead) this.#instance = undefined;
      throw e;
    }
  }

  close() {
    const instance = this.#instance;
    this.#instance = undefined;
    if (!instance) return;
    try {
      instance.close();
    } finally {
      instance.discard();
    }
  }

  /** call carries out a request of the command protocol; both are JSON text. */
  call(request) {
    return this.#use((i) => i.call(request));
  }

  /** at goes to a place. tree is 0 for none, 2 for the entries that the instance was told. */
  at(plugin, session, leaf, tree) {
    const place = `${plugin}\0${session}\0${leaf}\0${tree}`;
    this.#use((i) => {
      if (this.#place === place) return;
      this.#place = "";
      i.texts([plugin, session, leaf], (p, s, l) => i.status(i.run("at", ...p, ...s, ...l, tree)));
      this.#place = place;
    });
  }

  /** read returns the JSON text of the value of a scope, undefined if there is none. */
  read(scope) {
    return this.#use((i) => i.text((buf, cap) => i.run("read", scope, buf, cap), (buf, cap) => i.run("fetch", buf, cap)));
  }

  branchKey() {
    return this.#use((i) => i.text((buf, cap) => i.run("branch_key", buf, cap)));
  }

  write(scope, value) {
    this.#use((i) => i.texts([value], (v) => i.status(i.run("write", scope, ...v))));
  }

  drop(scope) {
    this.#use((i) => i.status(i.run("drop", scope)));
  }

  /** compareAndWrite writes value if old, undefined for nothing, is still what is stored. */
  compareAndWrite(scope, old, value) {
    this.#use((i) =>
      i.texts([old ?? "", value], (o, v) =>
        i.status(i.run("compare_and_write", scope, o[0], old === undefined ? -1 : o[1], ...v)),
      ),
    );
  }

  /** entries adds packed entries to the instance's tree of a session. */
  entries(session, packed) {
    this.#use((i) => i.texts([session, packed], (s, list) => i.status(i.run("entries", ...s, ...list))));
  }

  forget(session) {
    this.#use((i) => i.texts([session], (s) => i.status(i.run("forget", ...s))));
  }
}

/** attempt makes an instance, opens the database, and throws the instance away. */
export function attempt(module, database, config, surroundings) {
  opened(module, database, config, surroundings).discard();
}

function opened(module, database, config, surroundings) {
  const instance = new Instance(module, database, surroundings);
  try {
    instance.open(config);
    return instance;
  } catch (e) {
    instance.discard();
    throw e;
  }
}

class Instance {
  dead = false;
  #memory = new Memory();
  #database;
  #exports;
  #stderr = "";
  #input = { ptr: 0, size: 0 };
  #output = { ptr: 0, size: 0 };

  constructor(module, database, surroundings) {
    this.#database = database(this.#memory);
    const stderr = (bytes) => (this.#stderr = (this.#stderr + decoder.decode(bytes)).slice(0, MAX_STDERR));
    try {
      const imports = {
        wasi_snapshot_preview1: wasi(module, this.#memory, { stderr, ...surroundings }),
        pistate_host_v1: hostImports(this.#memory),
        [this.#database.name]: this.#database.functions,
      };
      const { exports } = new WebAssembly.Instance(module, surroundings.around?.(imports) ?? imports);
      this.#exports = exports;
      this.#memory.attach(exports.memory);
      this.run("_initialize");
      const version = this.run("pistate_abi_version");
      if (version !== ABI_VERSION) fail("incompatible", `the module speaks version ${version} of the ABI, this package version ${ABI_VERSION}`);
      this.#reserve(this.#input, SCRATCH);
      this.#reserve(this.#output, SCRATCH);
    } catch (e) {
      this.discard();
      throw e;
    }
  }

  /** run calls an export. Whatever it throws is the end of the instance. */
  run(name, ...args) {
    try {
      return this.#exports[name](...args);
    } catch (cause) {
      this.discard();
      if (cause instanceof StateError) throw cause; // the host gave up on purpose
      const said = this.#stderr.split("\n", 1)[0];
      fail("storage", `the module failed in ${name} and is thrown away: ${cause.message}${said && `: ${said}`}`, { cause });
    }
  }

  /** discard ends the instance in the middle of whatever it is. */
  discard() {
    if (this.dead) return;
    this.dead = true;
    this.#database.close();
  }

  open(config) {
    this.texts([JSON.stringify(config)], (c) => this.status(this.run("open", ...c)));
  }

  close() {
    this.status(this.run("close"));
  }

  call(request) {
    const answer = this.texts([request], (r) => BigInt.asUintN(64, this.run("call", ...r)));
    if (answer === 0n) fail("limit", "the module has no memory for the answer");
    const ptr = Number(answer >> 32n);
    try {
      return decoder.decode(this.#memory.window(ptr, Number(answer & 0xffffffffn)));
    } finally {
      this.run("free", ptr);
    }
  }

  /** texts puts texts, or bytes, into the memory and calls f with a [ptr, len] of each. */
  texts(texts, f) {
    const parts = texts.map((t) => (typeof t === "string" && t.length > 512 ? utf8.encode(t) : t));
    let most = 0;
    for (const p of parts) most += typeof p === "string" ? 3 * p.length : p.length;
    this.#reserve(this.#input, most);
    let at = this.#input.ptr;
    const windows = parts.map((p) => {
      const { bytes } = this.#memory;
      const begin = at;
      if (typeof p === "string") at += utf8.encodeInto(p, bytes.subarray(begin, begin + 3 * p.length)).written;
      else {
        bytes.set(p, begin);
        at += p.length;
      }
      return [begin, at - begin];
    });
    try {
      return f(...windows);
    } finally {
      this.#shrink(this.#input);
    }
  }

  /** text returns what a function gives, undefined for absent; more says how to get what was too long for the buffer. */
  text(ask, more = ask) {
    let n = this.#length(ask(this.#output.ptr, this.#output.size));
    while (n > this.#output.size) {
      this.#reserve(this.#output, n);
      n = this.#length(more(this.#output.ptr, this.#output.size));
    }
    if (n === ABSENT) return undefined;
    const text = textOf(this.#memory.window(this.#output.ptr, n));
    this.#shrink(this.#output);
    return text;
  }

  #length(result) {
    const n = Number(result);
    return n === ABSENT ? n : this.status(n);
  }

  /** status throws the error of a negative result. */
  status(n) {
    if (n >= 0) return n;
    const { code, detail, facts, op } = this.#document() ?? { code: codeOf(n), detail: "the module says no more" };
    throw new StateError(code, detail, { facts, op });
  }

  #document() {
    let n = Number(this.run("error_document", this.#output.ptr, this.#output.size));
    if (n > this.#output.size) {
      this.#reserve(this.#output, n);
      n = Number(this.run("error_document", this.#output.ptr, this.#output.size));
    }
    return n > 0 ? JSON.parse(decoder.decode(this.#memory.window(this.#output.ptr, n))) : undefined;
  }

  /** #reserve sees to it that a buffer has so many bytes. */
  #reserve(buffer, size) {
    if (size <= buffer.size) return;
    if (buffer.size > 0) this.run("free", buffer.ptr);
    buffer.size = 0;
    const ptr = this.run("alloc", size) >>> 0;
    if (ptr === 0) {
      buffer.ptr = this.run("alloc", SCRATCH) >>> 0;
      buffer.size = SCRATCH;
      fail("limit", `the module has no memory for ${size} bytes`);
    }
    buffer.ptr = ptr;
    buffer.size = size;
  }

  /** #shrink gives the memory of an unusually long text back. */
  #shrink(buffer) {
    if (buffer.size <= KEPT_OUTPUT || this.dead) return;
    this.run("free", buffer.ptr);
    buffer.size = 0;
    this.#reserve(buffer, SCRATCH);
  }
}

/** textOf returns a value, or a key, as text. What other programs have stored may be no text. */
function textOf(bytes) {
  try {
    return decode(bytes);
  } catch (cause) {
    fail("corrupt", "what is stored is not UTF-8 text", { cause });
  }
}
