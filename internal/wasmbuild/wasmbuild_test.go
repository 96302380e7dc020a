package wasmbuild

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Z1: what is built is a module, is built once, and has nothing in it of where it was built.
func TestModules(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(filepath.Dir(dir))
	for name, build := range map[string]func(testing.TB) []byte{StoreModule.Name: Store, StoreSQLiteModule.Name: StoreSQLite} {
		wasm := build(t)
		if !bytes.HasPrefix(wasm, []byte("\x00asm\x01\x00\x00\x00")) {
			t.Errorf("%s is no WebAssembly module: it begins with %q", name, wasm[:min(8, len(wasm))])
		}
		if again := build(t); &again[0] != &wasm[0] {
			t.Errorf("%s was built twice", name)
		}
		if bytes.Contains(wasm, []byte(root)) {
			t.Errorf("%s has the path %s in it", name, root)
		}
	}
	if len(Store(t)) >= len(StoreSQLite(t)) {
		t.Error("the module without SQLite is no smaller than the one with it")
	}
}
