// The host of pistate_file_v1: one database file and its -wal and -journal, for store-sqlite.wasm. Numbers are those
// of ../../STORE.md.

import fs from "node:fs";
import path from "node:path";

import { StateError, fail, sqlNumberOf } from "./errors.js";
import { attempt } from "./guest.js";
import { Owner, openMain, park, unpark } from "./owner.js";
import { Text, pack } from "./pack.js";
import * as place from "./place.js";

const MODULE = "pistate_file_v1";
const MAIN = 0;
const SUFFIXES = ["", "-wal", "-journal"];
const MAX_SIZE = 2 ** 40; // bytes of a file, as in the other hosts
const MAX_MESSAGE = 4096;

// SQLite's result codes for what the operating system refuses.
const IOERR = 10;
const FULL = 13;
const CANTOPEN = 14;
const MISUSE = 21;
const READ = 266;
const WRITE = 778;
const FSYNC = 1034;
const TRUNCATE = 1546;
const FSTAT = 1802;
const DELETE = 2570;
const ACCESS = 3338;
const CLOSE = 4106;
const DELETE_NOENT = 5898;

const LOOKS = 10; // at a file that somebody writes meanwhile

/**
 * ownedFile returns what makes the host of an instance that is the only owner of a file. Becoming the owner changes
 * the file a little, so a module must have verified it before that (S4): a first instance opens it as it is, without
 * a lock, and gets as far as the first change that it means to make.
 */
export function ownedFile(file, patience, code, config, surroundings) {
  return (memory) => {
    for (let looks = 1; ; looks++) {
      place.mustBeResolved(file);
      const before = place.changes(file);
      const existed = Boolean(place.size(file));
      try {
        attempt(code, (memory) => database(new FileHost(file, memory, undefined, existed)), config, surroundings);
      } catch (e) {
        if (!(e instanceof Touched)) {
          if (place.changes(file) === before) throw e;
          if (looks === LOOKS) fail("busy", `${file}: another program writes to the database; with store-sqlite.wasm only one can have it open`);
          continue;
        }
      }
      if (place.changes(file) === before) return database(new FileHost(file, memory, new Owner(file, patience), existed));
    }
  };
}

function database(host) {
  return { name: MODULE, functions: host.imports(), close: () => host.closeAll() };
}

/** noFile makes the host of an instance that has its database in memory. */
export function noFile() {
  const denied = sqlNumberOf("denied");
  const functions = new FileHost("", undefined, undefined, false).imports();
  for (const name of Object.keys(functions)) {
    const isWide = name === "size" || name === "beside" || name === "error";
    functions[name] = isWide ? () => BigInt(denied) : () => denied;
  }
  return { name: MODULE, functions, close() {} };
}

/** Touched is thrown through a module that was only to look, when it is about to change something. */
class Touched extends StateError {
  constructor() {
    super("denied", "the database may only be looked at");
  }
}

/**
 * FileHost gives the files to one instance. With an owner it has them to itself. Without one they may be looked at:
 * the first change ends the instance with Touched.
 */
class FileHost {
  #file;
  #memory;
  #owner;
  #existed;
  #files = new Map(); // { fd, name, identity, unnamed } by number
  #message = "";

  /** existed tells whether there was a database before the owner came. */
  constructor(file, memory, owner, existed) {
    this.#file = file;
    this.#memory = memory;
    this.#owner = owner;
    this.#existed = existed;
  }

  /** imports returns the functions of the import module. */
  imports() {
    const i32 = (errcode, f) => (...args) => Number(this.#guard(errcode, () => f(...args)));
    const i64 = (errcode, f) => (...args) => BigInt(this.#guard(errcode, () => f(...args)));
    return {
      open: i32(CANTOPEN, (file, create) => this.open(file, create !== 0)),
      close: i32(CLOSE, (file) => this.close(file)),
      delete: i32(DELETE, (file) => this.delete(file)),
      exists: i32(ACCESS, (file) => (place.identity(this.#name(file)) === "" ? 0 : 1)),
      size: i64(FSTAT, (file) => fs.fstatSync(this.#open(file).fd).size),
      truncate: i32(TRUNCATE, (file, size) => this.truncate(file, size)),
      sync: i32(FSYNC, (file) => this.sync(file)),
      read: i32(READ, (file, ptr, len, offset) => this.read(file, this.#memory.window(ptr, len), offset)),
      write: i32(WRITE, (file, ptr, len, offset) => this.write(file, this.#memory.window(ptr, len), offset)),
      lock: i32(IOERR, (level) => this.lock(level)),
      in_place: i32(FSTAT, () => this.inPlace()),
      beside: i64(ACCESS, (buf, cap) => this.#memory.give(this.beside(), buf, cap)),
      error: i64(IOERR, (buf, cap) => this.#memory.give(Buffer.from(this.#message).subarray(0, MAX_MESSAGE), buf, cap)),
    };
  }

  #guard(errcode, answer) {
    try {
      return answer();
    } catch (e) {
      if (e instanceof Touched) throw e;
      this.#message = e instanceof StateError ? e.detail : e.message;
      if (e instanceof StateError) return sqlNumberOf(e.code);
      if (e instanceof RangeError) return -MISUSE;
      if (e.code === "ENOSPC" || e.code === "EDQUOT") return -FULL;
      return -(e.errcode ?? errcode);
    }
  }

  #name(file) {
    const suffix = SUFFIXES[file];
    if (suffix === undefined) fail("invalid", `there is no file ${file}`);
    return this.#file + suffix;
  }

  #open(file) {
    return this.#files.get(file) ?? fail("invalid", `${this.#name(file)} is not open`);
  }

  /** #change ends an instance that was only to look. */
  #change() {
    if (this.#owner) return;
    throw new Touched();
  }

  open(file, create) {
    const name = this.#name(file);
    if (this.#files.has(file)) fail("invalid", `${name} is open already`);
    let unnamed = false;
    if (place.identity(name) === "") {
      if (!create) throw Object.assign(new Error(`${name} does not exist`), { errcode: CANTOPEN });
      this.#change();
      unnamed = place.createFile(name);
    }
    if (create && this.#owner && file !== MAIN) place.restrict(this.#file); // it means to write
    const fd = file === MAIN ? openMain(name) : openBeside(name);
    this.#files.set(file, { fd, name, identity: place.identity(name, fd), unnamed });
    return 0;
  }

  /** close closes a file. The database itself stays open as long as there is an owner. */
  close(file) {
    const { fd } = this.#open(file);
    this.#files.delete(file);
    if (file === MAIN) park(fd);
    else fs.closeSync(fd);
    return 0;
  }

  delete(file) {
    const name = this.#name(file);
    if (file === MAIN) fail("invalid", `${name}: the database itself is not deleted`);
    if (this.#files.has(file)) fail("invalid", `${name} is open: close it first`);
    this.#change();
    this.inPlace();
    try {
      fs.unlinkSync(name);
    } catch (e) {
      throw e.code === "ENOENT" ? Object.assign(e, { errcode: DELETE_NOENT }) : e;
    }
    syncNames(name);
    return 0;
  }

  truncate(file, size) {
    const { fd } = this.#open(file);
    this.#change();
    fs.ftruncateSync(fd, this.#position(size, 0));
    return 0;
  }

  sync(file) {
    const opened = this.#open(file);
    if (!this.#owner) return 0;
    fs.fdatasyncSync(opened.fd);
    if (opened.unnamed) syncNames(opened.name);
    opened.unnamed = false;
    return 0;
  }

  read(file, window, offset) {
    const { fd } = this.#open(file);
    if (offset < 0n) fail("invalid", `offset ${offset} is negative`);
    let done = 0;
    while (done < window.length) {
      const n = fs.readSync(fd, window, done, window.length - done, offset + BigInt(done));
      if (n === 0) break;
      done += n;
    }
    return done;
  }

  write(file, window, offset) {
    const { fd } = this.#open(file);
    this.#change();
    const position = this.#position(offset, window.length);
    for (let done = 0; done < window.length; ) {
      done += fs.writeSync(fd, window, done, window.length - done, position + done);
    }
    return 0;
  }

  /** #position returns an offset or size as a number, unless the file would become too large. */
  #position(offset, length) {
    if (offset < 0n) fail("invalid", `offset or size ${offset} is negative`);
    if (offset > BigInt(MAX_SIZE - length)) fail("limit", `${length} bytes at ${offset}: a file has at most ${MAX_SIZE} bytes`);
    return Number(offset);
  }

  /** lock gives every lock: the owner has the exclusive one already, and who only looks has to look for changes. */
  lock(level) {
    if (![0, 1, 2, 4].includes(level)) fail("invalid", `there is no lock ${level}`);
    return 0;
  }

  /** inPlace refuses to go on if another file, or none, is at the path of one that is open (S9). */
  inPlace() {
    for (const { name, identity } of this.#files.values()) {
      if (place.identity(name) !== identity) {
        fail("replaced", `${name} is no longer the file that was opened (moved, removed or replaced); close it and open it again`);
      }
    }
    return 0;
  }

  beside() {
    return pack([this.#existed ? 1n : 0n, ...place.beside(this.#file).map((name) => new Text(name))]);
  }

  /** closeAll closes what is open, and ends the ownership. */
  closeAll() {
    for (const file of [...this.#files.keys()]) {
      if (file !== MAIN) this.#guard(CLOSE, () => this.close(file));
    }
    const main = this.#files.get(MAIN);
    this.#files.delete(MAIN);
    if (this.#owner) this.#owner.close(main?.fd ?? unpark(place.identity(this.#file)));
    else if (main) park(main.fd);
  }
}

function openBeside(name) {
  const { O_RDWR, O_NOFOLLOW = 0 } = fs.constants;
  return fs.openSync(name, O_RDWR | O_NOFOLLOW);
}

/** syncNames makes the names in a file's directory durable. */
function syncNames(name) {
  let fd;
  try {
    fd = fs.openSync(path.dirname(name), "r");
  } catch {
    return; // a directory that may be entered and not be read
  }
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
