// One instance of a store module: how it is made, called, and thrown away after a trap. A Go program still answers
// after one, with a broken runtime; so whatever leaves an export other than by its return ends the instance.

import { ABSENT, StateError, codeOf, fail } from "./errors.js";
import { hostImports } from "./host.js";
import { Memory } from "./memory.js";
import { wasi } from "./wasi.js";

const ABI_VERSION = 1;
const SCRATCH = 64 << 10; // bytes
const SHORT = 512; // UTF-16 units; a longer text is encoded before memory is found for it
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
  #place; // where the instance is; undefined for nowhere
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
    this.#place = undefined;
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
    this.#use((i) => {
      const p = this.#place;
      if (p !== undefined && p.leaf === leaf && p.session === session && p.plugin === plugin && p.tree === tree) return;
      this.#place = undefined;
      i.status(i.send("at", plugin, session, leaf, tree));
      this.#place = { plugin, session, leaf, tree };
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
    this.#use((i) => i.status(i.send("write", scope, value)));
  }

  drop(scope) {
    this.#use((i) => i.status(i.run("drop", scope)));
  }

  /** compareAndWrite writes value if old, undefined for nothing, is still what is stored. */
  compareAndWrite(scope, old, value) {
    this.#use((i) =>
      i.status(old === undefined ? i.send("compare_and_write", scope, 0, -1, value) : i.send("compare_and_write", scope, old, value)),
    );
  }

  /** entries adds packed entries to the instance's tree of a session. */
  entries(session, packed) {
    this.#use((i) => i.status(i.send("entries", session, packed)));
  }

  forget(session) {
    this.#use((i) => i.status(i.send("forget", session)));
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
    this.status(this.send("open", JSON.stringify(config)));
  }

  close() {
    this.status(this.run("close"));
  }

  call(request) {
    const answer = BigInt.asUintN(64, this.send("call", request));
    if (answer === 0n) fail("limit", "the module has no memory for the answer");
    const ptr = Number(answer >> 32n);
    try {
      return decoder.decode(this.#memory.window(ptr, Number(answer & 0xffffffffn)));
    } finally {
      this.run("free", ptr);
    }
  }

  /** send calls an export. Texts, or bytes, among the arguments are put into the memory and become a pointer and a length. */
  send(name, ...args) {
    let most = 0;
    for (const [i, arg] of args.entries()) {
      if (typeof arg === "number") continue;
      if (typeof arg === "string" && arg.length > SHORT) args[i] = utf8.encode(arg); // whose length is then known
      most += typeof args[i] === "string" ? 3 * arg.length : args[i].length;
    }
    this.#reserve(this.#input, most);
    const crossing = [];
    let at = this.#input.ptr;
    for (const arg of args) {
      if (typeof arg === "number") {
        crossing.push(arg);
        continue;
      }
      const length = this.#memory.put(arg, at);
      crossing.push(at, length);
      at += length;
    }
    try {
      return this.run(name, ...crossing);
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
    const text = textOf(this.#memory, this.#output.ptr, n);
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
function textOf(memory, ptr, len) {
  try {
    return memory.text(ptr, len);
  } catch (cause) {
    fail("corrupt", "what is stored is not UTF-8 text", { cause });
  }
}
