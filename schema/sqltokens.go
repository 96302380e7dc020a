package schema

import (
	"slices"
	"strings"
)

// tokenKind classifies a token as far as comparing and splitting statements needs it.
type tokenKind uint8

const (
	tokKeyword tokenKind = iota // a bare word of keywords; its text is in upper case
	tokName                     // any other bare word, or a quoted identifier
	tokLiteral                  // string, blob, number, or bound parameter
	tokSymbol                   // operator or punctuation
	tokIllegal                  // what SQLite would not accept, an unterminated quote for one
)

// token is one token of an SQL text. Tokens are equal in meaning if their kinds and texts are equal.
type token struct {
	kind       tokenKind
	text       string // as written, but keywords in upper case and names without needless quotes
	start, end int    // where in the SQL text it was
}

// is reports whether the token is a certain keyword or symbol.
func (t token) is(text string) bool {
	return t.text == text && (t.kind == tokKeyword || t.kind == tokSymbol)
}

func sameTokens(a, b []token) bool {
	return slices.EqualFunc(a, b, func(a, b token) bool { return a.kind == b.kind && a.text == b.text })
}

// tokenize splits SQL as SQLite does and drops white space and comments. It accepts any text.
func tokenize(sql string) []token {
	tokens := make([]token, 0, len(sql)/5)
	for i := 0; i < len(sql); {
		if n := spaceLen(sql[i:]); n > 0 {
			i += n
			continue
		}
		t := scanToken(sql[i:])
		t.start, t.end = i, i+t.end
		i = t.end
		tokens = append(tokens, t)
	}
	return tokens
}

// spaceLen returns the length of the white space or comment that s begins with.
func spaceLen(s string) int {
	switch {
	case s[0] == ' ' || s[0] == '\t' || s[0] == '\n' || s[0] == '\f' || s[0] == '\r':
		return 1
	case strings.HasPrefix(s, "--"):
		if n := strings.IndexByte(s, '\n'); n >= 0 {
			return n + 1
		}
		return len(s)
	case strings.HasPrefix(s, "/*") && len(s) > 2: // SQLite reads a text that ends with /* as two operators
		if n := strings.Index(s[2:], "*/"); n >= 0 {
			return n + 4
		}
		return len(s)
	}
	return 0
}

// scanToken returns the token that s begins with; its end is its length.
func scanToken(s string) token {
	switch c := s[0]; {
	case (c == 'x' || c == 'X') && len(s) > 1 && s[1] == '\'':
		n, closed := quotedLen(s[1:], '\'')
		return literal(s[:n+1], closed)
	case c == '\'':
		n, closed := quotedLen(s, '\'')
		return literal(s[:n], closed)
	case c == '"' || c == '`':
		n, closed := quotedLen(s, c)
		if !closed {
			return literal(s, false)
		}
		quote := string(c)
		return quotedName(strings.ReplaceAll(s[1:n-1], quote+quote, quote), n)
	case c == '[':
		n := strings.IndexByte(s, ']')
		if n < 0 {
			return literal(s, false)
		}
		return quotedName(s[1:n], n+1)
	case isDigit(c) || c == '.' && len(s) > 1 && isDigit(s[1]):
		return literal(s[:numberLen(s)], true)
	case isWordByte(c) && c != '$':
		word := s[:wordLen(s)]
		if keyword := keywordOf(word); keyword != "" {
			return token{kind: tokKeyword, text: keyword, end: len(word)}
		}
		return token{kind: tokName, text: word, end: len(word)}
	case strings.IndexByte("?:@#$", c) >= 0:
		n := 1 + wordLen(s[1:])
		return literal(s[:n], n > 1 || c == '?')
	}
	if strings.IndexByte("-|<>=!", s[0]) >= 0 {
		for _, op := range [...]string{"->>", "->", "||", "<=", "<>", "<<", ">=", ">>", "==", "!="} {
			if strings.HasPrefix(s, op) {
				return token{kind: tokSymbol, text: op, end: len(op)}
			}
		}
	}
	if strings.IndexByte("(),;.+-*/%=<>&|~", s[0]) >= 0 {
		return token{kind: tokSymbol, text: s[:1], end: 1}
	}
	return literal(s[:1], false)
}

func literal(text string, legal bool) token {
	if !legal {
		return token{kind: tokIllegal, text: text, end: len(text)}
	}
	return token{kind: tokLiteral, text: text, end: len(text)}
}

// quotedName returns the token of a quoted identifier. Quotes stay where the bare word would be a
// keyword or no word at all.
func quotedName(name string, length int) token {
	if !isWord(name) || keywordOf(name) != "" {
		name = `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}
	return token{kind: tokName, text: name, end: length}
}

func isWord(s string) bool {
	return s != "" && !isDigit(s[0]) && s[0] != '$' && wordLen(s) == len(s)
}

// keywordOf returns word in upper case if it is a keyword, else "".
func keywordOf(word string) string {
	var upper [len("CURRENT_TIMESTAMP")]byte
	if len(word) > len(upper) {
		return ""
	}
	for i := range len(word) {
		upper[i] = word[i]
		if 'a' <= word[i] && word[i] <= 'z' {
			upper[i] -= 'a' - 'A'
		}
	}
	return keywords.get(keywordSet)[string(upper[:len(word)])]
}

// quotedLen returns the length of the quoted text that s begins with, in which a doubled quote stands for
// itself.
func quotedLen(s string, quote byte) (n int, closed bool) {
	for i := 1; i < len(s); i++ {
		if s[i] != quote {
			continue
		}
		if i+1 == len(s) || s[i+1] != quote {
			return i + 1, true
		}
		i++
	}
	return len(s), false
}

func numberLen(s string) int {
	if len(s) > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') {
		return wordLen(s)
	}
	i := digitsLen(s)
	if i < len(s) && s[i] == '.' {
		i++
		i += digitsLen(s[i:])
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		exponent := s[i+1:]
		if exponent != "" && (exponent[0] == '+' || exponent[0] == '-') {
			exponent = exponent[1:]
		}
		if exponent != "" && isDigit(exponent[0]) {
			i = len(s) - len(exponent)
		}
	}
	return i + wordLen(s[i:])
}

func digitsLen(s string) int {
	i := 0
	for i < len(s) && (isDigit(s[i]) || s[i] == '_') {
		i++
	}
	return i
}

func wordLen(s string) int {
	i := 0
	for i < len(s) && isWordByte(s[i]) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isWordByte reports whether c can be inside an identifier; SQLite takes every byte above ASCII.
func isWordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || c == '_' || c == '$' || c >= 0x80
}

// joinTokens writes tokens as SQL that tokenizes to them again.
func joinTokens(tokens []token) string {
	var b strings.Builder
	for i, t := range tokens {
		if i > 0 && needsSpace(tokens[i-1], t) {
			b.WriteByte(' ')
		}
		b.WriteString(t.text)
	}
	return b.String()
}

// needsSpace leaves out only spaces without which two tokens stay two.
func needsSpace(left, right token) bool {
	switch {
	case left.is("("), right.is(")"), right.is(","), right.is(";"):
		return false
	case right.is("("), right.is("."):
		return left.kind != tokName // f(x), table(column), table.column
	case left.is("."):
		return right.kind != tokName
	}
	return true
}

// keywords are the words whose case doesn't matter: SQLite's keywords, and the names of types,
// collations and table options, which read like keywords.
var keywords lazy[map[string]string]

const keywordList = `
	ABORT ACTION ADD AFTER ALL ALTER ALWAYS ANALYZE AND AS ASC ATTACH AUTOINCREMENT BEFORE BEGIN BETWEEN BY
	CASCADE CASE CAST CHECK COLLATE COLUMN COMMIT CONFLICT CONSTRAINT CREATE CROSS CURRENT CURRENT_DATE
	CURRENT_TIME CURRENT_TIMESTAMP DATABASE DEFAULT DEFERRABLE DEFERRED DELETE DESC DETACH DISTINCT DO DROP
	EACH ELSE END ESCAPE EXCEPT EXCLUDE EXCLUSIVE EXISTS EXPLAIN FAIL FILTER FIRST FOLLOWING FOR FOREIGN FROM
	FULL GENERATED GLOB GROUP GROUPS HAVING IF IGNORE IMMEDIATE IN INDEX INDEXED INITIALLY INNER INSERT
	INSTEAD INTERSECT INTO IS ISNULL JOIN KEY LAST LEFT LIKE LIMIT MATCH MATERIALIZED NATURAL NO NOT NOTHING
	NOTNULL NULL NULLS OF OFFSET ON OR ORDER OTHERS OUTER OVER PARTITION PLAN PRAGMA PRECEDING PRIMARY QUERY
	RAISE RANGE RECURSIVE REFERENCES REGEXP REINDEX RELEASE RENAME REPLACE RESTRICT RETURNING RIGHT ROLLBACK
	ROW ROWS SAVEPOINT SELECT SET TABLE TEMP TEMPORARY THEN TIES TO TRANSACTION TRIGGER UNBOUNDED UNION UNIQUE
	UPDATE USING VACUUM VALUES VIEW VIRTUAL WHEN WHERE WINDOW WITH WITHIN WITHOUT

	ANY BLOB INT INTEGER REAL TEXT BINARY NOCASE RTRIM ROWID STORED STRICT FALSE TRUE`

func keywordSet() map[string]string {
	set := map[string]string{}
	for word := range strings.FieldsSeq(keywordList) {
		set[word] = word
	}
	return set
}
