// Package host runs extensions: WebAssembly modules whose only power is the state of one Pi session, under
// the plugin id that the embedder gave them. ../wasm/ABI.md is what such a module must look like.
//
//	h, err := host.New(host.Options{Engine: host.Native(store), Isolation: host.InProcess})
//	counter, err := h.Load(ctx, wasm, host.Config{PluginID: "counter"})
//	result, err := counter.Call(ctx, sessionstate.At(sessionID, leaf, tree), []byte("3"))
//
// The embedder names session, leaf and tree at each call, and an extension has no way to name another (G2).
// It has no files, network, environment or clock beyond what [Grants] gives it (G1). [Limits] bound what it
// uses (G3). Every error is a *schema.Error: [schema.Extension] when the extension trapped, exited or
// returned a failure, [schema.Limit] when it went over a limit.
package host

import (
	"context"
	"sync"

	"pistate/schema"
)

// Isolation says what stands between an extension and the embedder.
type Isolation string

// InProcess runs extensions in the embedder's own process. It is for extensions that the embedder trusts
// not to be hostile: their memory, their time in loops and everything they hand to the host are bounded, but
// the compiler and straight-line code can't be interrupted, so that a module made for it holds up the whole
// process beyond any deadline.
const InProcess Isolation = "inprocess"

// Options are the settings of a [Host].
type Options struct {
	// Engine is where the state is kept: [Native], or [WasmStore.Engine]. Required.
	Engine Engine

	// Isolation has no default yet, so that nobody relies by accident on less than they need: write
	// [InProcess] for extensions that you trust.
	Isolation Isolation

	// CacheDir is an absolute directory that keeps compiled code from one process to the next: a Go
	// extension that compiles for a second then loads in a hundredth. It is created with mode 0700 if it is
	// missing, and refused if others can write to it, as what is in it will be executed. Empty means that
	// compiled code is kept in memory only.
	CacheDir string
}

// Host loads extensions. It is safe for concurrent use.
type Host struct {
	engine   Engine
	compiler *compiler
	users    users

	mu         sync.Mutex
	extensions map[*Extension]struct{}
}

// New returns a host. Errors: [schema.Invalid] for options that can't be, [schema.Storage] if the cache
// directory can't be made.
func New(opts Options) (*Host, error) {
	if opts.Engine.open == nil {
		return nil, schema.Errorf(schema.Invalid, "host options: no engine: give host.Native and an open session store")
	}
	switch opts.Isolation {
	case InProcess:
	case "":
		return nil, schema.Errorf(schema.Invalid,
			"host options: no isolation: write host.InProcess to run extensions that you trust in this process")
	default:
		return nil, schema.Errorf(schema.Invalid, "host options: isolation %q: only %q is known", opts.Isolation, InProcess)
	}
	if err := prepareCacheDir(opts.CacheDir); err != nil {
		return nil, err
	}
	c, err := newCompiler(opts.CacheDir)
	if err != nil {
		return nil, err
	}
	return &Host{engine: opts.Engine, compiler: c, extensions: map[*Extension]struct{}{}}, nil
}

// Close refuses further loads and calls, waits for the calls that are running (each is bounded by its call
// time) and gives all memory back. Closing twice is harmless.
func (h *Host) Close() error {
	if !h.users.close() {
		return nil
	}
	h.mu.Lock()
	extensions := h.extensions
	h.extensions = nil
	h.mu.Unlock()
	for x := range extensions {
		x.close()
	}
	return h.compiler.release()
}

// Load compiles an extension, checks that it is one, and binds it to a plugin id. The bytes are not kept. Its
// custom sections (names, debug information) are not looked at.
// ctx ends the compilation, not the extension; so does [Limits.CompileTime].
//
// Errors: [schema.Invalid] for a plugin id or limits that can't be and for what is not an extension, with
// what is missing or unknown in it; [schema.Limit] for one that is over a limit; [schema.Canceled];
// [schema.Closed].
func (h *Host) Load(ctx context.Context, wasm []byte, cfg Config) (*Extension, error) {
	x, err := h.load(ctx, wasm, cfg)
	if err != nil {
		return nil, wrap(err, "extension.load", cfg.PluginID)
	}
	return x, nil
}

func (h *Host) load(ctx context.Context, wasm []byte, cfg Config) (*Extension, error) {
	if !h.users.enter() {
		return nil, schema.Errorf(schema.Closed, "the host is closed")
	}
	defer h.users.leave()
	limits, err := cfg.Limits.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg.Limits = limits
	states, err := h.engine.open(cfg.PluginID)
	if err != nil {
		return nil, err
	}
	code, err := h.compiler.load(ctx, wasm, limits)
	if err != nil {
		return nil, err
	}
	x := &Extension{host: h, cfg: cfg, states: states, code: code}
	h.mu.Lock()
	h.extensions[x] = struct{}{}
	h.mu.Unlock()
	return x, nil
}

// forget takes an extension that is being closed off the list.
func (h *Host) forget(x *Extension) {
	h.mu.Lock()
	delete(h.extensions, x)
	h.mu.Unlock()
}

// users counts what is going on in something that can be closed, so that closing can wait for it.
type users struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// enter reports whether the thing is still open, and counts the caller until it leaves.
func (u *users) enter() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.wg.Add(1)
	return true
}

func (u *users) leave() { u.wg.Done() }

// close lets nobody in any more and waits until all have left. It reports whether it was the first.
func (u *users) close() bool {
	u.mu.Lock()
	first := !u.closed
	u.closed = true
	u.mu.Unlock()
	u.wg.Wait()
	return first
}
