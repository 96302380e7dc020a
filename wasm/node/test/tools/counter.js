// A process that counts: node counter.js PATH PLUGIN SESSION COUNT adds COUNT to a value that others count too, one by
// one, and writes as many values of its own.
import { openStore } from "../../index.js";
import { context } from "./sessions.js";

const [path, plugin, session, count] = process.argv.slice(2);
const store = openStore({ wasm: process.env.PISTATE_STORE_WASM, database: "sessions", path });
const shared = store.state("shared", "session");
const own = store.state(plugin, "branch");
const ctx = context(session, "a");

/** patiently does again what another process was in the way of; everything else ends this one. */
function patiently(f) {
  for (;;) {
    try {
      return f();
    } catch (e) {
      if (e.code !== "busy" && e.code !== "locked" && e.code !== "conflict") throw e;
    }
  }
}

for (let i = 1; i <= Number(count); i++) {
  patiently(() => shared.update(ctx, (n = 0) => n + 1));
  patiently(() => own.write(ctx, { plugin, i }));
}
store.close();
