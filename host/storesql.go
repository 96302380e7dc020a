package host

import (
	"context"

	"pistate/internal/sqlite"
	"pistate/wasm/abi"
)

// sqlAnswers are the functions of pistate_sql_v1 by their names. All numbers come from the guest, and may be anything;
// what a result means is said at [sqlite.Lender].
var sqlAnswers = map[string]answerOf[*sqlite.Lender]{
	abi.Open:          numbers(func(l *sqlite.Lender, ctx context.Context, p params) int32 { return l.Open(ctx, p.i32(0)) }),
	abi.Close:         numbers(func(l *sqlite.Lender, _ context.Context, p params) int32 { return l.Close(p.i32(0)) }),
	abi.Finalize:      numbers(func(l *sqlite.Lender, _ context.Context, p params) int32 { return l.Finalize(p.i32(0)) }),
	abi.Reset:         numbers(func(l *sqlite.Lender, _ context.Context, p params) int32 { return l.Reset(p.i32(0)) }),
	abi.InTransaction: numbers(func(l *sqlite.Lender, _ context.Context, p params) int32 { return l.InTransaction(p.i32(0)) }),
	abi.InPlace:       numbers(func(l *sqlite.Lender, _ context.Context, p params) int32 { return l.InPlace(p.i32(0)) }),
	abi.Unresolved:    numbers(func(l *sqlite.Lender, _ context.Context, p params) int32 { return l.Unresolved(p.i32(0)) }),
	abi.Prepare: inWindow(1, func(l *sqlite.Lender, ctx context.Context, sql []byte, p params) int64 {
		return int64(l.Prepare(ctx, p.i32(0), sql))
	}),
	abi.Script: inWindow(1, func(l *sqlite.Lender, ctx context.Context, sql []byte, p params) int64 {
		return int64(l.Script(ctx, p.i32(0), sql))
	}),
	abi.Next: inWindow(1, func(l *sqlite.Lender, ctx context.Context, buf []byte, p params) int64 {
		return l.Next(ctx, p.i32(0), buf)
	}),
	abi.Beside: inWindow(0, func(l *sqlite.Lender, _ context.Context, buf []byte, _ params) int64 {
		return l.Beside(buf)
	}),
	abi.ErrorText: inWindow(0, func(l *sqlite.Lender, _ context.Context, buf []byte, _ params) int64 {
		return l.Error(buf)
	}),
	abi.Run: func(l *sqlite.Lender, ctx context.Context, mem memory, p params) int64 {
		values, err := mem.window(p.u32(1), p.u32(2))
		if err != nil {
			return l.Refuse(err)
		}
		buf, err := mem.window(p.u32(3), p.u32(4))
		if err != nil {
			return l.Refuse(err)
		}
		return l.Run(ctx, p.i32(0), values, buf)
	},
}
