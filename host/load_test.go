package host

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

func TestOptions(t *testing.T) {
	native := Native(openStore(t, databasePath(t)))
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		opts Options
		code schema.Code
		text string
	}{
		{"nothing", Options{}, schema.Invalid, "no engine"},
		{"no store", Options{Engine: Native(nil), Isolation: InProcess}, schema.Invalid, "no engine"},
		{"no isolation", Options{Engine: native}, schema.Invalid, "host.InProcess"}, // never by accident
		{"unknown isolation", Options{Engine: native, Isolation: "vm"}, schema.Invalid, `"vm"`},
		{"relative cache", Options{Engine: native, Isolation: InProcess, CacheDir: "cache"}, schema.Invalid, "absolute"},
		{"cache for all", Options{Engine: native, Isolation: InProcess, CacheDir: open}, schema.Invalid, "mode 0777"},
		{"cache is a file", Options{Engine: native, Isolation: InProcess, CacheDir: file}, schema.Storage, file},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(c.opts)
			wantFailure(t, err, c.code, c.text)
		})
	}
}

func TestLimitsAreChecked(t *testing.T) {
	h := nativeHost(t, databasePath(t))
	for text, limits := range map[string]Limits{
		"ModuleBytes is -1":     {ModuleBytes: -1},
		"CompileTime is -1ns":   {CompileTime: -1},
		"CallTime is -1s":       {CallTime: -time.Second},
		"InputBytes is -1":      {InputBytes: -1},
		"OutputBytes is -5":     {OutputBytes: -5},
		"ValueBytes is -1":      {ValueBytes: -1},
		"PrintBytes is -1":      {PrintBytes: -1},
		"MemoryPages is 65536":  {MemoryPages: 65536}, // C74: the end of such a memory is no 32-bit number
		"MemoryPages is 100000": {MemoryPages: 100000},
	} {
		_, err := h.Load(t.Context(), counterWasm, Config{PluginID: "x", Limits: limits})
		wantFailure(t, err, schema.Invalid, text)
	}
	if limits, err := (Limits{}).withDefaults(); err != nil || limits.CallTime != 5*time.Second || limits.MemoryPages != 1024 ||
		limits.ModuleBytes != 32<<20 || limits.ValueBytes != 1<<20 || limits.InputBytes != 4<<20 || limits.OutputBytes != 4<<20 ||
		limits.PrintBytes != 16<<10 || limits.CompileTime != time.Minute {
		t.Errorf("defaults are %+v, %v", limits, err)
	}
}

// G1: what is no extension is refused when it is loaded, with what is wrong about it.
func TestLoadRefuses(t *testing.T) {
	h := nativeHost(t, databasePath(t))
	for name, parts := range map[string][]string{
		"command":              {"is a command", "_start", "-buildmode=c-shared"}, // C71
		"no_call":              {"exports no function pistate_v1_call"},
		"no_memory":            {`exports no memory by the name "memory"`},
		"call_signature":       {"pistate_v1_call is (i32) -> (i32): want () -> (i32)"},
		"initialize_signature": {"_initialize is () -> (i32): want () -> ()"},
		"import_functions": {"unknown function env.log", "unknown function pistate_v1.select_session",
			"unknown function wasi_snapshot_preview1.path_teleport",
			"pistate_v1.drop as (i64) -> (i32), which is (i32) -> (i32)"},
		"import_memory": {"memory env.memory"},
		"import_global": {"can't be instantiated", "env"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.Load(t.Context(), watGuest(t, name), Config{PluginID: "x"})
			wantFailure(t, err, schema.Invalid, append(parts, `extension.load: extension "x": `)...)
		})
	}

	counter := counterWasm
	for name, wasm := range map[string][]byte{
		"nothing":        nil,
		"text":           []byte("(module)"),
		"header only":    counter[:8],
		"half":           counter[:len(counter)/2],
		"garbage behind": append(slices.Clone(counter), "garbage"...),
		"a component":    append([]byte("\x00asm\x0d\x00\x01\x00"), counter[8:]...),
		"huge section":   append(slices.Clone(counter[:8]), 5, 0xff, 0xff, 0xff, 0xff, 0x0f, 0),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.Load(t.Context(), wasm, Config{PluginID: "x"})
			wantFailure(t, err, schema.Invalid)
		})
	}
	for cut := 0; cut < len(counter); cut += 7 { // no prefix of a module is taken for one, or does any harm
		const dataSection = 11 // the last one; all that comes before it is a whole module
		_, err := h.Load(t.Context(), counter[:cut], Config{PluginID: "x"})
		if schema.CodeOf(err) != schema.Invalid && counter[cut] != dataSection {
			t.Errorf("the first %d bytes: %v", cut, err)
		}
	}
}

// Names in a module are anybody's text, and as many as anybody likes: the error stays fit to be read.
func TestLoadRefusesNames(t *testing.T) {
	h := nativeHost(t, databasePath(t))
	names := []string{"a\x1b[2J", "b\u202e", "c" + strings.Repeat("x", 100_000)}
	for k := range 1000 {
		names = append(names, fmt.Sprintf("d%d", k))
	}
	_, err := h.Load(t.Context(), importing(names...), Config{PluginID: "x"})
	wantFailure(t, err, schema.Invalid, `"env.a\x1b[2J"`, `"env.b\u202e"`, "env.cxxx", "993 more")
	if text := err.Error(); len(text) > 4000 {
		t.Errorf("the error has %d bytes", len(text))
	}
}

// importing makes a module that is an extension but for functions that it imports from env.
func importing(names ...string) []byte {
	vector := func(items ...[]byte) []byte {
		return slices.Concat(append([][]byte{binary.AppendUvarint(nil, uint64(len(items)))}, items...)...)
	}
	name := func(s string) []byte { return append(binary.AppendUvarint(nil, uint64(len(s))), s...) }
	var imports [][]byte
	for _, n := range names {
		imports = append(imports, slices.Concat(name("env"), name(n), []byte{0, 0}))
	}
	module := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, content []byte) {
		module = append(append(module, id), append(binary.AppendUvarint(nil, uint64(len(content))), content...)...)
	}
	section(1, vector([]byte{0x60, 0, 1, 0x7f}))                // type 0: () -> i32
	section(2, vector(imports...))                              // functions of type 0
	section(3, vector([]byte{0}))                               // one of our own
	section(5, vector([]byte{0, 1}))                            // a memory of one page
	call := binary.AppendUvarint([]byte{0}, uint64(len(names))) // our function comes after the imported
	section(7, vector(append(name(abi.Call), call...), append(name(abi.Memory), 2, 0)))
	section(10, vector([]byte{4, 0, 0x41, 0, 0x0b})) // i32.const 0
	return module
}

func TestLoadLimits(t *testing.T) {
	h := nativeHost(t, databasePath(t))
	_, err := h.Load(t.Context(), counterWasm, Config{PluginID: "x", Limits: Limits{ModuleBytes: len(counterWasm) - 1}})
	wantFailure(t, err, schema.Limit, "a module of")

	_, err = h.Load(t.Context(), watGuest(t, "big_memory"), Config{PluginID: "x"}) // C68
	wantFailure(t, err, schema.Limit, "2000 memory pages", "limit of 1024")
	x := load(t, h, watGuest(t, "big_memory"), Config{PluginID: "x", Limits: Limits{MemoryPages: 2000}})
	mustCall(t, x, at("a"), "null", "")

	// C69: the time to compile is not the time of a call, and running out of it harms nobody.
	fresh, err := New(Options{Engine: Native(openStore(t, databasePath(t))), Isolation: InProcess})
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	_, err = fresh.Load(t.Context(), goProbe(t), Config{PluginID: "x", Limits: Limits{CompileTime: time.Millisecond}})
	wantFailure(t, err, schema.Limit, "compile time of 1ms")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = fresh.Load(ctx, counterWasm, Config{PluginID: "x"})
	wantFailure(t, err, schema.Canceled)
	mustCall(t, load(t, fresh, counterWasm, Config{PluginID: "x"}), at("a"), "1", `{"session":1,"branch":1}`)
}

// One module is compiled by one goroutine at a time; another module need not wait for it.
func TestLoadWaitsForItsLike(t *testing.T) {
	h := nativeHost(t, databasePath(t))
	unlock, err := h.compiler.digests.lock(t.Context(), sha256.Sum256(counterWasm)) // which has no custom sections
	if err != nil {
		t.Fatal(err)
	}
	load(t, h, watGuest(t, "start_writes"), Config{PluginID: "x"})
	_, err = h.Load(t.Context(), counterWasm, Config{PluginID: "x", Limits: Limits{CompileTime: 20 * time.Millisecond}})
	wantFailure(t, err, schema.Limit, "compile time")
	loaded := make(chan error)
	go func() {
		_, err := h.Load(context.Background(), counterWasm, Config{PluginID: "x"})
		loaded <- err
	}()
	unlock()
	if err := <-loaded; err != nil {
		t.Error(err)
	}
}

// Many load the same module from a warm cache at once.
func TestLoadAtOnce(t *testing.T) {
	wasm := goProbe(t)
	load(t, nativeHost(t, databasePath(t)), wasm, Config{PluginID: "warm"})
	h := nativeHost(t, databasePath(t))
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			x, err := h.Load(context.Background(), wasm, Config{PluginID: "x", Limits: patient})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := x.Call(context.Background(), at("a"), []byte(`["read",0]`)); err != nil {
				t.Error(err)
			}
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// The caller's bytes are the caller's: what becomes of them later is nothing to a loaded extension.
func TestLoadCopies(t *testing.T) {
	wasm := slices.Clone(counterWasm)
	x := load(t, nativeHost(t, databasePath(t)), wasm, Config{PluginID: "x"})
	clear(wasm)
	mustCall(t, x, at("a"), "1", `{"session":1,"branch":1}`)
}

func TestCacheDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "cache")
	st := openStore(t, databasePath(t))
	for range 2 {
		h, err := New(Options{Engine: Native(st), Isolation: InProcess, CacheDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		load(t, h, counterWasm, Config{PluginID: "x"})
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("cache directory: %v, %v", info.Mode(), err)
	}
	var files []string
	filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if len(files) != 1 {
		t.Fatalf("the cache holds %q, want the code of one module", files)
	}

	// What is damaged there is not used, and no harm is done.
	code, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(code)
	flipped[len(flipped)/2] ^= 1
	for name, damaged := range map[string][]byte{"empty": {}, "half": code[:len(code)/2], "flipped": flipped, "text": []byte("no code")} {
		if err := os.WriteFile(files[0], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := New(Options{Engine: Native(st), Isolation: InProcess, CacheDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		x, err := h.Load(t.Context(), counterWasm, Config{PluginID: "x"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		mustCall(t, x, sessionstate.At(name, "", nil), "1", `{"session":1,"branch":1}`)
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestClose(t *testing.T) {
	path := databasePath(t)
	began, goOn := make(chan struct{}), make(chan struct{})
	h, err := New(Options{Isolation: InProcess, Engine: spy(openStore(t, path), func(string) {
		close(began)
		<-goOn
	})})
	if err != nil {
		t.Fatal(err)
	}
	x := load(t, h, watGuest(t, "start_writes"), Config{PluginID: "x"})
	gone := load(t, h, watGuest(t, "start_writes"), Config{PluginID: "gone"})
	for range 2 {
		if err := gone.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err = gone.Call(t.Context(), at("a"), nil)
	wantFailure(t, err, schema.Closed, `"gone"`)

	called, closed := make(chan error), make(chan error)
	go func() {
		_, err := x.Call(context.Background(), at("a"), nil)
		called <- err
	}()
	<-began
	go func() { closed <- h.Close() }()
	for { // until the host has begun to close, which waits for the call
		_, err := h.Load(t.Context(), counterWasm, Config{PluginID: "x"})
		if schema.CodeOf(err) == schema.Closed {
			break
		}
	}
	select {
	case err := <-closed:
		t.Fatalf("closed during a call: %v", err)
	default:
	}
	close(goOn)
	if err := <-called; err != nil {
		t.Errorf("the call that was running: %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	_, err = x.Call(t.Context(), at("a"), nil)
	wantFailure(t, err, schema.Closed)
	if err := h.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if err := x.Close(); err != nil {
		t.Errorf("closing an extension of a closed host: %v", err)
	}
	if have := stored(t, path, "x", "session", at("a")); have != "1" {
		t.Errorf("stored %q", have)
	}
}

// Every function of the ABI has its method, under the names and types that the ABI gives.
func TestImportsAreTheABI(t *testing.T) {
	x := load(t, nativeHost(t, databasePath(t)), counterWasm, Config{PluginID: "x"})
	defs := x.code.runtime.Module(abi.Module).ExportedFunctionDefinitions()
	if len(defs) != len(abi.Imports()) {
		t.Errorf("the host offers %d functions, the ABI has %d", len(defs), len(abi.Imports()))
	}
	for _, f := range abi.Imports() {
		def := defs[f.Name]
		if def == nil {
			t.Errorf("the host lacks %s", f)
			continue
		}
		have := f.Name + "("
		for k, p := range def.ParamNames() {
			if k > 0 {
				have += ", "
			}
			have += p + " " + abi.Type(def.ParamTypes()[k]).String()
		}
		have += ") -> " + abi.Type(def.ResultTypes()[0]).String()
		if have != f.String() || strings.Contains(have, "  ") {
			t.Errorf("the host offers %s, the ABI has %s", have, f)
		}
	}
}
