package host

import (
	"context"

	"pistate/internal/sqlite"
	"pistate/schema"
	"pistate/wasm/abi"
)

// fileAnswers are the functions of pistate_file_v1 by their names. All numbers come from the guest, and may be
// anything; what a result means is said at [sqlite.GrantedFile].
var fileAnswers = map[string]answerOf[*sqlite.GrantedFile]{
	abi.Open:   numbers(func(f *sqlite.GrantedFile, _ context.Context, p params) int64 { return f.OpenFile(p.i32(0), p.i32(1)) }),
	abi.Close:  numbers(func(f *sqlite.GrantedFile, _ context.Context, p params) int64 { return f.CloseFile(p.i32(0)) }),
	abi.Delete: numbers(func(f *sqlite.GrantedFile, _ context.Context, p params) int64 { return f.Delete(p.i32(0)) }),
	abi.Exists: numbers(func(f *sqlite.GrantedFile, _ context.Context, p params) int64 { return f.Exists(p.i32(0)) }),
	abi.Size:   numbers(func(f *sqlite.GrantedFile, _ context.Context, p params) int64 { return f.Size(p.i32(0)) }),
	abi.Truncate: numbers(func(f *sqlite.GrantedFile, _ context.Context, p params) int64 {
		return f.Truncate(p.i32(0), int64(p[1]))
	}),
	abi.Sync:    numbers(func(f *sqlite.GrantedFile, _ context.Context, p params) int64 { return f.Sync(p.i32(0)) }),
	abi.InPlace: numbers(func(f *sqlite.GrantedFile, _ context.Context, _ params) int64 { return f.InPlace() }),
	abi.Lock:    numbers(func(f *sqlite.GrantedFile, ctx context.Context, p params) int64 { return f.Lock(ctx, p.i32(0)) }),
	abi.Read: inWindow(1, func(f *sqlite.GrantedFile, ctx context.Context, window []byte, p params) int64 {
		return f.Read(ctx, p.i32(0), window, int64(p[3]))
	}),
	abi.Write: inWindow(1, func(f *sqlite.GrantedFile, ctx context.Context, window []byte, p params) int64 {
		return f.Write(ctx, p.i32(0), window, int64(p[3]))
	}),
	abi.Beside: inWindow(0, func(f *sqlite.GrantedFile, _ context.Context, window []byte, _ params) int64 {
		return f.Beside(window)
	}),
	abi.ErrorText: inWindow(0, func(f *sqlite.GrantedFile, _ context.Context, window []byte, _ params) int64 {
		return f.Error(window)
	}),
}

// answerFile returns how a function of pistate_file_v1 is answered: fileAnswers, but for a database in memory, which
// has no file.
func answerFile(name string) answerOf[*sqlite.GrantedFile] {
	answer := fileAnswers[name]
	return func(f *sqlite.GrantedFile, ctx context.Context, mem memory, p params) int64 {
		if f == nil {
			return notGranted
		}
		return answer(f, ctx, mem, p)
	}
}

// notGranted is the answer of every function where there is no file.
var notGranted = abi.CodeBase + int64(abi.Number(schema.Denied))
