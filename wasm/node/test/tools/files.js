import { createHash } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

/** dirOf makes a directory that lives as long as a test. */
export function dirOf(t) {
  const dir = fs.mkdtempSync(path.join(fs.realpathSync(os.tmpdir()), "pistate-node-"));
  t.after(() => fs.rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** files returns what is in a directory, with everything about each file that a change would show. */
export function files(dir) {
  return Object.fromEntries(
    fs.readdirSync(dir).map((name) => {
      const file = path.join(dir, name);
      const info = fs.lstatSync(file, { bigint: true });
      const content = info.isFile() ? createHash("sha256").update(fs.readFileSync(file)).digest("hex") : "";
      return [name, `${info.ino} ${info.mode.toString(8)} ${info.mtimeNs} ${content}`];
    }),
  );
}
