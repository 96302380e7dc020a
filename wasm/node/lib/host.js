// The host of pistate_host_v1: this process, others, and directories. The trees of sessions are not asked for here:
// they are in the module itself.

import fs from "node:fs";

import { StateError, fail, numberOf } from "./errors.js";

const MAX_MESSAGE = 4096;

/** hostImports returns the functions of the import module. */
export function hostImports(memory) {
  let message = "";
  const guard = (answer) => {
    try {
      return answer();
    } catch (e) {
      message = e instanceof StateError ? e.detail : e.message;
      if (e instanceof StateError) return numberOf(e.code);
      return numberOf(e instanceof RangeError ? "invalid" : "storage");
    }
  };
  const i64 = (f) => (...args) => BigInt(guard(() => f(...args)));
  const noTree = () => fail("not_found", "this host keeps no trees: the module has the entries");
  return {
    pid: () => process.pid,
    process_lives: (pid) => processLives(pid),
    directory: i64((ptr, len, buf, cap) => memory.give(Buffer.from(directory(memory.text(ptr, len))), buf, cap)),
    branch_key: i64(noTree),
    parent_key: i64(noTree),
    error: i64((buf, cap) => memory.give(Buffer.from(message).subarray(0, MAX_MESSAGE), buf, cap)),
  };
}

/**
 * processLives asks the kernel: 1 yes, 0 no, -1 unknown. A process that has died but whose parent has not noticed yet
 * is gone.
 */
export function processLives(pid) {
  if (!Number.isInteger(pid) || pid <= 0) return -1;
  try {
    process.kill(pid, 0);
  } catch (e) {
    if (e.code === "ESRCH") return 0;
    if (e.code !== "EPERM") return -1;
  }
  try {
    // Linux only. The state is the first field after the name, which is in parentheses and may itself hold some.
    const stat = fs.readFileSync(`/proc/${pid}/stat`, "latin1");
    if ("ZX".includes(stat.charAt(stat.lastIndexOf(")") + 2) || "?")) return 0;
  } catch {
    // The kernel has said that it lives.
  }
  return 1;
}

function directory(path) {
  let real;
  try {
    real = fs.realpathSync.native(path);
  } catch (cause) {
    const code = { ENOENT: "not_found", EACCES: "denied", EPERM: "denied" }[cause.code] ?? "invalid";
    fail(code, cause.message, { cause });
  }
  if (!fs.statSync(real).isDirectory()) fail("invalid", `${path} is not a directory`);
  return real;
}
