// The memory of a module as its host sees it. The buffer is a new one whenever the memory has grown, which it may
// in every call into the module: no view is kept beyond that.

import { decode } from "./pack.js";

export class Memory {
  #memory;
  #bytes = new Uint8Array();
  #view = new DataView(new ArrayBuffer(0));

  /** attach tells which memory it is, as that is known only once there is an instance. */
  attach(memory) {
    this.#memory = memory;
  }

  #refresh() {
    if (this.#bytes.buffer === this.#memory.buffer) return;
    this.#bytes = new Uint8Array(this.#memory.buffer);
    this.#view = new DataView(this.#memory.buffer);
  }

  /** bytes is all of it, good until the next call into the module. */
  get bytes() {
    this.#refresh();
    return this.#bytes;
  }

  /** view is all of it, good until the next call into the module. */
  get view() {
    this.#refresh();
    return this.#view;
  }

  /** window returns a part of it; a RangeError if it is not wholly in the memory. */
  window(ptr, len) {
    const begin = ptr >>> 0;
    const end = begin + (len >>> 0);
    const { bytes } = this;
    if (end > bytes.length) throw new RangeError(`the window from ${begin} to ${end} is not in the memory, which has ${bytes.length} bytes`);
    return bytes.subarray(begin, end);
  }

  /** text returns the text in a window; a RangeError if it is not UTF-8. */
  text(ptr, len) {
    return decode(this.window(ptr, len));
  }

  /** give writes bytes into a window if they fit, and returns how many there are. */
  give(bytes, ptr, cap) {
    const window = this.window(ptr, cap);
    if (bytes.length <= window.length) window.set(bytes);
    return bytes.length;
  }
}
