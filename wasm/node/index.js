import { openStore as open } from "./lib/store.js";

export { StateError } from "./lib/errors.js";

export function openStore(options) {
  return open(options);
}
