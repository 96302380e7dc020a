package host

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pistate/internal/wasmbuild"
	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// What doesn't fit into the memory limit is refused, or costs the instance; the store goes on either way.
func TestStoreMemoryLimit(t *testing.T) { // G3
	eachModule(t, func(t *testing.T, module int) {
		const pages = 600 // 37.5 MiB
		s := newWasmStore(t, module, StoreConfig{MemoryPages: pages})
		p := sessionState(t, s, "p")
		mustWrite(t, p, at("a"), "1")
		for _, size := range []int{12 << 20, 36 << 20, 60 << 20} {
			value := append(json.RawMessage("2"), bytes.Repeat([]byte(" "), size)...)
			err := p.Write(t.Context(), at("a"), value)
			if code := schema.CodeOf(err); code != schema.Storage && code != schema.Limit {
				t.Fatalf("%d bytes: %v", size, err)
			}
			if in := s.db.in; in != nil && in.mod.Memory().Size() > pages<<16 {
				t.Errorf("the instance has %d bytes", in.mod.Memory().Size())
			}
			if modules[module].memory && s.db.in == nil {
				mustWrite(t, p, at("a"), "1") // what was in its memory is gone with it
			}
			mustRead(t, p, at("a"), "1")
		}
	})
}

// A Go guest still answers after a trap, with a broken runtime: it is not asked any more. What it had open in SQLite is
// closed at once, so that nobody has to wait for it.
func TestStoreAfterTrap(t *testing.T) {
	path := databasePath(t)
	s := openWasmStore(t, wasmbuild.Store(t), StoreConfig{Path: path})
	p := sessionState(t, s, "p")
	mustWrite(t, p, at("a"), "1")
	old := s.db.in

	memory := old.mod.Memory()
	all, _ := memory.Read(0, memory.Size())
	copy(all, bytes.Repeat([]byte{0xa5}, len(all)))
	err := p.Write(t.Context(), at("a"), json.RawMessage("2"))
	wantFailure(t, err, schema.Storage, path, "store.wasm", "the next call begins anew")
	if s.db.in != nil {
		t.Fatal("the instance is kept")
	}
	if !old.mod.IsClosed() {
		t.Error("the module is not closed")
	}
	if n := old.sql.Open(t.Context(), 1); int64(n) != abi.CodeBase+int64(abi.Number(schema.Closed)) {
		t.Errorf("what lent the database answers %d", n)
	}
	if _, err := old.call(&old.exports.version); schema.CodeOf(err) != schema.Storage {
		t.Errorf("the old instance is called: %v", err)
	}
	mustExec(t, rawConn(t, path), "BEGIN IMMEDIATE; ROLLBACK") // without waiting
	mustRead(t, p, at("a"), "1")
	mustWrite(t, p, at("a"), "3")
	if s.db.in == old || s.db.in == nil {
		t.Error("there is no new instance")
	}
}

// A guest that stops in the middle of a transaction leaves nothing of it, and nobody waits for its end.
func TestStoreTrapsInTransaction(t *testing.T) {
	eachModule(t, func(t *testing.T, module int) {
		random := &brokenSource{}
		cfg := StoreConfig{Database: WorkflowDatabase, Path: databasePath(t), Random: random}
		s := openWasmStore(t, modules[module].wasm(t), cfg)
		ask := func(request string) string { return string(s.Call(t.Context(), []byte(request))) }
		before, claim := untilClaim(t)
		for _, request := range before {
			if answer := ask(request); !strings.HasPrefix(answer, `{"ok":true`) {
				t.Fatalf("%s\n%s", request, answer)
			}
		}
		random.broken.Store(true)
		stopped := ask(claim)
		random.broken.Store(false)
		if !strings.HasPrefix(stopped, `{"ok":false,"code":"storage","detail":`) || !strings.Contains(stopped, "the next call begins anew") {
			t.Errorf("without randomness: %s", stopped)
		}
		if s.db.in != nil {
			t.Error("the instance is kept")
		}
		if !modules[module].memory {
			mustExec(t, rawConn(t, s.Path()), "BEGIN IMMEDIATE; ROLLBACK") // without waiting
		}
		if answer := ask(claim); !strings.HasPrefix(answer, `{"ok":true,"revision":2`) {
			t.Errorf("afterwards: %s", answer)
		}
	})
}

// untilClaim returns the first requests of a scenario, up to one that draws a token inside its transaction.
func untilClaim(t testing.TB) (before []string, claim string) {
	t.Helper()
	text, err := os.ReadFile("../testdata/scenarios/channel_telegram.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, `{"op":"lease.claim"`):
			return before, line
		case strings.HasPrefix(line, "{"):
			before = append(before, line)
		}
	}
	t.Fatal("there is no lease.claim")
	return nil, ""
}

// brokenSource is a source of randomness that can fail.
type brokenSource struct {
	broken atomic.Bool
	used   func() // nil, or called when it is used
}

func (s *brokenSource) Read(b []byte) (int, error) {
	if s.broken.Load() {
		panic("no more dice")
	}
	if s.used != nil {
		s.used()
	}
	return rand.Read(b)
}

// A context that ends in the middle of a transaction ends that too, one way or the other, and nothing after it.
func TestStoreCanceledInTransaction(t *testing.T) {
	eachModule(t, func(t *testing.T, module int) {
		random := &brokenSource{}
		s := openWasmStore(t, modules[module].wasm(t), StoreConfig{Database: WorkflowDatabase, Path: databasePath(t), Random: random})
		before, claim := untilClaim(t)
		for _, request := range before {
			s.Call(t.Context(), []byte(request))
		}
		instance := s.db.in
		ctx, cancel := context.WithCancel(t.Context())
		random.used = cancel
		answer := string(s.Call(ctx, []byte(claim)))
		if ctx.Err() == nil {
			t.Fatal("the command draws nothing")
		}
		want := `{"ok":true,"revision":2`
		if !strings.HasPrefix(answer, want) {
			if !strings.HasPrefix(answer, `{"ok":false,"code":"canceled","op":"lease.claim"`) {
				t.Errorf("a canceled command is answered %s", answer)
			}
			if again := string(s.Call(t.Context(), []byte(claim))); !strings.HasPrefix(again, want) {
				t.Errorf("afterwards: %s", again)
			}
		}
		if s.db.in != instance {
			t.Error("the instance was made anew")
		}
		if module == 0 {
			mustExec(t, rawConn(t, s.Path()), "BEGIN IMMEDIATE; ROLLBACK") // without waiting
		}
	})
}

// Calls end with their contexts: those that have not begun, and those that wait in SQLite or asleep.
func TestStoreContexts(t *testing.T) {
	eachModule(t, func(t *testing.T, module int) {
		path := databasePath(t)
		s := openWasmStore(t, modules[module].wasm(t), StoreConfig{Path: path})
		p := sessionState(t, s, "p")
		mustWrite(t, p, at("a"), "1")
		over, cancel := context.WithCancel(t.Context())
		cancel()
		err := p.Write(over, at("a"), json.RawMessage("2"))
		wantFailure(t, err, schema.Canceled)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v is not context.Canceled", err)
		}
		_, err = OpenStore(over, modules[module].wasm(t), testConfig(t, modules[module].wasm(t), StoreConfig{Path: databasePath(t)}))
		wantFailure(t, err, schema.Canceled)

		// Somebody else is in the instance.
		inside, leave := make(chan struct{}), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			waiting := treeFunc(func(string) (string, error) { close(inside); <-leave; return "k", nil })
			if _, _, err := stateIn(t, s, "p", sessionstate.ScopeBranch).BranchKey(sessionstate.At("s", "l", waiting)); err != nil {
				t.Error(err)
			}
		})
		<-inside
		soon, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		_, _, err = p.Read(soon, at("a"))
		wantFailure(t, err, schema.Canceled)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v is not context.DeadlineExceeded", err)
		}
		close(leave)
		wg.Wait()
		mustRead(t, p, at("a"), "1")

		// A sleep for a year.
		s.db.in.begin(over)
		s.db.in.sleep(int64(365 * 24 * time.Hour))
	})
}

// What waits for a lock of SQLite's ends with the context, not with SQLite's patience.
func TestStoreWaitEndsWithContext(t *testing.T) {
	path := databasePath(t)
	s := openWasmStore(t, wasmbuild.Store(t), StoreConfig{Path: path})
	p := sessionState(t, s, "p")
	mustWrite(t, p, at("a"), "1")
	conn := rawConn(t, path)
	mustExec(t, conn, "BEGIN IMMEDIATE")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := p.Write(ctx, at("a"), json.RawMessage("2"))
	wantFailure(t, err, schema.Canceled)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is not context.DeadlineExceeded", err)
	}
	mustExec(t, conn, "ROLLBACK")
	mustRead(t, p, at("a"), "1")
	mustWrite(t, p, at("a"), "3")

	owned := openWasmStore(t, wasmbuild.StoreSQLite(t), StoreConfig{Path: databasePath(t)})
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	other := testConfig(t, wasmbuild.Store(t), StoreConfig{Path: owned.Path()})
	_, err = OpenStore(ctx, wasmbuild.Store(t), other)
	wantFailure(t, err, schema.Canceled)
}

// The first switch to WAL can be BUSY in spite of the timeout: whoever comes first, all get in.
func TestStoreFirstOpeners(t *testing.T) { // S5
	for range 5 {
		path := databasePath(t)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				var s state
				if i%2 == 0 {
					s = sessionState(t, separateStore(t, wasmbuild.Store(t), StoreConfig{Path: path}), "p")
				} else {
					s = stateOf(t, path, "p", sessionstate.ScopeSession)
				}
				if err := s.Write(t.Context(), sessionstate.At(fmt.Sprint("s", i), "", nil), json.RawMessage("1")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for i := range 4 {
			if have := stored(t, path, "p", sessionstate.ScopeSession, sessionstate.At(fmt.Sprint("s", i), "", nil)); have != "1" {
				t.Errorf("session %d holds %q", i, have)
			}
		}
	}
}

// The upper halves of parameters that are i32 belong to nobody.
func TestStoreImportsIgnoreUpperHalves(t *testing.T) {
	s := newWasmStore(t, 0, StoreConfig{})
	in, err := s.db.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.db.leave(in)
	in.tree = tree
	const sql, leaf = "SELECT ?1 + 1", "d"
	if err := in.put([]byte(sql), []byte(leaf), []byte{abi.TagNull}); err != nil {
		t.Fatal(err)
	}
	text := in.scratch.ptr
	null := text + uint32(len(sql)+len(leaf))
	buf := text + 1000
	call := func(module, function string, args ...uint64) int64 {
		t.Helper()
		for _, m := range storeImports(sqliteLent) {
			for _, f := range m.funcs {
				if m.name != module || f.Name != function {
					continue
				}
				stack := make([]uint64, 8)
				for i := range stack {
					stack[i] = garbage
				}
				for i, a := range args {
					stack[i] = garbage | uint64(uint32(a))
				}
				storeFunc(f, m.answers[function])(in.own, in.mod, stack)
				if f.Result == abi.I32 {
					if stack[0]>>32 != 0 {
						t.Errorf("%s leaves %#x in the upper half of its result", function, stack[0]>>32)
					}
					return int64(int32(stack[0]))
				}
				return int64(stack[0])
			}
		}
		t.Fatalf("there is no %s.%s", module, function)
		return 0
	}
	db := call(abi.SQLModule, abi.Open, 1)
	stmt := call(abi.SQLModule, abi.Prepare, uint64(db), uint64(text), uint64(len(sql)))
	if db <= 0 || stmt <= 0 {
		t.Fatalf("handles %d, %d", db, stmt)
	}
	if n := call(abi.SQLModule, abi.Run, uint64(stmt), uint64(null), 1, uint64(buf), 100); n != 17 { // NULL + 1 is NULL
		t.Errorf("run gives %d bytes", n)
	}
	for _, n := range []int64{
		call(abi.SQLModule, abi.Reset, uint64(stmt)), call(abi.SQLModule, abi.InTransaction, uint64(db)),
		call(abi.SQLModule, abi.InPlace, uint64(db)), call(abi.SQLModule, abi.Unresolved, uint64(db)),
		call(abi.SQLModule, abi.Finalize, uint64(stmt)), call(abi.SQLModule, abi.Close, uint64(db)),
	} {
		if n != 0 {
			t.Errorf("%d, want 0", n)
		}
	}
	if n := call(abi.HostModule, abi.BranchKey, uint64(text)+uint64(len(sql)), uint64(len(leaf)), uint64(buf), 100); n != 1 {
		t.Errorf("branch_key gives %d", n)
	}
	if key, err := in.take(buf, 1); string(key) != "c" || err != nil {
		t.Errorf("the key is %q, %v", key, err)
	}
	if n := call(abi.HostModule, abi.ProcessLives, uint64(os.Getpid())); n != 1 {
		t.Errorf("this process lives: %d", n)
	}
	if n := call(abi.HostModule, abi.ProcessLives, uint64(1<<32-1)); n != -1 { // -1: to the kernel, every process
		t.Errorf("process -1 lives: %d", n)
	}
	if n := call(abi.HostModule, abi.PID); n != int64(os.Getpid()) {
		t.Errorf("pid is %d", n)
	}
	if n := call(abi.HostModule, abi.BranchKey, uint64(text), 1<<31, uint64(buf), 100); n != int64(abi.Number(schema.Invalid)) {
		t.Errorf("a leaf beyond the memory: %d", n)
	}
	if n := call(abi.SQLModule, abi.Beside, 1<<32-1, 1<<32-1); n != abi.CodeBase+int64(abi.Number(schema.Invalid)) {
		t.Errorf("a buffer beyond the memory: %d", n)
	}
	n := call(abi.SQLModule, abi.ErrorText, uint64(buf), 100)
	if why, err := in.take(buf, uint32(n)); !strings.Contains(string(why), "do not lie in the memory") || err != nil {
		t.Errorf("of the buffer beyond the memory it says %q, %v", why, err)
	}
}

// Every import of the ABI is answered by something, in both kinds.
func TestStoreImportsAreWhole(t *testing.T) {
	for _, kind := range []storeKind{sqliteLent, sqliteInside} {
		for _, m := range storeImports(kind) {
			for _, f := range m.funcs {
				if m.answers[f.Name] == nil {
					t.Errorf("nothing answers %s.%s", m.name, f)
				}
			}
			if len(m.answers) != len(m.funcs) {
				t.Errorf("%s has %d functions, and %d answers", m.name, len(m.funcs), len(m.answers))
			}
		}
	}
}
