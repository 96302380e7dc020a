// The codes of the store and their numbers on the wire. Both never change; package schema and wasm/abi have
// the same list, and the tests compare them.

const NUMBERS = {
  invalid: -2,
  limit: -3,
  not_found: -4,
  stale_revision: -5,
  stale_claim: -6,
  illegal_transition: -7,
  conflict: -8,
  already_resolved: -9,
  denied: -10,
  locked: -11,
  busy: -12,
  canceled: -13,
  incompatible: -14,
  corrupt: -15,
  replaced: -16,
  closed: -17,
  storage: -18,
  extension: -19,
};

/** OK and ABSENT are the numbers that are no errors. */
export const OK = 0;
export const ABSENT = -1;

/** CODES are the stable codes that a StateError can have. */
export const CODES = Object.freeze(Object.keys(NUMBERS));

/** numberOf returns the number of a code in the modules that give numbers of the store. */
export function numberOf(code) {
  return NUMBERS[code] ?? NUMBERS.storage;
}

/** sqlNumberOf returns the number of a code where minus one to minus 65535 are SQLite's. */
export function sqlNumberOf(code) {
  return -65536 + numberOf(code);
}

/** codeOf returns the code of a number, "storage" for one that this version does not know. */
export function codeOf(number) {
  return CODES.find((code) => NUMBERS[code] === number) ?? "storage";
}

/**
 * StateError is every failure of a store. code is stable and is what programs look at; detail is for people and
 * may change; facts say more where the code has some, as in the command protocol.
 */
export class StateError extends Error {
  constructor(code, detail, { facts, op, cause } = {}) {
    super(`${code}: ${detail}`, cause === undefined ? undefined : { cause });
    this.name = "StateError";
    this.code = code;
    this.detail = detail;
    if (facts !== undefined) this.facts = facts;
    if (op !== undefined) this.op = op;
  }
}

/** fail throws a StateError. */
export function fail(code, detail, options) {
  throw new StateError(code, detail, options);
}
