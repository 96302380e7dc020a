// Packed values without a module's memory around them.

import { unpack as unpackPart } from "../../lib/pack.js";

/** unpack reads the packed values that fill the bytes. */
export function unpack(bytes) {
  const { buffer, byteOffset, length } = bytes;
  return unpackPart(Buffer.from(buffer), new DataView(buffer), byteOffset, byteOffset + length);
}
