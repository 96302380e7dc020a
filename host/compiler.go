package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"pistate/host/internal/wasmcheck"
	"pistate/schema"
)

// What no extension needs more of. The Go compiler, as a module, nests its blocks 7741 deep; at 10,000 one
// function takes wazero half a second, and twice as many take four times as long.
const (
	maxTableElements = 1 << 20
	maxLocals        = 50_000 // what browsers allow
	maxDepth         = 10_000
)

// compiler turns modules into code. The code of one module is shared by all who load it, through a cache that
// lives until the host and every piece of code that came from it are done with it.
type compiler struct {
	// caches are tried in turn: the one with a directory, if there is one, and one in memory only, so that a
	// full directory, and files that are cut off or whose code has changed, cost time and nothing else. wazero
	// has no checksum over the rest of a file: bits that flip there can do harm until the file is deleted.
	caches  []wazero.CompilationCache
	digests digestLocks

	mu   sync.Mutex
	refs int
}

func newCompiler(dir string) (*compiler, error) {
	c := &compiler{refs: 1}
	if dir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(dir)
		if err != nil {
			return nil, schema.Errorf(schema.Storage, "cache directory: %w", err)
		}
		c.caches = append(c.caches, cache)
	}
	c.caches = append(c.caches, wazero.NewCompilationCache())
	return c, nil
}

func (c *compiler) retain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refs++
}

// release gives one reference back; the last one closes the caches.
func (c *compiler) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refs--; c.refs > 0 {
		return nil
	}
	var errs []error
	for _, cache := range c.caches {
		errs = append(errs, cache.Close(context.Background()))
	}
	return errors.Join(errs...)
}

// load makes a module of what was given, or tells why it is none. It returns when ctx or the compile time is
// over, even if wazero's compiler, which does not look at the context, is not yet back.
func (c *compiler) load(ctx context.Context, wasm []byte, limits Limits) (*module, error) {
	if len(wasm) > limits.ModuleBytes {
		return nil, schema.Errorf(schema.Limit, "a module of %d bytes is over the limit of %d", len(wasm), limits.ModuleBytes)
	}
	wasm, err := wasmcheck.Check(wasm, wasmcheck.Limits{ // gives a copy, which wazero can keep
		Pages:    limits.MemoryPages,
		Elements: maxTableElements,
		Locals:   maxLocals,
		Depth:    maxDepth,
	})
	if err != nil {
		return nil, err
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, limits.CompileTime)
	defer cancel()

	type outcome struct {
		m   *module
		err error
	}
	done := make(chan outcome)
	c.retain()
	go func() {
		defer c.release()
		m, err := c.build(ctx, wasm, limits)
		select {
		case done <- outcome{m, err}:
		case <-ctx.Done(): // nobody waits any more
			if err == nil {
				_ = m.close()
			}
		}
	}()
	select {
	case o := <-done:
		if o.err == nil || ctx.Err() == nil {
			return o.m, o.err
		}
	case <-ctx.Done():
	}
	if caller.Err() != nil {
		return nil, schema.Errorf(schema.Canceled, "loading was canceled: %w", context.Cause(caller))
	}
	return nil, schema.Errorf(schema.Limit, "compiling took longer than the compile time of %v", limits.CompileTime)
}

// build compiles in the calling goroutine.
func (c *compiler) build(ctx context.Context, wasm []byte, limits Limits) (m *module, err error) {
	for _, cache := range c.caches {
		if m, err = c.newModule(ctx, cache, limits); err != nil {
			return nil, err
		}
		if err = c.compile(ctx, m, wasm); err == nil {
			break
		}
		_ = m.close()
	}
	if err != nil {
		return nil, err
	}
	if err := m.check(ctx); err != nil {
		_ = m.close()
		return nil, err
	}
	return m, nil
}

// newModule makes a runtime with the import modules, in which a module can be compiled.
func (c *compiler) newModule(ctx context.Context, cache wazero.CompilationCache, limits Limits) (*module, error) {
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().
		WithCompilationCache(cache).
		WithMemoryLimitPages(limits.MemoryPages).
		WithCloseOnContextDone(true).
		WithDebugInfoEnabled(false)) // no parsing of debug sections that anybody may have written
	c.retain()
	m := &module{runtime: rt, compiler: c}
	_, err := wasi_snapshot_preview1.Instantiate(ctx, rt)
	if err == nil {
		err = instantiateImports(ctx, rt)
	}
	if err != nil {
		_ = m.close()
		return nil, err
	}
	return m, nil
}

// compile fills in the module's code.
func (c *compiler) compile(ctx context.Context, m *module, wasm []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = schema.Errorf(schema.Invalid, "it is not a WebAssembly module that compiles: the compiler panicked: %v", p)
		}
	}()
	unlock, err := c.digests.lock(ctx, sha256.Sum256(wasm))
	if err != nil {
		return err
	}
	defer unlock()
	// With experimental.WithCompilationWorkers this would be faster, and look at the context now and then; but
	// a panic in one of wazero's goroutines would be the end of the process.
	m.compiled, err = m.runtime.CompileModule(ctx, wasm)
	if err != nil {
		return invalid("it is not a WebAssembly module that compiles", err)
	}
	return nil
}

// digestLocks lets one goroutine at a time compile the same module. wazero puts code that it found in the
// cache directory into its shared map before it has finished it, so that a second load at that moment would
// get half of it.
type digestLocks struct {
	mu   sync.Mutex
	held map[[sha256.Size]byte]chan struct{} // closed when it is released
}

// lock waits until the module is nobody else's, or for ctx.
func (l *digestLocks) lock(ctx context.Context, digest [sha256.Size]byte) (unlock func(), err error) {
	for {
		l.mu.Lock()
		other := l.held[digest]
		if other == nil {
			mine := make(chan struct{})
			if l.held == nil {
				l.held = map[[sha256.Size]byte]chan struct{}{}
			}
			l.held[digest] = mine
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				delete(l.held, digest)
				l.mu.Unlock()
				close(mine)
			}, nil
		}
		l.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
