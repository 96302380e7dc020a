package schema

import (
	"fmt"
	"slices"
	"strings"
)

var expected struct{ state, session lazy[Shape] }

// stateShape and sessionShape are the shapes that this program expects, as SQLite stores them when it runs the
// DDL. They are read off the DDL without SQLite, so that a process pays little for them and a WebAssembly guest
// needs none.
func stateShape() Shape {
	return expected.state.get(func() Shape { return shapeOf(StateDDL()) })
}

func sessionShape() Shape {
	return expected.session.get(func() Shape { return shapeOf(SessionDDL()) })
}

// shapeOf returns the shape that ddl makes in an empty database. It knows what our DDL contains: CREATE
// statements without AS, and constraints that don't repeat each other.
func shapeOf(ddl string) Shape {
	var shape Shape
	for _, tokens := range splitStatements(ddl) {
		s, ok := parseCreate(tokens)
		if !ok {
			continue // a PRAGMA or INSERT
		}
		o := Object{Type: s.kind, Name: s.name.text, Table: s.name.text, SQL: storedSQL(ddl, s)}
		if s.kind == "index" || s.kind == "trigger" {
			o.Table = ownerOf(s.body)
		}
		shape = append(shape, o)
		if s.kind == "table" {
			shape = append(shape, autoIndexes(o.Name, tableParts(s.body, ddl))...)
		}
	}
	return shape
}

// splitStatements splits at semicolons; those inside of a trigger don't count.
func splitStatements(sql string) [][]token {
	var list [][]token
	tokens := tokenize(sql)
	for begin := 0; begin < len(tokens); {
		s, _ := parseCreate(tokens[begin:])
		end := begin
		for end < len(tokens) && !endsStatement(tokens[:end+1], s.kind == "trigger") {
			end++
		}
		if end > begin {
			list = append(list, tokens[begin:end])
		}
		begin = end + 1
	}
	return list
}

// endsStatement reports whether the last token is the semicolon that ends a statement: of a trigger, the
// one after END after a semicolon.
func endsStatement(tokens []token, trigger bool) bool {
	n := len(tokens)
	if !tokens[n-1].is(";") {
		return false
	}
	return !trigger || n > 2 && tokens[n-2].is("END") && tokens[n-3].is(";")
}

// storedSQL returns the text that SQLite keeps of a statement: its own words up to the name, and from
// there on the text as it was written.
func storedSQL(sql string, s statement) string {
	words := "CREATE "
	if len(s.prefix) > 0 {
		words += s.prefix[0].text + " "
	}
	end := s.name.end
	if n := len(s.body); n > 0 {
		end = s.body[n-1].end
	}
	return words + typeWord[s.kind] + " " + sql[s.name.start:end]
}

var typeWord = map[string]string{"table": "TABLE", "index": "INDEX", "trigger": "TRIGGER", "view": "VIEW"}

// ownerOf returns the table that an index or trigger is ON.
func ownerOf(body []token) string {
	for i, t := range body[:max(0, len(body)-1)] {
		if t.is("ON") {
			return body[i+1].text
		}
	}
	return ""
}

// autoIndexes returns the indexes that SQLite makes for a table's UNIQUE and PRIMARY KEY constraints: none
// for a key that is the rowid, and none of its own for the key of a table WITHOUT ROWID.
func autoIndexes(table string, parts []part) (list []Object) {
	withoutRowid := slices.ContainsFunc(parts, func(p part) bool { return p.label == "WITHOUT ROWID" })
	integers := map[string]bool{} // columns that are the rowid if they are the whole primary key
	number := 0
	add := func(columns string, primary bool) {
		if primary && integers[columns] {
			return
		}
		number++
		if primary && withoutRowid {
			return
		}
		name := fmt.Sprintf("sqlite_autoindex_%s_%d", table, number)
		list = append(list, Object{Type: "index", Name: name, Table: table})
	}
	for _, p := range parts {
		column, isColumn := strings.CutPrefix(p.label, "column ")
		integers[column] = isColumn && len(p.tokens) > 0 && p.tokens[0].is("INTEGER") &&
			(len(p.tokens) == 1 || p.tokens[1].kind == tokKeyword)
		depth := 0
		for i, t := range p.tokens {
			depth += nesting(t)
			if primary := t.is("PRIMARY"); depth == 0 && (primary || t.is("UNIQUE")) {
				add(keyColumns(column, p.tokens[i:]), primary)
			}
		}
	}
	return list
}

// keyColumns returns the columns of the UNIQUE or PRIMARY KEY that tokens begin with: those in the
// parentheses behind it, or else the column whose constraint it is.
func keyColumns(column string, tokens []token) string {
	rest := tokens[1:]
	if len(rest) > 0 && rest[0].is("KEY") {
		rest = rest[1:]
	}
	if len(rest) == 0 || !rest[0].is("(") {
		return column
	}
	return joinTokens(rest[1:max(1, closing(rest))])
}
