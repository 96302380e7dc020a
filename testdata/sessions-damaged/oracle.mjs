// Writes NAME.expected.json beside each session file NAME.jsonl given, with what Pi itself makes of it.
//
//   node oracle.mjs PI FILE.jsonl...
//
// PI is the directory of an installed @earendil-works/pi-coding-agent package, version 0.74 or similar. Pi
// works on a copy, because it may rewrite what it opens. With --print the answers go to standard output, one
// line per file, and nothing is written.
//
// The tree is read from Pi's own index: getEntry(id) is the entry that Pi knows under an id, getLeafId() its
// leaf. The branch key rule is then applied word for word: go up while the parent has exactly one child.
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const args = process.argv.slice(2);
const print = args[0] === "--print" && args.shift();
const [pi, ...files] = args;
const { SessionManager, loadEntriesFromFile } = await import(
  pathToFileURL(join(pi, "dist/core/session-manager.js")).href
);

const usable = (id) => typeof id === "string" && id !== "" && Buffer.byteLength(id) <= 4096;

function answer(file) {
  const dir = mkdtempSync(join(tmpdir(), "oracle-"));
  try {
    const copy = join(dir, "session.jsonl");
    copyFileSync(file, copy);
    if (loadEntriesFromFile(copy).length === 0) return { refused: "Pi finds no session in it" };
    const session = SessionManager.open(copy);
    if (!readFileSync(copy).equals(readFileSync(file))) return { refused: "Pi rewrites it" };

    const ids = new Set(session.getEntries().map((e) => e?.id).filter(usable));
    const parents = new Map();
    const kids = new Map();
    for (const id of ids) {
      let parent = session.getEntry(id).parentId;
      if (!usable(parent) || !ids.has(parent) || parent === id) parent = null;
      parents.set(id, parent);
      kids.set(parent, (kids.get(parent) ?? 0) + 1);
    }
    for (const id of ids) {
      for (let at = id, steps = 0; at !== null; at = parents.get(at)) {
        if (++steps > ids.size) return { refused: "the parents lead in a circle" };
      }
    }
    const keys = {};
    for (const id of ids) {
      let top = id;
      while (parents.get(top) !== null && kids.get(parents.get(top)) === 1) top = parents.get(top);
      Object.defineProperty(keys, id, { value: top, enumerable: true });
    }
    const last = session.getEntries().filter((e) => usable(e?.id)).at(-1);
    return {
      session_id: session.getSessionId(),
      entries: ids.size,
      leaf: last?.id ?? "",
      leaf_in_pi: session.getLeafId() ?? null,
      branch_key_of: keys,
    };
  } catch (e) {
    return { refused: `Pi fails: ${e.message}` };
  } finally {
    rmSync(dir, { recursive: true });
  }
}

for (const file of files) {
  const a = answer(file);
  if (print) console.log(JSON.stringify({ file, ...a }));
  else writeFileSync(file.replace(/\.jsonl$/, ".expected.json"), `${JSON.stringify(a, null, 1)}\n`);
}
