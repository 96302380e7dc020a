//go:build lent

package sqlite

import (
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"pistate/schema"
)

// Any values are the same in all their forms, whether SQLite is lent or not.
func TestLentRowsAreAlike(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	plain := &conn{chosen: inside(db.writer), path: db.path}
	look := func(r Row) []any {
		var seen []any
		for i := range r.Columns() + 1 {
			seen = append(seen, r.IsNull(i), r.Value(i), r.Int64(i), r.Int(i), r.Bool(i))
			if i < r.Columns() && r.v.kind(i) != tagReal { // whose text is a matter of the SQLite
				seen = append(seen, r.Text(i), r.Bytes(i))
			}
		}
		return seen
	}
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOfN(rapid.OneOf(anyArg(),
			rapid.StringMatching(`\s?[-+]?[0-9]{1,25}[.e]?[0-9x]?`).AsAny(),
			rapid.SampledFrom([]any{math.Inf(1), math.Inf(-1), 1e19, -1e19, "9223372036854775808", "-", "+", []byte("12")}),
		), 3, 3).Draw(t, "args")
		both := func(c *conn) (rows [][]any) {
			err := c.run("SELECT ?1, ?2, ?3 UNION ALL SELECT ?3, ?2, ?1", func(r Row) error {
				rows = append(rows, look(r))
				return nil
			}, args)
			if err != nil {
				t.Fatal(err)
			}
			return rows
		}
		if lent, native := both(db.writer), both(plain); !reflect.DeepEqual(lent, native) {
			t.Errorf("lent\n%v\nnative\n%v", lent, native)
		}
	})
}

// A query inside another one, of the same text too, has its own page; and ending one early leaves the others.
func TestLentNesting(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	fill(t, db, 3)
	const query = "SELECT name, zeroblob(20000) FROM item ORDER BY id" // more than a page
	enough := errors.New("enough")
	must(t, db.Read(t.Context(), func(rx *Rx) error {
		var seen []string
		var nest func(depth int) error
		nest = func(depth int) error {
			return rx.Query(query, func(r Row) error {
				before := r.Text(0)
				if depth > 0 {
					if err := nest(depth - 1); err != nil {
						return err
					}
				}
				if r.Text(0) != before || len(r.Bytes(1)) != 20000 {
					t.Errorf("%s became %s", before, r.Text(0))
				}
				seen = append(seen, before)
				return nil
			})
		}
		must(t, nest(2))
		if len(seen) != 3+9+27 {
			t.Errorf("%d rows", len(seen))
		}
		for range 3 {
			if err := rx.Query(query, func(Row) error { return enough }); err != enough {
				t.Error(err)
			}
		}
		return nil
	}))
	l := db.writer.chosen.(*lent)
	if handles := len(l.t.l.stmts); handles != len(l.stmts) {
		t.Errorf("%d statements are prepared, and %d kept", handles, len(l.stmts))
	}
	for _, s := range l.t.l.stmts {
		if s.running {
			t.Errorf("%q still has rows", s.SQL())
		}
	}
}

// What the lender says of the transaction is known without asking, also after a failure.
func TestLentTransactions(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	c := db.writer
	is := func(want bool) {
		t.Helper()
		if got := c.inTransaction(); got != want {
			t.Errorf("in a transaction: %v", got)
		}
	}
	is(false)
	must(t, c.begin())
	is(true)
	must(t, c.script("INSERT INTO part (item, size) VALUES (9, 9)"))
	is(true)
	wantCode(t, c.commit(), schema.Invalid)
	is(true)
	must(t, c.rollback())
	is(false)
	must(t, c.rollback())
}

// A damaged answer is an error.
func TestDamagedPages(t *testing.T) {
	for _, answer := range [][]byte{{}, {1}, slices.Concat(onlyHeader(1, 1), []byte{3, 9, 0, 0, 0}), onlyHeader(1, 2)} {
		p := &page{buf: answer}
		_, err := p.take(int64(len(answer)))
		for p.next() {
		}
		wantCode(t, join(err, p.err), schema.Invalid)
	}
}

// onlyHeader is a header of rows that may not follow.
func onlyHeader(columns, rows int) []byte {
	answer := make([]byte, headerSize)
	header{columns: columns, rows: rows}.put(answer)
	return answer
}

// Nothing is allocated for a statement but what its caller gets.
func TestLentAllocations(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	fill(t, db, 3)
	args := []any{"a", int64(2)}
	row := func(r Row) error { _ = r.Int64(0); return nil }
	run := func() { must(t, db.writer.run("SELECT id FROM item WHERE name > ?1 AND id < ?2", row, args)) }
	run()
	if n := testing.AllocsPerRun(100, run); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
