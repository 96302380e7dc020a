// A writer like those of worker_test.go, through store.wasm over node:sqlite.
import { join } from "node:path";
import { openStore, StateError } from "../../../wasm/node/index.js";

const [dir, life, padding] = process.argv.slice(2);
const shared = "shared";

const wasm = join(dir, "store.wasm");
const sessions = openStore({ wasm, database: "sessions", path: join(dir, "sessions", "states.sqlite"), coherent: true });
const workflow = openStore({ wasm, database: "workflow", path: join(dir, "workflows", "state.sqlite") });
const counter = sessions.state("counter", "session");

let over = false;
process.stdin.on("end", () => (over = true)).resume();

// The only error that a writer may meet is busy.
function patiently(what) {
  for (;;) {
    try {
      return what();
    } catch (error) {
      if (!(error instanceof StateError) || error.code !== "busy") throw error;
    }
  }
}

function context(session) {
  return { sessionManager: { getSessionId: () => session, getLeafId: () => null, getEntries: () => [] } };
}

for (let i = 1; !over; i++) {
  for (const session of [shared, life]) {
    patiently(() => counter.update(context(session), (n = 0) => n + 1));
    process.stdout.write(`${session} ${i}\n`);
  }
  patiently(() =>
    workflow.call({
      op: "definition.register",
      actor: { class: "system", id: "sharing" },
      request: `${life}-${i}`,
      args: { definition: { name: `${life}-${i}`, nodes: [{ id: "a", type: "task" }], padding } },
    }),
  );
  process.stdout.write(`command ${i}\n`);
  await new Promise(setImmediate); // to hear of the end of standard input
}
sessions.close();
workflow.close();
