// What the host has to know of a statement's text: where it ends, what kind it is, and which parameters it has.
// The text itself is for SQLite to understand.

const TOKEN =
  /(?<space>\s+|--[^\n]*\n?|\/\*[^]*?(?:\*\/|$))|(?<quoted>'(?:[^']|'')*'?|"(?:[^"]|"")*"?|`(?:[^`]|``)*`?|\[[^\]]*\]?)|(?<parameter>\?\d*|[:@$][\w$]+(?:::[\w$]+)*)|(?<word>[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*)|(?<other>[^])/gy;

function* tokens(sql) {
  for (const { groups, index } of sql.matchAll(TOKEN)) {
    if (groups.space !== undefined) continue;
    yield { ...groups, word: groups.word?.toUpperCase(), index };
  }
}

/**
 * statements tells the statements of a text apart. Each has its words in capitals at no depth of parentheses, all
 * parameters in their order, and its end in the text. A trigger's body is part of its statement.
 */
export function statements(sql) {
  const found = [];
  let s;
  let depth = 0;
  for (const { word, parameter, other, index } of tokens(sql)) {
    if (other === ";" && !(s && inTrigger(s))) {
      if (s) s.end = index;
      s = undefined;
      continue;
    }
    if (!s) {
      s = { words: [], parameters: [], end: sql.length };
      depth = 0;
      found.push(s);
    }
    if (other === "(") depth++;
    if (other === ")") depth--;
    if (depth === 0 && word !== undefined) s.words.push(word);
    if (depth === 0 && other === ";") s.words.push(other);
    if (parameter !== undefined) s.parameters.push(parameter);
  }
  return found;
}

/** inTrigger reports whether a statement is a CREATE TRIGGER whose END has not come. */
function inTrigger({ words }) {
  const isTrigger = words[0] === "CREATE" && (words[1] === "TRIGGER" || (/^TEMP/.test(words[1] ?? "") && words[2] === "TRIGGER"));
  return isTrigger && !(words.at(-1) === "END" && words.at(-2) === ";");
}

const VERBS = new Set(["SELECT", "VALUES", "INSERT", "REPLACE", "UPDATE", "DELETE"]);
const SILENT = new Set(["BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"]);

/**
 * kindOf returns "select" for what only reads rows, "silent" for a change or a step of a transaction that gives none,
 * "pragma" for those, and "other" for the rest: RETURNING, definitions.
 */
export function kindOf({ words }) {
  const verb = words[0] === "WITH" ? words.find((w) => VERBS.has(w)) : words[0];
  if (verb === "SELECT" || verb === "VALUES") return "select";
  if (verb === "PRAGMA") return "pragma";
  return SILENT.has(verb) || (VERBS.has(verb) && !words.includes("RETURNING")) ? "silent" : "other";
}

/** reachesOut returns what of a statement would leave the one database, or undefined (Z2). */
export function reachesOut({ words }) {
  if (words[0] === "EXPLAIN") return undefined;
  if (words[0] === "ATTACH" || words[0] === "DETACH") return words[0];
  return words[0] === "VACUUM" && words.includes("INTO") ? "VACUUM INTO" : undefined;
}
