package schema

import (
	"cmp"
	"slices"
	"strings"
)

// Row is the current row of a query. Columns count from 0.
type Row interface {
	Int64(col int) int64
	Text(col int) string // "" for NULL
	Bytes(col int) []byte
}

// Queryer runs one query and calls row for each row of its result. Everything that a verification asks
// must come from one snapshot: call it inside a transaction.
type Queryer[R Row] interface {
	Query(sql string, row func(R) error, args ...any) error
}

// Object is one row of sqlite_schema: a table, index, trigger or view, and the SQL that defines it.
type Object struct {
	Type  string // "table", "index", "trigger" or "view"
	Name  string
	Table string // the table that it belongs to; its own name for a table or view
	SQL   string // as stored; "" for an index that SQLite made for a constraint
}

// Shape is all that the schema of a database consists of, in the order in which SQLite stores it. SQLite
// stores no more than these texts: columns, constraints and collations are what it reads in them at each
// opening. So two databases whose texts have the same tokens have the same shape.
type Shape []Object

// ReadShape reads the shape of the main database. It leaves out the tables that SQLite makes for itself
// in any database: sqlite_sequence and sqlite_stat1 to sqlite_stat4.
func ReadShape[R Row](q Queryer[R]) (Shape, error) {
	var shape Shape
	err := q.Query("SELECT type, name, tbl_name, sql FROM main.sqlite_schema", func(r R) error {
		o := Object{Type: r.Text(0), Name: r.Text(1), Table: r.Text(2), SQL: r.Text(3)}
		if o.Type != "table" || !slices.Contains(internalTables, o.Name) {
			shape = append(shape, o)
		}
		return nil
	})
	return shape, err
}

var internalTables = []string{"sqlite_sequence", "sqlite_stat1", "sqlite_stat2", "sqlite_stat3", "sqlite_stat4"}

// compareObjects puts tables before what belongs to them, so that differences read from the cause to the
// effect.
func compareObjects(a, b Object) int {
	if a.Type != b.Type {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), strings.Compare(a.Type, b.Type))
	}
	return strings.Compare(a.Name, b.Name)
}

func (o Object) rank() int { return slices.Index(typeOrder, o.Type) }

var typeOrder = []string{"table", "view", "index", "trigger"}

// isAutoIndex reports whether SQLite made the index for a UNIQUE or PRIMARY KEY constraint.
func (o Object) isAutoIndex() bool { return o.Type == "index" && o.SQL == "" }

// has reports whether there is such an object.
func (s Shape) has(typ, name string) bool {
	return slices.ContainsFunc(s, func(o Object) bool { return o.Type == typ && o.Name == name })
}
