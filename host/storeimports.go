package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// storeModule is one module of functions that a store module imports.
type storeModule struct {
	name    string
	funcs   []abi.Func
	answers map[string]answerOf[*storeInstance]
}

// answerOf answers one import of ../wasm/STORE.md, for L. It returns what the guest gets, of which an i32 keeps the
// lower half. ctx is that of the running call. No view of the memory may be kept.
type answerOf[L any] func(of L, ctx context.Context, mem memory, p params) int64

// numbers is a function that takes numbers alone.
func numbers[L any, R int32 | int64](answer func(L, context.Context, params) R) answerOf[L] {
	return func(l L, ctx context.Context, _ memory, p params) int64 {
		return int64(answer(l, ctx, p))
	}
}

// inWindow is a function that takes a window of the guest's memory in two of its parameters, of which the first has
// the index at.
func inWindow[L interface{ Refuse(error) int64 }](at int, answer func(L, context.Context, []byte, params) int64) answerOf[L] {
	return func(l L, ctx context.Context, mem memory, p params) int64 {
		window, err := mem.window(p.u32(at), p.u32(at+1))
		if err != nil {
			return l.Refuse(err)
		}
		return answer(l, ctx, window, p)
	}
}

// storeImports returns the modules that a kind of store module imports, besides WASI.
func storeImports(kind storeKind) []storeModule {
	lent := storeModule{name: abi.SQLModule, funcs: abi.SQLImports(), answers: map[string]answerOf[*storeInstance]{}}
	for name, answer := range sqlAnswers {
		lent.answers[name] = func(in *storeInstance, ctx context.Context, mem memory, p params) int64 {
			return answer(in.sql, ctx, mem, p)
		}
	}
	if kind == sqliteInside {
		lent = storeModule{name: abi.FileModule, funcs: abi.FileImports(), answers: map[string]answerOf[*storeInstance]{}}
		for name := range fileAnswers {
			answer := answerFile(name)
			lent.answers[name] = func(in *storeInstance, ctx context.Context, mem memory, p params) int64 {
				return answer(in.file, ctx, mem, p)
			}
		}
	}
	return []storeModule{lent, {name: abi.HostModule, funcs: abi.HostImports(), answers: map[string]answerOf[*storeInstance]{
		abi.PID:          (*storeInstance).pid,
		abi.ProcessLives: (*storeInstance).processLives,
		abi.Directory:    (*storeInstance).directory,
		abi.BranchKey:    (*storeInstance).treeBranchKey,
		abi.ParentKey:    (*storeInstance).treeParentKey,
		abi.ErrorText:    (*storeInstance).hostErrorText,
	}}}
}

// instantiate makes the module in a runtime.
func (m storeModule) instantiate(ctx context.Context, runtime wazero.Runtime) error {
	builder := runtime.NewHostModuleBuilder(m.name)
	for _, f := range m.funcs {
		params, results := typeOf(f)
		builder.NewFunctionBuilder().WithGoModuleFunction(storeFunc(f, m.answers[f.Name]), params, results).Export(f.Name)
	}
	_, err := builder.Instantiate(ctx)
	return err
}

// storeFunc is the way of an import from the guest to its answer and back. The module belongs to the runtime, which
// all instances share; the one that calls is in the context.
func storeFunc(f abi.Func, answer answerOf[*storeInstance]) api.GoModuleFunc {
	narrow := f.Result == abi.I32
	return func(ctx context.Context, mod api.Module, stack []uint64) {
		in := ctx.Value(instanceKey{}).(*storeInstance) // every context that guest code runs under carries one
		result := answer(in, in.ctx, memory{mod.Memory()}, stack)
		if narrow {
			stack[0] = api.EncodeI32(int32(result))
		} else {
			stack[0] = api.EncodeI64(result)
		}
	}
}

// instanceKey is the context key of the *storeInstance whose code runs.
type instanceKey struct{}

func (in *storeInstance) pid(context.Context, memory, params) int64 { return int64(os.Getpid()) }

func (in *storeInstance) processLives(_ context.Context, _ memory, p params) int64 {
	switch sessionstate.ProcessLives(int(p.i32(0))) {
	case sessionstate.Yes:
		return 1
	case sessionstate.No:
		return 0
	}
	return -1 // unknown
}

// directory gives the path of what exists with links followed, as the native store does. It is looked up and
// not opened: nothing else of it is told.
func (in *storeInstance) directory(_ context.Context, mem memory, p params) int64 {
	path, buf, err := request(mem, p)
	if err != nil {
		return in.refuse(err)
	}
	real, err := filepath.EvalSymlinks(path)
	switch {
	case err == nil:
		return abi.Give(buf, []byte(real))
	case errors.Is(err, fs.ErrNotExist):
		return in.refuse(&schema.Error{Code: schema.NotFound, Detail: err.Error(), Err: err})
	case errors.Is(err, fs.ErrPermission):
		return in.refuse(&schema.Error{Code: schema.Denied, Detail: err.Error(), Err: err})
	}
	return in.refuse(&schema.Error{Code: schema.Invalid, Detail: err.Error(), Err: err})
}

func (in *storeInstance) treeBranchKey(_ context.Context, mem memory, p params) int64 {
	return in.askTree(mem, p, func(tree sessionstate.Tree, leaf string) (string, bool, error) {
		key, err := tree.BranchKey(leaf)
		return key, true, err
	})
}

func (in *storeInstance) treeParentKey(_ context.Context, mem memory, p params) int64 {
	return in.askTree(mem, p, sessionstate.Tree.ParentKey)
}

// askTree asks the tree of the running call. A panic in it, which is the embedder's code, is kept for the
// caller, and the guest, which knows nothing of panics in Go, gets an error.
func (in *storeInstance) askTree(mem memory, p params, ask func(sessionstate.Tree, string) (string, bool, error)) (result int64) {
	id, buf, err := request(mem, p)
	if err != nil {
		return in.refuse(err)
	}
	if in.tree == nil {
		return in.refuse(schema.Errorf(schema.Invalid, "the session's tree is asked for at a place without one"))
	}
	defer func() {
		if v := recover(); v != nil {
			in.panicked = v
			result = in.refuse(schema.Errorf(schema.Storage, "the session's tree panicked: %v", v))
		}
	}()
	key, ok, err := ask(in.tree, id)
	switch {
	case err != nil:
		return in.refuse(err)
	case !ok:
		return int64(abi.Absent)
	}
	return abi.Give(buf, []byte(key))
}

func (in *storeInstance) hostErrorText(_ context.Context, mem memory, p params) int64 {
	buf, err := mem.window(p.u32(0), p.u32(1))
	if err != nil {
		return in.refuse(err)
	}
	return abi.Give(buf, []byte(in.hostError))
}

// refuse keeps an error's text for the import error, and returns its number.
func (in *storeInstance) refuse(err error) int64 {
	in.hostError = abi.Message(err.Error())
	return int64(abi.Number(schema.CodeOf(err)))
}

// request returns the text that the first two parameters tell of, and the buffer of the next two.
func request(mem memory, p params) (text string, buf []byte, err error) {
	view, err := mem.window(p.u32(0), p.u32(1))
	if err != nil {
		return "", nil, err
	}
	text = string(view)
	buf, err = mem.window(p.u32(2), p.u32(3))
	return text, buf, err
}
