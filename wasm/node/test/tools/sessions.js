/** Manager is a session manager in memory, with as much as a store looks at. */
export class Manager {
  #id;
  #entries = [];
  #leaf = null;

  constructor(id = "s1") {
    this.#id = id;
  }

  getSessionId() {
    return this.#id;
  }

  getLeafId() {
    return this.#leaf;
  }

  getEntries() {
    return this.#entries.slice();
  }

  /** append adds entries one below the other, from the leaf on. */
  append(...ids) {
    for (const id of ids) {
      this.#entries.push({ id, parentId: this.#leaf });
      this.#leaf = id;
    }
    return this;
  }

  branch(id) {
    this.#leaf = id;
    return this;
  }

  /** load makes it another session. */
  load(id, entries) {
    this.#id = id;
    this.#entries = entries;
    this.#leaf = entries.at(-1)?.id ?? null;
  }
}

/** context is that of a session with some entries. */
export function context(id, ...entries) {
  return { sessionManager: new Manager(id).append(...entries) };
}
