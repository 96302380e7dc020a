/**
 * Durable state for Pi extensions and workflows, kept by pistate's WebAssembly modules. Everything is synchronous: a
 * write has reached the disk when it returns, and a failure is a {@link StateError}.
 */

/** The stable codes of failures. A later version may have more. */
export type Code =
  | "invalid"
  | "limit"
  | "not_found"
  | "stale_revision"
  | "stale_claim"
  | "illegal_transition"
  | "conflict"
  | "already_resolved"
  | "denied"
  | "locked"
  | "busy"
  | "canceled"
  | "incompatible"
  | "corrupt"
  | "replaced"
  | "closed"
  | "storage"
  | "extension";

/** Every failure of a store. */
export class StateError extends Error {
  /** What programs look at. */
  readonly code: Code;
  /** For people; it may change. */
  readonly detail: string;
  /** What the code is about: {@link LockedFacts}, {@link ConflictFacts}, or those of the command protocol. */
  readonly facts?: unknown;
  /** The operation of the command protocol that was refused. */
  readonly op?: string;
}

/** The facts of "locked": who wanted to do what, to which session, and why not. Times are ms since 1970. */
export interface LockedFacts {
  initiator: string;
  action: string;
  object: string;
  reason: string;
  holder: string;
  since: number;
  until: number;
}

/** The facts of "conflict" in session state. */
export interface ConflictFacts {
  /** The JSON text that is stored; missing or null for nothing. */
  found?: string | null;
}

/** What is read of a session entry. */
export interface SessionEntry {
  id: string;
  parentId: string | null;
}

/** What is read of a session manager. Pi's `SessionManager` is one, and so is its `ReadonlySessionManager`. */
export interface SessionManager {
  getSessionId(): string;
  getLeafId(): string | null;
  getEntries(): readonly SessionEntry[];
}

/** The context of a call. Pi's `ExtensionContext` is one. */
export interface SessionContext {
  readonly sessionManager: SessionManager;
}

export interface StoreOptions {
  /** store.wasm or store-sqlite.wasm: its path, its bytes, or what was compiled of it. */
  wasm: string | URL | Uint8Array | ArrayBuffer | WebAssembly.Module;

  /** "sessions": the values of Pi sessions. "workflow": runs, decisions, effects and the rest of the command protocol. */
  database: "sessions" | "workflow";

  /**
   * The absolute path of the database, which is created if it is missing. store.wasm shares it with any other program
   * through node:sqlite. store-sqlite.wasm has to be its only user: others get BUSY as long as it is open, and
   * so does `openStore` while others have it open. It uses node:sqlite for SQLite's locks, and nothing else.
   */
  path?: string;

  /** With store-sqlite.wasm, instead of a path: a database that ends with the store. It needs no node:sqlite. */
  memory?: boolean;

  /**
   * Sessions: every read sees what other processes have committed before it, at the cost of a look at the database.
   * Without it that is so after `refresh`. All who share a path in one process have to agree on it.
   */
  coherent?: boolean;

  /** Sessions: how many bytes of values are kept in memory. Default: 64 MiB. */
  cacheBytes?: number;

  /** Workflow: the version of the program, kept in a database that is created. */
  appVersion?: string;
}

/**
 * Opens a store. In one process all stores of a path share one module and its cache; the last one that is closed
 * closes the database.
 *
 * A path that can't be one, or a module that isn't one, fails with "invalid", another program's database with
 * "incompatible", a damaged one with "corrupt", one that others keep to themselves with "busy", everything that
 * the operating system refuses, or a Node.js without node:sqlite, with "storage".
 */
export function openStore(options: StoreOptions): Store;

/** An answer of the command protocol, whose operations and results docs/protocol.md describes. */
export interface Answer<Result = unknown> {
  ok: true;
  revision?: number;
  sequence?: number;
  adopted?: boolean;
  result: Result;
}

export interface Store {
  /** The resolved path; undefined in memory. */
  readonly path: string | undefined;

  /**
   * The state of one plugin. The plugin id is one or more of a-z, 0-9, "." and "-"; anything else, or another scope,
   * fails here with "invalid".
   */
  state(pluginId: string, scope: "session" | "branch"): State;

  /** Carries out a request of the command protocol. A refusal is thrown, with its code, detail and facts. */
  call<Result = unknown>(request: { op: string; [member: string]: unknown }): Answer<Result>;

  /**
   * The same as text, byte for byte: the request is not looked at here, and a refusal is an answer like any other. Use
   * it where a number may be beyond 2^53, or where digests are to be made of what was sent.
   */
  callText(request: string): string;

  /** Sessions: drops the cache, so that the next reads see what other processes have written. */
  refresh(): void;

  /** Sessions: drops the cache and deletes the lock of a session, whoever holds it. */
  forceRefresh(session: string): void;

  /** Sessions: who holds which session's lock, and how much each plugin has stored. */
  status(session?: string): SessionStatus;

  /** Gives the store back. Values that wait for the first entry of their session are then gone. Closing twice is harmless. */
  close(): void;
  [Symbol.dispose](): void;
}

/** Times are ms since 1970. */
export interface SessionStatus {
  path: string;
  file: { bytes: number; wal_bytes: number; page_size: number; pages: number; free_pages: number };
  locks: { session: string; holder: string; alive: "yes" | "no" | "unknown"; acquired: number; expired: boolean }[] | null;
  plugins: { plugin: string; sessions: number; rows: number; bytes: number }[] | null;
}

/**
 * The values of one plugin in one scope: one value per session, or one per branch of a session's tree, which a branch
 * that has none takes over from the one it grew from.
 *
 * A value is JSON text, and what is stored is that text, byte for byte. `readText`, `writeText` and
 * `compareAndWrite` deal in it. `read`, `write` and `update` parse it and make it, with what JSON.parse and
 * JSON.stringify do: numbers beyond 2^53 lose digits, members of the same name but the last are lost, NaN becomes
 * null, and what is undefined in an object is left out.
 *
 * In branch scope each call looks at all entries of the session manager for new ones, which takes about as long as its
 * `getEntries`.
 */
export interface State {
  /** The value, parsed; a copy of the caller's own. undefined: there is none. A stored null is null. */
  read<Value = unknown>(context: SessionContext): Value | undefined;

  /** The JSON text of the value, as it was written; undefined: there is none. */
  readText(context: SessionContext): string | undefined;

  /**
   * Stores JSON.stringify of a value. What has no JSON form, undefined included, fails with "invalid". Before the
   * first entry of the session a branch's value is kept in memory until there is one.
   */
  write(context: SessionContext, value: unknown): void;

  /** Stores JSON text as it is. What isn't JSON fails with "invalid". */
  writeText(context: SessionContext, text: string): void;

  /** Removes the value, in branch scope the branch's own: the next read takes over again. */
  drop(context: SessionContext): void;

  /**
   * Stores text if what a read would give at this moment, whatever process has written it, is the expected text;
   * undefined: nothing. Else it fails with "conflict", and the next read gives what there is.
   */
  compareAndWrite(context: SessionContext, expected: string | undefined, text: string): void;

  /**
   * Reads, changes and writes as one step: what another process writes in between makes it begin again. `change` gets
   * the value, or undefined, and returns the new one; it may be called several times. Returns what was written. After
   * 100 attempts in vain it fails with "conflict".
   */
  update<Value = unknown>(context: SessionContext, change: (value: Value | undefined) => Value): Value;

  /** The key that the current branch's value has; undefined before the first entry, and in session scope. */
  branchKey(context: SessionContext): string | undefined;
}
