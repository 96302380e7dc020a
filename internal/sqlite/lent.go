//go:build lent || (wasip1 && !sqliteinside)

package sqlite

import (
	"context"
	"strings"
	"unsafe"

	"pistate/schema"
	"pistate/wasm/abi"
)

// The modes of the transport's open.
const (
	modeRead  int32 = 0 // an existing database, which nothing may change
	modeWrite int32 = 1 // created if it is missing
)

const (
	pageSize = 32 << 10 // bytes of an answer that are asked for; a row that needs more gets more
	keepSize = 1 << 20  // bytes: no larger buffer is kept for the next statement
)

// lent is a connection of an SQLite that somebody else lends, one statement a call: see [Lender] for the other
// side.
type lent struct {
	t      transport
	handle int32
	path   string
	ctx    context.Context
	stmts  map[string]*lentStmt
	recent recentStmts

	params  []byte  // room for the next parameters
	pages   []*page // room for the next answers: one for each level of nested queries
	changed int64
	open    openState
	failure error
}

// openState is what is known of the transaction.
type openState byte

const (
	unknown openState = iota // a statement failed or a script ran: the other side has to be asked
	open
	closed
)

// lentStmt is a prepared statement that stays with its connection.
type lentStmt struct {
	handle  int32
	kept    bool // not a second one for a recursive use
	used    bool // in use by an outer query
	waiting bool // it has rows that were not fetched
}

// openLent opens the database at the other end of a transport.
func openLent(ctx context.Context, t transport, path string, mode int32) (*conn, error) {
	l := &lent{t: t, path: path, ctx: ctx, stmts: map[string]*lentStmt{}}
	if l.handle = t.open(ctx, mode); l.handle < 0 {
		return nil, l.failed(int64(l.handle))
	}
	return &conn{chosen: l, path: path}, nil
}

// failed returns the error that a negative result stands for.
func (l *lent) failed(result int64) error { return transportError(l.t, l.path, result) }

// transportError returns the error that a negative result of a transport stands for.
func transportError(t transport, path string, result int64) error {
	text := make([]byte, abi.MaxMessage)
	n := t.errorText(text)
	return crossedError(path, result, string(text[:max(0, min(n, abi.MaxMessage))]))
}

func (l *lent) interrupt(ctx context.Context) { l.ctx = ctx }

func (l *lent) broken() error { return l.failure }

func (l *lent) changes() int64 { return l.changed }

func (l *lent) inTransaction() bool {
	if l.open == unknown {
		switch n := l.t.inTransaction(l.handle); {
		case n < 0:
			l.failure = l.failed(int64(n))
			return false
		case n > 0:
			l.open = open
		default:
			l.open = closed
		}
	}
	return l.open == open
}

func (l *lent) unresolved() (int64, error) {
	n := int64(l.t.unresolved(l.handle))
	if n < 0 {
		return 0, l.failed(n)
	}
	return n, nil
}

func (l *lent) inPlace() error {
	if n := l.t.inPlace(l.handle); n < 0 {
		return l.failed(int64(n))
	}
	return nil
}

// measure can't see the files: the database is as large as its pages.
func (l *lent) measure(s *Stat) error {
	s.Bytes = s.Pages * s.PageSize
	return nil
}

// adopt has nothing to do: switching the database to WAL tells the other side that it is ours.
func (l *lent) adopt() error { return nil }

func (l *lent) close() error {
	if n := l.t.close(l.handle); n < 0 {
		return l.failed(int64(n))
	}
	return nil
}

func (l *lent) script(sql string) error {
	if err := l.ctx.Err(); err != nil {
		return translate(l.path, err)
	}
	l.open = unknown
	if n := l.t.script(l.ctx, l.handle, sql); n < 0 {
		return l.failed(int64(n))
	}
	return nil
}

// stmt returns the prepared form of sql, until done.
func (l *lent) stmt(sql string) (*lentStmt, error) {
	s := l.recent.find(sql)
	if s == nil {
		s = l.stmts[sql]
		l.recent.note(sql, s)
	}
	if s != nil && !s.used {
		s.used = true
		return s, nil
	}
	handle := l.t.prepare(l.ctx, l.handle, sql)
	if handle < 0 {
		return nil, l.failed(int64(handle))
	}
	second := s != nil
	s = &lentStmt{handle: handle, kept: !second, used: true}
	if !second {
		l.stmts[strings.Clone(sql)] = s
	}
	return s, nil
}

// recentStmts finds kept statements by where their texts lie: most are constants, and the same one need not be read
// again for each use.
type recentStmts [32]struct {
	sql  string // which keeps other texts from its place
	stmt *lentStmt
}

func (r *recentStmts) slot(sql string) int {
	return int(uintptr(unsafe.Pointer(unsafe.StringData(sql))) / 16 % uintptr(len(r)))
}

func (r *recentStmts) find(sql string) *lentStmt {
	slot := &r[r.slot(sql)]
	if len(slot.sql) != len(sql) || unsafe.StringData(slot.sql) != unsafe.StringData(sql) {
		return nil
	}
	return slot.stmt
}

func (r *recentStmts) note(sql string, s *lentStmt) {
	slot := &r[r.slot(sql)]
	slot.sql, slot.stmt = sql, s
}

// done makes a statement ready for its next use.
func (l *lent) done(s *lentStmt) {
	switch {
	case !s.kept:
		l.t.finalize(s.handle)
	case s.waiting:
		l.t.reset(s.handle)
	}
	s.waiting, s.used = false, false
}

func (l *lent) run(sql string, row func(Row) error, args []any) (err error) {
	if err := l.ctx.Err(); err != nil {
		return translate(l.path, err)
	}
	if l.params, err = appendParams(l.params[:0], args); err != nil {
		return translate(l.path, err)
	}
	s, err := l.stmt(sql)
	if err != nil {
		return err
	}
	defer l.done(s)
	p := l.takePage()
	defer l.givePage(p)
	l.open = unknown // until there is an answer
	n := l.t.run(l.ctx, s.handle, l.params, p.buf)
	if cap(l.params) > keepSize {
		l.params = nil
	}
	for {
		if err := l.take(s, p, n); err != nil {
			return err
		}
		for row != nil && p.next() {
			if err := row(Row{p}); err != nil {
				return err
			}
		}
		if p.err != nil {
			return translate(l.path, p.err)
		}
		if !s.waiting {
			return nil
		}
		n = l.t.next(l.ctx, s.handle, p.buf)
	}
}

// take takes the answer of a length, or, if the next row is longer than the page, a page that is long enough.
func (l *lent) take(s *lentStmt, p *page, n int64) error {
	if n > int64(len(p.buf)) {
		s.waiting = true
		if n > maxRow+headerSize {
			return schema.Errorf(schema.Storage, "%s: a row of %d bytes was announced, of at most %d", l.path, n, maxRow)
		}
		p.buf = make([]byte, n)
		if n = l.t.next(l.ctx, s.handle, p.buf); n > int64(len(p.buf)) {
			return schema.Errorf(schema.Storage, "%s: a row did not fit into the %d bytes that were asked for", l.path, len(p.buf))
		}
	}
	if n < 0 {
		s.waiting = false // a failure ends the statement
		return l.failed(n)
	}
	h, err := p.take(n)
	if err != nil {
		return translate(l.path, err)
	}
	s.waiting, l.changed, l.open = !h.done, h.changes, closed
	if h.inTransaction {
		l.open = open
	}
	return nil
}

func (l *lent) takePage() *page {
	if i := len(l.pages) - 1; i >= 0 {
		p := l.pages[i]
		l.pages = l.pages[:i]
		return p
	}
	return &page{buf: make([]byte, pageSize)}
}

func (l *lent) givePage(p *page) {
	if len(p.buf) > keepSize {
		p.buf = make([]byte, pageSize)
	}
	l.pages = append(l.pages, p)
}
