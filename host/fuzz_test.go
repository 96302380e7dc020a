package host

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pistate/schema"
)

// FuzzLoad loads and calls any bytes: what is no extension is refused, and what one does ends as one of the
// ways in which a call can end.
func FuzzLoad(f *testing.F) {
	guests, err := filepath.Glob("testdata/*.wasm")
	if err != nil || len(guests) == 0 {
		f.Fatal(guests, err)
	}
	for _, path := range guests {
		wasm, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wasm)
	}
	f.Add(counterWasm)
	h, err := New(Options{Engine: Native(openStore(f, databasePath(f))), Isolation: InProcess})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { h.Close() })
	limits := Limits{MemoryPages: 32, CallTime: 20 * time.Millisecond, ModuleBytes: 4096}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		x, err := h.Load(context.Background(), wasm, Config{PluginID: "x", Limits: limits})
		if err != nil {
			if code := schema.CodeOf(err); code != schema.Invalid && code != schema.Limit {
				t.Fatal(err)
			}
			return
		}
		defer x.Close()
		_, err = x.Call(context.Background(), at("a"), []byte("12"))
		if code := schema.CodeOf(err); err != nil && code != schema.Extension && code != schema.Limit {
			t.Fatal(err)
		}
	})
}
