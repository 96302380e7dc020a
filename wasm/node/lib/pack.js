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
  let size = 0;
  const parts = values.map((v) => {
    if (typeof v === "string") v = new Text(utf8.encode(v));
    size += sizeOf(v);
    return v;
  });
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
 * unpack reads packed values that fill the bytes. TEXT becomes a string: one that is not UTF-8 is a RangeError,
 * as is everything else that is not packed values. What it returns is a copy.
 */
export function unpack(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const values = [];
  for (let at = 0; at < bytes.length; ) {
    const tag = view.getUint8(at++);
    switch (tag) {
      case NULL:
        values.push(null);
        break;
      case INTEGER:
        values.push(view.getBigInt64(at, true));
        at += 8;
        break;
      case REAL:
        values.push(view.getFloat64(at, true));
        at += 8;
        break;
      case TEXT:
      case BLOB: {
        const begin = at + 4;
        const end = begin + view.getUint32(at, true);
        if (end > bytes.length) throw new RangeError(`a value ends at byte ${end} of ${bytes.length}`);
        values.push(tag === TEXT ? decode(bytes.subarray(begin, end)) : bytes.slice(begin, end));
        at = end;
        break;
      }
      default:
        throw new RangeError(`there is no value of kind ${tag}`);
    }
  }
  return values;
}

/** decode returns the text of UTF-8 bytes; other bytes are a RangeError. */
export function decode(bytes) {
  try {
    return strict.decode(bytes);
  } catch (cause) {
    throw new RangeError("a text is not UTF-8", { cause });
  }
}
