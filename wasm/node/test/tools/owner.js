// A process that owns a file with store-sqlite.wasm: node owner.js PATH writes 1, 2, 3 and so on, and prints each number
// once it is stored, until it is killed; with a COUNT it stops there, holds the file, and waits for its input to end.
import { openStore } from "../../index.js";
import { context } from "./sessions.js";

const [path, count = Infinity] = process.argv.slice(2);
const store = openStore({ wasm: process.env.PISTATE_STORE_SQLITE_WASM, database: "sessions", path });
const state = store.state("owner", "session");
const ctx = context("s", "a");
for (let i = (state.read(ctx) ?? 0) + 1, n = 0; n < Number(count); i++, n++) {
  state.write(ctx, i);
  process.stdout.write(`${i}\n`);
  await new Promise((resolve) => setImmediate(resolve));
}
process.stdin.resume();
await new Promise((resolve) => process.stdin.once("end", resolve));
store.close();
