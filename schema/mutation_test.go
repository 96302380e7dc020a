package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// mutant is one change to the shape of a database.
type mutant struct {
	what   string // the kind of change, a colon, and to what
	change func(Shape) Shape
	blamed []string // how each line of the difference may begin; one must begin with the first
	names  string   // what one line must contain
}

// TestMutants makes every kind of single change to every object of both schemas: each must be found, and
// the lines must blame the object and no other. (S4, Y4, C47)
func TestMutants(t *testing.T) {
	t.Run("state", func(t *testing.T) {
		testMutants(t, openState(t), func(m memory) error { return VerifyState(m) })
	})
	t.Run("session", func(t *testing.T) {
		testMutants(t, openMemory(t, SessionDDL()), func(m memory) error { return VerifySession(m) })
	})
}

func testMutants(t *testing.T, m memory, verify func(memory) error) {
	m.exec(t, "PRAGMA writable_schema = ON")
	want := readShape(t, m)
	slices.SortFunc(want, compareObjects) // so that Diff has nothing to sort
	kinds := map[string]int{}
	for _, x := range mutantsOf(t, m) {
		kind, _, _ := strings.Cut(x.what, ":")
		kinds[kind]++
		got := x.change(slices.Clone(want))
		if problem := x.judge(Diff(want, got)); problem != "" {
			t.Errorf("%s: %s", x.what, problem)
		}
		if kinds[kind] > 1 {
			continue
		}
		// The same change to a database: it is in what SQLite stores, and the error tells it.
		err := verify(m.with(t, want, got))
		if !errors.Is(err, Incompatible) || !strings.Contains(err.Error(), "\n  "+x.blamed[0]) || !strings.Contains(err.Error(), x.names) {
			t.Errorf("%s: %v", x.what, err)
		}
		m.exec(t, "ROLLBACK")
	}
	if err := verify(m); err != nil {
		t.Errorf("a change was not undone: %v", err)
	}
	t.Logf("changes: %v", kinds)
}

func (x mutant) judge(lines []string) string {
	for _, line := range lines {
		if !slices.ContainsFunc(x.blamed, func(begin string) bool { return strings.HasPrefix(line, begin) }) {
			return "another object is blamed: " + line
		}
	}
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, x.blamed[0]) }) ||
		!slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, x.names) }) {
		return fmt.Sprintf("%q and %q are not in %q", x.blamed[0], x.names, lines)
	}
	return ""
}

// with begins a transaction in which the stored schema is another one.
func (m memory) with(t *testing.T, before, after Shape) memory {
	t.Helper()
	m.exec(t, "BEGIN")
	for _, o := range before {
		if !slices.Contains(after, o) {
			m.exec(t, fmt.Sprintf("DELETE FROM sqlite_schema WHERE type = %s AND name = %s", sqlite3.Quote(o.Type), sqlite3.Quote(o.Name)))
		}
	}
	for _, o := range after {
		if !slices.Contains(before, o) {
			m.exec(t, fmt.Sprintf("INSERT INTO sqlite_schema VALUES (%s, %s, %s, 2, nullif(%s, ''))",
				sqlite3.Quote(o.Type), sqlite3.Quote(o.Name), sqlite3.Quote(o.Table), sqlite3.Quote(o.SQL)))
		}
	}
	return m
}

func mutantsOf(t *testing.T, m memory) []mutant {
	list := []mutant{
		added(Object{"table", "added", "added", "CREATE TABLE added (a)"}),
		added(Object{"table", "virtual", "virtual", "CREATE VIRTUAL TABLE virtual USING fts5 (a)"}),
		added(Object{"view", "added", "added", "CREATE VIEW added AS SELECT 1"}),
	}
	for _, o := range readShape(t, m) {
		switch {
		case o.Type == "table":
			list = append(list, tableMutants(t, m, o)...)
		case o.isAutoIndex():
			list = append(list, dropped(o))
		case o.Type == "index":
			list = append(list, indexMutants(o)...)
		case o.Type == "trigger":
			list = append(list, triggerMutants(o)...)
		}
	}
	return list
}

// replaced changes one object, as ALTER TABLE and hand-made repairs do.
func replaced(what string, o, by Object, names string) mutant {
	change := func(s Shape) Shape {
		s[slices.Index(s, o)] = by
		return s
	}
	return mutant{what + ": " + o.label() + " " + names, change, []string{o.label() + ": "}, names}
}

func rewritten(what string, o Object, sql, names string) mutant {
	by := o
	by.SQL = sql
	return replaced(what, o, by, names)
}

func dropped(o Object) mutant {
	change := func(s Shape) Shape {
		return slices.DeleteFunc(s, func(other Object) bool { return other == o })
	}
	return mutant{o.Type + " dropped: " + o.Name, change, []string{o.label() + ": missing"}, ""}
}

func added(o Object) mutant {
	change := func(s Shape) Shape { return append(s, o) }
	return mutant{o.Type + " added: " + o.Table, change, []string{o.label() + ": unexpected"}, ""}
}

// ---- tables

// column is what SQLite says of a column.
type column struct {
	name, typ string
	notNull   bool
}

func columnsOf(t *testing.T, m memory, table string) (list []column) {
	t.Helper()
	err := m.Query("SELECT name, type, \"notnull\" FROM pragma_table_xinfo("+sqlite3.Quote(table)+")", func(r memoryRow) error {
		list = append(list, column{r.Text(0), r.Text(1), r.Int64(2) != 0})
		return nil
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("columns of %s: %v, %v", table, list, err)
	}
	return list
}

func tableMutants(t *testing.T, m memory, o Object) (list []mutant) {
	first := columnsOf(t, m, o.Name)[0].name
	drop := func(s Shape) Shape {
		return slices.DeleteFunc(s, func(other Object) bool { return other.Table == o.Name })
	}
	rename := func(s Shape) Shape {
		for i, other := range s {
			if other.Table == o.Name {
				s[i].Table = "renamed"
				s[i].SQL = strings.Replace(other.SQL, o.Name+" ", "\"renamed\" ", 1)
			}
		}
		s[slices.IndexFunc(s, func(other Object) bool { return other.Type == "table" && other.Name == o.Name })].Name = "renamed"
		return s
	}
	owned := []string{o.label() + ": missing", "table renamed: unexpected"}
	for _, other := range readShape(t, m) {
		if other.Table == o.Name && other != o {
			owned = append(owned, other.label()+": ")
		}
	}
	list = append(list,
		mutant{"table and all of it dropped: " + o.Name, drop, owned, ""},
		mutant{"table renamed: " + o.Name, rename, owned, owned[1]},
		added(Object{"index", "added", o.Name, "CREATE INDEX added ON " + o.Name + " (" + first + ")"}),
		added(Object{"trigger", "added", o.Name, "CREATE TRIGGER added AFTER INSERT ON " + o.Name + " BEGIN SELECT 1; END"}),
	)
	return append(list, tableTextMutants(t, m, o)...)
}

// tableTextMutants changes one definition inside of a table at a time.
func tableTextMutants(t *testing.T, m memory, o Object) (list []mutant) {
	s, _ := parseCreate(tokenize(o.SQL))
	end := closing(s.body)
	defs := slices.Collect(topLevel(s.body[1:end], ","))
	columns := columnsOf(t, m, o.Name)
	foreignKeys, checks := 0, 0
	for i, def := range defs {
		edit := func(what string, from, to int, text, names string) {
			list = append(list, rewritten(what, o, o.SQL[:from]+text+o.SQL[to:], names))
		}
		// With the comma before or after it.
		from, to := def[0].start, def[len(def)-1].end
		if i > 0 {
			from = defs[i-1][len(defs[i-1])-1].end
		} else if len(defs) > 1 {
			to = defs[1][0].start
		}
		name := ""
		if i < len(columns) {
			c := columns[i]
			name = "column " + c.name
			if def[0].text != c.name && def[0].text != strings.ToUpper(c.name) {
				t.Fatalf("table %s: column %d is %s to SQLite, %s here", o.Name, i, c.name, def[0].text)
			}
			edit("column dropped", from, to, "", name+": missing")
			edit("column renamed", def[0].start, def[0].end, "renamed", "column renamed: unexpected")
			edit("column renamed in case", def[0].start, def[0].end, strings.ToUpper(c.name), "column "+strings.ToUpper(c.name)+": unexpected")
			edit("type changed", def[1].start, def[1].end, map[bool]string{true: "TEXT", false: "INTEGER"}[c.typ != "TEXT"], name+": expected "+c.typ)
			edit("default added", def[1].end, def[1].end, " DEFAULT 7", name)
			edit("collation added", def[1].end, def[1].end, " COLLATE NOCASE", name)
			edit("CHECK added", def[len(def)-1].end, def[len(def)-1].end, " CHECK (1)", name+": CHECK (1): unexpected")
			if !c.notNull {
				edit("NOT NULL added", def[1].end, def[1].end, " NOT NULL", name)
			}
		}
		depth := 0
		for j, tok := range def {
			next := func(n int) int { return def[min(j+n, len(def)-1)].end }
			switch {
			case depth > 0:
			case tok.is("NOT") && def[j+1].is("NULL"):
				edit("NOT NULL dropped", tok.start, next(1), "", name)
			case tok.is("DEFAULT"):
				edit("default changed", def[j+1].start, next(1), "77", name)
				edit("default dropped", tok.start, next(1), "", name)
			case tok.is("UNIQUE"), tok.is("PRIMARY"):
				edit("key dropped", from, to, "", "")
			case tok.is("AS"):
				edit("generated column stored", def[len(def)-1].end, def[len(def)-1].end, " STORED", name)
			case tok.is("CHECK"):
				checks++
				close := j + 1 + closing(def[j+1:])
				begin := tok.start
				if j >= 2 && def[j-2].is("CONSTRAINT") {
					begin = def[j-2].start
					edit("CHECK renamed", def[j-1].start, def[j-1].end, "renamed", "constraint renamed: unexpected")
				}
				edit("CHECK made weaker", def[close].start, def[close].start, " OR 1", "")
				if name == "" {
					begin, close = from, len(def)-1
				}
				edit("CHECK dropped", begin, def[close].end, "", "missing")
			case tok.is("REFERENCES"):
				foreignKeys++
				edit("FK to another table", def[j+1].start, def[j+1].end, "elsewhere", "REFERENCES elsewhere")
				edit("FK with an action", def[len(def)-1].end, def[len(def)-1].end, " ON UPDATE CASCADE", "")
				if name == "" {
					edit("FK dropped", from, to, "", "missing")
				} else {
					edit("FK dropped", tok.start, def[len(def)-1].end, "", name)
				}
			}
			depth += nesting(tok)
		}
	}
	if n := count(t, m, "SELECT count(DISTINCT id) FROM pragma_foreign_key_list("+sqlite3.Quote(o.Name)+")"); n != foreignKeys {
		t.Errorf("table %s: %d foreign keys to SQLite, %d here", o.Name, n, foreignKeys)
	}
	if n := strings.Count(o.SQL, "CHECK ("); n != checks {
		t.Errorf("table %s: %d CHECKs in the text, %d here", o.Name, n, checks)
	}
	options := o.SQL[s.body[end].end:]
	if strings.Contains(options, "STRICT") {
		list = append(list, rewritten("not STRICT", o, strings.TrimSuffix(o.SQL, options)+strings.Replace(options, "STRICT", "", 1), "STRICT: missing"))
	} else {
		list = append(list, rewritten("STRICT", o, o.SQL+" STRICT", "STRICT: unexpected"))
	}
	if strings.Contains(options, "WITHOUT ROWID") {
		return append(list, rewritten("rowid", o, strings.Replace(o.SQL, ", WITHOUT ROWID", "", 1), "WITHOUT ROWID: missing"))
	}
	return append(list, rewritten("no rowid", o, o.SQL+map[bool]string{true: " ", false: ", "}[options == ""]+"WITHOUT ROWID", "WITHOUT ROWID: unexpected"))
}

func count(t *testing.T, m memory, sql string) (n int) {
	t.Helper()
	if err := m.Query(sql, func(r memoryRow) error { n = int(r.Int64(0)); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// ---- indexes and triggers

func indexMutants(o Object) []mutant {
	s, _ := parseCreate(tokenize(o.SQL))
	open := slices.IndexFunc(s.body, func(t token) bool { return t.is("(") })
	first, end := s.body[open+1], open+closing(s.body[open:])
	insert := func(at int, text string) string { return o.SQL[:at] + text + o.SQL[at:] }
	list := []mutant{
		dropped(o),
		rewritten("another column", o, insert(s.body[end].start, ", added"), "added"),
		rewritten("descending", o, insert(first.end, " DESC"), "DESC"),
		rewritten("collation", o, insert(first.end, " COLLATE RTRIM"), "RTRIM"),
		replaced("of another table", o, Object{o.Type, o.Name, "elsewhere", o.SQL}, "expected to belong to table "+o.Table),
		rewritten("ON another table", o, strings.Replace(o.SQL, " ON "+o.Table, " ON elsewhere", 1), "elsewhere"),
	}
	if len(s.prefix) > 0 {
		list = append(list, rewritten("not unique", o, strings.Replace(o.SQL, "UNIQUE ", "", 1), "expected UNIQUE"))
	} else {
		list = append(list, rewritten("unique", o, strings.Replace(o.SQL, "INDEX", "UNIQUE INDEX", 1), "found UNIQUE"))
	}
	if end+1 < len(s.body) {
		return append(list,
			rewritten("predicate dropped", o, o.SQL[:s.body[end].end], ""),
			rewritten("predicate changed", o, o.SQL+" AND 1", ""))
	}
	return append(list, rewritten("predicate added", o, o.SQL+" WHERE 1", "WHERE 1"))
}

func triggerMutants(o Object) []mutant {
	replace := func(what, from, to string) mutant { return rewritten(what, o, strings.Replace(o.SQL, from, to, 1), "") }
	return []mutant{
		dropped(o),
		replace("another time", "BEFORE ", "AFTER "),
		replace("another result", "ABORT", "IGNORE"),
		replace("another condition", "BEGIN", "WHEN 0 BEGIN"),
		replace("does more", "END", "SELECT 1; END"),
	}
}
