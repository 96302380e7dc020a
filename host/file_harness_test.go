package host

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"pistate/internal/sqlite"
	"pistate/internal/wasmbuild"
	"pistate/schema"
	"pistate/wasm/abi"
)

// inside is an instance of store-sqlite.wasm on a granted file, as bare as can be: the imports that this package
// answers for it, and its exports. The engine is tested elsewhere.
type inside struct {
	file *sqlite.GrantedFile
	mod  api.Module
	ctx  context.Context
}

type insideKey struct{}

// insideCode is the module, compiled once, and the runtime that all its instances are in.
type insideCode struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
}

var compileInside = sync.OnceValues(func() (*insideCode, error) {
	ctx := context.Background()
	cache, err := wazero.NewCompilationCacheWithDir(insideCache)
	if err != nil {
		return nil, err
	}
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(cache))
	wasi_snapshot_preview1.MustInstantiate(ctx, runtime)
	files := runtime.NewHostModuleBuilder(abi.FileModule)
	for _, f := range abi.FileImports() {
		answer := answerFile(f.Name)
		exportTo(files, f, func(g *inside, mem memory, p params) int64 { return answer(g.file, g.ctx, mem, p) })
	}
	hosts := runtime.NewHostModuleBuilder(abi.HostModule)
	for _, f := range abi.HostImports() {
		exportTo(hosts, f, func(*inside, memory, params) int64 {
			switch f.Name {
			case abi.PID:
				return int64(os.Getpid())
			case abi.ErrorText:
				return 0
			}
			return int64(abi.Absent)
		})
	}
	for _, b := range []wazero.HostModuleBuilder{files, hosts} {
		if _, err := b.Instantiate(ctx); err != nil {
			return nil, err
		}
	}
	compiled, err := runtime.CompileModule(ctx, insideWasm)
	return &insideCode{runtime, compiled}, err
})

// Set before the first use of compileInside.
var (
	insideWasm  []byte
	insideCache string
)

// exportTo adds one function to a host module: the instance that calls is in the context.
func exportTo(b wazero.HostModuleBuilder, f abi.Func, answer func(*inside, memory, params) int64) {
	var types []api.ValueType
	for _, p := range f.Params {
		types = append(types, api.ValueType(p.Type))
	}
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, mod api.Module, stack []uint64) {
		n := answer(ctx.Value(insideKey{}).(*inside), memory{mod.Memory()}, stack)
		if stack[0] = api.EncodeI64(n); f.Result == abi.I32 {
			stack[0] = api.EncodeI32(int32(n))
		}
	}), types, []api.ValueType{api.ValueType(f.Result)}).Export(f.Name)
}

// newInside makes an instance with the sessions database at a path open: with a path of "", in memory. ctx is that of
// the calls that it makes.
func newInside(t testing.TB, ctx context.Context, path string) (*inside, error) {
	t.Helper()
	if insideWasm == nil {
		insideWasm = wasmbuild.StoreSQLite(t)
		insideCache = wasmbuild.CacheDir(t, insideWasm)
	}
	code, err := compileInside()
	if err != nil {
		t.Fatal(err)
	}
	g := &inside{ctx: ctx}
	if path != "" {
		g.file = sqlite.GrantFile(path)
	}
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").WithStderr(os.Stderr).
		WithSysNanotime().WithSysWalltime().WithSysNanosleep()
	if g.mod, err = code.runtime.InstantiateModule(g.within(), code.compiled, config); err != nil {
		t.Fatal(err)
	}
	open, _ := json.Marshal(map[string]any{"database": "sessions", "name": "/granted/states.sqlite", "memory": path == ""})
	if n := g.pass(abi.Open, open); n != 0 {
		err := g.problem()
		g.end(t)
		return nil, err
	}
	return g, nil
}

func openInside(t testing.TB, path string) *inside {
	t.Helper()
	g, err := newInside(t, context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.end(t) })
	g.at(t, "session")
	return g
}

func (g *inside) within() context.Context { return context.WithValue(g.ctx, insideKey{}, g) }

// call calls an export.
func (g *inside) call(name string, args ...uint64) int64 {
	results, err := g.mod.ExportedFunction(name).Call(g.within(), args...)
	if err != nil {
		panic(fmt.Sprintf("%s trapped: %v", name, err))
	}
	if len(results) == 0 {
		return 0
	}
	if g.mod.ExportedFunction(name).Definition().ResultTypes()[0] == api.ValueTypeI32 {
		return int64(api.DecodeI32(results[0]))
	}
	return int64(results[0])
}

// give puts bytes into the guest's memory until done.
func (g *inside) give(b []byte) (ptr uint64, done func()) {
	ptr = uint64(uint32(g.call(abi.Alloc, uint64(len(b)))))
	if !g.mod.Memory().Write(uint32(ptr), b) {
		panic("the guest's allocation is not in its memory")
	}
	return ptr, func() { g.call(abi.Free, ptr) }
}

// pass calls an export that takes one window, after other arguments.
func (g *inside) pass(name string, b []byte, before ...uint64) int64 {
	ptr, done := g.give(b)
	defer done()
	return g.call(name, append(before, ptr, uint64(len(b)))...)
}

// take calls an export that gives bytes, after other arguments.
func (g *inside) take(name string, room int, before ...uint64) ([]byte, int64) {
	ptr, done := g.give(make([]byte, room))
	defer done()
	n := g.call(name, append(before, ptr, uint64(room))...)
	if n < 0 || n > int64(room) {
		return nil, n
	}
	b, _ := g.mod.Memory().Read(uint32(ptr), uint32(n))
	return append([]byte{}, b...), n
}

// problem is the guest's last error.
func (g *inside) problem() error {
	text, _ := g.take(abi.ErrorDocument, 8192)
	var refusal struct {
		Code   schema.Code
		Detail string
	}
	if err := json.Unmarshal(text, &refusal); err != nil {
		return fmt.Errorf("error document %q: %w", text, err)
	}
	return schema.Errorf(refusal.Code, "%s", refusal.Detail)
}

// at makes the calls that follow ones of plugin "p" in a session.
func (g *inside) at(t testing.TB, session string) {
	t.Helper()
	plugin, done := g.give([]byte("p"))
	defer done()
	s, doneToo := g.give([]byte(session))
	defer doneToo()
	if n := g.call(abi.At, plugin, 1, s, uint64(len(session)), 0, 0, uint64(abi.TreeNone)); n != 0 {
		t.Fatal(g.problem())
	}
}

func (g *inside) write(value string) error {
	if n := g.pass(abi.Write, []byte(value), uint64(abi.ScopeSession)); n != 0 {
		return g.problem()
	}
	return nil
}

func (g *inside) read(room int) (string, error) {
	value, n := g.take(abi.Read, room, uint64(abi.ScopeSession))
	if n == int64(abi.Absent) {
		return "", nil
	}
	if n < 0 {
		return "", g.problem()
	}
	return string(value), nil
}

// close closes the database as a host does that ends well.
func (g *inside) close(t testing.TB) {
	t.Helper()
	if n := g.call(abi.Close); n != 0 {
		t.Error(g.problem())
	}
	g.end(t)
}

// end throws the instance away.
func (g *inside) end(t testing.TB) {
	t.Helper()
	if err := g.mod.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if g.file == nil {
		return
	}
	if err := g.file.Close(); err != nil {
		t.Error(err)
	}
}
