package host

import (
	"context"
	"crypto/sha256"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"pistate/internal/wasmbuild"
	"pistate/schema"
	"pistate/sessionstate"
)

// separateStore opens a database in an instance of its own, as another process would, whoever else has it open in
// this one.
func separateStore(t testing.TB, wasm []byte, cfg StoreConfig) *WasmStore {
	t.Helper()
	cfg, err := testConfig(t, wasm, cfg).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	code, err := acquireStoreCode(t.Context(), wasm, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := (&storeDatabase{code: code, cfg: cfg, turn: make(chan struct{}, 1), refs: 1}).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Two instances of one process would take each other's session locks for left over: a path has one, however it is
// opened, and none of another build of the module.
func TestStoreOneInstance(t *testing.T) { // Y6
	path := databasePath(t)
	first := openWasmStore(t, wasmbuild.Store(t), StoreConfig{Path: path})
	second := openWasmStore(t, wasmbuild.Store(t), StoreConfig{Path: path, MemoryPages: 4002, Incoherent: true, CacheBytes: 1})
	if first.db != second.db {
		t.Fatal("one path has two instances")
	}
	cfg := first.db.cfg
	other := &storeCode{key: codeKey{sha256.Sum256([]byte("another build")), cfg.CacheDir, cfg.MemoryPages}, kind: sqliteLent, refs: 2}
	_, err := acquireStoreDatabase(other, cfg)
	wantFailure(t, err, schema.Invalid, path, "another build")
	if other.refs != 1 {
		t.Errorf("the refused code has %d references", other.refs)
	}
	inside := openWasmStore(t, wasmbuild.StoreSQLite(t), StoreConfig{Memory: true})
	if err := inside.Close(); err != nil {
		t.Error(err)
	}

	// The other database's rules hold for a path that is opened as the other one.
	_, err = OpenStore(t.Context(), wasmbuild.Store(t), testConfig(t, wasmbuild.Store(t), StoreConfig{Database: WorkflowDatabase, Path: path}))
	wantFailure(t, err, schema.Incompatible, path)
	mustWrite(t, sessionState(t, second, "p"), at("a"), "1")
	mustRead(t, sessionState(t, first, "p"), at("a"), "1")
}

// A goroutine that ends in the embedder's clock, as a test's does that fails there, leaves nothing behind: neither
// the database's turn nor a lock nor the code.
func TestStoreEndsInClock(t *testing.T) {
	path := databasePath(t)
	ending, ended := false, 0
	cfg := testConfig(t, wasmbuild.Store(t), StoreConfig{Database: WorkflowDatabase, Path: path, Now: func() time.Time {
		if ending {
			ended++
			runtime.Goexit()
		}
		return time.Now()
	}})
	within := func(call func()) {
		t.Helper()
		before, done := ended, make(chan struct{})
		ending = true
		go func() {
			defer close(done)
			call()
			t.Error("the goroutine goes on")
		}()
		<-done
		if ending = false; ended != before+1 {
			t.Errorf("the clock was asked %d times", ended-before)
		}
		mustExec(t, rawConn(t, path), "BEGIN IMMEDIATE; ROLLBACK") // without waiting
	}
	open := func() (*WasmStore, error) { return OpenStore(context.Background(), wasmbuild.Store(t), cfg) }
	within(func() { _, _ = open() })
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	before, claim := untilClaim(t)
	within(func() { s.Call(context.Background(), []byte(before[0])) })
	within(func() { s.Call(context.Background(), []byte(before[0])) }) // where the instance is made anew
	for _, request := range append(before, claim) {
		if answer := string(s.Call(t.Context(), []byte(request))); !strings.HasPrefix(answer, `{"ok":true`) {
			t.Errorf("afterwards: %s", answer)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	storeDatabases.mu.Lock()
	defer storeDatabases.mu.Unlock()
	if storeDatabases.open[s.db.key()] != nil {
		t.Error("the database is still open")
	}
}

// held is what a process has of what can leak: goroutines, and where it can be counted, descriptors.
func held(t testing.TB) (goroutines, descriptors int) {
	t.Helper()
	for range 3 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		descriptors = len(entries)
	}
	return runtime.NumGoroutine(), descriptors
}

// Instances come and go, and fail to, without leaving anything.
func TestStoreLeavesNothing(t *testing.T) {
	eachModule(t, func(t *testing.T, module int) {
		wasm := modules[module].wasm(t)
		random := &brokenSource{}
		workflow := testConfig(t, wasm, StoreConfig{Database: WorkflowDatabase, Path: databasePath(t), Random: random})
		foreign := testConfig(t, wasm, StoreConfig{Database: SessionsDatabase, Path: workflow.Path})
		before, claim := untilClaim(t)
		round := func() {
			s, err := OpenStore(t.Context(), wasm, workflow)
			if err != nil {
				t.Fatal(err)
			}
			for _, request := range before {
				s.Call(t.Context(), []byte(request))
			}
			random.broken.Store(true)
			s.Call(t.Context(), []byte(claim))
			random.broken.Store(false)
			if s.db.in != nil {
				t.Fatal("it did not trap")
			}
			canceled, cancel := context.WithCancel(t.Context())
			cancel()
			s.Call(canceled, []byte(claim))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err = OpenStore(t.Context(), wasm, foreign); schema.CodeOf(err) != schema.Incompatible {
				t.Fatal(err)
			}
			tree := treeFunc(func(string) (string, error) { return "", schema.Errorf(schema.Corrupt, "no tree") })
			mem := testConfig(t, wasm, StoreConfig{Path: databasePath(t)})
			m, err := OpenStore(t.Context(), wasm, mem)
			if err != nil {
				t.Fatal(err)
			}
			_, _, _ = stateIn(t, m, "p", sessionstate.ScopeBranch).Read(t.Context(), sessionstate.At("s", "l", tree))
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		round()
		goroutines, descriptors := held(t)
		for range leakRounds {
			round()
		}
		if g, d := held(t); g > goroutines || d > descriptors {
			t.Errorf("after more rounds there are %d goroutines and %d descriptors, where there were %d and %d", g, d, goroutines, descriptors)
		}
	})
}

const leakRounds = 5
