package schema

import (
	"errors"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// bench is a workflow database with the fixture in it.
type bench struct{ memory }

// openBench returns a new database with every specimen's rows.
func openBench(tb testing.TB) bench {
	tb.Helper()
	m := openState(tb)
	m.exec(tb, "PRAGMA foreign_keys = ON")
	m.exec(tb, fixtureSQL())
	return bench{m}
}

// fixtureSQL is one transaction that inserts the rows of all specimens.
func fixtureSQL() string {
	var sql strings.Builder
	sql.WriteString("BEGIN;\n")
	for _, s := range specimens {
		for _, r := range s.rows {
			sql.WriteString(r.insert(s.table))
		}
	}
	sql.WriteString(resolve("d0", "accepted", 3))
	sql.WriteString("COMMIT")
	return sql.String()
}

// errDeferred is a foreign key that would fail at COMMIT.
var errDeferred = errors.New("FOREIGN KEY constraint failed at COMMIT")

// try runs SQL as a transaction that is rolled back, and returns the error that it or its COMMIT would get.
func (b bench) try(tb testing.TB, sql string) error {
	tb.Helper()
	b.exec(tb, "SAVEPOINT try")
	err := b.Conn.Exec(sql)
	if err == nil {
		broken, _, statusErr := b.Status(sqlite3.DBSTATUS_DEFERRED_FKS, false)
		if statusErr != nil {
			tb.Fatal(statusErr)
		}
		if broken != 0 {
			err = errDeferred
		}
	}
	b.exec(tb, "ROLLBACK TO try; RELEASE try")
	return err
}

// accepts fails the test unless the SQL succeeds.
func (b bench) accepts(tb testing.TB, sql string) {
	tb.Helper()
	if err := b.try(tb, sql); err != nil {
		tb.Errorf("refused: %v\nafter %s", err, sql)
	}
}

// refuses fails the test unless the SQL fails with an error that contains the text.
func (b bench) refuses(tb testing.TB, sql, text string) {
	tb.Helper()
	if err := b.try(tb, sql); err == nil {
		tb.Errorf("accepted, expected %q\nafter %s", text, sql)
	} else if !strings.Contains(err.Error(), text) {
		tb.Errorf("refused with %q, expected %q\nafter %s", err, text, sql)
	}
}

// tableColumn is one column of a table.
type tableColumn struct {
	name, kind string
	notNull    bool
	computed   bool
	key        int // its place in the primary key, from 1; 0 for none
}

func (b bench) columns(tb testing.TB, table string) []tableColumn {
	tb.Helper()
	var all []tableColumn
	b.each(tb, `SELECT name, type, "notnull", hidden, pk FROM pragma_table_xinfo('`+table+`')`, func(r memoryRow) {
		all = append(all, tableColumn{r.Text(0), r.Text(1), r.Int64(2) != 0, r.Int64(3) != 0, int(r.Int64(4))})
	})
	return all
}

// index is one index of a table, that of its primary key included.
type index struct {
	name    string
	unique  bool
	partial bool
	columns []string // "" for an expression
}

func (b bench) indexes(tb testing.TB, table string) []index {
	tb.Helper()
	var all []index
	b.each(tb, `SELECT name, "unique", partial FROM pragma_index_list('`+table+`')`, func(r memoryRow) {
		all = append(all, index{name: r.Text(0), unique: r.Int64(1) != 0, partial: r.Int64(2) != 0})
	})
	for i, x := range all {
		b.each(tb, `SELECT name FROM pragma_index_info('`+x.name+`')`, func(r memoryRow) {
			all[i].columns = append(all[i].columns, r.Text(0))
		})
	}
	for _, c := range b.columns(tb, table) {
		if c.key == 1 && c.kind == "INTEGER" { // the table itself, by its rowid
			all = append(all, index{name: table, unique: true, columns: []string{c.name}})
		}
	}
	return all
}

// foreignKey is one foreign key of a table.
type foreignKey struct {
	parent   string
	from, to []string
}

func (b bench) foreignKeys(tb testing.TB, table string) []foreignKey {
	tb.Helper()
	var all []foreignKey
	b.each(tb, `SELECT seq, "table", "from", "to" FROM pragma_foreign_key_list('`+table+`') ORDER BY id, seq`, func(r memoryRow) {
		if r.Int64(0) == 0 {
			all = append(all, foreignKey{parent: r.Text(1)})
		}
		k := &all[len(all)-1]
		k.from = append(k.from, r.Text(2))
		k.to = append(k.to, r.Text(3))
	})
	return all
}

// each runs a query once and calls row for each row of the result.
func (b bench) each(tb testing.TB, sql string, row func(memoryRow)) {
	tb.Helper()
	s, _, err := b.Prepare(sql)
	if err != nil {
		tb.Fatalf("%v in %s", err, sql)
	}
	defer s.Close()
	for s.Step() {
		row(memoryRow{s})
	}
	if err := s.Err(); err != nil {
		tb.Fatalf("%v in %s", err, sql)
	}
}

func (b bench) tables(tb testing.TB) []string {
	tb.Helper()
	var all []string
	b.each(tb, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid", func(r memoryRow) {
		all = append(all, r.Text(0))
	})
	return all
}
