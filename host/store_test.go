package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pistate/internal/wasmbuild"
	"pistate/schema"
	"pistate/sessionstate"
)

// modules are the two store modules, each with the least that opens a database of a test's own.
var modules = []struct {
	name   string
	wasm   func(testing.TB) []byte
	memory bool
}{
	{"store", wasmbuild.Store, false},
	{"store-sqlite", wasmbuild.StoreSQLite, true},
}

// newWasmStore opens a new database with the module that has this index.
func newWasmStore(t testing.TB, module int, cfg StoreConfig) *WasmStore {
	t.Helper()
	if m := modules[module]; m.memory {
		cfg.Memory = true
	} else if cfg.Path == "" {
		cfg.Path = databasePath(t)
	}
	return openWasmStore(t, modules[module].wasm(t), cfg)
}

// eachModule runs a test on both.
func eachModule(t *testing.T, test func(t *testing.T, module int)) {
	for i, m := range modules {
		t.Run(m.name, func(t *testing.T) { test(t, i) })
	}
}

func sessionState(t testing.TB, s *WasmStore, plugin string) state {
	t.Helper()
	return stateIn(t, s, plugin, sessionstate.ScopeSession)
}

func mustWrite(t testing.TB, s state, sc sessionstate.SessionContext, value string) {
	t.Helper()
	if err := s.Write(t.Context(), sc, json.RawMessage(value)); err != nil {
		t.Fatal(err)
	}
}

func mustRead(t testing.TB, s state, sc sessionstate.SessionContext, want string) {
	t.Helper()
	value, found, err := s.Read(t.Context(), sc)
	if err != nil || string(value) != want || found != (want != "") {
		t.Fatalf("read gives %.100q, %v, %v; want %.100q", value, found, err, want)
	}
}

func TestStoreConfig(t *testing.T) {
	wasm := wasmbuild.Store(t)
	path := databasePath(t)
	for name, test := range map[string]struct {
		wasm []byte
		cfg  StoreConfig
		text string
	}{
		"no database":      {wasm, StoreConfig{Path: path}, `"sessions" or "workflow"`},
		"no path":          {wasm, StoreConfig{Database: SessionsDatabase}, "no database path"},
		"relative":         {wasm, StoreConfig{Database: SessionsDatabase, Path: "states.sqlite"}, "absolute"},
		"two places":       {wasm, StoreConfig{Database: SessionsDatabase, Path: path, Memory: true}, "memory"},
		"no memory":        {wasm, StoreConfig{Database: SessionsDatabase, Memory: true, CacheDir: wasmbuild.CacheDir(t, wasm)}, "store-sqlite.wasm"},
		"pages":            {wasm, StoreConfig{Database: SessionsDatabase, Path: path, MemoryPages: 65536}, "65535"},
		"cache bytes":      {wasm, StoreConfig{Database: SessionsDatabase, Path: path, CacheBytes: -1}, "negative"},
		"cache directory":  {wasm, StoreConfig{Database: SessionsDatabase, Path: path, CacheDir: "here"}, "absolute"},
		"not a module":     {[]byte("store"), StoreConfig{Database: SessionsDatabase, Path: path}, "not a store module"},
		"another module":   {counterWasm, StoreConfig{Database: SessionsDatabase, Path: path}, "imports neither pistate_sql_v1"},
		"a driver of some": {watGuest(t, "driver"), StoreConfig{Database: SessionsDatabase, Path: path}, "imports neither"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := OpenStore(t.Context(), test.wasm, test.cfg)
			wantFailure(t, err, schema.Invalid, test.text)
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the database is there: %v", err)
			}
		})
	}
	storeCodes.mu.Lock()
	defer storeCodes.mu.Unlock()
	for key := range storeCodes.loaded {
		if key.pages == 0 || key.cacheDir == "" {
			t.Errorf("code of a refused module is kept: %+v", key)
		}
	}
}

// One module, one configuration: compiled once, and given back with the last database that uses it. One path: one
// database.
func TestStoresShare(t *testing.T) {
	const pages = 4001 // no other test's
	path := databasePath(t)
	a := openWasmStore(t, wasmbuild.Store(t), StoreConfig{Path: path, MemoryPages: pages})
	b := openWasmStore(t, wasmbuild.Store(t), StoreConfig{Path: filepath.Join(filepath.Dir(path), ".", filepath.Base(path)), MemoryPages: pages})
	c := openWasmStore(t, wasmbuild.Store(t), StoreConfig{Path: databasePath(t), MemoryPages: pages})
	if a.db != b.db || a.db == c.db || a.db.code != c.db.code || a.Path() != b.Path() {
		t.Error("what is to be shared is not, or the other way round")
	}
	branch := func(s *WasmStore) state { return stateIn(t, s, "p", sessionstate.ScopeBranch) }
	mustWrite(t, branch(a), at(""), "1") // in memory, until the session has an entry (Y7)
	mustRead(t, branch(b), at(""), "1")
	mustRead(t, branch(c), at(""), "")

	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err := branch(b).Read(t.Context(), at("a"))
	if err != nil {
		t.Errorf("after another handle was closed: %v", err)
	}
	_, err = a.Engine().open("p")
	if err != nil {
		t.Error(err)
	}
	_, _, err = branch(a).Read(t.Context(), at("a"))
	wantFailure(t, err, schema.Closed, path)
	if answer := string(a.Call(t.Context(), []byte(`{"op":"session.status"}`))); !strings.HasPrefix(answer, `{"ok":false,"code":"closed","detail":"`) {
		t.Errorf("a closed store answers %s", answer)
	}
	for _, s := range []*WasmStore{a, b, c, c} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	storeCodes.mu.Lock()
	defer storeCodes.mu.Unlock()
	for key := range storeCodes.loaded {
		if key.pages == pages {
			t.Error("the code is kept though nothing uses it")
		}
	}
}

// Databases that share their code share nothing else: what an import does is found by the instance that calls,
// also when another one is called from within it.
func TestStoresAreApart(t *testing.T) {
	eachModule(t, func(t *testing.T, module int) {
		const stores, rounds = 3, 20
		var all []*WasmStore
		for range stores {
			all = append(all, newWasmStore(t, module, StoreConfig{}))
		}
		var wg sync.WaitGroup
		for i, s := range all {
			wg.Go(func() {
				states := stateIn(t, s, "p", sessionstate.ScopeBranch)
				own := named(fmt.Sprintf("key-%d", i))
				for k := range rounds {
					place := sessionstate.At("s", fmt.Sprintf("leaf-%d", k%2), own)
					if key, ok, err := states.BranchKey(place); key != string(own) || !ok || err != nil {
						t.Errorf("store %d has the key %q, %v, %v", i, key, ok, err)
					}
					value := fmt.Sprintf(`"%d %d"`, i, k)
					err := states.Write(t.Context(), place, json.RawMessage(value))
					have, _, err2 := states.Read(t.Context(), place)
					if err != nil || err2 != nil || string(have) != value {
						t.Errorf("store %d: %s, want %s; %v, %v", i, have, value, err, err2)
					}
				}
			})
		}
		wg.Wait()

		inner := stateIn(t, all[1], "p", sessionstate.ScopeBranch)
		nested := treeFunc(func(string) (string, error) {
			key, _, err := inner.BranchKey(sessionstate.At("s", "x", named("inner")))
			return "outer of " + key, err
		})
		key, _, err := stateIn(t, all[0], "p", sessionstate.ScopeBranch).BranchKey(sessionstate.At("s", "x", nested))
		if key != "outer of inner" || err != nil {
			t.Errorf("a store that is used within another one's call gives %q, %v", key, err)
		}
	})
}

// named is a tree in which every leaf has the same key.
type named string

func (n named) BranchKey(string) (string, error)       { return string(n), nil }
func (n named) ParentKey(string) (string, bool, error) { return "", false, nil }

// treeFunc is a tree of one run, whose key is what the function returns.
type treeFunc func(leaf string) (string, error)

func (f treeFunc) BranchKey(leaf string) (string, error)  { return f(leaf) }
func (f treeFunc) ParentKey(string) (string, bool, error) { return "", false, nil }

// The embedder's tree is as good or bad as with the native store: its errors keep their code and text, its
// panics reach the caller, and the store goes on.
func TestStoreAsksTheTree(t *testing.T) {
	eachModule(t, func(t *testing.T, module int) {
		s := newWasmStore(t, module, StoreConfig{})
		branch := stateIn(t, s, "p", sessionstate.ScopeBranch)
		mustWrite(t, branch, at("b"), "1")
		instance := s.db.in

		for _, code := range schema.Codes() {
			bad := treeFunc(func(leaf string) (string, error) {
				return "", schema.Errorf(code, "no key for %s, by the tree's %q", leaf, "ü")
			})
			_, _, err := branch.Read(t.Context(), sessionstate.At("s1", "b", bad))
			wantFailure(t, err, code, `no key for b, by the tree's "ü"`)
		}
		_, _, err := branch.Read(t.Context(), sessionstate.At("s1", "b", nil))
		wantFailure(t, err, schema.Invalid, "tree")

		panicking := treeFunc(func(string) (string, error) { panic("the tree fell") })
		func() {
			defer func() {
				if p := recover(); p != "the tree fell" {
					t.Errorf("the caller recovers %v", p)
				}
			}()
			_, _, _ = branch.Read(t.Context(), sessionstate.At("s1", "b", panicking))
			t.Error("a tree that panics has no consequence")
		}()
		mustRead(t, branch, at("b"), "1")
		if s.db.in != instance {
			t.Error("the instance was made anew though it was not its fault")
		}

		// A goroutine that ends in the tree leaves the guest in the middle of its call. It is not used again.
		ending := treeFunc(func(string) (string, error) { runtime.Goexit(); return "", nil })
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _, _ = branch.Read(context.Background(), sessionstate.At("s1", "b", ending))
			t.Error("the goroutine goes on")
		}()
		<-ended
		if s.db.in == instance {
			t.Error("an instance whose call did not return is used again")
		}
		mustWrite(t, branch, at("b"), "2")

		// A long answer takes a second call.
		long := named(strings.Repeat("k", 5000))
		if key, ok, err := branch.BranchKey(sessionstate.At("s1", "b", long)); key != string(long) || !ok || err != nil {
			t.Errorf("a key of %d bytes comes as %.20q, %v, %v", len(long), key, ok, err)
		}
	})
}

// A conflict carries what was found, byte for byte, also what is no JSON.
func TestStoreConflict(t *testing.T) { // Y12
	path := databasePath(t)
	s := openWasmStore(t, wasmbuild.Store(t), StoreConfig{Path: path})
	p := sessionState(t, s, "p")
	for i, found := range []string{"", `{ "a" : 9007199254740993 }`, `"` + strings.Repeat("x", 100_000) + `"`, "no JSON", "\xff\x00\n"} {
		sc := sessionstate.At(fmt.Sprint("s", i), "", nil)
		if found != "" {
			plant(t, path, "p", sc.SessionID(), found)
		}
		err := p.CompareAndWrite(t.Context(), sc, json.RawMessage("1"), json.RawMessage("2"))
		wantFailure(t, err, schema.Conflict, "read it and try again")
		conflict, ok := errors.AsType[*sessionstate.ConflictError](err)
		if !ok || string(conflict.Found) != found || (conflict.Found == nil) != (found == "") {
			t.Errorf("found %.100q, want %.100q", conflict.Found, found)
		}
	}
}

func TestStoreLargeValues(t *testing.T) {
	eachModule(t, func(t *testing.T, module int) {
		s := newWasmStore(t, module, StoreConfig{})
		p := sessionState(t, s, "p")
		last := ""
		for _, size := range []int{2, 1000, scratchBytes, scratchBytes + 1, 5 << 20, 100} {
			value := `"` + strings.Repeat("v", size-2) + `"`
			mustWrite(t, p, at("a"), value)
			mustRead(t, p, at("a"), value)
			if err := p.CompareAndWrite(t.Context(), at("b"), json.RawMessage(value), json.RawMessage(value+" ")); err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
			mustRead(t, p, at("a"), value+" ")
			last = value + " "
		}
		if room := s.db.in.scratch.size; room > maxScratch {
			t.Errorf("%d bytes are kept in the guest", room)
		}
		err := p.Write(t.Context(), at("a"), json.RawMessage(strings.Repeat(" ", sessionstate.MaxValueBytes)+"1"))
		wantFailure(t, err, schema.Limit, "67108865")
		mustRead(t, p, at("a"), last)
	})
}
