package sessionstate

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// MaxValueBytes is the largest value that is stored.
const MaxValueBytes = 64 << 20

// Options are the settings of a [Store]. The zero value is right for most programs. Of the stores that share
// one path, the first one's options hold.
type Options struct {
	// CacheBytes bounds the values that the cache holds, in bytes; what would go beyond it empties the cache
	// of everything else first. Zero means 64 MiB.
	CacheBytes int64

	// Now is the clock that dates lock rows and judges their age; nil means time.Now.
	Now func() time.Time
}

const defaultCacheBytes = 64 << 20

// Store is one states.sqlite, open for writing. It is safe for concurrent use.
type Store struct {
	*shared
	closed atomic.Bool
}

// shared is the one store of a path in this process (Y10): its connection, cache and holds.
type shared struct {
	db     *sqlite.DB
	now    func() time.Time
	holder string // this process in lock rows
	cache  cacheSize

	mu     sync.RWMutex
	scopes map[scopeID]*scope
	holds  map[string]*hold // by session

	refs int // guarded by stores.mu
}

// stores are the open stores by resolved path.
var stores = struct {
	mu   sync.Mutex
	open map[string]*shared
}{open: map[string]*shared{}}

// Open opens the session-state database at an absolute path and creates it, with its directory, if it is
// missing. Opening a path again, by whatever spelling or link, gives another handle of the same store; the
// database is closed with the last of them.
//
// Errors: [schema.Invalid] for a path that can't be one, [schema.Incompatible] for a database with other
// tables, [schema.Replaced] while a handle is open that has found its file replaced, [schema.Corrupt],
// [schema.Busy], [schema.Storage].
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	if path != "" && !filepath.IsAbs(path) {
		return nil, schema.Errorf(schema.Invalid, "database path %q is relative: give an absolute path", path)
	}
	switch {
	case opts.CacheBytes < 0:
		return nil, schema.Errorf(schema.Invalid, "cache of %d bytes: it can't be negative; 0 means the default", opts.CacheBytes)
	case opts.CacheBytes == 0:
		opts.CacheBytes = defaultCacheBytes
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	resolved, err := sqlite.Resolve(path)
	if err != nil {
		return nil, err
	}
	stores.mu.Lock()
	defer stores.mu.Unlock()
	s := stores.open[resolved]
	if s != nil {
		// A new store beside one whose file was replaced would share its -wal and -shm. It has to go first.
		if err := s.db.Err(); err != nil {
			return nil, err
		}
	} else {
		db, err := sqlite.Open(ctx, resolved, sqlite.Schema{Create: create, Unfinished: unfinished, Verify: verify})
		if err != nil {
			return nil, err
		}
		s = &shared{
			db:     db,
			now:    opts.Now,
			holder: holderOf(processID()),
			cache:  cacheSize{limit: opts.CacheBytes},
			scopes: map[scopeID]*scope{},
			holds:  map[string]*hold{},
		}
		stores.open[resolved] = s
	}
	s.refs++
	return &Store{shared: s}, nil
}

func create(tx *sqlite.Tx) error { return tx.Script(schema.SessionDDL()) }

func unfinished(rx *sqlite.Rx) (bool, error) { return schema.SessionUnfinished(rx) }

func verify(rx *sqlite.Rx) error { return schema.VerifySession(rx) }

// Path returns the database's path with every link followed.
func (st *Store) Path() string { return st.db.Path() }

// Close gives the handle back. The last handle of a path closes the database; values that were written
// before their session had a key are then gone. Closing twice is harmless.
func (st *Store) Close() error {
	stores.mu.Lock()
	defer stores.mu.Unlock()
	if st.closed.Swap(true) {
		return nil
	}
	if st.refs--; st.refs > 0 {
		return nil
	}
	delete(stores.open, st.db.Path())
	return st.db.Close()
}

// checkOpen returns an error once this handle was closed, though other handles may keep the database open.
func (st *Store) checkOpen() error {
	if st.closed.Load() {
		return schema.Errorf(schema.Closed, "%s: the store is closed", st.Path())
	}
	return nil
}

// Refresh drops the cache, so that the next reads see what other processes have written. Values that wait
// for their key stay.
func (st *Store) Refresh() {
	st.mu.RLock()
	defer st.mu.RUnlock()
	for _, sc := range st.scopes {
		sc.invalidate()
	}
}

// ForceRefresh drops the cache and deletes the session's lock row, whoever holds it: the way out for a
// person who knows that the holder is gone. A Hold of this session that is still going on fails at its next
// write with [schema.StaleClaim].
func (st *Store) ForceRefresh(ctx context.Context, sessionID string) error {
	if err := CheckSessionID(sessionID); err != nil {
		return err
	}
	if err := st.checkOpen(); err != nil {
		return err
	}
	st.Refresh()
	return st.db.Write(ctx, func(tx *sqlite.Tx) error {
		_, err := tx.Exec(deleteLock, sessionID)
		return err
	}, func() {
		st.mu.Lock()
		defer st.mu.Unlock()
		delete(st.holds, sessionID)
	})
}

func holderOf(pid int) string { return "pid:" + strconv.Itoa(pid) }
