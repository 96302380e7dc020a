package sessionstate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// Scope says what one value belongs to.
type Scope string

// The scopes.
const (
	ScopeSession Scope = "session" // one value per session
	ScopeBranch  Scope = "branch"  // one value per branch, inherited from the branch above
)

// Config says whose values a [State] reads and writes.
type Config struct {
	PluginID string // the namespace: one or more of a-z, 0-9, '.' and '-'
	Scope    Scope

	// Coherent makes every read see what other processes have committed before it, at the cost of a check
	// of SQLite's data version (Y12). Without it a process sees others' writes after [Store.Refresh].
	Coherent bool
}

// State is the state of one plugin in one scope (Y1). It is safe for concurrent use, and good for any
// number of sessions: each call names its own.
type State struct {
	store    *Store
	plugin   string
	scope    Scope
	coherent bool
}

// New returns the state of a plugin. Errors: [schema.Invalid] for a plugin id or scope that can't be one.
func New(store *Store, cfg Config) (*State, error) {
	if err := CheckPluginID(cfg.PluginID); err != nil {
		return nil, err
	}
	if cfg.Scope != ScopeSession && cfg.Scope != ScopeBranch {
		return nil, schema.Errorf(schema.Invalid, "scope %q: it is either %q or %q", cfg.Scope, ScopeSession, ScopeBranch)
	}
	return &State{store: store, plugin: cfg.PluginID, scope: cfg.Scope, coherent: cfg.Coherent}, nil
}

// CheckPluginID returns an [schema.Invalid] error unless id can name a plugin's namespace.
func CheckPluginID(id string) error {
	if id == "" {
		return schema.Errorf(schema.Invalid, "plugin id is empty")
	}
	for _, r := range id {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' && r != '-' {
			return schema.Errorf(schema.Invalid, "plugin id %q: %q is not one of a-z, 0-9, '.' and '-'", id, r)
		}
	}
	return nil
}

const (
	selectValue = `
		SELECT value
		  FROM state
		 WHERE plugin_id  = ?1
		   AND session_id = ?2
		   AND branch_id  = ?3`

	// An equal value changes no page and so needs no sync: what is stored already is durable.
	upsertValue = `
		INSERT INTO state (plugin_id, session_id, branch_id, value)
		VALUES (?1, ?2, ?3, ?4)
		    ON CONFLICT (plugin_id, session_id, branch_id) DO UPDATE
		   SET value = excluded.value
		 WHERE value IS NOT excluded.value`

	deleteValue = `
		DELETE FROM state
		 WHERE plugin_id  = ?1
		   AND session_id = ?2
		   AND branch_id  = ?3`
)

// BranchKey returns the key under which a branch-scope value is kept at the context's leaf (Y2). ok is false
// before the session's first entry, and always in session scope.
func (s *State) BranchKey(sc SessionContext) (key string, ok bool, err error) {
	key, keyed, err := s.branchOf(sc)
	return key, keyed && s.scope == ScopeBranch, err
}

// Read returns the caller's own copy of the value; found is false if there is none. A stored null is found.
//
// In branch scope, a branch without a value of its own takes on the nearest one above it, which is then
// written under the branch's own key (Y3).
func (s *State) Read(ctx context.Context, sc SessionContext) (value json.RawMessage, found bool, err error) {
	v, err := s.look(ctx, sc)
	return bytes.Clone(v), v != nil, err
}

// AppendValue is Read, but appends the value to a buffer of the caller's, as the built-in append does; where there is
// none, out is the buffer as it was. Reading what is cached then takes no memory of its own.
func (s *State) AppendValue(ctx context.Context, sc SessionContext, buf []byte) (out []byte, found bool, err error) {
	v, err := s.look(ctx, sc)
	return append(buf, v...), v != nil, err
}

// look returns the value at a context, nil for none. It is the cache's, and must not be changed.
func (s *State) look(ctx context.Context, sc SessionContext) ([]byte, error) {
	key, keyed, err := s.branchOf(sc)
	if err != nil {
		return nil, err
	}
	cached := s.cached(sc)
	if waiting := s.waiting(cached); waiting != nil {
		if !keyed {
			return waiting.value, nil
		}
		if err := s.land(ctx, cached, key, waiting); err != nil {
			return nil, err
		}
	}
	if !keyed {
		return nil, nil
	}
	version, err := s.version(ctx)
	if err != nil {
		return nil, err
	}
	v, err := s.store.find(ctx, cached, version, key)
	if v != nil || err != nil || s.scope == ScopeSession {
		return v, err
	}
	keys, err := s.lineage(sc, key)
	if err != nil {
		return nil, err
	}
	if v, err = s.store.find(ctx, cached, version, keys...); v == nil || err != nil {
		return nil, err
	}
	return s.materialise(ctx, cached, keys)
}

func (s *State) cached(sc SessionContext) *scope {
	return s.store.scope(scopeID{s.plugin, sc.SessionID()})
}

// waiting returns the value that waits for its key (Y7); only branch scope can have one.
func (s *State) waiting(cached *scope) *keyless {
	if s.scope == ScopeSession {
		return nil
	}
	cached.mu.RLock()
	defer cached.mu.RUnlock()
	return cached.keyless
}

// version is the data version that the cache must have for a read; a state that isn't coherent takes any.
func (s *State) version(ctx context.Context) (int64, error) {
	if !s.coherent {
		return anyVersion, nil
	}
	version, known, err := s.store.db.DataVersion(ctx)
	if err == nil && !known {
		version = newerThanAny
	}
	return version, err
}

// land writes a value that waited for its key, unless another reader has done so, or a keyed write has
// superseded it. Like materialise it is part of reading and takes no session lock.
func (s *State) land(ctx context.Context, cached *scope, key string, waiting *keyless) error {
	landed := false
	return s.store.db.Write(ctx, func(tx *sqlite.Tx) error {
		if landed = cached.mayLand(waiting); !landed {
			return nil
		}
		_, err := tx.Exec(upsertValue, s.plugin, cached.session, key, sqlite.Text(waiting.value))
		return err
	}, func() {
		if landed {
			s.store.put(cached, key, waiting.value)
			cached.settle(waiting)
		}
	})
}

// replace runs a keyed write or drop under the session's lock. value is what is then stored under the key,
// nil for nothing, and what waited for a key until now is superseded by it.
func (s *State) replace(ctx context.Context, cached *scope, action, key string, value []byte, fn func(*sqlite.Tx) error) error {
	waiting, done := s.waiting(cached), 0
	err := s.store.writeLocked(ctx, cached.session, action, func(tx *sqlite.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		done = 1
		cached.supersede(waiting, done)
		return nil
	}, func() {
		s.store.put(cached, key, value)
		cached.settle(waiting)
	})
	if err != nil {
		cached.supersede(waiting, -done)
	}
	return err
}

// materialise writes the value that the first of keys inherits under that key, and returns it: nil if other
// processes have dropped all that there was to inherit. It goes by what the database holds now, not by the
// cache, and never replaces a value that another process has written meanwhile.
func (s *State) materialise(ctx context.Context, cached *scope, keys []string) (value []byte, err error) {
	err = s.store.db.Write(ctx, func(tx *sqlite.Tx) error {
		v, key, err := s.inherited(tx, cached.session, keys)
		if err != nil || v == nil {
			return err
		}
		value = v
		if key == keys[0] {
			return nil
		}
		_, err = tx.Exec(upsertValue, s.plugin, cached.session, keys[0], sqlite.Text(v))
		return err
	}, func() {
		if value == nil {
			cached.invalidate()
			return
		}
		s.store.put(cached, keys[0], value)
	})
	return value, err
}

// inherited returns the first value that is stored under one of keys, and its key.
func (s *State) inherited(tx *sqlite.Tx, session string, keys []string) (value []byte, key string, err error) {
	for _, key := range keys {
		found, err := tx.QueryRow(selectValue, func(r sqlite.Row) error {
			value = r.Bytes(0)
			return nil
		}, s.plugin, session, key)
		if err != nil || found {
			return value, key, err
		}
	}
	return nil, "", nil
}

// Write stores a JSON value under the current key and returns when it is durable (Y5). Before the session's
// first entry, a branch-scope value is kept in memory until the context yields a key (Y7).
//
// Errors: [schema.Invalid] for what isn't JSON, [schema.Limit] beyond [MaxValueBytes], [schema.Locked] with a
// [*LockError], [schema.StaleClaim] in a Hold that was lost, [schema.Busy], [schema.Canceled],
// [schema.Replaced], [schema.Storage].
func (s *State) Write(ctx context.Context, sc SessionContext, value json.RawMessage) error {
	key, keyed, err := s.branchOf(sc)
	if err != nil {
		return err
	}
	if err := checkValue(value); err != nil {
		return err
	}
	value = bytes.Clone(value)
	cached := s.cached(sc)
	if !keyed {
		cached.setKeyless(value)
		return nil
	}
	return s.replace(ctx, cached, "write", key, value, func(tx *sqlite.Tx) error {
		_, err := tx.Exec(upsertValue, s.plugin, cached.session, key, sqlite.Text(value))
		return err
	})
}

// Drop removes the value under the current key only: in branch scope, the next read inherits again.
// Dropping what isn't there is no error. Errors: those of [State.Write].
func (s *State) Drop(ctx context.Context, sc SessionContext) error {
	key, keyed, err := s.branchOf(sc)
	if err != nil {
		return err
	}
	cached := s.cached(sc)
	if !keyed {
		cached.setKeyless(nil)
		return nil
	}
	return s.replace(ctx, cached, "drop", key, nil, func(tx *sqlite.Tx) error {
		_, err := tx.Exec(deleteValue, s.plugin, cached.session, key)
		return err
	})
}

// ConflictError carries the value that [State.CompareAndWrite] found. It is the cause of an error with code
// [schema.Conflict].
type ConflictError struct {
	Found json.RawMessage // nil: none
}

func (e *ConflictError) Error() string {
	if e.Found == nil {
		return "the value was dropped, or never written"
	}
	return fmt.Sprintf("another value is stored (%d bytes)", len(e.Found))
}

// CompareAndWrite writes value if what a read would return at this moment, whatever process wrote it, is
// still old, byte for byte; nil stands for absence (Y12). Errors: [schema.Conflict] with a [*ConflictError]
// if not; else those of [State.Write].
func (s *State) CompareAndWrite(ctx context.Context, sc SessionContext, old, value json.RawMessage) error {
	key, keyed, err := s.branchOf(sc)
	if err != nil {
		return err
	}
	if err := checkValue(value); err != nil {
		return err
	}
	value = bytes.Clone(value)
	cached := s.cached(sc)
	if !keyed {
		if found, ok := cached.compareKeyless(old, value); !ok {
			return conflict(found)
		}
		return nil
	}
	if waiting := s.waiting(cached); waiting != nil {
		if err := s.land(ctx, cached, key, waiting); err != nil {
			return err
		}
	}
	keys, err := s.lineage(sc, key)
	if err != nil {
		return err
	}
	err = s.store.writeLocked(ctx, cached.session, "write", func(tx *sqlite.Tx) error {
		found, _, err := s.inherited(tx, cached.session, keys)
		if err != nil {
			return err
		}
		if !sameValue(found, old) {
			return conflict(found)
		}
		_, err = tx.Exec(upsertValue, s.plugin, cached.session, key, sqlite.Text(value))
		return err
	}, func() { s.store.put(cached, key, value) })
	if schema.CodeOf(err) == schema.Conflict {
		cached.invalidate() // so that the read before the next try sees the winner
	}
	return err
}

func conflict(found []byte) error {
	cause := &ConflictError{Found: bytes.Clone(found)}
	return &schema.Error{Code: schema.Conflict, Detail: cause.Error() + "; read it and try again", Err: cause}
}

// anyJSON takes what encoding/json takes: a name may occur twice, and half a surrogate pair may be escaped. What
// checks is the other package, because it is several times faster where calls are dear, as in WebAssembly.
var anyJSON = json2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// checkValue refuses what can't be stored as JSON text. What is stored is the very bytes that were given.
func checkValue(value []byte) error {
	switch {
	case len(value) == 0:
		return schema.Errorf(schema.Invalid, "value is empty: JSON is expected")
	case len(value) > MaxValueBytes:
		return schema.Errorf(schema.Limit, "value has %d bytes; at most %d can be stored", len(value), MaxValueBytes)
	case !utf8.Valid(value):
		return schema.Errorf(schema.Invalid, "value is not UTF-8 text")
	case jsontext.Value(value).IsValid(anyJSON):
		return nil
	}
	var any json.RawMessage
	return schema.Errorf(schema.Invalid, "value is not JSON: %w", json.Unmarshal(value, &any))
}
