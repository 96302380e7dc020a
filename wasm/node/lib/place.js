// The path of a database and the files at it: which file is meant, how it is created, and whether it is still the
// one that was opened. No database file is opened here: closing it would drop the locks of every SQLite in this
// process that has it open.

import fs from "node:fs";
import path from "node:path";

import { fail, StateError } from "./errors.js";

const FILE_MODE = 0o600;
const DIR_MODE = 0o700;

/**
 * resolve returns the path by which one file is known in this process: absolute, every link followed as the operating
 * system would. The file and its last directories need not exist yet; a link that points nowhere is refused.
 */
export function resolve(given) {
  if (typeof given !== "string" || given === "") fail("invalid", "database path is empty: give the path of a file");
  const shown = JSON.stringify(given);
  if (given.includes("\0")) fail("invalid", `database path ${shown} holds a NUL byte`);
  if (!given.isWellFormed()) fail("invalid", `database path ${shown} is not Unicode text`);
  if (!path.isAbsolute(given)) fail("invalid", `database path ${shown} is relative: give an absolute path`);
  if (given.endsWith(path.sep)) fail("invalid", `database path ${shown} names a directory: give the path of a file`);
  return storage(`database path ${given}`, () => resolveExisting(given, ""));
}

function resolveExisting(at, rest) {
  try {
    return path.join(fs.realpathSync.native(at), rest);
  } catch (e) {
    if (e.code !== "ENOENT") throw e;
    const info = fs.lstatSync(at, { throwIfNoEntry: false });
    if (info?.isSymbolicLink()) fail("invalid", `database path ${at} is a symbolic link to something that does not exist`);
    if (info) return resolveExisting(at, rest); // another process has made it since
    const slash = at.lastIndexOf(path.sep);
    const dir = at.slice(0, slash).replace(/\/+$/, "");
    return resolveExisting(dir || path.sep, path.join(at.slice(slash + 1), rest));
  }
}

/** mustBeResolved refuses a path on which a link has taken the place of a directory, or of the file (S10). */
export function mustBeResolved(file) {
  if (resolve(file) !== file) fail("replaced", `${file}: a symbolic link has taken the place of the file or of a directory; open it again`);
}

/** storage runs a function and gives a failure of the operating system the code "storage". */
export function storage(what, attempt) {
  try {
    return attempt();
  } catch (cause) {
    if (cause instanceof StateError || cause.errcode !== undefined) throw cause;
    fail("storage", `${what}: ${cause.message}`, { cause });
  }
}

/** size returns the size of a database in bytes, undefined if there is none. What can't be a database is refused. */
export function size(file) {
  const info = storage(file, () => fs.lstatSync(file, { throwIfNoEntry: false }));
  if (!info) return undefined;
  if (info.isDirectory()) fail("invalid", `${file} is a directory, not a database file`);
  if (!info.isFile()) fail("invalid", `${file} is not a regular file`);
  return info.size;
}

/** create makes the directory (0700) and an empty database (0600) where they are missing, whatever the umask (S5). */
export function create(file) {
  storage(`create ${file}`, () => {
    makeDir(path.dirname(file));
    createFile(file);
  });
  size(file);
}

/** createFile makes an empty file with mode 0600 unless there is one. It reports whether it has. */
export function createFile(file) {
  let fd;
  try {
    fd = fs.openSync(file, "wx", FILE_MODE);
  } catch (e) {
    if (e.code === "EEXIST") return false;
    throw e;
  }
  try {
    fs.fchmodSync(fd, FILE_MODE);
  } finally {
    fs.closeSync(fd);
  }
  return true;
}

function makeDir(dir) {
  const info = fs.statSync(dir, { throwIfNoEntry: false });
  if (info?.isDirectory()) return;
  if (info) throw new Error(`${dir} exists and is not a directory`);
  makeDir(path.dirname(dir));
  try {
    fs.mkdirSync(dir, DIR_MODE);
  } catch (e) {
    if (e.code === "EEXIST") return; // another process was faster
    throw e;
  }
  fs.chmodSync(dir, DIR_MODE);
}

/** restrict takes the permissions of group and others from the files of a database that is known to be ours. */
export function restrict(file) {
  for (const name of [file, `${file}-wal`, `${file}-shm`]) {
    try {
      const info = fs.lstatSync(name, { throwIfNoEntry: false });
      if (info && (info.mode & 0o777 & ~FILE_MODE) !== 0) fs.chmodSync(name, info.mode & FILE_MODE);
    } catch (e) {
      if (e.code !== "ENOENT" && e.code !== "EPERM" && e.code !== "EACCES") {
        fail("storage", `database: ${e.message}`, { cause: e });
      }
    }
  }
}

const EXACT = { bigint: true, throwIfNoEntry: false };

/** identity tells one file from another, "" where there is none. The file descriptor, if given, is asked instead. */
export function identity(file, fd) {
  const info =
    fd === undefined ? fs.lstatSync(file, EXACT) : fs.fstatSync(fd, EXACT);
  return info ? `${info.dev}:${info.ino}` : "";
}

/** changes tells one state of a database's files from another. */
export function changes(file) {
  return ["", "-wal", "-journal"]
    .map((suffix) => {
      const info = fs.lstatSync(file + suffix, { bigint: true, throwIfNoEntry: false });
      return info ? `${info.dev}:${info.ino}:${info.size}:${info.mtimeNs}` : "";
    })
    .join(" ");
}

/** beside returns the names in the directory of a file as bytes, sorted; none if there is no directory. */
export function beside(file) {
  try {
    return fs.readdirSync(path.dirname(file), { encoding: "buffer" }).sort(Buffer.compare);
  } catch (e) {
    if (e.code === "ENOENT") return [];
    throw e;
  }
}
