// The store modules that the tests run. The Go test of this directory builds them and tells where they are.

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { openStore } from "../../lib/store.js";

export const lentModule = process.env.PISTATE_STORE_WASM;
export const insideModule = process.env.PISTATE_STORE_SQLITE_WASM;
export const pihost = process.env.PISTATE_PIHOST;

/** skip is why tests that need the modules can't run, or false. */
export const skip = !(lentModule && insideModule && pihost) && "go test ./wasm/node builds the modules that this needs";

/** kinds are the ways to have a store: open(t, file, options, internals) opens one until the test ends. */
export const kinds = [
  { name: "store.wasm", wasm: lentModule, shares: true },
  { name: "store-sqlite.wasm on a file", wasm: insideModule },
  { name: "store-sqlite.wasm in memory", wasm: insideModule, memory: true },
].map((kind) => ({
  ...kind,
  open(t, file, options, internals) {
    const where = kind.memory ? { memory: true } : { path: file };
    const store = openStore({ wasm: kind.wasm, database: "sessions", ...where, ...options }, { patience: 200, ...internals });
    t.after(() => store.close());
    return store;
  },
}));

/** onFiles are the kinds that keep a file. */
export const onFiles = kinds.filter((kind) => !kind.memory);

const pi = locate(process.env.PISTATE_PI ?? "@earendil-works/pi-coding-agent");

function locate(name) {
  if (path.isAbsolute(name)) return name;
  for (const dir of createRequire(import.meta.url).resolve.paths(name)) {
    if (fs.existsSync(path.join(dir, name, "package.json"))) return path.join(dir, name);
  }
  return undefined;
}

/** skipPi is why tests against Pi can't run, or false. */
export const skipPi = skip || (!pi && "Pi is not installed: npm install --ignore-scripts");

/** sessionManagerOfPi returns Pi's own class. */
export async function sessionManagerOfPi() {
  return (await import(pathToFileURL(path.join(pi, "dist/core/session-manager.js")).href)).SessionManager;
}
