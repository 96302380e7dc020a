package host

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"pistate/internal/wasmbuild"
	"pistate/sessionstate"
	workflow "pistate/store"
	"pistate/wasm/abi"
)

// The benchmarks below run the same on the native store and on store modules, in one run, so that
// benchstat -col /engine shows the ratios.

// stateEngines open a new sessions database, and give the state of a plugin in it.
var stateEngines = []struct {
	name  string
	state func(b *testing.B, incoherent bool) state
}{
	{"native", func(b *testing.B, incoherent bool) state {
		s, err := sessionstate.New(openStore(b, databasePath(b)), sessionstate.Config{
			PluginID: "p", Scope: sessionstate.ScopeSession, Coherent: !incoherent,
		})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}},
	{"wasm", func(b *testing.B, incoherent bool) state {
		return sessionState(b, openWasmStore(b, wasmbuild.Store(b), StoreConfig{Path: databasePath(b), Incoherent: incoherent}), "p")
	}},
	{"wasm-sqlite-file", func(b *testing.B, incoherent bool) state {
		return sessionState(b, openWasmStore(b, wasmbuild.StoreSQLite(b), StoreConfig{Path: databasePath(b), Incoherent: incoherent}), "p")
	}},
}

// BenchmarkStoreWrite is a write of session state that is durable when it returns.
func BenchmarkStoreWrite(b *testing.B) {
	for _, size := range []int{16, 4 << 10} {
		for _, engine := range stateEngines {
			b.Run(fmt.Sprintf("size=%d/engine=%s", size, engine.name), func(b *testing.B) {
				s := engine.state(b, false)
				sc := sessionstate.At("s", "", nil)
				n := 0
				for b.Loop() {
					n++
					value := fmt.Appendf(nil, `"%0*d"`, size-2, n)
					if err := s.Write(b.Context(), sc, value); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkStoreRead is a read of session state that is cached: with a look at whether others have written, and
// without one.
func BenchmarkStoreRead(b *testing.B) {
	for _, coherent := range []bool{false, true} {
		for _, engine := range stateEngines {
			b.Run(fmt.Sprintf("coherent=%v/engine=%s", coherent, engine.name), func(b *testing.B) {
				s := engine.state(b, !coherent)
				sc := sessionstate.At("s", "", nil)
				mustWrite(b, s, sc, `"0123456789abcdef"`)
				ctx := context.Background()
				b.ReportAllocs()
				for b.Loop() {
					if _, found, err := s.Read(ctx, sc); err != nil || !found {
						b.Fatal(found, err)
					}
				}
			})
		}
	}
}

// BenchmarkStoreABIRead is the same read as an embedder in another language makes it, by the export alone.
func BenchmarkStoreABIRead(b *testing.B) {
	for _, size := range []int{16, 1024} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			s := openWasmStore(b, wasmbuild.Store(b), StoreConfig{Path: databasePath(b), Incoherent: true})
			mustWrite(b, sessionState(b, s, "p"), at("a"), `"`+strings.Repeat("v", size-2)+`"`)
			in, err := s.db.enter(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer s.db.leave(in)
			read := in.mod.ExportedFunction(abi.Read)
			stack := make([]uint64, 3)
			for b.Loop() {
				stack[0], stack[1], stack[2] = uint64(abi.ScopeSession), uint64(in.scratch.ptr), uint64(in.scratch.size)
				if err := read.CallWithStack(in.own, stack); err != nil || stack[0] != uint64(size) {
					b.Fatal(stack[0], err)
				}
			}
		})
	}
}

// BenchmarkStoreBranchRead asks the embedder's tree for the branch as well.
func BenchmarkStoreBranchRead(b *testing.B) {
	path := databasePath(b)
	s := openWasmStore(b, wasmbuild.Store(b), StoreConfig{Path: path, Incoherent: true})
	native := stateOf(b, path, "p", sessionstate.ScopeBranch)
	mustWrite(b, native, at("d"), "1")
	for _, engine := range []struct {
		name  string
		state state
	}{{"native", native}, {"wasm", stateIn(b, s, "p", sessionstate.ScopeBranch)}} {
		b.Run("engine="+engine.name, func(b *testing.B) {
			for b.Loop() {
				if _, found, err := engine.state.Read(b.Context(), at("d")); err != nil || !found {
					b.Fatal(found, err)
				}
			}
		})
	}
}

// commandEngines open a new workflow database, and give what carries out its commands.
var commandEngines = []struct {
	name string
	call func(b *testing.B) func(context.Context, []byte) []byte
}{
	{"native", func(b *testing.B) func(context.Context, []byte) []byte {
		s, err := workflow.Open(b.Context(), databasePath(b), workflow.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		return s.Dispatch
	}},
	{"wasm", func(b *testing.B) func(context.Context, []byte) []byte {
		return openWasmStore(b, wasmbuild.Store(b), StoreConfig{Database: WorkflowDatabase, Path: databasePath(b)}).Call
	}},
	{"wasm-sqlite-file", func(b *testing.B) func(context.Context, []byte) []byte {
		return openWasmStore(b, wasmbuild.StoreSQLite(b), StoreConfig{Database: WorkflowDatabase, Path: databasePath(b)}).Call
	}},
}

// BenchmarkStoreCommand is a durable command of the workflow protocol, with its event, and a query.
func BenchmarkStoreCommand(b *testing.B) {
	for _, test := range []struct{ name, request string }{
		{"command", `{"op":"channel.register","actor":{"class":"channel","id":"b"},"args":{"adapter_type":"t","profile":"pN"}}`},
		{"query", `{"op":"project.list","args":{"limit":10}}`},
	} {
		for _, engine := range commandEngines {
			b.Run(fmt.Sprintf("op=%s/engine=%s", test.name, engine.name), func(b *testing.B) {
				call := engine.call(b)
				n := 0
				for b.Loop() {
					n++
					answer := call(b.Context(), []byte(strings.Replace(test.request, "N", strconv.Itoa(n), 1)))
					if !strings.HasPrefix(string(answer), `{"ok":true`) {
						b.Fatalf("%s", answer)
					}
				}
			})
		}
	}
}

// BenchmarkStoreOpen opens a database that is there already: the native store, and a module whose code is in the
// cache directory and has to be read from there, as at the start of a process (C80). Closing is not counted.
func BenchmarkStoreOpen(b *testing.B) {
	path := databasePath(b)
	openStore(b, path).Close()
	b.Run("engine=native", func(b *testing.B) {
		openAgain(b, func() (io.Closer, error) {
			return sessionstate.Open(b.Context(), path, sessionstate.Options{})
		})
	})
	for _, module := range []struct {
		name string
		wasm []byte
	}{{"wasm", wasmbuild.Store(b)}, {"wasm-sqlite-file", wasmbuild.StoreSQLite(b)}} {
		b.Run("engine="+module.name, func(b *testing.B) {
			cfg := StoreConfig{Database: SessionsDatabase, Path: path, CacheDir: wasmbuild.CacheDir(b, module.wasm), MemoryPages: 1000}
			openAgain(b, func() (io.Closer, error) { return OpenStore(b.Context(), module.wasm, cfg) })
		})
	}
}

func openAgain(b *testing.B, open func() (io.Closer, error)) {
	again := func() {
		s, err := open()
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		b.StartTimer()
	}
	again() // so that the code is in the directory
	for b.Loop() {
		again()
	}
}
