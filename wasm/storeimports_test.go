package wasm_test

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/tetratelabs/wazero/api"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// args are the parameters of an import as they come. The upper half of an i32 is not defined.
type args struct {
	api.Memory
	stack []uint64
}

func (a args) i32(i int) int32 { return api.DecodeI32(a.stack[i]) }

// window returns the bytes that two parameters say.
func (a args) window(i int) []byte {
	b, ok := a.Read(api.DecodeU32(a.stack[i]), api.DecodeU32(a.stack[i+1]))
	if !ok {
		panic(fmt.Sprintf("a store module passes a window outside its memory: %v", a.stack))
	}
	return b
}

type importAnswer func(h *storeHost, ctx context.Context, a args) int64

// importAnswers are the imports: the lender's methods, and a host that is this test.
var importAnswers = map[string]map[string]importAnswer{
	abi.SQLModule: {
		abi.Open:  func(h *storeHost, ctx context.Context, a args) int64 { return int64(h.lender.Open(ctx, a.i32(0))) },
		abi.Close: func(h *storeHost, _ context.Context, a args) int64 { return int64(h.lender.Close(a.i32(0))) },
		abi.Prepare: func(h *storeHost, ctx context.Context, a args) int64 {
			return int64(h.lender.Prepare(ctx, a.i32(0), a.window(1)))
		},
		abi.Finalize: func(h *storeHost, _ context.Context, a args) int64 { return int64(h.lender.Finalize(a.i32(0))) },
		abi.Run: func(h *storeHost, ctx context.Context, a args) int64 {
			if h.fault != 0 {
				return h.fault
			}
			return h.lender.Run(ctx, a.i32(0), a.window(1), a.window(3))
		},
		abi.Next: func(h *storeHost, ctx context.Context, a args) int64 {
			return h.lender.Next(ctx, a.i32(0), a.window(1))
		},
		abi.Reset: func(h *storeHost, _ context.Context, a args) int64 { return int64(h.lender.Reset(a.i32(0))) },
		abi.Script: func(h *storeHost, ctx context.Context, a args) int64 {
			return int64(h.lender.Script(ctx, a.i32(0), a.window(1)))
		},
		abi.InTransaction: func(h *storeHost, _ context.Context, a args) int64 { return int64(h.lender.InTransaction(a.i32(0))) },
		abi.InPlace:       func(h *storeHost, _ context.Context, a args) int64 { return int64(h.lender.InPlace(a.i32(0))) },
		abi.Unresolved:    func(h *storeHost, _ context.Context, a args) int64 { return int64(h.lender.Unresolved(a.i32(0))) },
		abi.Beside:        func(h *storeHost, _ context.Context, a args) int64 { return h.lender.Beside(a.window(0)) },
		abi.ErrorText:     func(h *storeHost, _ context.Context, a args) int64 { return h.lender.Error(a.window(0)) },
	},
	abi.HostModule: {
		abi.PID: func(*storeHost, context.Context, args) int64 { return 4711 },
		abi.ProcessLives: func(_ *storeHost, _ context.Context, a args) int64 {
			return map[int32]int64{4711: 1, 4712: 1}[a.i32(0)]
		},
		abi.Directory: func(h *storeHost, _ context.Context, a args) int64 {
			path, err := filepath.EvalSymlinks(string(a.window(0)))
			if err != nil {
				err = schema.Errorf(schema.NotFound, "%w", err)
			}
			return h.answer(a.window(2), path, true, err)
		},
		abi.BranchKey: func(h *storeHost, _ context.Context, a args) int64 {
			key, err := h.sessionTree().BranchKey(string(a.window(0)))
			return h.answer(a.window(2), key, true, err)
		},
		abi.ParentKey: func(h *storeHost, _ context.Context, a args) int64 {
			key, ok, err := h.sessionTree().ParentKey(string(a.window(0)))
			return h.answer(a.window(2), key, ok, err)
		},
		abi.ErrorText: func(h *storeHost, _ context.Context, a args) int64 {
			if h.failed == nil {
				return 0
			}
			return give(a.window(0), h.failed.Error())
		},
	},
}

func (h *storeHost) sessionTree() sessionstate.Tree {
	if h.tree == nil {
		return sessionstate.NewIndex()
	}
	return h.tree
}

func (h *storeHost) answer(buf []byte, text string, ok bool, err error) int64 {
	switch {
	case err != nil:
		h.failed = err
		return int64(abi.Number(schema.CodeOf(err)))
	case !ok:
		return int64(abi.Absent)
	}
	return give(buf, text)
}

func give(buf []byte, text string) int64 {
	if len(text) <= len(buf) {
		copy(buf, text)
	}
	return int64(len(text))
}
