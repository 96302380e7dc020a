package host

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// The databases that a store module can open.
const (
	SessionsDatabase = "sessions" // session state: what [WasmStore.Engine] keeps for extensions
	WorkflowDatabase = "workflow" // the workflow database: what [WasmStore.Call] commands
)

// StoreConfig says which database a store module opens, and with what around it. Database and one of Path and
// Memory are required; everything else has a default.
type StoreConfig struct {
	Database string // [SessionsDatabase] or [WorkflowDatabase]

	// Path is the absolute path of the database, the one file, with SQLite's files beside it, that the module
	// reaches (Z2). It is created, with its directory, if it is missing.
	Path string

	// Memory keeps the database in the module's memory instead, and it is gone with its last handle.
	// Only store-sqlite.wasm can do that.
	Memory bool

	// CacheDir keeps the compiled code from one process to the next: see [Options.CacheDir]. Without it
	// store.wasm compiles for seconds at each start, and store-sqlite.wasm for up to a minute.
	CacheDir string

	// MemoryPages is the most memory that the module's instance can have, in pages of 64 KiB, 65535 at most.
	// What doesn't fit fails with [schema.Storage] or [schema.Limit], and the instance is made anew. Default 32768,
	// which is 2 GiB: a value may have 64 MiB, and is copied many times on its way; by store-sqlite.wasm most often.
	MemoryPages uint32

	// Incoherent lets a read of session state come from the cache without a look at whether another process
	// has written since (Y12): it is right where nobody else writes, or where the embedder asks for
	// session.refresh in time. It makes cached reads several times faster. What store-sqlite.wasm opens has no
	// other writer, and is read so in any case.
	Incoherent bool

	// CacheBytes bounds the values of session state that the module caches, in bytes. Zero means its own
	// default of 64 MiB.
	CacheBytes int64

	// Now is the clock of everything that is stored, and Random where ids, tokens and jitter come from: the same
	// clock and source give the same bytes as natively. nil means the system's. They are used during calls,
	// by one goroutine at a time, and must not use the store.
	Now    func() time.Time
	Random io.Reader

	AppVersion string // noted in a workflow database that is created; "": unknown
}

const defaultStorePages = 32768

// withDefaults checks the configuration and fills it in.
func (cfg StoreConfig) withDefaults() (StoreConfig, error) {
	switch {
	case cfg.Database != SessionsDatabase && cfg.Database != WorkflowDatabase:
		return cfg, schema.Errorf(schema.Invalid, "database %q: it is %q or %q", cfg.Database, SessionsDatabase, WorkflowDatabase)
	case cfg.Memory && cfg.Path != "":
		return cfg, schema.Errorf(schema.Invalid, "database path %q: a database in memory has none", cfg.Path)
	case !cfg.Memory && cfg.Path == "":
		return cfg, schema.Errorf(schema.Invalid, "no database path: give one, or ask for a database in memory")
	case !cfg.Memory && !filepath.IsAbs(cfg.Path):
		return cfg, schema.Errorf(schema.Invalid, "database path %q is relative: give an absolute path", cfg.Path)
	case cfg.MemoryPages > maxMemoryPages:
		return cfg, schema.Errorf(schema.Invalid, "MemoryPages is %d: it can be at most %d", cfg.MemoryPages, maxMemoryPages)
	case cfg.CacheBytes < 0:
		return cfg, schema.Errorf(schema.Invalid, "CacheBytes is %d: it can't be negative; 0 means the default", cfg.CacheBytes)
	}
	if cfg.MemoryPages == 0 {
		cfg.MemoryPages = defaultStorePages
	}
	if cfg.Memory {
		cfg.Path = "memory" // what messages call it
		return cfg, nil
	}
	var err error
	cfg.Path, err = sqlite.Resolve(cfg.Path)
	return cfg, err
}

// WasmStore is a database that a store module keeps: the product's own logic, compiled to WebAssembly, in an
// instance of its own that reaches this one database and nothing else (Z1, Z2). It behaves as the native stores
// do, and writes the same bytes. It is safe for concurrent use: calls are carried out one after another.
//
// An instance that traps, by a fault in it or for want of memory, fails the call with [schema.Storage] and is
// thrown away, with what it had open in SQLite; the next call makes a new one. What was committed stays;
// branch values that were waiting for their session's first entry are gone.
type WasmStore struct {
	db     *storeDatabase
	closed atomic.Bool
}

// OpenStore opens a database with a store module: store.wasm, which is lent this process's SQLite and so
// shares the file with native processes, or store-sqlite.wasm, which brings its own and has the file to
// itself. Which one it is is told by what it imports. The code is compiled once and shared by all databases that
// are open with it; opening a path again gives another handle of the same database, with the options of the
// first, whatever the later ones say.
//
// A session lock that this process holds through the native store is not respected by the module, nor the other
// way round: each takes a lock of its own process for one that was left over. One process keeps a sessions
// database open in one way.
//
// ctx ends the compilation and the opening, not the store. The bytes must not be changed afterwards.
//
// Errors: [schema.Invalid] for a configuration that can't be, for what is no store module, and for a path that is
// open with another build of the module;
// [schema.Incompatible] for a database with other tables or of another version; [schema.Busy] for one that
// another process has to itself; [schema.Canceled], [schema.Corrupt], [schema.Storage].
func OpenStore(ctx context.Context, wasm []byte, cfg StoreConfig) (*WasmStore, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := prepareCacheDir(cfg.CacheDir); err != nil {
		return nil, err
	}
	code, err := acquireStoreCode(ctx, wasm, cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Memory && code.kind != sqliteInside {
		return nil, errors.Join(
			schema.Errorf(schema.Invalid, "this store module has no SQLite of its own: it can't keep a database in memory; use store-sqlite.wasm"),
			code.release())
	}
	db, err := acquireStoreDatabase(code, cfg)
	if err != nil {
		return nil, err
	}
	return db.open(ctx)
}

// open makes a handle of a reference. An instance is made if there is none.
func (d *storeDatabase) open(ctx context.Context) (s *WasmStore, err error) {
	defer func() {
		if s == nil { // the goroutine may also have ended in the embedder's clock
			err = errors.Join(err, d.release())
		}
	}()
	in, err := d.enter(ctx)
	if err != nil {
		return nil, err
	}
	d.leave(in)
	return &WasmStore{db: d}, nil
}

// Engine returns the store as the place where a [Host] keeps the state of its extensions. Close the host before
// the store. A session's tree is asked while the store is in use, and must not use it itself.
func (s *WasmStore) Engine() Engine { return Engine{open: s.states} }

// Call carries out a request in its JSON form and returns the answer, on one line: commands and queries
// of a workflow database as store.Dispatch does (docs/protocol.md has them); session.status,
// session.refresh and session.force_refresh of a sessions database. Like Dispatch it never fails otherwise
// than in its answer.
func (s *WasmStore) Call(ctx context.Context, request []byte) []byte {
	in, err := s.enter(ctx)
	if err != nil {
		return refused(err)
	}
	defer s.db.leave(in)
	answer, err := in.request(request)
	if err != nil {
		return refused(err)
	}
	return answer
}

// Path returns the database's path with every link followed; "memory" for one in memory.
func (s *WasmStore) Path() string { return s.db.cfg.Path }

// Close gives the handle back, after the calls that have begun. The last handle of a database closes it and
// gives all its memory back. Closing twice is harmless.
func (s *WasmStore) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.db.release()
}

// enter takes the instance for one call.
func (s *WasmStore) enter(ctx context.Context) (*storeInstance, error) {
	if s.closed.Load() {
		return nil, schema.Errorf(schema.Closed, "%s: the store is closed", s.Path())
	}
	return s.db.enter(ctx)
}

// storeDatabase is one database that is open in this process through a store module, with its one instance.
type storeDatabase struct {
	code *storeCode
	cfg  StoreConfig
	turn chan struct{} // holds one token while a call is in the instance

	// Of whoever has the turn.
	in     *storeInstance // nil: to be made
	closed bool

	refs int // guarded by storeDatabases.mu
}

// databaseKey tells which opened databases are the same one. Databases in memory never are. Two instances that are lent
// one database would take each other's session locks for left over, being of one process; what brings its own
// SQLite keeps others out by itself.
type databaseKey struct {
	kind           storeKind
	database, path string
}

// storeDatabases are the open databases that have a path.
var storeDatabases = struct {
	mu   sync.Mutex
	open map[databaseKey]*storeDatabase
}{open: map[databaseKey]*storeDatabase{}}

// acquireStoreDatabase returns the database of a configuration, with one more reference. It takes over the
// reference of code. Of a database that is open, the code and the configuration are those that it was opened with.
func acquireStoreDatabase(code *storeCode, cfg StoreConfig) (*storeDatabase, error) {
	storeDatabases.mu.Lock()
	defer storeDatabases.mu.Unlock()
	fresh := &storeDatabase{code: code, cfg: cfg, turn: make(chan struct{}, 1), refs: 1}
	if cfg.Memory {
		return fresh, nil
	}
	key := fresh.key()
	if d := storeDatabases.open[key]; d != nil {
		if d.code.key.digest != code.key.digest {
			return nil, errors.Join(
				schema.Errorf(schema.Invalid, "%s is open in this process with another build of the store module: use the same, or close it first", cfg.Path),
				code.release())
		}
		d.refs++
		return d, code.release()
	}
	storeDatabases.open[key] = fresh
	return fresh, nil
}

func (d *storeDatabase) key() databaseKey {
	return databaseKey{d.code.kind, d.cfg.Database, d.cfg.Path}
}

// release gives one reference back; the last one closes the database.
func (d *storeDatabase) release() error {
	storeDatabases.mu.Lock()
	d.refs--
	last := d.refs == 0
	if last && storeDatabases.open[d.key()] == d { // one in memory is not there
		delete(storeDatabases.open, d.key())
	}
	storeDatabases.mu.Unlock()
	if !last {
		return nil
	}
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	d.closed = true
	var err error
	if d.in != nil {
		err = d.in.close(context.Background())
	}
	return errors.Join(err, d.code.release())
}

// enter waits for the turn and returns the instance, which it makes if there is none. The same goroutine must
// give it back with leave.
func (d *storeDatabase) enter(ctx context.Context) (in *storeInstance, err error) {
	if err := ctx.Err(); err != nil {
		return nil, notBegun(ctx)
	}
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, notBegun(ctx)
	}
	defer func() {
		if in == nil { // the goroutine may also have ended in the embedder's clock
			<-d.turn
		}
	}()
	if d.closed {
		return nil, schema.Errorf(schema.Closed, "%s: the store is closed", d.cfg.Path)
	}
	if d.in == nil {
		if d.in, err = d.code.newInstance(ctx, d.cfg); err != nil {
			return nil, err
		}
	}
	d.in.begin(ctx)
	return d.in, nil
}

func notBegun(ctx context.Context) error {
	return schema.Errorf(schema.Canceled, "the call was not begun: %w", context.Cause(ctx))
}

// leave ends a call. An instance that trapped, or that was left in the middle of something, is not to be used again.
func (d *storeDatabase) leave(in *storeInstance) {
	if !in.end() {
		in.discard()
		d.in = nil
	}
	<-d.turn
}
