package host

import (
	"context"

	"pistate/internal/sqlite"
	"pistate/schema"
	"pistate/wasm/abi"
)

// grantedFile is the import module pistate_file_v1 of one instance: the one database file that a store module
// with its own SQLite may use. A nil one belongs to a database in memory, and refuses everything.
type grantedFile struct{ file *sqlite.GrantedFile }

// newGrantedFile grants the database at a resolved path. Nothing is opened before the guest asks for it.
func newGrantedFile(path string) *grantedFile { return &grantedFile{sqlite.GrantFile(path)} }

// close takes the file back, whatever the guest was doing, and with it the lock.
func (f *grantedFile) close() error {
	if f == nil {
		return nil
	}
	return f.file.Close()
}

// fileAnswers are the functions of pistate_file_v1 by their names. All numbers come from the guest, and may be
// anything; what a result means is said at [sqlite.GrantedFile].
var fileAnswers = map[string]func(*grantedFile, context.Context, memory, params) int64{
	abi.Open:     granted(func(f *sqlite.GrantedFile, p params) int64 { return f.OpenFile(p.i32(0), p.i32(1)) }),
	abi.Close:    granted(func(f *sqlite.GrantedFile, p params) int64 { return f.CloseFile(p.i32(0)) }),
	abi.Delete:   granted(func(f *sqlite.GrantedFile, p params) int64 { return f.Delete(p.i32(0)) }),
	abi.Exists:   granted(func(f *sqlite.GrantedFile, p params) int64 { return f.Exists(p.i32(0)) }),
	abi.Size:     granted(func(f *sqlite.GrantedFile, p params) int64 { return f.Size(p.i32(0)) }),
	abi.Truncate: granted(func(f *sqlite.GrantedFile, p params) int64 { return f.Truncate(p.i32(0), int64(p[1])) }),
	abi.Sync:     granted(func(f *sqlite.GrantedFile, p params) int64 { return f.Sync(p.i32(0)) }),
	abi.InPlace:  granted(func(f *sqlite.GrantedFile, _ params) int64 { return f.InPlace() }),
	abi.Lock: func(f *grantedFile, ctx context.Context, _ memory, p params) int64 {
		if f == nil {
			return notGranted
		}
		return f.file.Lock(ctx, p.i32(0))
	},
	abi.Read: grantedWindow(1, func(f *sqlite.GrantedFile, ctx context.Context, window []byte, p params) int64 {
		return f.Read(ctx, p.i32(0), window, int64(p[3]))
	}),
	abi.Write: grantedWindow(1, func(f *sqlite.GrantedFile, ctx context.Context, window []byte, p params) int64 {
		return f.Write(ctx, p.i32(0), window, int64(p[3]))
	}),
	abi.Beside: grantedWindow(0, func(f *sqlite.GrantedFile, _ context.Context, window []byte, _ params) int64 {
		return f.Beside(window)
	}),
	abi.ErrorText: grantedWindow(0, func(f *sqlite.GrantedFile, _ context.Context, window []byte, _ params) int64 {
		return f.Error(window)
	}),
}

// notGranted is the answer of every function where there is no file.
var notGranted = abi.CodeBase + int64(abi.Number(schema.Denied))

// granted is a function that takes numbers alone.
func granted(answer func(*sqlite.GrantedFile, params) int64) func(*grantedFile, context.Context, memory, params) int64 {
	return func(f *grantedFile, _ context.Context, _ memory, p params) int64 {
		if f == nil {
			return notGranted
		}
		return answer(f.file, p)
	}
}

// grantedWindow is a function that takes a window of the guest's memory in two of its parameters, of which the
// first has the index at.
func grantedWindow(at int, answer func(*sqlite.GrantedFile, context.Context, []byte, params) int64) func(*grantedFile, context.Context, memory, params) int64 {
	return func(f *grantedFile, ctx context.Context, mem memory, p params) int64 {
		if f == nil {
			return notGranted
		}
		window, err := mem.window(p.u32(at), p.u32(at+1))
		if err != nil {
			return f.file.Refuse(err)
		}
		return answer(f.file, ctx, window, p)
	}
}
