package host

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"pistate/schema"
	"pistate/wasm/abi"
)

// hostFunc is one function of the import module: its signature, and the method that answers it.
type hostFunc struct {
	abi.Func
	answer func(*guest, context.Context, memory, params) (int64, error)
}

// hostFuncs pairs the ABI's functions with their methods. One without a method would stop instantiate.
func hostFuncs() []hostFunc {
	answers := map[string]func(*guest, context.Context, memory, params) (int64, error){
		abi.Read:            (*guest).read,
		abi.Fetch:           (*guest).fetch,
		abi.Write:           (*guest).write,
		abi.Drop:            (*guest).drop,
		abi.CompareAndWrite: (*guest).compareAndWrite,
		abi.BranchKey:       (*guest).branchKey,
		abi.Input:           (*guest).readInput,
		abi.Output:          (*guest).setOutput,
		abi.Fail:            (*guest).fail,
		abi.ErrorMessage:    (*guest).errorMessage,
	}
	var funcs []hostFunc
	for _, f := range abi.Imports() {
		funcs = append(funcs, hostFunc{f, answers[f.Name]})
	}
	return funcs
}

// instantiateImports makes the import module in a runtime.
func instantiateImports(ctx context.Context, runtime wazero.Runtime) error {
	builder := runtime.NewHostModuleBuilder(abi.Module)
	for _, f := range hostFuncs() {
		params, results := typeOf(f.Func)
		var names []string
		for _, p := range f.Params {
			names = append(names, p.Name)
		}
		builder.NewFunctionBuilder().
			WithGoModuleFunction(api.GoModuleFunc(f.call), params, results).
			WithParameterNames(names...).
			Export(f.Name)
	}
	_, err := builder.Instantiate(ctx)
	return err
}

// call is the way of every import from the guest to its method and back. An error becomes its number, and
// its text is kept for error_message. A call that is over, by its context, by a limit or by a panic on our
// side, does not get back to the guest at all: code without loops would otherwise run on.
func (f hostFunc) call(ctx context.Context, mod api.Module, stack []uint64) {
	g := ctx.Value(guestKey{}).(*guest) // every context that guest code runs under carries one
	if ctx.Err() != nil {
		exit(ctx, mod)
	}
	result, err := f.try(ctx, g, mod, stack)
	switch {
	case g.stopped != nil:
		exit(ctx, mod)
	case err == nil:
	case schema.CodeOf(err) == schema.Limit:
		g.stopped = err
		exit(ctx, mod)
	default:
		result = int64(abi.Number(schema.CodeOf(err)))
		if f.Name != abi.ErrorMessage { // asking for a text in vain must not lose it
			g.lastErr = err
		}
	}
	if f.Result == abi.I32 {
		stack[0] = api.EncodeI32(int32(result))
	} else {
		stack[0] = api.EncodeI64(result)
	}
}

// try runs the method. A panic in it, which may come from the embedder's own session tree, ends the call
// and not the process.
func (f hostFunc) try(ctx context.Context, g *guest, mod api.Module, stack []uint64) (result int64, err error) {
	defer func() {
		if p := recover(); p != nil {
			g.stopped = schema.Errorf(schema.Storage, "the host panicked in %s: %v", f.Name, p)
		}
	}()
	return f.answer(g, ctx, memory{mod.Memory()}, stack)
}

// exit ends the guest's code from within a host function, as proc_exit of WASI does.
func exit(ctx context.Context, mod api.Module) {
	// Without the context's end: closing is not to be cut short.
	_ = mod.CloseWithExitCode(context.WithoutCancel(ctx), exitStopped)
	panic(sys.NewExitError(exitStopped))
}

// exitStopped is the exit code of an instance that the host ended. Nobody sees it: what the call returns is
// told by guest.stopped and the context.
const exitStopped = 1

// guestKey is the context key of the *guest that a call's host functions act on. The import module belongs
// to the runtime and so to all calls of an extension; the context is what belongs to one.
type guestKey struct{}

// params are the parameters of a host function as they come. The upper half of an i32 is not defined.
type params []uint64

func (p params) u32(i int) uint32 { return api.DecodeU32(p[i]) }
func (p params) i32(i int) int32  { return api.DecodeI32(p[i]) }

// memory is the guest's linear memory.
type memory struct{ api.Memory }

// window returns the guest's own n bytes at ptr, to be read or written before the host function returns.
func (m memory) window(ptr, n uint32) ([]byte, error) {
	view, ok := m.Read(ptr, n)
	if !ok {
		return nil, schema.Errorf(schema.Invalid, "%s do not lie in the memory of %d bytes", span(ptr, n), m.Size())
	}
	return view, nil
}

func span(ptr, n uint32) string { return fmt.Sprintf("%d bytes at %#x", n, ptr) }
