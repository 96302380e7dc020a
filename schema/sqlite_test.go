package schema

import (
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// memory is a private database in memory, as the verification sees it.
type memory struct {
	*sqlite3.Conn
	stmts map[string]*sqlite3.Stmt
}

type memoryRow struct{ *sqlite3.Stmt }

func (r memoryRow) Int64(col int) int64  { return r.ColumnInt64(col) }
func (r memoryRow) Text(col int) string  { return r.ColumnText(col) }
func (r memoryRow) Bytes(col int) []byte { return r.ColumnBlob(col, nil) }

func (m memory) Query(sql string, row func(memoryRow) error, args ...any) error {
	s := m.stmts[sql]
	if s == nil {
		var err error
		if s, _, err = m.Prepare(sql); err != nil {
			return err
		}
		m.stmts[sql] = s
	}
	defer s.Reset()
	for s.Step() {
		if err := row(memoryRow{s}); err != nil {
			return err
		}
	}
	return s.Err()
}

func openMemory(tb testing.TB, ddl ...string) memory {
	tb.Helper()
	db, err := sqlite3.Open(":memory:")
	if err != nil {
		tb.Fatal(err)
	}
	m := memory{db, map[string]*sqlite3.Stmt{}}
	tb.Cleanup(func() {
		for _, s := range m.stmts {
			s.Close()
		}
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	for _, sql := range ddl {
		m.exec(tb, sql)
	}
	return m
}

func (m memory) exec(tb testing.TB, sql string) {
	tb.Helper()
	if err := m.Conn.Exec(sql); err != nil {
		tb.Fatalf("%v in:\n%s", err, sql)
	}
}

// Script and Exec make memory a Creator.
func (m memory) Script(sql string) error { return m.Conn.Exec(sql) }

func (m memory) Exec(sql string, args ...any) (int64, error) {
	s, _, err := m.Prepare(sql)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	for i, a := range args {
		switch v := a.(type) {
		case string:
			err = s.BindText(i+1, v)
		case []byte:
			err = s.BindBlob(i+1, v)
		case int:
			err = s.BindInt(i+1, v)
		case int64:
			err = s.BindInt64(i+1, v)
		}
		if err != nil {
			return 0, err
		}
	}
	return m.Changes(), s.Exec()
}

func openState(tb testing.TB) memory {
	tb.Helper()
	m := openMemory(tb)
	if err := CreateState(m, "test", 1700000000000); err != nil {
		tb.Fatal(err)
	}
	return m
}

func readShape(tb testing.TB, m memory) Shape {
	tb.Helper()
	shape, err := ReadShape(m)
	if err != nil {
		tb.Fatal(err)
	}
	return shape
}
