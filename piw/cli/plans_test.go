package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"pistate/sessionstate"
)

// queriesIn returns the constants with queries that a package has, by their names.
func queriesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	consts := map[string]ast.Expr{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || verifying[filepath.Base(path)] {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == len(spec.Names) {
				for i, name := range spec.Names {
					consts[name.Name] = spec.Values[i]
				}
			}
			return true
		})
	}
	parts := map[string]bool{} // of other constants
	for _, value := range consts {
		ast.Inspect(value, func(n ast.Node) bool {
			if x, ok := n.(*ast.Ident); ok {
				parts[x.Name] = true
			}
			return true
		})
	}
	queries := map[string]string{}
	for name, value := range consts {
		if parts[name] {
			continue
		}
		sql, ok := constantText(consts, value)
		verb, _, _ := strings.Cut(strings.Join(strings.Fields(sql), " "), " ")
		if ok && (verb == "SELECT" || verb == "WITH") {
			queries[name] = sql
		}
	}
	return queries
}

// constantText returns a text that is put together from literals and constants.
func constantText(consts map[string]ast.Expr, e ast.Expr) (string, bool) {
	switch x := e.(type) {
	case *ast.BasicLit:
		return strings.Trim(x.Value, "`\""), x.Kind == token.STRING
	case *ast.Ident:
		if value, ok := consts[x.Name]; ok {
			return constantText(consts, value)
		}
	case *ast.BinaryExpr:
		a, ok := constantText(consts, x.X)
		b, ok2 := constantText(consts, x.Y)
		return a + b, ok && ok2 && x.Op == token.ADD
	}
	return "", false
}

// lookedThrough are the queries that go through a whole table or index, each with its reason.
var lookedThrough = map[string]string{
	"store.selLastEvents":      "from the newest event backwards, until the page is full",
	"store.selMeta":            "it has one row",
	"store.selTables":          "the schema, which has a fixed size",
	"store.sumLengths":         "doctor's sum of all content, from an index with nothing but lengths",
	"sessionstate.countRows":   "session status counts the rows of every plugin",
	"sessionstate.selectLocks": "session status lists every lock",
}

// verifying are the files whose queries are those of state verify, which is to look at everything.
var verifying = map[string]bool{"deep.go": true, "maintenance.go": true}

var (
	// scanned is what SQLite says of a table that it goes through, and of an index by which it does so.
	scanned = regexp.MustCompile(`^SCAN (\S+)(?: USING (?:COVERING )?INDEX (\S+))?`)

	// sources finds the tables of a query, and their names in it.
	sources = regexp.MustCompile(`(?:FROM|JOIN)\s+(\w+)(?:\s+AS\s+(\w+))?`)
)

// Every query of piw is served by an index, of both databases: it goes through no table, and through an index
// only if that has nothing but the rows that are wanted.
func TestNoQueryGoesThroughATable(t *testing.T) { // I3
	sessions := filepath.Join(t.TempDir(), "states.sqlite")
	s, err := sessionstate.Open(t.Context(), sessions, sessionstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for dir, path := range map[string]string{"../../store": seeded(t, "shop"), "../../sessionstate": sessions} {
		db, err := sqlite3.OpenContext(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		tables := column(t, db, "SELECT name FROM sqlite_schema WHERE type = 'table'", 0)
		partial := column(t, db, "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql LIKE '% WHERE %'", 0)
		queries := queriesIn(t, dir)
		if len(queries) < 3 {
			t.Fatalf("%s has only %d queries", dir, len(queries))
		}
		for name, sql := range queries {
			name = filepath.Base(dir) + "." + name
			for _, step := range column(t, db, "EXPLAIN QUERY PLAN "+sql, 3) {
				m := scanned.FindStringSubmatch(step)
				if m == nil || slices.Contains(partial, m[2]) || !slices.Contains(tables, tableOf(sql, m[1])) {
					continue
				}
				if lookedThrough[name] == "" {
					t.Errorf("%s: %s", name, step)
				}
			}
		}
	}
}

// tableOf returns the table that a query calls by a name: one of the schema, or one of its own WITH clause.
func tableOf(sql, name string) string {
	for _, m := range sources.FindAllStringSubmatch(sql, -1) {
		if m[2] == name {
			return m[1]
		}
	}
	return name
}

// column returns a column of what a statement returns.
func column(t *testing.T, db *sqlite3.Conn, sql string, number int) (texts []string) {
	t.Helper()
	s, _, err := db.Prepare(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	defer s.Close()
	for s.Step() {
		texts = append(texts, s.ColumnText(number))
	}
	if err := s.Err(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return texts
}
