//go:build !wasip1

package sqlite

import (
	"context"
	"math"

	"github.com/ncruces/go-sqlite3"

	"pistate/schema"
)

// loanStmt is a statement that a guest has prepared.
type loanStmt struct {
	*sqlite3.Stmt
	loan    *loan
	claims  bool // it makes the database the guest's own
	params  int  // how many it takes
	columns int  // of its rows
	running bool // rows wait
	pending bool // it is at a row that has not been given
}

// begin gives a statement its parameters.
func (s *loanStmt) begin(ctx context.Context, params []byte) error {
	s.reset()
	s.loan.interrupt(ctx)
	if s.claims {
		if err := s.loan.adopt(); err != nil {
			return err
		}
	}
	if err := s.bind(params); err != nil {
		s.reset()
		return err
	}
	s.running = true
	return nil
}

func (s *loanStmt) bind(params []byte) error {
	return s.loan.try(func() error {
		for i := 1; i <= s.params; i++ {
			v, rest, err := nextValue(params)
			if err != nil {
				return err
			}
			params = rest
			if len(v.bytes) > maxRow {
				return tooLong(len(v.bytes))
			}
			if err := s.bindValue(i, v); err != nil {
				return err
			}
		}
		if len(params) > 0 {
			return schema.Errorf(schema.Invalid, "%d bytes of parameters are left over, after the %d that the statement takes", len(params), s.params)
		}
		return nil
	})
}

func (s *loanStmt) bindValue(i int, v value) error {
	switch v.tag {
	case tagInteger:
		return s.BindInt64(i, v.integer())
	case tagReal:
		return s.BindFloat(i, v.real())
	case tagText:
		return s.BindRawText(i, v.bytes)
	case tagBlob:
		return s.BindBlob(i, v.bytes)
	}
	return s.BindNull(i)
}

// resume goes on with a statement.
func (s *loanStmt) resume(ctx context.Context) error {
	if !s.running {
		return schema.Errorf(schema.Invalid, "no rows wait: run the statement first")
	}
	s.loan.interrupt(ctx)
	return nil
}

// page packs an answer. If not even one row fits, it returns what that row needs.
func (s *loanStmt) page(buf []byte) (int64, error) {
	if len(buf) < headerSize {
		return 0, schema.Errorf(schema.Invalid, "an answer has at least %d bytes, not %d", headerSize, len(buf))
	}
	h := header{columns: s.columns}
	packed := buf[:headerSize]
	for {
		if !s.pending {
			more, err := s.loan.step(s.Stmt)
			if err != nil {
				s.reset()
				return 0, err
			}
			if !more {
				h.done = true
				break
			}
			s.pending = true
		}
		row, fits := s.pack(packed, len(buf))
		if err := s.Err(); err != nil { // of reading a column
			s.reset()
			return 0, translate(s.loan.path, reported(err))
		}
		if !fits {
			if h.rows == 0 {
				return s.need()
			}
			break
		}
		packed, s.pending = row, false
		if h.rows++; h.rows == math.MaxInt32 {
			break
		}
	}
	h.changes = s.loan.changes()
	if h.done {
		s.reset()
	}
	h.inTransaction = s.loan.inTransaction()
	h.put(buf)
	return int64(len(packed)), nil
}

// pack appends the row that the statement is at, unless it doesn't fit. The bytes of a value are copied at once:
// the next one may make SQLite move its memory.
func (s *loanStmt) pack(packed []byte, most int) (row []byte, fits bool) {
	for i := range s.columns {
		tag := nativeRow{s.Stmt}.kind(i)
		switch tag {
		case tagNull:
			if len(packed)+1 > most {
				return nil, false
			}
			packed = appendNull(packed)
		case tagInteger, tagReal:
			if len(packed)+9 > most {
				return nil, false
			}
			if tag == tagInteger {
				packed = appendInteger(packed, s.ColumnInt64(i))
			} else {
				packed = appendReal(packed, s.ColumnFloat(i))
			}
		default:
			data := s.raw(i, tag)
			if len(packed)+5+len(data) > most {
				return nil, false
			}
			packed = appendBytes(packed, tag, data)
		}
	}
	return packed, true
}

// raw returns the bytes of a column, which are SQLite's.
func (s *loanStmt) raw(col int, tag byte) []byte {
	if tag == tagText {
		return s.ColumnRawText(col)
	}
	return s.ColumnRawBlob(col)
}

// need returns the length of an answer with the row that the statement is at, and nothing else.
func (s *loanStmt) need() (int64, error) {
	size := int64(0)
	for i := range s.columns {
		switch tag := (nativeRow{s.Stmt}).kind(i); tag {
		case tagNull:
			size++
		case tagInteger, tagReal:
			size += 9
		default:
			size += 5 + int64(len(s.raw(i, tag)))
		}
	}
	if size > maxRow {
		s.reset()
		return 0, tooLong(int(size))
	}
	return headerSize + size, nil
}

// reset ends a run. Its parameters are not kept.
func (s *loanStmt) reset() {
	_ = s.loan.try(func() error {
		_ = s.Reset() // reports the last step's error again
		return s.ClearBindings()
	})
	s.running, s.pending = false, false
}

func (s *loanStmt) finalize() {
	_ = s.loan.try(func() error {
		_ = s.Close() // reports the last step's error again
		return nil
	})
}
