package host

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"pistate/internal/wasmbuild"
	"pistate/schema"
	"pistate/sessionstate"
)

// subject is a host to be exercised, and what there is outside of its engine.
type subject struct {
	host    *Host
	outside outside
}

// engines are all engines that a host can have, by the names that subtests give them.
var engines = []struct {
	name  string
	start func(testing.TB) subject
}{
	{"native", func(t testing.TB) subject {
		path := databasePath(t)
		return subject{nativeHost(t, path), sharedFile{path}}
	}},
	{"wasm", func(t testing.TB) subject {
		path := databasePath(t)
		s := openWasmStore(t, wasmbuild.Store(t), StoreConfig{Path: path})
		return subject{hostOver(t, s.Engine()), sharedFile{path}}
	}},
	{"wasm-sqlite-memory", func(t testing.TB) subject {
		s := openWasmStore(t, wasmbuild.StoreSQLite(t), StoreConfig{Memory: true})
		return subject{hostOver(t, s.Engine()), insideOnly{s}}
	}},
	{"wasm-sqlite-file", func(t testing.TB) subject {
		o := &ownedFile{path: databasePath(t)}
		o.open(t)
		t.Cleanup(func() { o.now().Close() })
		return subject{hostOver(t, o.engine(t)), o}
	}},
}

// openWasmStore opens a database with a store module; a sessions database unless cfg says otherwise.
func openWasmStore(t testing.TB, wasm []byte, cfg StoreConfig) *WasmStore {
	t.Helper()
	s, err := OpenStore(context.Background(), wasm, testConfig(t, wasm, cfg))
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

// testConfig fills in a configuration. Tests with the same module share its code through the cache directory, and
// from their first to their last in memory: reading it from the directory takes half a second.
func testConfig(t testing.TB, wasm []byte, cfg StoreConfig) StoreConfig {
	t.Helper()
	if cfg.Database == "" {
		cfg.Database = SessionsDatabase
	}
	cfg.CacheDir = wasmbuild.CacheDir(t, wasm)
	if cfg.MemoryPages != 0 {
		return cfg
	}
	cfg.MemoryPages = defaultStorePages
	keep, _ := keptCode.LoadOrStore(sha256.Sum256(wasm), sync.OnceValue(func() error {
		_, err := acquireStoreCode(context.Background(), wasm, cfg)
		return err
	}))
	if err := keep.(func() error)(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

var keptCode sync.Map // digest to func() error

// outside is how the suite looks at what is stored, and does what another program would, past the extension.
type outside interface {
	// stored returns what a plugin's scope holds at a place, "" if nothing; store puts a value there.
	stored(t testing.TB, plugin string, scope sessionstate.Scope, sc sessionstate.SessionContext) string
	store(t testing.TB, plugin string, scope sessionstate.Scope, sc sessionstate.SessionContext, value string)

	// add adds to every count of a session, as another process would. It returns what was really added: 0 where
	// others are kept out, which it makes sure of.
	add(t testing.TB, session string, n int) int

	// plant stores a session value that the store itself refuses, and lock gives a session's lock to another
	// process that lives. They report false where nobody but the engine could do that, which they make sure of.
	plant(t testing.TB, plugin, session, value string) bool
	lock(t testing.TB, session string) bool
}

// sharedFile is the outside of an engine that shares its file: the native store and SQLite, at the same time.
type sharedFile struct{ path string }

func (o sharedFile) stored(t testing.TB, plugin string, scope sessionstate.Scope, sc sessionstate.SessionContext) string {
	t.Helper()
	s, err := sessionstate.New(openStore(t, o.path), sessionstate.Config{PluginID: plugin, Scope: scope, Coherent: true})
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := s.Read(context.Background(), sc)
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

func (o sharedFile) store(t testing.TB, plugin string, scope sessionstate.Scope, sc sessionstate.SessionContext, value string) {
	t.Helper()
	store(t, o.path, plugin, scope, sc, value)
}

func (o sharedFile) add(t testing.TB, session string, n int) int {
	t.Helper()
	mustExec(t, rawConn(t, o.path), addTo(session, n))
	return n
}

func addTo(session string, n int) string {
	return fmt.Sprintf(`UPDATE state SET value = value + %d WHERE session_id = '%s'`, n, session)
}

func (o sharedFile) plant(t testing.TB, plugin, session, value string) bool {
	t.Helper()
	plant(t, o.path, plugin, session, value)
	return true
}

func (o sharedFile) lock(t testing.TB, session string) bool {
	t.Helper()
	foreignLock(t, o.path, session)
	return true
}

// insideOnly is all there is of a database in memory: what the engine itself shows, and that nobody else is there.
type insideOnly struct{ db *WasmStore }

func (o insideOnly) stored(t testing.TB, plugin string, scope sessionstate.Scope, sc sessionstate.SessionContext) string {
	t.Helper()
	return storedIn(t, o.db, plugin, scope, sc)
}

func (o insideOnly) store(t testing.TB, plugin string, scope sessionstate.Scope, sc sessionstate.SessionContext, value string) {
	t.Helper()
	if err := stateIn(t, o.db, plugin, scope).Write(context.Background(), sc, json.RawMessage(value)); err != nil {
		t.Fatal(err)
	}
}

func (insideOnly) add(testing.TB, string, int) int { return 0 }

// The one way in is closed for what isn't JSON.
func (o insideOnly) plant(t testing.TB, plugin, session, value string) bool {
	t.Helper()
	err := stateIn(t, o.db, plugin, sessionstate.ScopeSession).Write(context.Background(), sessionstate.At(session, "", nil), json.RawMessage(value))
	if !errors.Is(err, schema.Invalid) {
		t.Errorf("storing %q: %v", value, err)
	}
	return false
}

// Every lock is of this process and gone with the write that took it.
func (o insideOnly) lock(t testing.TB, session string) bool {
	t.Helper()
	answer := string(o.db.Call(context.Background(), []byte(`{"op":"session.status"}`)))
	if !strings.HasPrefix(answer, `{"ok":true,`) || !strings.Contains(answer, `"locks":[]`) {
		t.Errorf("status is %s", answer)
	}
	return false
}

func stateIn(t testing.TB, db *WasmStore, plugin string, scope sessionstate.Scope) state {
	t.Helper()
	states, err := db.Engine().open(plugin)
	if err != nil {
		t.Fatal(err)
	}
	if scope == sessionstate.ScopeBranch {
		return states.branch
	}
	return states.session
}

func storedIn(t testing.TB, db *WasmStore, plugin string, scope sessionstate.Scope, sc sessionstate.SessionContext) string {
	t.Helper()
	value, found, err := stateIn(t, db, plugin, scope).Read(context.Background(), sc)
	if err != nil {
		t.Fatal(err)
	}
	if found != (value != nil) {
		t.Fatalf("found is %v with value %q", found, value)
	}
	return string(value)
}

// ownedFile is the outside of an engine that has its file to itself. While it is open, others get BUSY; it is
// closed for what others are to do, and opened again behind the host's back.
type ownedFile struct {
	path string

	mu sync.Mutex
	db *WasmStore

	looked []look // by the running test
}

func (o *ownedFile) open(t testing.TB) {
	t.Helper()
	var err error
	o.db, err = OpenStore(context.Background(), wasmbuild.StoreSQLite(t), testConfig(t, wasmbuild.StoreSQLite(t), StoreConfig{Path: o.path}))
	if err != nil {
		t.Fatal(err)
	}
}

// handOver closes the database, lets others have it and opens it again.
func (o *ownedFile) handOver(t testing.TB, others func()) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.db.Close(); err != nil {
		t.Fatal(err)
	}
	others()
	o.open(t)
}

func (o *ownedFile) now() *WasmStore {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.db
}

// engine is the engine of whatever is open at the moment.
func (o *ownedFile) engine(t testing.TB) Engine {
	return Engine{open: func(plugin string) (states, error) {
		_, err := o.now().Engine().open(plugin)
		return states{
			session: ownedState{t, o, plugin, sessionstate.ScopeSession},
			branch:  ownedState{t, o, plugin, sessionstate.ScopeBranch},
		}, err
	}}
}

type ownedState struct {
	t      testing.TB
	o      *ownedFile
	plugin string
	scope  sessionstate.Scope
}

func (s ownedState) state() state { return stateIn(s.t, s.o.now(), s.plugin, s.scope) }

func (s ownedState) Read(ctx context.Context, sc sessionstate.SessionContext) (json.RawMessage, bool, error) {
	return s.state().Read(ctx, sc)
}

func (s ownedState) Write(ctx context.Context, sc sessionstate.SessionContext, value json.RawMessage) error {
	return s.state().Write(ctx, sc, value)
}

func (s ownedState) Drop(ctx context.Context, sc sessionstate.SessionContext) error {
	return s.state().Drop(ctx, sc)
}

func (s ownedState) CompareAndWrite(ctx context.Context, sc sessionstate.SessionContext, old, value json.RawMessage) error {
	return s.state().CompareAndWrite(ctx, sc, old, value)
}

func (s ownedState) BranchKey(sc sessionstate.SessionContext) (string, bool, error) {
	return s.state().BranchKey(sc)
}

// stored is what the engine says. Whether that is also what is in the file is seen at the end of the test, for
// all that it has looked at.
func (o *ownedFile) stored(t testing.TB, plugin string, scope sessionstate.Scope, sc sessionstate.SessionContext) string {
	t.Helper()
	if o.looked == nil {
		t.Cleanup(func() { o.compare(t) })
	}
	o.looked = append(o.looked, look{plugin, scope, sc})
	return storedIn(t, o.now(), plugin, scope, sc)
}

// look is where a test has looked.
type look struct {
	plugin string
	scope  sessionstate.Scope
	sc     sessionstate.SessionContext
}

func (o *ownedFile) compare(t testing.TB) {
	t.Helper()
	looked := o.looked
	o.looked = nil
	said := make([]string, len(looked))
	for i, at := range looked {
		said[i] = storedIn(t, o.now(), at.plugin, at.scope, at.sc)
	}
	o.handOver(t, func() {
		for i, at := range looked {
			if have := readNatively(t, o.path, at.plugin, at.scope, at.sc); said[i] != have {
				t.Errorf("the engine says %q, and %q is in the file", said[i], have)
			}
		}
	})
}

func readNatively(t testing.TB, path, plugin string, scope sessionstate.Scope, sc sessionstate.SessionContext) string {
	t.Helper()
	db, err := sessionstate.Open(context.Background(), path, sessionstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() // before the engine has it again
	s, err := sessionstate.New(db, sessionstate.Config{PluginID: plugin, Scope: scope})
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := s.Read(context.Background(), sc)
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

func (o *ownedFile) store(t testing.TB, plugin string, scope sessionstate.Scope, sc sessionstate.SessionContext, value string) {
	t.Helper()
	insideOnly{o.now()}.store(t, plugin, scope, sc, value)
}

// Z2: who comes while the engine has the file gets BUSY, and has changed nothing.
func (o *ownedFile) add(t testing.TB, session string, n int) int {
	t.Helper()
	conn, err := sqlite3.Open(o.path)
	if err == nil {
		defer conn.Close()
		err = conn.Exec(addTo(session, n))
	}
	if !errors.Is(err, sqlite3.BUSY) {
		t.Errorf("another program that writes: %v, want BUSY", err)
	}
	return 0
}

func (o *ownedFile) plant(t testing.TB, plugin, session, value string) bool {
	t.Helper()
	o.alone(t, func(conn *sqlite3.Conn) error {
		return execWith(conn, `INSERT INTO state (plugin_id, session_id, branch_id, value) VALUES (?, ?, '', ?)`, plugin, session, value)
	})
	return true
}

func (o *ownedFile) lock(t testing.TB, session string) bool {
	t.Helper()
	o.alone(t, func(conn *sqlite3.Conn) error {
		return execWith(conn, insertLock, session, fmt.Sprintf("pid:%d", os.Getppid()), time.Now().UnixMilli())
	})
	return true
}

// alone hands the file to a connection of SQLite's.
func (o *ownedFile) alone(t testing.TB, use func(*sqlite3.Conn) error) {
	t.Helper()
	o.handOver(t, func() {
		conn, err := sqlite3.Open(o.path)
		if err == nil {
			err = errors.Join(use(conn), conn.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

// wantLock fails the test unless an error says who holds a session's lock: the cause is the same on every engine.
func wantLock(t testing.TB, err error, session string) {
	t.Helper()
	lock, ok := errors.AsType[*sessionstate.LockError](err)
	if !ok {
		t.Errorf("error %v has no *LockError", err)
		return
	}
	age := time.Since(lock.Since)
	if lock.Object != session || lock.Holder != fmt.Sprintf("pid:%d", os.Getppid()) || lock.Initiator != fmt.Sprintf("pid:%d", os.Getpid()) ||
		lock.Action != "write" || age < 0 || age > time.Hour || !lock.Until.Equal(lock.Since.Add(sessionstate.Lease)) || lock.Reason == "" {
		t.Errorf("the lock is %+v", *lock)
	}
}
