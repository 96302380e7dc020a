package sessionstate

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"

	"pistate/internal/sqlite"
)

// scopeID names what is loaded into the cache at once: the rows of one plugin in one session.
type scopeID struct{ plugin, session string }

// scope is the cached rows of one plugin in one session. The values are never changed in place, so a
// reader copies one after it has let go of the lock.
type scope struct {
	scopeID
	size *cacheSize

	mu      sync.RWMutex
	values  map[string][]byte // by branch; nil: not loaded
	version int64             // the database's data version when they were loaded; coherent reads only
	changes uint64            // counts what this process has committed; a load that it overtakes is done again
	pending []byte            // a value that was written before there was a key (Y7)

	loading sync.Mutex // one load at a time
}

// cacheSize is how much the caches of all scopes hold together.
type cacheSize struct {
	bytes atomic.Int64
	limit int64
}

// trim empties every scope but one if the cache has grown too large. Which scopes will be read again is
// anybody's guess, and emptying them all keeps reading free of bookkeeping.
func (s *shared) trim(keep *scope) {
	if s.cache.bytes.Load() <= s.cache.limit {
		return
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, sc := range s.scopes {
		if sc != keep {
			sc.invalidate()
		}
	}
}

const selectScope = `
	SELECT branch_id, value
	  FROM state
	 WHERE plugin_id  = ?1
	   AND session_id = ?2`

func (s *shared) scope(id scopeID) *scope {
	s.mu.RLock()
	sc := s.scopes[id]
	s.mu.RUnlock()
	if sc != nil {
		return sc
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sc = s.scopes[id]; sc == nil {
		sc = &scope{scopeID: id, size: &s.cache}
		s.scopes[id] = sc
	}
	return sc
}

// lookup returns the first cached value of keys; loaded is false if the cache can't tell.
func (sc *scope) lookup(keys ...string) (value []byte, key string, loaded bool) {
	sc.mu.RLock()
	defer sc.mu.RUnlock()
	for _, k := range keys {
		if v, ok := sc.values[k]; ok {
			return v, k, true
		}
	}
	return nil, "", sc.values != nil
}

// load fills the cache from the database, unless it is filled and as new as version.
func (sc *scope) load(ctx context.Context, db *sqlite.DB, version int64) error {
	sc.loading.Lock()
	defer sc.loading.Unlock()
	for {
		sc.mu.RLock()
		fresh, changes := sc.values != nil && sc.version >= version, sc.changes
		sc.mu.RUnlock()
		if fresh {
			return nil
		}
		values := map[string][]byte{}
		err := db.Read(ctx, func(rx *sqlite.Rx) error {
			return rx.Query(selectScope, func(r sqlite.Row) error {
				values[r.Text(0)] = r.Bytes(1)
				return nil
			}, sc.plugin, sc.session)
		})
		if err != nil {
			return err
		}
		if sc.fill(values, version, changes) {
			return nil
		}
	}
}

// fill takes what was read, unless a commit of this process may have come after the snapshot.
func (sc *scope) fill(values map[string][]byte, version int64, changes uint64) bool {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.changes != changes {
		return false
	}
	sc.replace(values)
	sc.version = version
	return true
}

// replace puts other values into the cache, or none.
func (sc *scope) replace(values map[string][]byte) {
	var grown int64
	for _, v := range sc.values {
		grown -= int64(len(v))
	}
	for _, v := range values {
		grown += int64(len(v))
	}
	sc.values = values
	sc.size.bytes.Add(grown)
}

// put records a committed row; a nil value records that there is none.
func (sc *scope) put(key string, value []byte) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.changes++
	if sc.values == nil {
		return
	}
	sc.size.bytes.Add(int64(len(value) - len(sc.values[key])))
	if value == nil {
		delete(sc.values, key)
	} else {
		sc.values[key] = value
	}
}

func (sc *scope) invalidate() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.replace(nil)
	sc.changes++ // a load that is under way may have read what was to be dropped
}

func (sc *scope) setPending(value []byte) {
	sc.mu.Lock()
	sc.pending = value
	sc.mu.Unlock()
}

// settle forgets a value that waited for its key and has landed or was superseded, unless another one has
// taken its place meanwhile.
func (sc *scope) settle(pending []byte) {
	if pending != nil {
		sc.comparePending(pending, nil)
	}
}

// comparePending sets the pending value if it still is the one given, and returns the one that was found.
func (sc *scope) comparePending(old, value []byte) (found []byte, ok bool) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if !sameValue(sc.pending, old) {
		return sc.pending, false
	}
	sc.pending = value
	return old, true
}

// sameValue compares values as the bytes that are stored; nil stands for absence.
func sameValue(a, b []byte) bool {
	return (a == nil) == (b == nil) && bytes.Equal(a, b)
}
