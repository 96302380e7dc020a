// The state of one plugin in one scope.

import { StateError, fail } from "./errors.js";

const SCOPES = { session: 0, branch: 1 };
const NO_TREE = 0;
const OWN_TREE = 2;
const ATTEMPTS = 100; // of an update, against writers that are as busy

/** State is described in index.d.ts, and so are its methods. */
export class State {
  #store; // returns what all that have the store open share
  #plugin;
  #scope;

  constructor(store, pluginId, scope) {
    if (typeof pluginId !== "string" || !/^[a-z0-9.-]+$/.test(pluginId)) {
      fail("invalid", `plugin id ${JSON.stringify(pluginId)}: one or more of a-z, 0-9, '.' and '-' are expected`);
    }
    if (!Object.hasOwn(SCOPES, scope)) fail("invalid", `scope ${JSON.stringify(scope)}: it is either "session" or "branch"`);
    this.#store = store;
    this.#plugin = pluginId;
    this.#scope = SCOPES[scope];
  }

  /** #at goes to where the context is, and returns the module. */
  #at(context) {
    const { guest, trees } = this.#store();
    const manager = context?.sessionManager;
    if (typeof manager?.getSessionId !== "function") fail("invalid", "the context has no sessionManager");
    const session = idOf(manager.getSessionId(), "session id");
    if (this.#scope === SCOPES.session) {
      guest.at(this.#plugin, session, "", NO_TREE);
      return guest;
    }
    const leaf = manager.getLeafId() ?? "";
    if (leaf !== "") trees.tell(manager, session);
    guest.at(this.#plugin, session, idOf(leaf, "leaf id"), OWN_TREE);
    return guest;
  }

  read(context) {
    const text = this.readText(context);
    return text === undefined ? undefined : parse(text);
  }

  readText(context) {
    return this.#at(context).read(this.#scope);
  }

  write(context, value) {
    this.writeText(context, stringify(value));
  }

  writeText(context, text) {
    mustBeText(text);
    this.#at(context).write(this.#scope, text);
  }

  drop(context) {
    this.#at(context).drop(this.#scope);
  }

  compareAndWrite(context, expected, text) {
    mustBeText(text);
    if (expected !== undefined) mustBeText(expected);
    this.#at(context).compareAndWrite(this.#scope, expected, text);
  }

  update(context, change) {
    for (let attempt = 1; ; attempt++) {
      const old = this.readText(context);
      const value = change(old === undefined ? undefined : parse(old));
      try {
        this.compareAndWrite(context, old, stringify(value));
        return value;
      } catch (e) {
        if (!(e instanceof StateError) || e.code !== "conflict" || attempt === ATTEMPTS) throw e;
      }
    }
  }

  branchKey(context) {
    return this.#scope === SCOPES.session ? undefined : this.#at(context).branchKey();
  }
}

function idOf(id, what) {
  if (typeof id !== "string" || !id.isWellFormed()) fail("invalid", `${what} ${JSON.stringify(id)} is not Unicode text`);
  return id;
}

function mustBeText(text) {
  if (typeof text !== "string") fail("invalid", `JSON text is expected, not a value of type ${typeof text}`);
  if (!text.isWellFormed()) fail("invalid", "the JSON text holds half of a surrogate pair, which has no form in UTF-8");
}

function stringify(value) {
  let text;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    fail("invalid", `the value has no JSON form: ${cause.message}`, { cause });
  }
  return text ?? fail("invalid", `a value of type ${typeof value} has no JSON form; drop removes what is stored`);
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch (cause) {
    fail("corrupt", `what is stored is not JSON: ${cause.message}`, { cause });
  }
}
