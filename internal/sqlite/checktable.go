//go:build !wasip1

package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"pistate/schema"
)

// table is what planning a check needs to know of one.
type table struct {
	name    string
	rows    int
	indexes int
	keys    int // foreign keys
}

func readTables(rx *Rx) ([]table, error) {
	var tables []table
	err := rx.Query(`
		SELECT name,
		       (SELECT count(*) FROM pragma_index_list(s.name)),
		       (SELECT count(DISTINCT id) FROM pragma_foreign_key_list(s.name))
		  FROM sqlite_schema AS s
		 WHERE type = 'table'
		 ORDER BY name`,
		func(r Row) error {
			tables = append(tables, table{name: r.Text(0), indexes: r.Int(1), keys: r.Int(2)})
			return nil
		})
	if err != nil {
		return nil, err
	}
	for i := range tables {
		rows, err := countRows(rx, tables[i].name)
		if err == nil {
			tables[i].rows = int(rows)
		} else if !errors.Is(err, schema.Corrupt) {
			return nil, err
		}
	}
	return tables, nil
}

func countRows(rx *Rx, table string) (n int64, err error) {
	_, err = rx.QueryRow("SELECT count(*) FROM "+quote(table), func(r Row) error {
		n = r.Int64(0)
		return nil
	})
	return n, err
}

// quote spells a name so that SQL takes it for nothing else.
func quote(name string) string { return sqlite3.QuoteIdentifier(name) }

func foreignKeyPragma(pragma string) func(*Rx, func(string, ...any)) error {
	return func(rx *Rx, report func(string, ...any)) error {
		return rx.Query(pragma, func(r Row) error {
			row := "a row"
			if !r.IsNull(1) {
				row = fmt.Sprintf("row %d", r.Int64(1))
			}
			report("table %s: %s has no parent in table %s (foreign key %d)", r.Text(0), row, r.Text(2), r.Int64(3))
			return nil
		})
	}
}

// checkForeignKeys checks all foreign keys of a table. SQLite's own check looks up the parent of one row
// after the other; a query that the planner may run in the order of an index takes a third of the time.
// Where such a query provably gives the same answer it decides whether there is anything to report; the
// findings are SQLite's.
func checkForeignKeys(child string) func(*Rx, func(string, ...any)) error {
	return func(rx *Rx, report func(string, ...any)) error {
		keys, err := readForeignKeys(rx, child)
		if err != nil {
			return err
		}
		for _, key := range keys {
			query, err := key.orphans(rx)
			if err != nil {
				return err
			}
			found := query == ""
			if !found {
				if found, err = rx.QueryRow(query, func(Row) error { return nil }); err != nil {
					return err
				}
			}
			if found {
				return foreignKeyPragma("PRAGMA foreign_key_check("+quote(child)+")")(rx, report)
			}
		}
		return nil
	}
}

// foreignKey is one FOREIGN KEY clause.
type foreignKey struct {
	child, parent string
	from, to      []string // columns; to is empty if the parent's primary key is meant
}

func readForeignKeys(rx *Rx, child string) ([]foreignKey, error) {
	var keys []foreignKey
	last := int64(-1)
	err := rx.Query(`
		SELECT id, "table", "from", "to"
		  FROM pragma_foreign_key_list(?1)
		 ORDER BY id, seq`,
		func(r Row) error {
			if id := r.Int64(0); id != last {
				last = id
				keys = append(keys, foreignKey{child: child, parent: r.Text(1)})
			}
			key := &keys[len(keys)-1]
			key.from = append(key.from, r.Text(2))
			if !r.IsNull(3) {
				key.to = append(key.to, r.Text(3))
			}
			return nil
		}, child)
	return keys, err
}

// column is what a comparison of its values depends on.
type column struct {
	kind      string // the declared type
	primary   int    // position in the primary key, from 1; 0 if it is not part of it
	collation string
}

// orphans returns a query that finds a row without a parent, if there is one, or "" if its answer could
// differ from SQLite's own check. They are the same if both tables are STRICT, so that columns hold what
// their types say; the compared columns have the same types, so that no value is converted; and the
// parent's columns are a unique key that compares bytes, as the columns do.
func (k foreignKey) orphans(rx *Rx) (string, error) {
	child, strictChild, err := readColumns(rx, k.child)
	if err != nil {
		return "", err
	}
	parent, strictParent, err := readColumns(rx, k.parent)
	if err != nil || !strictChild || !strictParent {
		return "", err
	}
	to := k.to
	if len(to) == 0 {
		to = primaryKey(parent)
	}
	if len(to) != len(k.from) {
		return "", nil
	}
	given, equal := make([]string, len(to)), make([]string, len(to))
	for i, from := range k.from {
		c, p := child[fold(from)], parent[fold(to[i])]
		if c.kind == "" || c.kind == "ANY" || c.kind != p.kind || p.collation != "BINARY" {
			return "", nil
		}
		given[i] = "c." + quote(from) + " IS NOT NULL"
		equal[i] = "p." + quote(to[i]) + " = c." + quote(from)
	}
	unique, err := isUniqueKey(rx, k.parent, parent, to)
	if err != nil || !unique {
		return "", err
	}
	return fmt.Sprintf("SELECT 1 FROM %s AS c WHERE %s AND NOT EXISTS (SELECT 1 FROM %s AS p WHERE %s) LIMIT 1",
		quote(k.child), strings.Join(given, " AND "), quote(k.parent), strings.Join(equal, " AND ")), nil
}

// fold maps the names that SQLite takes for the same to one: it knows the case of ASCII letters only.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, name)
}

// readColumns returns a table's columns by their folded names.
func readColumns(rx *Rx, name string) (columns map[string]column, strict bool, err error) {
	_, err = rx.QueryRow(`
		SELECT strict
		  FROM pragma_table_list(?1)
		 WHERE schema = 'main'
		   AND type   = 'table'`,
		func(r Row) error { strict = r.Bool(0); return nil }, name)
	if err != nil || !strict {
		return nil, false, err
	}
	columns = map[string]column{}
	err = rx.Query("SELECT name, type, pk FROM pragma_table_xinfo(?1)", func(r Row) error {
		var collation string
		err := rx.c.native().try(func() (err error) {
			_, collation, _, _, _, err = rx.c.native().db.TableColumnMetadata("main", name, r.Text(0))
			return err
		})
		columns[fold(r.Text(0))] = column{strings.ToUpper(r.Text(1)), r.Int(2), collation}
		return err
	}, name)
	return columns, true, err
}

func primaryKey(columns map[string]column) []string {
	var names []string
	for name, c := range columns {
		if c.primary > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return columns[a].primary - columns[b].primary })
	return names
}

// isUniqueKey reports whether columns are the rowid of a table or the key of one of its unique indexes,
// compared byte by byte.
func isUniqueKey(rx *Rx, name string, columns map[string]column, key []string) (bool, error) {
	primary := primaryKey(columns)
	if len(key) == 1 && len(primary) == 1 && fold(key[0]) == primary[0] && columns[primary[0]].kind == "INTEGER" {
		return true, nil // the rowid, or in a table without one as good as it
	}
	want := make([]string, len(key))
	for i, k := range key {
		want[i] = fold(k)
	}
	slices.Sort(want)
	var indexes []string
	err := rx.Query(`SELECT name FROM pragma_index_list(?1) WHERE "unique" AND NOT partial`, func(r Row) error {
		indexes = append(indexes, r.Text(0))
		return nil
	}, name)
	if err != nil {
		return false, err
	}
	for _, index := range indexes {
		var have []string
		err := rx.Query("SELECT name, coll FROM pragma_index_xinfo(?1) WHERE key", func(r Row) error {
			if r.IsNull(0) || r.Text(1) != "BINARY" {
				have = append(have, "") // an expression, or another order: no column has this name
				return nil
			}
			have = append(have, fold(r.Text(0)))
			return nil
		}, index)
		if err != nil {
			return false, err
		}
		slices.Sort(have)
		if slices.Equal(have, want) {
			return true, nil
		}
	}
	return false, nil
}
