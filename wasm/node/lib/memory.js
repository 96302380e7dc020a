// The memory of a module as its host sees it. The buffer is a new one whenever the memory has grown, which it may
// in every call into the module: no view is kept beyond that.

import { decode, unpack } from "./pack.js";

export class Memory {
  #memory;
  #bytes = new Uint8Array();
  #buffer = Buffer.alloc(0);
  #view = new DataView(new ArrayBuffer(0));

  /** attach tells which memory it is, as that is known only once there is an instance. */
  attach(memory) {
    this.#memory = memory;
  }

  #refresh() {
    const { buffer } = this.#memory;
    if (this.#bytes.buffer === buffer) return;
    this.#bytes = new Uint8Array(buffer);
    this.#buffer = Buffer.from(buffer);
    this.#view = new DataView(buffer);
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

  /** range returns where a window begins and ends; a RangeError if it is not wholly in the memory. */
  range(ptr, len) {
    const begin = ptr >>> 0;
    const end = begin + (len >>> 0);
    const { bytes } = this;
    if (end > bytes.length) throw new RangeError(`the window from ${begin} to ${end} is not in the memory, which has ${bytes.length} bytes`);
    return { begin, end };
  }

  /** window returns a part of it; a RangeError if it is not wholly in the memory. */
  window(ptr, len) {
    const { begin, end } = this.range(ptr, len);
    return this.#bytes.subarray(begin, end);
  }

  /** text returns the text in a window; a RangeError if it is not UTF-8. */
  text(ptr, len) {
    const { begin, end } = this.range(ptr, len);
    return decode(this.#buffer, begin, end);
  }

  /** values returns the packed values in a window; a RangeError if there are none. */
  values(ptr, len) {
    const { begin, end } = this.range(ptr, len);
    return unpack(this.#buffer, this.#view, begin, end);
  }

  /** put writes a text, or bytes, at an address where there is room for it, and returns how many bytes it has. */
  put(content, at) {
    this.#refresh();
    if (typeof content === "string") return this.#buffer.write(content, at);
    this.#bytes.set(content, at);
    return content.length;
  }

  /** give writes bytes into a window if they fit, and returns how many there are. */
  give(bytes, ptr, cap) {
    const window = this.window(ptr, cap);
    if (bytes.length <= window.length) window.set(bytes);
    return bytes.length;
  }
}
