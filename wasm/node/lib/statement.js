// Prepared statements of node:sqlite as pistate_sql_v1 has them: every value exactly, rows in parts.

import { Text, packInto, packable } from "./pack.js";
import { MISUSE, RANGE, SqliteError, sqlite } from "./sqlite.js";
import { kindOf } from "./sqltext.js";

/** HEADER is the length of an answer before its values, in bytes, and so the least that a buffer must have. */
export const HEADER = 16;

/**
 * Statement is one prepared statement. A query is wrapped in another one, which gives every TEXT as the bytes that
 * SQLite has: node:sqlite would end it at a NUL in old versions, replace what is not UTF-8 in all, and lose values
 * of columns with the same name where it returns objects. A last column tells which values are TEXT.
 */
export class Statement {
  #statement;
  #parameters;
  #count; // of parameters
  #kind;
  #words;
  #wrapped = 0; // columns of a wrapped query
  #rows; // the iterator of a query that runs
  #pending; // the next row, packed as far as that goes without a place

  constructor(database, sql, text) {
    this.database = database;
    this.#kind = kindOf(text);
    this.#words = text.words;
    this.#parameters = text.parameters;
    this.#count = countOf(text.parameters);
    this.#statement = database.db.prepare(sql);
    if (this.#kind === "select") {
      this.#wrapped = this.#columnsOf(sql);
      if (this.#wrapped > MAX_COLUMNS) throw new SqliteError(MISUSE, `a query has ${this.#wrapped} columns; at most ${MAX_COLUMNS} are possible`);
      this.#statement = database.db.prepare(wrap(sql, this.#wrapped, database.castsText()));
    }
    this.#statement.setReadBigInts(true);
    if (sqlite().arrays) this.#statement.setReturnArrays(true);
  }

  #columnsOf(sql) {
    if (sqlite().columns) return this.#statement.columns().length;
    // Not by an iterator: in old versions it does not keep its statement from the garbage collector.
    const program = this.database.db.prepare(`EXPLAIN ${sql}`).all();
    return program.find(({ opcode }) => opcode === "ResultRow")?.p2 ?? 0;
  }

  /** run binds the values and begins. */
  run(values) {
    if (values.length !== this.#count) {
      throw new SqliteError(RANGE, `${values.length} parameters for the ${this.#count} of the statement`);
    }
    const args = bindable(values, this.#parameters);
    const { database } = this;
    database.track(() => {
      if (this.#kind === "silent") {
        database.changes = BigInt(this.#statement.run(...args).changes);
      } else {
        this.#rows = this.#statement.iterate(...args);
        this.#advance();
      }
    }, this.#words);
    if (this.#words[0] === "PRAGMA" && this.#words[1] === "JOURNAL_MODE") database.ownWal();
  }

  #advance() {
    this.#pending = undefined;
    let step;
    try {
      step = this.#rows.next();
    } catch (e) {
      this.#rows = undefined;
      this.#recover();
      throw e;
    }
    if (step.done) {
      this.#rows = undefined;
      if (this.#words.includes("RETURNING")) {
        this.database.changes = BigInt(this.database.db.prepare("SELECT changes() AS n").get().n);
      }
      return;
    }
    this.#pending = packable(this.#valuesOf(step.value));
  }

  /** #recover takes the failure off a statement: else node:sqlite reports it once more when the statement is used again. */
  #recover() {
    try {
      this.#statement.iterate().return?.();
    } catch {
      // This is it.
    }
  }

  #valuesOf(row) {
    const values = Array.isArray(row) ? row : Object.values(row);
    if (this.#wrapped === 0) {
      if (!Array.isArray(row)) mustBeWhole(row);
      return values;
    }
    const isText = values.pop();
    for (let i = 0, rest = isText; rest !== 0n; i++, rest >>= 1n) {
      if (rest & 1n) values[i] = new Text(values[i]);
    }
    return values;
  }

  /** answer packs as many of the rows that wait as fit, and returns the length; more than the buffer has, if none does. */
  answer(buffer) {
    const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
    if (this.#pending && HEADER + this.#pending.size > buffer.length) return HEADER + this.#pending.size;
    const columns = this.#pending?.parts.length ?? 0;
    let at = HEADER;
    let rows = 0;
    while (this.#pending && at + this.#pending.size <= buffer.length) {
      at = packInto(view, buffer, at, this.#pending);
      rows++;
      this.database.track(() => this.#advance(), this.#words);
    }
    view.setUint8(0, this.#rows ? 0 : 1);
    view.setUint8(1, this.database.inTransaction() ? 1 : 0);
    view.setUint16(2, columns, true);
    view.setUint32(4, rows, true);
    view.setBigInt64(8, this.database.changes, true);
    return at;
  }

  /** reset gives up the rows that wait. */
  reset() {
    this.#rows?.return?.();
    this.#rows = undefined;
    this.#pending = undefined;
  }
}

const MAX_COLUMNS = 62; // the bits of an INTEGER

function wrap(sql, columns, castsText) {
  const names = Array.from({ length: columns }, (_, i) => `c${i}`);
  const bytes = names.map((c) => (castsText ? `CASE typeof(${c}) WHEN 'text' THEN CAST(${c} AS BLOB) ELSE ${c} END AS ${c}` : c));
  const texts = names.map((c, i) => (castsText ? `((typeof(${c}) = 'text') << ${i})` : "0"));
  return `WITH lent(${names}) AS (${sql}\n) SELECT ${bytes}, ${texts.join(" | ")} AS texts FROM lent`;
}

/** mustBeWhole refuses a row whose object may have lost values, or their order. */
function mustBeWhole(row) {
  const names = Object.keys(row);
  if (names.length > 1 && names.some((name) => /^\d+$/.test(name))) {
    throw new SqliteError(MISUSE, `the order of the columns ${names} can't be told by Node.js ${process.version}`);
  }
}

/** countOf returns the number of parameters that SQLite gives a statement. */
function countOf(parameters) {
  let count = 0;
  for (const p of parameters) {
    if (!p.startsWith("?")) throw new SqliteError(MISUSE, `parameter ${p}: only ? and ?NNN are possible`);
    count = p === "?" ? count + 1 : Math.max(count, Number(p.slice(1)));
  }
  return count;
}

/** bindable makes the arguments of a call. Where ?NNN counts as a name they go by name, except for plain ones. */
function bindable(values, parameters) {
  const args = values.map((v) => (v instanceof Text ? v.bytes : v));
  if (sqlite().positional || parameters.length === 0) return args;
  const named = parameters.filter((p) => p !== "?");
  if (named.length === 0) return args;
  if (named.length < parameters.length) throw new SqliteError(MISUSE, "? and ?NNN in one statement");
  return [Object.fromEntries(named.map((p) => [p, args[Number(p.slice(1)) - 1]]))];
}
