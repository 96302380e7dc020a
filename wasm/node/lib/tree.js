// The tree of a Pi session, told to the module entry by entry. A session manager only ever appends, until it opens
// another session or the same one again; so what is new is what comes behind the last entry that was told.

import { pack } from "./pack.js";

const MAX_TREES = 16; // what a module keeps at once, so that its memory stays bounded
const MAX_ID = 4096; // bytes; Pi's ids have 8
const BATCH = 8192; // entries

export class Trees {
  #guest;
  #generation = 0;
  #told = new Map(); // by session id, the one used last at the end

  constructor(guest) {
    this.#guest = guest;
  }

  /** tell makes the module's tree of the manager's session the manager's. It costs a look at each entry, and no call if nothing is new. */
  tell(manager, session) {
    if (this.#generation !== this.#guest.generation) {
      this.#generation = this.#guest.generation;
      this.#told.clear();
    }
    const entries = manager.getEntries();
    let told = this.#told.get(session);
    if (told && !told.isPrefixOf(manager, entries)) {
      this.#forget(session);
      told = undefined;
    }
    if (told?.count === entries.length) {
      if (this.#told.size > 1) this.#touch(session, told);
      return;
    }
    told ??= new Told(manager);
    this.#touch(session, told);
    // Should one of the calls fail, the tree is built anew the next time.
    try {
      for (let begin = told.count; begin < entries.length; begin += BATCH) {
        const batch = pack(entries.slice(begin, begin + BATCH).flatMap(idAndParent));
        if (batch.length > 0) this.#guest.entries(session, batch);
      }
    } catch (e) {
      this.#told.delete(session);
      this.#guest.forget(session);
      throw e;
    }
    told.remember(entries);
  }

  #touch(session, told) {
    this.#told.delete(session);
    this.#told.set(session, told);
    if (this.#told.size > MAX_TREES) this.#forget(this.#told.keys().next().value);
    // The manager that has left a session comes back to it only by reading it again.
    for (const [other, { manager }] of this.#told) {
      if (other !== session && manager.deref() === told.manager.deref()) this.#forget(other);
    }
  }

  #forget(session) {
    this.#told.delete(session);
    this.#guest.forget(session);
  }
}

/** Told is how far one session manager's entries are known to the module. */
class Told {
  count = 0;
  #first;
  #last;

  constructor(manager) {
    this.manager = new WeakRef(manager);
  }

  /** isPrefixOf reports whether what was told is how the manager's entries still begin. Pi never changes entries in place. */
  isPrefixOf(manager, entries) {
    if (this.manager.deref() !== manager || entries.length < this.count) return false;
    return this.count === 0 || (entries[0] === this.#first?.deref() && entries[this.count - 1] === this.#last?.deref());
  }

  remember(entries) {
    this.count = entries.length;
    if (this.count === 0) return;
    this.#first = new WeakRef(entries[0]);
    this.#last = new WeakRef(entries[this.count - 1]);
  }
}

/** idAndParent returns an entry's id and its parent's, "" for a root; nothing for an entry that can't be found by its id. */
function idAndParent(entry) {
  const { id, parentId } = entry ?? {};
  if (!isId(id)) return [];
  return [id, isId(parentId) ? parentId : ""];
}

function isId(id) {
  return typeof id === "string" && id !== "" && id.isWellFormed() && !id.includes("\0") && (id.length * 3 <= MAX_ID || Buffer.byteLength(id) <= MAX_ID);
}
