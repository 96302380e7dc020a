package host

import (
	"context"

	"pistate/internal/sqlite"
	"pistate/schema"
	"pistate/wasm/abi"
)

// badWindow is what pistate_sql_v1 answers for a window that doesn't lie in the guest's memory.
var badWindow = abi.CodeBase + int64(abi.Number(schema.Invalid))

// interrupted tells SQLite's two reasons to stop waiting for a lock apart: it says BUSY as well where the call's
// context is over.
func interrupted(ctx context.Context, result int64) int64 {
	const busy, interrupt = 5, -9
	if result < 0 && result >= abi.SQLiteLast && -result&0xff == busy && ctx.Err() != nil {
		return interrupt
	}
	return result
}

// sqlAnswers are the functions of pistate_sql_v1, over what lends the database.
var sqlAnswers = map[string]func(lender *sqlite.Lender, ctx context.Context, mem memory, p params) int64{
	abi.Open: func(l *sqlite.Lender, ctx context.Context, _ memory, p params) int64 {
		return interrupted(ctx, int64(l.Open(ctx, p.i32(0))))
	},
	abi.Close: func(l *sqlite.Lender, _ context.Context, _ memory, p params) int64 {
		return int64(l.Close(p.i32(0)))
	},
	abi.Prepare: func(l *sqlite.Lender, ctx context.Context, mem memory, p params) int64 {
		sql, ok := mem.Read(p.u32(1), p.u32(2))
		if !ok {
			return badWindow
		}
		return interrupted(ctx, int64(l.Prepare(ctx, p.i32(0), sql)))
	},
	abi.Finalize: func(l *sqlite.Lender, _ context.Context, _ memory, p params) int64 {
		return int64(l.Finalize(p.i32(0)))
	},
	abi.Run: func(l *sqlite.Lender, ctx context.Context, mem memory, p params) int64 {
		values, ok := mem.Read(p.u32(1), p.u32(2))
		buf, fits := mem.Read(p.u32(3), p.u32(4))
		if !ok || !fits {
			return badWindow
		}
		return interrupted(ctx, l.Run(ctx, p.i32(0), values, buf))
	},
	abi.Next: func(l *sqlite.Lender, ctx context.Context, mem memory, p params) int64 {
		buf, ok := mem.Read(p.u32(1), p.u32(2))
		if !ok {
			return badWindow
		}
		return interrupted(ctx, l.Next(ctx, p.i32(0), buf))
	},
	abi.Reset: func(l *sqlite.Lender, _ context.Context, _ memory, p params) int64 {
		return int64(l.Reset(p.i32(0)))
	},
	abi.Script: func(l *sqlite.Lender, ctx context.Context, mem memory, p params) int64 {
		sql, ok := mem.Read(p.u32(1), p.u32(2))
		if !ok {
			return badWindow
		}
		return interrupted(ctx, int64(l.Script(ctx, p.i32(0), sql)))
	},
	abi.InTransaction: func(l *sqlite.Lender, _ context.Context, _ memory, p params) int64 {
		return int64(l.InTransaction(p.i32(0)))
	},
	abi.InPlace: func(l *sqlite.Lender, _ context.Context, _ memory, p params) int64 {
		return int64(l.InPlace(p.i32(0)))
	},
	abi.Unresolved: func(l *sqlite.Lender, _ context.Context, _ memory, p params) int64 {
		return int64(l.Unresolved(p.i32(0)))
	},
	abi.Beside: func(l *sqlite.Lender, _ context.Context, mem memory, p params) int64 {
		buf, ok := mem.Read(p.u32(0), p.u32(1))
		if !ok {
			return badWindow
		}
		return l.Beside(buf)
	},
	abi.ErrorText: func(l *sqlite.Lender, _ context.Context, mem memory, p params) int64 {
		buf, ok := mem.Read(p.u32(0), p.u32(1))
		if !ok {
			return badWindow
		}
		return l.Error(buf)
	},
}
