package schema

import (
	"slices"
	"strings"
)

// definition is what an SQL text says of an object.
type definition struct {
	subject string  // "table runs"; "" for a text that is no CREATE statement
	tokens  []token // the rest
	parts   []part  // of a table that could be taken apart; nil for anything else
}

// part is one piece of a table's definition that a message can name.
type part struct {
	label  string // "column status", "constraint one_owner", "CHECK"
	tokens []token
	kind   int // how many tokens in front the label repeats, because the part has no name of its own
}

// text returns what the label doesn't say.
func (p part) text() string { return joinTokens(p.tokens[p.kind:]) }

// statement is a CREATE statement, found in tokens.
type statement struct {
	kind   string  // "table", "index", "trigger" or "view"
	prefix []token // UNIQUE or VIRTUAL
	name   token
	body   []token // all that follows the name
}

// parseCreate takes the beginning of a CREATE statement apart. ok is false for any other text.
func parseCreate(tokens []token) (s statement, ok bool) {
	rest := tokens
	skip := func(words ...string) bool {
		if len(rest) < len(words) {
			return false
		}
		for i, word := range words {
			if !rest[i].is(word) {
				return false
			}
		}
		rest = rest[len(words):]
		return true
	}
	if !skip("CREATE") {
		return s, false
	}
	if before := rest; skip("UNIQUE") || skip("VIRTUAL") {
		s.prefix = before[:1]
	}
	for _, kind := range []string{"TABLE", "INDEX", "TRIGGER", "VIEW"} {
		if skip(kind) {
			s.kind = strings.ToLower(kind)
			break
		}
	}
	skip("IF", "NOT", "EXISTS")
	if s.kind == "" || len(rest) == 0 {
		return s, false
	}
	s.name, s.body = rest[0], rest[1:]
	return s, true
}

// parseDefinition never fails: what it can't take apart stays one list of tokens.
func parseDefinition(sql string) definition {
	tokens := tokenize(sql)
	s, ok := parseCreate(tokens)
	if !ok {
		return definition{tokens: tokens}
	}
	d := definition{subject: s.kind + " " + s.name.text, tokens: slices.Concat(s.prefix, s.body)}
	if s.kind == "table" && len(s.prefix) == 0 {
		d.parts = tableParts(d.tokens, sql)
	}
	return d
}

// tableParts takes the parenthesised list of a table and the options behind it apart, and gives the names
// of columns the case in which sql has them.
func tableParts(body []token, sql string) []part {
	if len(body) == 0 || !body[0].is("(") {
		return nil
	}
	end := closing(body)
	if end < 0 {
		return nil
	}
	var parts []part
	for def := range topLevel(body[1:end], ",") {
		switch {
		case len(def) == 0:
			return nil
		case beginsConstraint(def[0]):
			for _, c := range splitConstraints(def) {
				parts = append(parts, constraintPart("", c))
			}
		default:
			def[0] = columnName(def[0], sql)
			label := "column " + def[0].text
			checks, rest := takeChecks(def[1:])
			parts = append(parts, part{label: label, tokens: rest})
			for _, c := range checks {
				parts = append(parts, constraintPart(label+": ", c))
			}
		}
	}
	if options := body[end+1:]; len(options) > 0 {
		for option := range topLevel(options, ",") {
			parts = append(parts, part{label: joinTokens(option)})
		}
	}
	return parts
}

// columnName undoes the folding of a keyword that is a column's name.
func columnName(t token, sql string) token {
	written := sql[t.start:t.end]
	if t.kind == tokName && strings.HasPrefix(t.text, `"`) {
		written = strings.ReplaceAll(t.text[1:len(t.text)-1], `""`, `"`)
	}
	if t.kind == tokKeyword || t.kind == tokName && isWord(written) {
		t.kind, t.text = tokName, written
	}
	return t
}

func beginsConstraint(t token) bool {
	for _, word := range []string{"CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"} {
		if t.is(word) {
			return true
		}
	}
	return false
}

// splitConstraints splits table constraints that no comma separates, as SQLite allows.
func splitConstraints(tokens []token) [][]token {
	var list [][]token
	depth, begin := 0, 0
	for i, t := range tokens {
		named := i == begin+2 && tokens[begin].is("CONSTRAINT")
		if depth == 0 && i > begin && beginsConstraint(t) && !named {
			list = append(list, tokens[begin:i])
			begin = i
		}
		depth += nesting(t)
	}
	return append(list, tokens[begin:])
}

// takeChecks separates the CHECK constraints of a column from the rest of its definition.
func takeChecks(tokens []token) (checks [][]token, rest []token) {
	for i := 0; i < len(tokens); {
		begin := i
		if tokens[i].is("CONSTRAINT") {
			i += 2
		}
		if i < len(tokens)-1 && tokens[i].is("CHECK") && tokens[i+1].is("(") {
			if n := closing(tokens[i+1:]); n >= 0 {
				i += n + 2
				checks = append(checks, tokens[begin:i])
				continue
			}
		}
		i = begin
		for depth := 0; i < len(tokens); {
			depth += nesting(tokens[i])
			rest = append(rest, tokens[i])
			if i++; depth <= 0 {
				break
			}
		}
	}
	return checks, rest
}

// constraintPart labels a constraint with its name, or else with its kind.
func constraintPart(prefix string, tokens []token) part {
	if len(tokens) > 2 && tokens[0].is("CONSTRAINT") {
		return part{label: prefix + "constraint " + tokens[1].text, tokens: tokens[2:]}
	}
	kind := 1
	if len(tokens) > 1 && tokens[1].is("KEY") {
		kind = 2
	}
	return part{label: prefix + joinTokens(tokens[:kind]), tokens: tokens, kind: kind}
}

// topLevel yields the pieces of tokens between separators that are outside parentheses.
func topLevel(tokens []token, separator string) func(yield func([]token) bool) {
	return func(yield func([]token) bool) {
		depth, begin := 0, 0
		for i, t := range tokens {
			if depth == 0 && t.is(separator) {
				if !yield(tokens[begin:i]) {
					return
				}
				begin = i + 1
			}
			depth += nesting(t)
		}
		yield(tokens[begin:])
	}
}

// closing returns the index of the parenthesis that closes the one which tokens begin with, or -1.
func closing(tokens []token) int {
	depth := 0
	for i, t := range tokens {
		if depth += nesting(t); depth == 0 {
			return i
		}
	}
	return -1
}

func nesting(t token) int {
	switch {
	case t.is("("):
		return 1
	case t.is(")"):
		return -1
	}
	return 0
}
