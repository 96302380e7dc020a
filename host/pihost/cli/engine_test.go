package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pistate/host"
	"pistate/internal/wasmbuild"
	"pistate/wasm/examples"
)

// storeModules puts the store modules into files. Their compiled code is where the tests of other packages keep it
// too, and stays in memory until the test ends.
func storeModules(t *testing.T) (lent, inside string) {
	t.Helper()
	dir := t.TempDir()
	cache := filepath.Join(dir, "pistate", "wazero")
	kept := wasmbuild.CacheDir(t, wasmbuild.Store(t), wasmbuild.StoreSQLite(t))
	t.Setenv("XDG_CACHE_HOME", dir)
	if got := cacheDir(false); got != cache {
		cache = got // a system that goes by another variable
	} else if err := os.Mkdir(filepath.Dir(cache), 0o700); err != nil {
		t.Fatal(err)
	} else if err := os.Symlink(kept, cache); err != nil {
		t.Fatal(err)
	}
	path := func(name string, wasm []byte, cfg host.StoreConfig) string {
		cfg.Database, cfg.CacheDir = host.WorkflowDatabase, cache
		s, err := host.OpenStore(t.Context(), wasm, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, wasm, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	lent = path("store.wasm", wasmbuild.Store(t), host.StoreConfig{Path: filepath.Join(dir, "kept.sqlite")})
	inside = path("store-sqlite.wasm", wasmbuild.StoreSQLite(t), host.StoreConfig{Memory: true})
	return lent, inside
}

// Every engine gives the answers of the native one, byte for byte, with the same clock and seed (G4).
func TestScenariosOnStoreModules(t *testing.T) {
	lent, inside := storeModules(t)
	files, err := filepath.Glob("../../../testdata/scenarios/*.golden.jsonl")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, engine := range []struct {
		name, module string
		memory       bool
	}{
		{"wasm", lent, false},
		{"wasm-sqlite-file", inside, false},
		{"wasm-sqlite-memory", inside, true},
	} {
		t.Run(engine.name, func(t *testing.T) {
			for _, golden := range files {
				name := strings.TrimSuffix(filepath.Base(golden), ".golden.jsonl")
				t.Run(name, func(t *testing.T) {
					args := []string{"--engine", "wasm", "--store-wasm", engine.module, "--memory"}
					if !engine.memory {
						args = append(args[:4], "--db", filepath.Join(t.TempDir(), "state.sqlite"))
					}
					requests := read(t, strings.TrimSuffix(golden, ".golden.jsonl")+".jsonl")
					compare(t, executeWith(t, requests, args...), read(t, golden))
				})
			}
		})
	}
}

func executeWith(t testing.TB, requests string, args ...string) string {
	t.Helper()
	var out, problems strings.Builder
	args = append([]string{"exec", "--clock", "1800000000000", "--seed", "1"}, args...)
	if code := Program().Run(context.Background(), args, strings.NewReader(requests), &out, &problems); code != 0 {
		t.Fatalf("exit code %d: %s", code, problems.String())
	}
	return out.String()
}

// An extension doesn't notice what runs the store, and what one engine has stored the other one finds.
func TestRunOnStoreModules(t *testing.T) {
	lent, inside := storeModules(t)
	dir := t.TempDir()
	counter := filepath.Join(dir, "counter.wasm")
	if err := os.WriteFile(counter, examples.CounterWasm, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ engine, want string }{
		{"native", `{"session":1,"branch":1}`},
		{"wasm " + lent, `{"session":2,"branch":2}`},
		{"wasm " + inside, `{"session":3,"branch":3}`},
		{"native", `{"session":4,"branch":4}`},
	} {
		args := []string{
			"run", "--session", "../../../testdata/pi-sessions/fork.jsonl", "--db", filepath.Join(dir, "states.sqlite"),
			"--plugin", "counter", "--input", "1", "--engine",
		}
		engine, module, isWasm := strings.Cut(step.engine, " ")
		if args = append(args, engine); isWasm {
			args = append(args, "--store-wasm", module)
		}
		var out, problems strings.Builder
		code := Program().Run(t.Context(), append(args, counter), strings.NewReader(""), &out, &problems)
		if code != 0 || out.String() != step.want+"\n" {
			t.Errorf("%s: exit code %d, %s%s", step.engine, code, out.String(), problems.String())
		}
	}
}

func TestEngineFlags(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "state.sqlite")
	for name, test := range map[string]struct {
		args []string
		code int
		text string
	}{
		"no module":       {[]string{"--db", db, "--engine", "wasm"}, 2, "--store-wasm"},
		"unused module":   {[]string{"--db", db, "--store-wasm", "store.wasm"}, 2, "native"},
		"native memory":   {[]string{"--memory"}, 2, "--memory"},
		"memory and file": {[]string{"--engine", "wasm", "--store-wasm", "store.wasm", "--memory", "--db", db}, 2, "--memory"},
		"missing module":  {[]string{"--db", db, "--engine", "wasm", "--store-wasm", filepath.Join(dir, "store.wasm")}, 3, "store module"},
		"a directory":     {[]string{"--db", db, "--engine", "wasm", "--store-wasm", dir}, 2, "no file with a module"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, problems strings.Builder
			code := Program().Run(t.Context(), append([]string{"exec"}, test.args...), strings.NewReader(""), &out, &problems)
			if code != test.code || !strings.Contains(problems.String(), test.text) || out.Len() > 0 {
				t.Errorf("exit code %d, want %d: %s%s", code, test.code, problems.String(), out.String())
			}
			if _, err := os.Stat(db); err == nil {
				t.Error("a database was created")
			}
		})
	}
}
