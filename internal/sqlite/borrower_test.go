package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"pistate/schema"
	"pistate/wasm/abi"
)

// borrower is a guest of a Lender with one database open.
type borrower struct {
	t testing.TB
	*Lender
	db  int32
	buf []byte
}

func borrow(t testing.TB, path string, mode int32) *borrower {
	t.Helper()
	l, err := NewLender(path)
	must(t, err)
	t.Cleanup(func() { must(t, l.Revoke()) })
	b := &borrower{t: t, Lender: l, buf: make([]byte, 64<<10)}
	b.db = b.ok(l.Open(t.Context(), mode))
	return b
}

// borrowTest borrows a database with the tests' schema.
func borrowTest(t testing.TB) *borrower {
	t.Helper()
	path := filepath.Join(tempDir(t), "x.db")
	must(t, openTest(t, path).Close())
	return borrow(t, path, 1)
}

// ok fails the test unless a result is a success.
func (b *borrower) ok(result int32) int32 {
	b.t.Helper()
	if result < 0 {
		b.t.Fatalf("%d: %s", result, b.why())
	}
	return result
}

func (b *borrower) why() string {
	text := make([]byte, abi.MaxMessage)
	return string(text[:b.Error(text)])
}

// want checks the code of a result, and that there is a text.
func (b *borrower) want(result int64, code schema.Code) {
	b.t.Helper()
	if err := crossedError(b.path, result, b.why()); result >= 0 || schema.CodeOf(err) != code || b.why() == "" {
		b.t.Errorf("%d (%v), want %s", result, err, code)
	}
}

func (b *borrower) prepare(sql string) int32 {
	return b.Prepare(context.Background(), b.db, []byte(sql))
}

func (b *borrower) script(sql string) int32 { return b.Script(context.Background(), b.db, []byte(sql)) }

// do runs one statement to its end and returns all its values.
func (b *borrower) do(sql string, args ...any) (last header, values []any) {
	b.t.Helper()
	stmt := b.ok(b.prepare(sql))
	params, err := appendParams(nil, args)
	must(b.t, err)
	for n := b.Run(context.Background(), stmt, params, b.buf); ; n = b.Next(context.Background(), stmt, b.buf) {
		if n < 0 {
			b.t.Fatalf("%s: %d: %s", sql, n, b.why())
		}
		if n > int64(len(b.buf)) {
			b.buf = make([]byte, n)
			continue
		}
		h, packed, err := readHeader(b.buf[:n])
		must(b.t, err)
		page := unpack(b.t, packed)
		if len(page) != h.rows*h.columns {
			b.t.Fatalf("%d values in %d rows of %d", len(page), h.rows, h.columns)
		}
		for i := range page {
			if blob, ok := page[i].([]byte); ok {
				page[i] = append([]byte{}, blob...)
			}
		}
		if values = append(values, page...); h.done {
			b.ok(b.Finalize(stmt))
			return h, values
		}
	}
}

func (b *borrower) commit() int32 {
	n := b.Run(context.Background(), b.ok(b.prepare("COMMIT")), nil, b.buf)
	return int32(min(n, 0))
}
