//go:build lent && !wasip1

package sqlite

import "context"

// chosen is the engine of this build: lent for a DB, and native for what looks at files.
type chosen = engine

// native returns the SQLite of a connection that looks at files.
func (c *conn) native() *native { return c.chosen.(*native) }

// transport calls a [Lender] in this process. This is how the packages above are tested over the packing.
type transport struct{ l *Lender }

func (t transport) open(ctx context.Context, mode int32) int32 { return t.l.Open(ctx, mode) }
func (t transport) finalize(stmt int32) int32                  { return t.l.Finalize(stmt) }
func (t transport) reset(stmt int32) int32                     { return t.l.Reset(stmt) }
func (t transport) inTransaction(db int32) int32               { return t.l.InTransaction(db) }
func (t transport) inPlace(db int32) int32                     { return t.l.InPlace(db) }
func (t transport) unresolved(db int32) int32                  { return t.l.Unresolved(db) }
func (t transport) close(db int32) int32                       { return t.l.Close(db) }

func (t transport) prepare(ctx context.Context, db int32, sql string) int32 {
	return t.l.Prepare(ctx, db, []byte(sql))
}

func (t transport) run(ctx context.Context, stmt int32, params, buf []byte) int64 {
	return t.l.Run(ctx, stmt, params, buf)
}

func (t transport) next(ctx context.Context, stmt int32, buf []byte) int64 {
	return t.l.Next(ctx, stmt, buf)
}

func (t transport) script(ctx context.Context, db int32, sql string) int32 {
	return t.l.Script(ctx, db, []byte(sql))
}

func (t transport) beside(buf []byte) int64    { return t.l.Beside(buf) }
func (t transport) errorText(buf []byte) int64 { return t.l.Error(buf) }

// newTransport lends the database at a resolved path.
func newTransport(path string) transport { return transport{lend(path)} }
