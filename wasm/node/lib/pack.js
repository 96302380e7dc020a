// Values as they cross between the module and its host: a tag and the value, little endian, one after another.

const NULL = 0;
const INTEGER = 1;
const REAL = 2;
const TEXT = 3;
const BLOB = 4;

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const utf8 = new TextEncoder();

/** Text is a TEXT value as bytes, where a plain Uint8Array is a BLOB. */
export class Text {
  constructor(bytes) {
    this.bytes = bytes;
  }
}

/**
 * packable prepares a row for packing and tells its size. INTEGER is a bigint, REAL a number, TEXT a string or a
 * Text, BLOB a Uint8Array, NULL null.
 */
export function packable(values) {
  const parts = [];
  let size = 0;
  for (let v of values) {
    if (typeof v === "string") v = new Text(utf8.encode(v));
    size += sizeOf(v);
    parts.push(v);
  }
  return { parts, size };
}

function sizeOf(v) {
  if (v === null) return 1;
  if (typeof v === "bigint" || typeof v === "number") return 9;
  return 5 + (v instanceof Text ? v.bytes : v).length;
}

/** packInto writes a prepared row at an offset and returns the offset behind it. */
export function packInto(view, bytes, at, { parts }) {
  for (const v of parts) {
    if (v === null) {
      view.setUint8(at++, NULL);
    } else if (typeof v === "bigint") {
      view.setUint8(at, INTEGER);
      view.setBigInt64(at + 1, v, true);
      at += 9;
    } else if (typeof v === "number") {
      view.setUint8(at, REAL);
      view.setFloat64(at + 1, v, true);
      at += 9;
    } else {
      const isText = v instanceof Text;
      const content = isText ? v.bytes : v;
      view.setUint8(at, isText ? TEXT : BLOB);
      view.setUint32(at + 1, content.length, true);
      bytes.set(content, at + 5);
      at += 5 + content.length;
    }
  }
  return at;
}

/** pack returns packed values. */
export function pack(values) {
  const row = packable(values);
  const bytes = new Uint8Array(row.size);
  packInto(new DataView(bytes.buffer), bytes, 0, row);
  return bytes;
}

/**
 * unpack reads the packed values that fill a part of a Buffer, of which view is another view. TEXT becomes a string: one
 * that is not UTF-8 is a RangeError, as is everything else that is not packed values. What it returns is a copy.
 */
export function unpack(buffer, view, begin, end) {
  const values = [];
  for (let at = begin; at < end; ) {
    const tag = view.getUint8(at++);
    if (tag === NULL) {
      values.push(null);
    } else if (tag === INTEGER || tag === REAL) {
      if (at + 8 > end) throw new RangeError(`a number ends at byte ${at + 8 - begin} of ${end - begin}`);
      values.push(tag === INTEGER ? view.getBigInt64(at, true) : view.getFloat64(at, true));
      at += 8;
    } else if (tag === TEXT || tag === BLOB) {
      const from = at + 4;
      const to = from <= end ? from + view.getUint32(at, true) : Infinity;
      if (to > end) throw new RangeError(`a value ends at byte ${to - begin} of ${end - begin}`);
      values.push(tag === TEXT ? decode(buffer, from, to) : new Uint8Array(buffer.subarray(from, to)));
      at = to;
    } else {
      throw new RangeError(`there is no value of kind ${tag}`);
    }
  }
  return values;
}

/** decode returns the text of UTF-8 bytes, a part of a Buffer; other bytes are a RangeError. */
export function decode(buffer, begin, end) {
  const text = buffer.toString("utf8", begin, end); // the fast way, which puts U+FFFD for what is not UTF-8
  if (!text.includes("\ufffd")) return text;
  try {
    return strict.decode(buffer.subarray(begin, end));
  } catch (cause) {
    throw new RangeError("a text is not UTF-8", { cause });
  }
}
