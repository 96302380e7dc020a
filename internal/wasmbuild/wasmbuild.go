// Package wasmbuild builds the two store modules: for the tests that run them, and for the recipes that put them
// into dist/. They are the same bytes wherever and whenever they are built from the same sources (Z1).
package wasmbuild

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Module is one of the store modules.
type Module struct {
	Name string // of its file
	tags string
}

// The store modules, which come from one main package.
var (
	StoreModule       = Module{Name: "store.wasm"}
	StoreSQLiteModule = Module{Name: "store-sqlite.wasm", tags: "sqliteinside"}
)

// Modules returns both.
func Modules() []Module { return []Module{StoreModule, StoreSQLiteModule} }

// Command returns the command that builds a module into a file. It is to be run in the source tree, or with its
// Dir there.
func (m Module) Command(out string) *exec.Cmd {
	cmd := exec.Command("go", "build",
		"-buildmode=c-shared", // a reactor: it is called
		"-trimpath", "-ldflags=-s -w -buildid=", "-buildvcs=false",
		"-tags="+m.tags, "-o", out, "pistate/wasm/store")
	// What a user has set for other builds would change the bytes.
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOWASM=", "GOEXPERIMENT=", "GOWORK=off")
	return cmd
}

// Build builds a module into a file, from the source tree that dir is in; "" is the working directory.
func (m Module) Build(dir, out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	cmd := m.Command(out)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %v: %w\n%s", m.Name, cmd, err, text)
	}
	return nil
}

// bytes builds a module into a temporary file and returns what is in it.
func (m Module) bytes() (wasm []byte, err error) {
	dir, err := os.MkdirTemp("", "wasmbuild-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, m.Name)
	if err := m.Build("", out); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

var (
	store       = sync.OnceValues(StoreModule.bytes)
	storeSQLite = sync.OnceValues(StoreSQLiteModule.bytes)
)

// Store returns store.wasm, built from the tree that the test runs in, once per process. Nobody may change it.
func Store(tb testing.TB) []byte { tb.Helper(); return must(tb, store) }

// StoreSQLite is Store for store-sqlite.wasm.
func StoreSQLite(tb testing.TB) []byte { tb.Helper(); return must(tb, storeSQLite) }

func must(tb testing.TB, build func() ([]byte, error)) []byte {
	tb.Helper()
	WatchGuests(tb)
	wasm, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	return wasm
}
