package host

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// BenchmarkCall is a whole call, from the making of the instance to its end: one that only reads, and one
// that writes both scopes durably.
func BenchmarkCall(b *testing.B) {
	for name, wasm := range map[string][]byte{"wat": counterWasm, "go": goCounter(b)} {
		x := load(b, nativeHost(b, databasePath(b)), wasm, Config{PluginID: "counter"})
		for op, input := range map[string]string{"read": "0", "write": "1"} {
			b.Run(name+"/"+op, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := x.Call(context.Background(), at("a"), json.RawMessage(input)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkRead is a cached read: directly, by the import's own function, and by a guest through wazero,
// which watches the context (as a call does) or doesn't (the import alone).
func BenchmarkRead(b *testing.B) {
	for _, size := range []int{16, 1024, 32 << 10} {
		path := databasePath(b)
		x := load(b, nativeHost(b, path), watGuest(b, "driver"), Config{PluginID: "driver"})
		value := `"` + strings.Repeat("v", size-2) + `"`
		store(b, path, "driver", sessionstate.ScopeSession, at("a"), value)
		direct := stateOf(b, path, "driver", sessionstate.ScopeSession)
		i := drive(b, x, at("a"))
		sc := at("a")

		b.Run(fmt.Sprintf("direct/%d", size), func(b *testing.B) {
			for b.Loop() {
				if _, _, err := direct.Read(i.ctx, sc); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("import/%d", size), func(b *testing.B) {
			args := params{0, 0, uint64(size)}
			mem := memory{i.mod.Memory()}
			for b.Loop() {
				if n, err := i.g.read(i.ctx, mem, args); n != int64(size) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
		b.Run(fmt.Sprintf("guest/%d", size), func(b *testing.B) {
			f := i.mod.ExportedFunction(abi.Read)
			stack := make([]uint64, 3)
			for b.Loop() {
				stack[0], stack[1], stack[2] = 0, 0, uint64(size)
				if err := f.CallWithStack(i.ctx, stack); err != nil || stack[0] != uint64(size) {
					b.Fatal(stack[0], err)
				}
			}
		})
	}
}

// BenchmarkLoad is a module that the cache directory knows.
func BenchmarkLoad(b *testing.B) {
	for name, wasm := range map[string][]byte{"wat": counterWasm, "go": goCounter(b)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				h := nativeHost(b, databasePath(b))
				load(b, h, wasm, Config{PluginID: "counter"})
				h.Close()
			}
		})
	}
}
