package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"pistate/schema"
	"pistate/wasm/abi"
)

// storeKind says what a store module has of SQLite.
type storeKind int

const (
	sqliteLent   storeKind = iota // store.wasm: it is lent ours
	sqliteInside                  // store-sqlite.wasm: it brings its own, and is lent a file
)

// codeKey tells which compiled modules are the same.
type codeKey struct {
	digest   [sha256.Size]byte
	cacheDir string
	pages    uint32
}

// storeCode is the compiled code of a store module in a runtime, with the modules that it imports. They belong to
// the runtime, and so to all its instances: which one calls is told by the context (see instanceKey).
type storeCode struct {
	key      codeKey
	kind     storeKind
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	compiler *compiler

	refs int // guarded by storeCodes.mu
}

// storeCodesInUse is the code that is in use. The digest's lock is held while a module is being compiled, so that
// it happens once.
type storeCodesInUse struct {
	digests digestLocks

	mu     sync.Mutex
	loaded map[codeKey]*storeCode
}

var storeCodes = storeCodesInUse{loaded: map[codeKey]*storeCode{}}

// acquireStoreCode compiles a module, or finds it compiled, and counts a reference.
func acquireStoreCode(ctx context.Context, wasm []byte, cfg StoreConfig) (*storeCode, error) {
	key := codeKey{sha256.Sum256(wasm), cfg.CacheDir, cfg.MemoryPages}
	unlock, err := storeCodes.digests.lock(ctx, key.digest)
	if err != nil {
		return nil, notBegun(ctx)
	}
	defer unlock()
	if c := storeCodes.find(key); c != nil {
		return c, nil
	}
	c := &storeCode{key: key, refs: 1}
	if c.compiler, err = newCompiler(cfg.CacheDir); err != nil {
		return nil, err
	}
	if err := c.build(ctx, wasm); err != nil {
		return nil, errors.Join(err, c.close())
	}
	storeCodes.mu.Lock()
	defer storeCodes.mu.Unlock()
	storeCodes.loaded[key] = c
	return c, nil
}

// find returns the code under a key with one more reference, or nil.
func (codes *storeCodesInUse) find(key codeKey) *storeCode {
	codes.mu.Lock()
	defer codes.mu.Unlock()
	c := codes.loaded[key]
	if c != nil {
		c.refs++
	}
	return c
}

// release gives one reference back; the last one gives the code back. No instance may be left.
func (c *storeCode) release() error {
	storeCodes.mu.Lock()
	c.refs--
	last := c.refs == 0
	if last {
		delete(storeCodes.loaded, c.key)
	}
	storeCodes.mu.Unlock()
	if !last {
		return nil
	}
	return c.close()
}

func (c *storeCode) close() error {
	ctx := context.Background()
	var errs []error
	if c.runtime != nil {
		errs = append(errs, c.runtime.Close(ctx))
	}
	return errors.Join(append(errs, c.compiler.release())...)
}

// build compiles the module, checks that it is a store module, and makes what it imports. Of the caches the one
// with a directory comes first.
func (c *storeCode) build(ctx context.Context, wasm []byte) (err error) {
	for _, cache := range c.compiler.caches {
		if c.runtime != nil {
			_ = c.runtime.Close(ctx)
		}
		// The module is the product's own and is trusted to come to an end: to look at the context in its loops
		// would make it 2-20 times slower. What it waits for, in SQLite or asleep, ends with the context.
		c.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().
			WithCompilationCache(cache).
			WithMemoryLimitPages(c.key.pages).
			WithDebugInfoEnabled(false))
		if err = c.compile(ctx, wasm); err == nil || ctx.Err() != nil {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		return schema.Errorf(schema.Canceled, "compiling the store module was canceled: %w", context.Cause(ctx))
	case err != nil:
		return invalid("this is not a store module: it does not compile", err)
	}
	if err := c.classify(); err != nil {
		return err
	}
	if err := c.checkExports(); err != nil {
		return err
	}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, c.runtime); err != nil {
		return err
	}
	modules := []string{wasi_snapshot_preview1.ModuleName}
	for _, m := range storeImports(c.kind) {
		if err := m.instantiate(ctx, c.runtime); err != nil {
			return err
		}
		modules = append(modules, m.name)
	}
	return checkImports(c.runtime, c.compiled, modules...)
}

// compile fills in the code, on every processor.
func (c *storeCode) compile(ctx context.Context, wasm []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the compiler panicked: %v", p)
		}
	}()
	ctx = experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0))
	c.compiled, err = c.runtime.CompileModule(ctx, wasm)
	return err
}

// classify tells by the imports which of the two store modules it is.
func (c *storeCode) classify() error {
	for _, def := range c.compiled.ImportedFunctions() {
		switch module, _, _ := def.Import(); module {
		case abi.SQLModule:
			c.kind = sqliteLent
			return nil
		case abi.FileModule:
			c.kind = sqliteInside
			return nil
		}
	}
	return schema.Errorf(schema.Invalid, "this is not a store module: it imports neither %s, as store.wasm does, nor %s, as store-sqlite.wasm does",
		abi.SQLModule, abi.FileModule)
}

// checkExports finds what a module of another version lacks.
func (c *storeCode) checkExports() error {
	have := c.compiled.ExportedFunctions()
	for _, f := range append(abi.StoreExports(), abi.Func{Name: abi.Initialize}) {
		switch def := have[f.Name]; {
		case def == nil:
			return schema.Errorf(schema.Invalid, "this is not a store module of version %d: it exports no function %s", abi.Version, f.Name)
		case signature(def) != typeText(f):
			return schema.Errorf(schema.Invalid, "this is not a store module of version %d: its %s is %s: want %s",
				abi.Version, f.Name, signature(def), typeText(f))
		}
	}
	if c.compiled.ExportedMemories()[abi.Memory] == nil {
		return schema.Errorf(schema.Invalid, "this is not a store module: it exports no memory by the name %q", abi.Memory)
	}
	return nil
}

func typeText(f abi.Func) string {
	params, results := typeOf(f)
	return typeList(params) + " -> " + typeList(results)
}
