package sessionstate

import (
	"bytes"
	"context"
	"math"
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
	keyless *keyless          // a value that was written before there was a key (Y7); nil: none

	loading sync.Mutex      // one load at a time
	late    map[string]bool // branches that this process has written during the load; nil: there is no load
	dropped bool            // the cache was dropped during the load
}

// cacheSize is how much the caches of all scopes hold together.
type cacheSize struct {
	bytes atomic.Int64
	limit int64
}

// trim empties every scope but one if the cache has grown too large, by a load or by a write. Which scopes
// will be read again is anybody's guess, and emptying them all keeps reading free of bookkeeping.
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

// What a read may ask of the cache instead of a data version.
const (
	anyVersion   int64 = 0
	newerThanAny int64 = math.MaxInt64 // the rows must be read, and then count as of any version
)

// cached returns the first value that is cached under one of keys, nil for none; known is false if the cache
// can't tell, because it isn't loaded or is older than version.
func (sc *scope) cached(version int64, keys ...string) (value []byte, known bool) {
	sc.mu.RLock()
	defer sc.mu.RUnlock()
	if sc.values == nil || sc.version < version {
		return nil, false
	}
	return first(sc.values, keys), true
}

func first(values map[string][]byte, keys []string) []byte {
	for _, k := range keys {
		if v, ok := values[k]; ok {
			return v
		}
	}
	return nil
}

// find is cached, but loads what the cache doesn't know. The answer is part of what was loaded, and so is
// right even if the cache is dropped at the same moment: not knowing never looks like an absence (Y8).
func (s *shared) find(ctx context.Context, sc *scope, version int64, keys ...string) (value []byte, err error) {
	if v, known := sc.cached(version, keys...); known {
		return v, nil
	}
	sc.loading.Lock()
	defer sc.loading.Unlock()
	if v, known := sc.cached(version, keys...); known {
		return v, nil // another reader has loaded it meanwhile
	}
	value, err = sc.load(ctx, s.db, version, keys)
	s.trim(sc)
	return value, err
}

// load reads all rows into the cache and returns the first value under one of keys. What this process commits
// meanwhile may be older or newer than what was read; those rows alone are read again, so that a large
// scope can be loaded while it is written to.
func (sc *scope) load(ctx context.Context, db *sqlite.DB, version int64, keys []string) (value []byte, err error) {
	sc.watch()
	values := map[string][]byte{}
	err = db.Read(ctx, func(rx *sqlite.Rx) error {
		return rx.Query(selectScope, func(r sqlite.Row) error {
			values[r.Text(0)] = r.Bytes(1)
			return nil
		}, sc.plugin, sc.session)
	})
	for err == nil {
		value, late := sc.fill(values, version, keys)
		if late == nil {
			return value, nil
		}
		err = db.Read(ctx, func(rx *sqlite.Rx) error { return sc.readAgain(rx, values, late) })
	}
	sc.mu.Lock()
	sc.late = nil
	sc.mu.Unlock()
	return nil, err
}

// watch begins to note what this process commits.
func (sc *scope) watch() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.late, sc.dropped = map[string]bool{}, false
}

// fill takes what was read and ends the watch, unless there are rows to be read again. What was dropped
// meanwhile may be what was read, and is not kept.
func (sc *scope) fill(values map[string][]byte, version int64, keys []string) (value []byte, late map[string]bool) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if len(sc.late) > 0 {
		late, sc.late = sc.late, map[string]bool{}
		return nil, late
	}
	sc.late = nil
	if !sc.dropped {
		sc.replace(values)
		if sc.version = version; version == newerThanAny {
			sc.version = anyVersion
		}
	}
	return first(values, keys), nil
}

func (sc *scope) readAgain(rx *sqlite.Rx, values map[string][]byte, branches map[string]bool) error {
	for branch := range branches {
		delete(values, branch)
		_, err := rx.QueryRow(selectValue, func(r sqlite.Row) error {
			values[branch] = r.Bytes(0)
			return nil
		}, sc.plugin, sc.session, branch)
		if err != nil {
			return err
		}
	}
	return nil
}

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
func (s *shared) put(sc *scope, key string, value []byte) {
	sc.put(key, value)
	s.trim(sc)
}

func (sc *scope) put(key string, value []byte) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.late != nil {
		sc.late[key] = true
	}
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
	sc.dropped = true
}

// keyless is a value that waits for its key. The scope's lock guards it.
type keyless struct {
	value      []byte
	superseded int // keyed writes of it that are in a transaction, not yet known to have committed
}

func newKeyless(value []byte) *keyless {
	if value == nil {
		return nil
	}
	return &keyless{value: value}
}

func (sc *scope) setKeyless(value []byte) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.keyless = newKeyless(value)
}

// compareKeyless sets the value that waits if it still is the one given, and returns the one that was found.
func (sc *scope) compareKeyless(old, value []byte) (found []byte, ok bool) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.keyless != nil {
		found = sc.keyless.value
	}
	if !sameValue(found, old) {
		return found, false
	}
	sc.keyless = newKeyless(value)
	return found, true
}

// mayLand reports, inside the transaction that is to write it, whether a value still waits: it may have landed
// or been superseded since it was looked at, even by a part of the same transaction.
func (sc *scope) mayLand(k *keyless) bool {
	sc.mu.RLock()
	defer sc.mu.RUnlock()
	return sc.keyless == k && k.superseded == 0
}

// supersede counts a keyed write, by 1 inside its transaction and by -1 if nothing came of it.
func (sc *scope) supersede(k *keyless, by int) {
	if k == nil {
		return
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	k.superseded += by
}

// settle forgets a value that has landed or was superseded, unless another one has taken its place meanwhile.
func (sc *scope) settle(k *keyless) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.keyless == k {
		sc.keyless = nil
	}
}

// sameValue compares values as the bytes that are stored; nil stands for absence.
func sameValue(a, b []byte) bool {
	return (a == nil) == (b == nil) && bytes.Equal(a, b)
}
