package wasmbuild

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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

// A test that builds the modules is not answered from go test's cache when their sources have changed.
func TestWatchSeesTheSources(t *testing.T) {
	for _, path := range guestSources {
		if _, err := os.Stat(filepath.Join("..", "..", path)); err != nil {
			t.Error(err)
		}
	}
	list := exec.Command("go", "list", "-deps", "-tags=sqliteinside", "pistate/wasm/store")
	list.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	deps, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(string(deps)) {
		path, ours := strings.CutPrefix(strings.TrimSpace(path), "pistate/")
		if ours && !slices.Contains(guestSources, path) {
			t.Errorf("%s is a source of the modules, and is not watched", path)
		}
	}
}
