// Compiled, never run.
import type { ExtensionContext, SessionManager } from "@earendil-works/pi-coding-agent";

import { StateError, openStore, type Code, type ConflictFacts, type SessionContext, type Store } from "../../index.js";

declare const context: ExtensionContext;
declare const readonlyManager: ExtensionContext["sessionManager"];
declare const manager: SessionManager;

using store: Store = openStore({ wasm: "store.wasm", database: "sessions", path: "/states.sqlite", coherent: true });
const state = store.state("todo", "branch");
const contexts: SessionContext[] = [context, { sessionManager: readonlyManager }, { sessionManager: manager }];

interface Todo {
  open: string[];
}

for (const ctx of contexts) {
  const todo: Todo | undefined = state.read<Todo>(ctx);
  const text: string | undefined = state.readText(ctx);
  state.write(ctx, { open: [] } satisfies Todo);
  state.compareAndWrite(ctx, text, "1");
  const next: Todo = state.update<Todo>(ctx, (old) => ({ open: [...(old?.open ?? []), "more"] }));
  const key: string | undefined = state.branchKey(ctx);
  void [todo, next, key];
}
try {
  state.drop(context);
} catch (e) {
  if (!(e instanceof StateError)) throw e;
  const code: Code = e.code;
  if (code === "conflict") void (e.facts as ConflictFacts).found;
}
const { result, revision } = store.call<{ id: string }>({ op: "project.register", args: { path: "/" } });
void [result.id, revision, store.status().plugins?.[0]?.rows];

// @ts-expect-error: there is no such scope
store.state("todo", "both");
// @ts-expect-error: a database is needed
openStore({ wasm: new Uint8Array(), memory: true });
// @ts-expect-error: text is expected
state.writeText(context, 1);
// @ts-expect-error: an op is needed
store.call({});
