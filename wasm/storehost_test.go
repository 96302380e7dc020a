package wasm_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"pistate/internal/sqlite"
	"pistate/internal/wasmbuild"
	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// storeModule is a store module that was compiled for the tests, in a runtime that they share.
type storeModule struct {
	name   string
	inside bool // it has its own SQLite
	build  func(testing.TB) []byte

	once    sync.Once
	runtime wazero.Runtime
	code    wazero.CompiledModule
	failed  error
}

var (
	lentModule   = &storeModule{name: "store.wasm", build: wasmbuild.Store}
	insideModule = &storeModule{name: "store-sqlite.wasm", inside: true, build: wasmbuild.StoreSQLite}
)

// eachModule runs a test on both modules: on a database that this process lends, and on one in memory.
func eachModule(t *testing.T, test func(t *testing.T, m *storeModule)) {
	for _, m := range []*storeModule{lentModule, insideModule} {
		t.Run(m.name, func(t *testing.T) { test(t, m) })
	}
}

// compile compiles the module once, or takes it from the cache of an earlier run.
func (m *storeModule) compile(t testing.TB) {
	t.Helper()
	wasm := m.build(t)
	dir := wasmbuild.CacheDir(t, wasm)
	m.once.Do(func() {
		ctx := context.Background()
		cache, err := wazero.NewCompilationCacheWithDir(dir)
		if err != nil {
			m.failed = err
			return
		}
		m.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(cache))
		if _, m.failed = wasi_snapshot_preview1.Instantiate(ctx, m.runtime); m.failed != nil {
			return
		}
		for name, funcs := range map[string][]abi.Func{abi.SQLModule: abi.SQLImports(), abi.HostModule: abi.HostImports(), abi.FileModule: abi.FileImports()} {
			builder := m.runtime.NewHostModuleBuilder(name)
			for _, f := range funcs {
				var types []api.ValueType
				for _, p := range f.Params {
					types = append(types, api.ValueType(p.Type))
				}
				answer := importAnswers[name][f.Name]
				builder.NewFunctionBuilder().
					WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, mod api.Module, stack []uint64) {
						h := ctx.Value(hostKey{}).(*storeHost)
						result := int64(abi.CodeBase) + int64(abi.Number(schema.Denied)) // nobody granted a file
						if answer != nil {
							result = answer(h, ctx, args{mod.Memory(), stack})
						}
						if f.Result == abi.I32 {
							result = int64(uint32(result))
						}
						stack[0] = uint64(result)
					}), types, []api.ValueType{api.ValueType(f.Result)}).
					Export(f.Name)
			}
			if _, m.failed = builder.Instantiate(ctx); m.failed != nil {
				return
			}
		}
		m.code, m.failed = m.runtime.CompileModule(ctx, wasm)
	})
	if m.failed != nil {
		t.Fatal(m.failed)
	}
}

// storeHost is the least that a host of a store module is: an instance, the database that it is lent, and
// the tree of the session that the calls are about.
type storeHost struct {
	t      testing.TB
	mod    api.Module
	ctx    context.Context
	lender *sqlite.Lender
	tree   sessionstate.Tree // nil: the host knows no sessions
	failed error             // of the last answer from the host module
	path   string
	fault  int64 // not 0: what the host's SQLite answers to run

	funcs map[string]hostedFunc
	stack [8]uint64
}

type hostedFunc struct {
	api.Function
	result abi.Type
}

type hostKey struct{}

// newStoreHost makes an instance, with nothing open in it, over a database that does not exist yet.
func newStoreHost(t testing.TB, m *storeModule) *storeHost {
	t.Helper()
	return newStoreHostAt(t, m, filepath.Join(t.TempDir(), "states.sqlite"))
}

func newStoreHostAt(t testing.TB, m *storeModule, path string) *storeHost {
	t.Helper()
	m.compile(t)
	lender, err := sqlite.NewLender(path)
	if err != nil {
		t.Fatal(err)
	}
	h := &storeHost{t: t, lender: lender, path: path, funcs: map[string]hostedFunc{}}
	h.ctx = context.WithValue(context.Background(), hostKey{}, h)
	h.mod, err = m.runtime.InstantiateModule(h.ctx, m.code, wazero.NewModuleConfig().
		WithName("").WithStartFunctions(abi.Initialize).
		WithSysWalltime().WithSysNanotime().WithSysNanosleep().WithRandSource(deterministic{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.mod.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := h.lender.Revoke(); err != nil {
			t.Error(err)
		}
	})
	for _, f := range abi.StoreExports() {
		h.funcs[f.Name] = hostedFunc{h.mod.ExportedFunction(f.Name), f.Result}
	}
	return h
}

// deterministic is a source of bytes for the instance's hashing and ids.
type deterministic struct{}

func (deterministic) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(i)*7 + 1
	}
	return len(b), nil
}

// call calls an export. A trap fails the test.
func (h *storeHost) call(name string, params ...uint32) int64 {
	h.t.Helper()
	for i, p := range params {
		h.stack[i] = uint64(p)
	}
	f := h.funcs[name]
	if err := f.CallWithStack(h.ctx, h.stack[:]); err != nil {
		h.t.Fatalf("%s%v: %v", name, params, err)
	}
	if f.result == abi.I64 {
		return int64(h.stack[0])
	}
	return int64(int32(h.stack[0]))
}

// ok fails the test if a call failed.
func (h *storeHost) ok(name string, params ...uint32) int64 {
	h.t.Helper()
	n := h.call(name, params...)
	if n < 0 {
		h.t.Fatalf("%s%v: %d, %s", name, params, n, h.message())
	}
	return n
}

// fails fails the test unless a call returns the number of a code. It returns the error's text.
func (h *storeHost) fails(code schema.Code, name string, params ...uint32) string {
	h.t.Helper()
	if n := h.call(name, params...); n != int64(abi.Number(code)) {
		h.t.Fatalf("%s%v: %d (%s), want %d for %s", name, params, n, h.message(), abi.Number(code), code)
	}
	return h.message()
}

// put gives text in memory of its own.
func (h *storeHost) put(text string) (ptr, n uint32) {
	h.t.Helper()
	if text == "" {
		return 0, 0
	}
	ptr = h.alloc(uint32(len(text)))
	if !h.mod.Memory().WriteString(ptr, text) {
		h.t.Fatalf("alloc gave %#x, which is not in the memory", ptr)
	}
	return ptr, uint32(len(text))
}

func (h *storeHost) alloc(n uint32) uint32 {
	h.t.Helper()
	ptr := uint32(h.call(abi.Alloc, n))
	if ptr == 0 {
		h.t.Fatalf("no memory for %d bytes: %s", n, h.message())
	}
	return ptr
}

func (h *storeHost) free(ptr uint32) {
	if ptr != 0 {
		h.call(abi.Free, ptr)
	}
}

func (h *storeHost) text(ptr uint32, n int64) string {
	h.t.Helper()
	b, ok := h.mod.Memory().Read(ptr, uint32(n))
	if !ok {
		h.t.Fatalf("%d bytes at %#x are not in the memory", n, ptr)
	}
	return string(b)
}

// get calls an export that gives bytes, asking for their length first.
func (h *storeHost) get(name string, before ...uint32) (text string, found bool) {
	h.t.Helper()
	n := h.ok2(name, append(before, 0, 0)...)
	if n == int64(abi.Absent) {
		return "", false
	}
	buf := h.alloc(uint32(n))
	defer h.free(buf)
	if again := h.call(name, append(before, buf, uint32(n))...); again != n {
		h.t.Fatalf("%s: %d bytes, and then %d", name, n, again)
	}
	return h.text(buf, n), true
}

// ok2 is ok, but lets absent pass.
func (h *storeHost) ok2(name string, params ...uint32) int64 {
	h.t.Helper()
	n := h.call(name, params...)
	if n < 0 && n != int64(abi.Absent) {
		h.t.Fatalf("%s%v: %d, %s", name, params, n, h.message())
	}
	return n
}

func (h *storeHost) message() string {
	h.t.Helper()
	const most = abi.MaxMessage
	buf := uint32(h.call(abi.Alloc, most))
	if buf == 0 {
		return "(no memory for the message)"
	}
	defer h.free(buf)
	return h.text(buf, max(0, h.call(abi.ErrorMessage, buf, most)))
}

// open opens the database as what it is to be.
func (h *storeHost) open(m *storeModule, database string) {
	h.t.Helper()
	ptr, n := h.put(h.config(m, database))
	h.ok(abi.Open, ptr, n)
	h.free(ptr)
}

func (h *storeHost) config(m *storeModule, database string) string {
	text, err := json.Marshal(map[string]any{"database": database, "name": h.path, "memory": m.inside, "app_version": "1"})
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

// at goes to a place of session s1.
func (h *storeHost) at(leaf string, tree int32) {
	h.t.Helper()
	h.atSession("s1", leaf, tree)
}

func (h *storeHost) atSession(session, leaf string, tree int32) {
	h.t.Helper()
	p, pn := h.put("plugin")
	s, sn := h.put(session)
	l, ln := h.put(leaf)
	h.ok(abi.At, p, pn, s, sn, l, ln, uint32(tree))
	h.free(p)
	h.free(s)
	h.free(l)
}

// write stores a value and frees its memory.
func (h *storeHost) write(scope int32, value string) int64 {
	h.t.Helper()
	ptr, n := h.put(value)
	defer h.free(ptr)
	return h.call(abi.Write, uint32(scope), ptr, n)
}

// do sends a request to call and frees its answer.
func (h *storeHost) do(request string) string {
	h.t.Helper()
	ptr, n := h.put(request)
	defer h.free(ptr)
	answer := uint64(h.call(abi.CallJSON, ptr, n))
	defer h.free(uint32(answer >> 32))
	text := h.text(uint32(answer>>32), int64(uint32(answer)))
	if !json.Valid([]byte(text)) {
		h.t.Fatalf("%.200q is answered with %.500q, which is not JSON", request, text)
	}
	return text
}

// packTexts packs texts as entries takes them and beside gives them.
func packTexts(texts ...string) string {
	var b []byte
	for _, text := range texts {
		b = append(b, abi.TagText)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	return string(b)
}
