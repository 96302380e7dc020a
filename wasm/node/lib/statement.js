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
  #isJournalMode; // a PRAGMA by which SQLite may replace the -wal and the -shm
  #wrapped = 0; // columns of a wrapped query
  #few; // gives the first FEW rows of a query at once, which costs less; undefined once there were so many
  #rows; // the iterator of what gives rows and runs
  #pending; // the next row, packed as far as that goes without a place

  constructor(database, sql, text) {
    this.database = database;
    this.#kind = kindOf(text);
    this.#words = text.words;
    this.#isJournalMode = text.words[0] === "PRAGMA" && text.words[1] === "JOURNAL_MODE";
    this.#parameters = text.parameters;
    this.#count = countOf(text.parameters);
    this.#statement = database.db.prepare(sql);
    if (this.#kind === "select") {
      this.#wrapped = this.#columnsOf(sql);
      if (this.#wrapped > MAX_COLUMNS) throw new SqliteError(MISUSE, `a query has ${this.#wrapped} columns; at most ${MAX_COLUMNS} are possible`);
      const wrapped = wrap(sql, this.#wrapped, database.castsText());
      this.#statement = exact(database.db.prepare(wrapped));
      this.#few = exact(database.db.prepare(`${wrapped} LIMIT ${FEW}`));
    } else {
      exact(this.#statement);
    }
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
    if (sqlite().transaction) this.#begin(args);
    else this.database.track(() => this.#begin(args), this.#words);
    if (this.#isJournalMode) this.database.ownWal();
  }

  #begin(args) {
    switch (this.#kind) {
      case "silent":
        this.database.changes = BigInt(this.#statement.run(...args).changes);
        return;
      case "pragma": // a few rows, which cost less all at once
        this.#rows = this.#statement.all(...args).values();
        break;
      default:
        this.#rows = this.#fewRows(args) ?? this.#statement.iterate(...args);
    }
    this.#advance();
  }

  /** #fewRows returns all rows of a query, or undefined if it has many, or ever had. */
  #fewRows(args) {
    const rows = this.#few?.all(...args);
    if (rows?.length !== FEW) return rows?.values();
    this.#few = undefined;
    return undefined;
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

  /** answer packs as many of the rows that wait as fit into a window, and returns the length; a greater one, if none does. */
  answer(memory, begin, end) {
    const { view, bytes } = memory;
    if (this.#pending && begin + HEADER + this.#pending.size > end) return HEADER + this.#pending.size;
    const columns = this.#pending?.parts.length ?? 0;
    let at = begin + HEADER;
    let rows = 0;
    while (this.#pending && at + this.#pending.size <= end) {
      at = packInto(view, bytes, at, this.#pending);
      rows++;
      if (sqlite().transaction) this.#advance();
      else this.database.track(() => this.#advance(), this.#words);
    }
    view.setUint8(begin, this.#rows ? 0 : 1);
    view.setUint8(begin + 1, this.database.inTransaction() ? 1 : 0);
    view.setUint16(begin + 2, columns, true);
    view.setUint32(begin + 4, rows, true);
    view.setBigInt64(begin + 8, this.database.changes, true);
    return at - begin;
  }

  /** reset gives up the rows that wait. */
  reset() {
    this.#rows?.return?.();
    this.#rows = undefined;
    this.#pending = undefined;
  }
}

const MAX_COLUMNS = 62; // the bits of an INTEGER
const FEW = 2; // rows: most queries look for one

/** exact makes a statement give every value as it is. */
function exact(statement) {
  statement.setReadBigInts(true);
  if (sqlite().arrays) statement.setReturnArrays(true);
  return statement;
}

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
function bindable(args, parameters) {
  if (sqlite().positional || parameters.length === 0) return args;
  const named = parameters.filter((p) => p !== "?");
  if (named.length === 0) return args;
  if (named.length < parameters.length) throw new SqliteError(MISUSE, "? and ?NNN in one statement");
  return [Object.fromEntries(named.map((p) => [p, args[Number(p.slice(1)) - 1]]))];
}
