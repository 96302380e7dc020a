//go:build !wasip1

package sqlite

import (
	"context"
	"math"

	"pistate/schema"
	"pistate/wasm/abi"
)

// What a [Lender] gives out at most, at the same time or in one piece.
const (
	maxLoans      = 8       // open databases
	maxStatements = 4096    // prepared statements
	maxSQL        = 1 << 20 // bytes of one text
)

// Lender lends the SQLite of this process, with one database open, to a guest that has none: it serves the
// import module pistate_sql_v1, of which each method is one function. The guest may be hostile. Whatever it
// passes, it reaches that database and nothing else (Z2), and gets a number for an answer.
//
// A result of at least 0 is a success; -1 to -65535 is minus an extended result code of SQLite, and from -65536
// down it is -65536 plus the number of a code in wasm/abi. [Lender.Error] has the text. Byte slices are the
// guest's memory, and are not kept. A context ends what waits and what runs.
//
// A Lender is for one goroutine at a time. It has to be revoked when the guest is gone.
type Lender struct {
	path    string
	loans   map[int32]*loan
	stmts   map[int32]*loanStmt
	last    int32  // the last handle that was given out: none is used twice
	text    string // of the last failure
	revoked bool
}

// NewLender returns a Lender of the database at a path, which is not looked at before the guest opens it.
func NewLender(path string) (*Lender, error) {
	resolved, err := Resolve(path)
	if err != nil {
		return nil, err
	}
	return lend(resolved), nil
}

func lend(resolved string) *Lender {
	return &Lender{path: resolved, loans: map[int32]*loan{}, stmts: map[int32]*loanStmt{}}
}

// Revoke closes everything that the guest has open, and undoes a transaction that it didn't commit. What the
// guest calls afterwards fails with [schema.Closed].
func (l *Lender) Revoke() error {
	l.revoked = true
	var err error
	for handle, loan := range l.loans {
		err = join(err, l.end(handle, loan))
	}
	return err
}

// Refuse keeps the text of an error that was found before anything of the database was asked for, such as a window
// outside the guest's memory, and returns its result.
func (l *Lender) Refuse(err error) int64 { return int64(l.fail(err)) }

// fail remembers why a call failed, and returns its result.
func (l *Lender) fail(err error) int32 {
	l.text = abi.Message(err.Error())
	if f, ok := failureOf(err); ok {
		l.text = abi.Message(f.Error()) // the guest adds the path and the advice
	}
	return result(err)
}

// handle returns a new handle, 0 if there are no more.
func (l *Lender) handle() int32 {
	if l.last == math.MaxInt32 {
		return 0
	}
	l.last++
	return l.last
}

// checkRoom refuses to give out more than there may be.
func (l *Lender) checkRoom(what string, have, most int) error {
	if have >= most || l.last == math.MaxInt32 {
		return schema.Errorf(schema.Limit, "%d %s are open, which is as many as there may be", have, what)
	}
	return nil
}

// loan finds an open database.
func (l *Lender) loan(handle int32) (*loan, error) {
	if n := l.loans[handle]; n != nil {
		return n, nil
	}
	return nil, l.unknown("database", handle)
}

// stmt finds a prepared statement.
func (l *Lender) stmt(handle int32) (*loanStmt, error) {
	if s := l.stmts[handle]; s != nil {
		return s, nil
	}
	return nil, l.unknown("statement", handle)
}

func (l *Lender) unknown(what string, handle int32) error {
	if l.revoked {
		return schema.Errorf(schema.Closed, "%s: the database is no longer lent", l.path)
	}
	return schema.Errorf(schema.Invalid, "there is no %s with the handle %d", what, handle)
}

// Open opens the database: with mode 0 it must exist, and nothing is changed, not even files beside it; with mode
// 1 it is opened for writing, and created with its directory if it is missing (S5). The result is a handle.
func (l *Lender) Open(ctx context.Context, mode int32) int32 {
	handle, err := l.open(ctx, mode)
	if err != nil {
		return l.fail(err)
	}
	return handle
}

func (l *Lender) open(ctx context.Context, mode int32) (int32, error) {
	if l.revoked {
		return 0, l.unknown("database", 0)
	}
	if err := l.checkRoom("databases", len(l.loans), maxLoans); err != nil {
		return 0, err
	}
	var n *loan
	var err error
	switch mode {
	case 0:
		n, err = openLoanForReading(ctx, l.path)
	case 1:
		n, err = openLoanForWriting(ctx, l.path)
	default:
		err = schema.Errorf(schema.Invalid, "there is no mode %d", mode)
	}
	if err != nil {
		return 0, err
	}
	handle := l.handle()
	l.loans[handle] = n
	return handle, nil
}

// Close closes a database and ends its statements.
func (l *Lender) Close(db int32) int32 {
	n, err := l.loan(db)
	if err == nil {
		err = l.end(db, n)
	}
	if err != nil {
		return l.fail(err)
	}
	return abi.OK
}

func (l *Lender) end(handle int32, n *loan) error {
	for h, s := range l.stmts {
		if s.loan == n {
			s.finalize()
			delete(l.stmts, h)
		}
	}
	delete(l.loans, handle)
	return n.close()
}

// Prepare prepares one statement. The result is a handle, which is good until it is finalized or its database
// closed.
func (l *Lender) Prepare(ctx context.Context, db int32, sql []byte) int32 {
	n, err := l.loan(db)
	if err == nil {
		err = l.checkRoom("statements", len(l.stmts), maxStatements)
	}
	var s *loanStmt
	if err == nil {
		s, err = n.prepare(ctx, sql)
	}
	if err != nil {
		return l.fail(err)
	}
	handle := l.handle()
	l.stmts[handle] = s
	return handle
}

// Finalize ends a statement.
func (l *Lender) Finalize(stmt int32) int32 {
	s, err := l.stmt(stmt)
	if err != nil {
		return l.fail(err)
	}
	s.finalize()
	delete(l.stmts, stmt)
	return abi.OK
}

// Run runs a statement from its beginning, with new parameters, and packs its answer with as many rows as fit
// into buf. The result is the length of the answer. A result greater than the length of buf says that the next
// row needs that many bytes: nothing was written, and Next has it. A statement that has finished or failed is
// reset, and its parameters are gone.
func (l *Lender) Run(ctx context.Context, stmt int32, params, buf []byte) int64 {
	s, err := l.stmt(stmt)
	if err == nil {
		err = s.begin(ctx, params)
	}
	return l.page(s, err, buf)
}

// Next goes on with a statement, as Run does. Errors: [schema.Invalid] if no rows wait.
func (l *Lender) Next(ctx context.Context, stmt int32, buf []byte) int64 {
	s, err := l.stmt(stmt)
	if err == nil {
		err = s.resume(ctx)
	}
	return l.page(s, err, buf)
}

func (l *Lender) page(s *loanStmt, err error, buf []byte) int64 {
	var n int64
	if err == nil {
		n, err = s.page(buf)
	}
	if err != nil {
		return int64(l.fail(err))
	}
	return n
}

// Reset gives up the rows of a statement that wait.
func (l *Lender) Reset(stmt int32) int32 {
	s, err := l.stmt(stmt)
	if err != nil {
		return l.fail(err)
	}
	s.reset()
	return abi.OK
}

// Script runs several statements without parameters and rows.
func (l *Lender) Script(ctx context.Context, db int32, sql []byte) int32 {
	n, err := l.loan(db)
	if err == nil {
		err = n.runScript(ctx, sql)
	}
	if err != nil {
		return l.fail(err)
	}
	return abi.OK
}

// InTransaction returns 1 if a transaction is open, else 0.
func (l *Lender) InTransaction(db int32) int32 {
	n, err := l.loan(db)
	if err == nil {
		err = n.broken()
	}
	if err != nil {
		return l.fail(err)
	}
	return int32(bit(n.inTransaction()))
}

// InPlace fails with [schema.Replaced] if the database is no longer the file at its path (S9).
func (l *Lender) InPlace(db int32) int32 {
	n, err := l.loan(db)
	if err == nil {
		err = n.inPlace()
	}
	if err != nil {
		return l.fail(err)
	}
	return abi.OK
}

// Unresolved returns the number of deferred foreign keys that are violated so far.
func (l *Lender) Unresolved(db int32) int32 {
	n, err := l.loan(db)
	var violated int64
	if err == nil {
		violated, err = n.unresolved()
	}
	if err != nil {
		return l.fail(err)
	}
	return int32(min(violated, math.MaxInt32))
}

// Beside packs whether the database exists and isn't empty, as an INTEGER, and each name in its directory, sorted,
// as a TEXT. The result is the length of that; if it is greater than that of buf, nothing was written.
func (l *Lender) Beside(buf []byte) int64 {
	if l.revoked {
		return int64(l.fail(l.unknown("database", 0)))
	}
	exists, names, err := besideFile(l.path)
	if err != nil {
		return int64(l.fail(err))
	}
	return abi.Give(buf, appendBeside(nil, exists, names))
}

// Error gives the text of the last failure, at most 4096 bytes; if that is more than buf has, nothing was written.
func (l *Lender) Error(buf []byte) int64 {
	return abi.Give(buf, []byte(l.text))
}
