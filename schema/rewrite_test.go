package schema

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// TestEveryToken takes each token out of each definition, or puts another one in: no change is too small.
func TestEveryToken(t *testing.T) {
	for _, o := range slices.Concat(stateShape(), sessionShape()) {
		for i, tok := range tokenize(o.SQL) {
			sql := o.SQL[:tok.start] + []string{"", "other", "'other'"}[i%3] + o.SQL[tok.end:]
			lines := Diff(Shape{o}, Shape{{o.Type, o.Name, o.Table, sql}})
			if len(lines) == 0 || !strings.HasPrefix(lines[0], o.label()+": ") {
				t.Errorf("%s without %s at %d: %q", o.label(), tok.text, tok.start, lines)
			}
		}
	}
}

// TestDisguises writes every definition in other ways that mean the same: none makes a difference.
func TestDisguises(t *testing.T) {
	for _, ddl := range []string{StateDDL(), SessionDDL()} {
		for seed := range uint64(5) {
			disguised := disguise(rand.New(rand.NewPCG(seed, 0)), ddl)
			if lines := Diff(shapeOf(ddl), shapeOf(disguised)); len(lines) > 0 {
				t.Fatalf("seed %d: %q", seed, lines)
			}
			if seed > 0 {
				continue
			}
			// SQLite understands it and stores it as written.
			got := readShape(t, openMemory(t, disguised))
			if lines := Diff(shapeOf(ddl), got); len(lines) > 0 || slices.Equal(got, shapeOf(ddl)) {
				t.Errorf("as SQLite stores it: %q", lines)
			}
		}
	}
}

func disguise(r *rand.Rand, sql string) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	var b strings.Builder
	tokens := tokenize(sql)
	for i, tok := range tokens {
		text := sql[tok.start:tok.end]
		switch {
		case tok.kind == tokKeyword && text == tok.text: // in capitals: it is used as a keyword
			text = pick(text, strings.ToLower(text), text[:1]+strings.ToLower(text[1:]))
		case tok.kind == tokName && text == tok.text:
			text = pick(text, text, `"`+text+`"`, "`"+text+"`", "["+text+"]")
		}
		if i > 0 && needsSpace(tokens[i-1], tok) {
			b.WriteString(pick(" ", "\n", "\t\r\n\f", "/**/", "/* CHECK (1) ; ' */", " -- it's a comment;\n"))
		} else {
			b.WriteString(pick("", "", " ", "\n\n", "/* ) */"))
		}
		b.WriteString(text)
	}
	return b.String()
}

// TestSQLiteChanges lets SQLite itself change the schema, every index and trigger of it.
func TestSQLiteChanges(t *testing.T) {
	m := openState(t)
	m.exec(t, "PRAGMA foreign_keys = OFF")
	want := readShape(t, m)
	var lines []string
	change := func(sql, line string) {
		t.Helper()
		m.exec(t, sql)
		lines = append(lines, line)
	}
	for i, o := range want {
		name := sqlite3.QuoteIdentifier(o.Name)
		switch {
		case o.Type == "table":
			if i%5 == 0 { // it reads the whole schema again each time
				change("ALTER TABLE "+name+" ADD COLUMN added INTEGER", o.label()+": column added: unexpected")
			}
			change(fmt.Sprintf("CREATE INDEX index%d ON %s (1)", i, name), fmt.Sprintf("index index%d: unexpected", i))
			change(fmt.Sprintf("CREATE TRIGGER trigger%d AFTER INSERT ON %s BEGIN SELECT 1; END", i, name), fmt.Sprintf("trigger trigger%d: unexpected", i))
		case o.Type == "trigger", o.Type == "index" && !o.isAutoIndex():
			change("DROP "+o.Type+" "+name, o.label()+": missing")
		}
	}
	got := Diff(want, readShape(t, m))
	slices.Sort(lines)
	slices.Sort(got)
	if !slices.Equal(got, lines) {
		t.Errorf("\n got %q\nwant %q", got, lines)
	}
}
