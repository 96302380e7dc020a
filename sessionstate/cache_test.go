package sessionstate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// droppingTree drops the cache in the middle of each read that asks it for a parent.
type droppingTree struct {
	Tree
	drop func()
}

func (t droppingTree) ParentKey(key string) (string, bool, error) {
	t.drop()
	return t.Tree.ParentKey(key)
}

func TestDroppedCacheIsNoAbsence(t *testing.T) { // Y8, Y10
	st := openStore(t)
	s := newState(t, st, "p", ScopeBranch)
	mustWrite(t, s, at("a"), `1`)
	wantValue(t, s, At("s1", "d", droppingTree{TreeOf(forked), st.Refresh}), `1`)
	wantValue(t, s, at("d"), `1`)

	// The same with readers that drive each other's values out of the cache, and one who refreshes.
	st.cache.limit = 1
	var wg sync.WaitGroup
	for _, plugin := range []string{"p", "q"} {
		s := newState(t, st, plugin, ScopeSession)
		mustWrite(t, s, at("a"), `[2]`)
		for range 2 {
			wg.Go(func() {
				for range 300 {
					if v, _, err := s.Read(t.Context(), at("a")); err != nil || string(v) != `[2]` {
						t.Errorf("%q, %v", v, err)
						return
					}
					st.Refresh()
				}
			})
		}
	}
	wg.Wait()
}

func TestLoadsAreOvertakenByWrites(t *testing.T) { // Y6
	st := openStore(t)
	s := newState(t, st, "p", ScopeBranch)
	mustWrite(t, s, at("a"), `1`)
	mustWrite(t, s, at("d"), `2`)
	cached := s.cached(at("a"))

	// A load has begun, and has read what follows, before the rows are written.
	cached.watch()
	values := map[string][]byte{"a": []byte(`1`), "c": []byte(`2`)}
	mustWrite(t, s, at("a"), `3`)
	if err := s.Drop(t.Context(), at("d")); err != nil {
		t.Fatal(err)
	}
	sqlite3CLI(t, st.Path(), `UPDATE state SET value = '4'`)
	_, late := cached.fill(values, anyVersion, nil)
	if len(late) != 2 || !late["a"] || !late["c"] {
		t.Fatalf("rows to be read again: %v", late)
	}
	err := st.db.Read(t.Context(), func(rx *sqlite.Rx) error { return cached.readAgain(rx, values, late) })
	if err != nil {
		t.Fatal(err)
	}
	if v, late := cached.fill(values, anyVersion, []string{"c", "a"}); string(v) != `4` || late != nil {
		t.Errorf("%q, %v", v, late)
	}
	wantValue(t, s, at("a"), `4`)
	if _, known := cached.cached(anyVersion); !known {
		t.Error("what was read is not kept")
	}

	// What is dropped during a load answers the read that loads it, and is not kept.
	cached.watch()
	st.Refresh()
	if v, late := cached.fill(values, anyVersion, []string{"a"}); string(v) != `4` || late != nil {
		t.Errorf("%q, %v", v, late)
	}
	if _, known := cached.cached(anyVersion); known {
		t.Error("what was read before a refresh is kept")
	}
}

func TestCacheIsBoundedByWrites(t *testing.T) { // Y6
	st, err := Open(t.Context(), t.TempDir()+"/states.sqlite", Options{CacheBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	s := newState(t, st, "p", ScopeSession)
	session := func(i int) SessionContext { return At(fmt.Sprint("s", i), "", nil) }
	for i := range 20 {
		wantValue(t, s, session(i), "") // now it is cached that there is nothing
	}
	value := fmt.Sprintf("%q", strings.Repeat("x", 298))
	for i := range 20 {
		mustWrite(t, s, session(i), value)
		if got := st.cache.bytes.Load(); got > 1000 {
			t.Fatalf("after %d writes the cache holds %d bytes", i+1, got)
		}
	}
}

func TestKeylessValueComesTooLate(t *testing.T) { // Y7
	st := openStore(t)
	s := newState(t, st, "p", ScopeBranch)
	for name, supersede := range map[string]func() error{
		"written": func() error { return s.Write(t.Context(), at("a"), json.RawMessage(`"new"`)) },
		"dropped": func() error { return s.Drop(t.Context(), at("a")) },
	} {
		mustWrite(t, s, at(""), `"old"`)
		waiting := s.waiting(s.cached(at(""))) // a read has seen it, and is about to land it
		if err := supersede(); err != nil {
			t.Fatal(err)
		}
		before, _, err := s.Read(t.Context(), at("a"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.land(t.Context(), s.cached(at("a")), "a", waiting); err != nil {
			t.Fatal(err)
		}
		st.Refresh()
		if v, _, err := s.Read(t.Context(), at("a")); string(v) != string(before) || err != nil {
			t.Errorf("%s: %q came after %q, %v", name, v, before, err)
		}
	}

	// The same within one transaction, which those that wait for the first have in common.
	for i := range 20 {
		session := func(leaf string) SessionContext { return At(fmt.Sprint("s", i), leaf, TreeOf(forked)) }
		mustWrite(t, s, session(""), `"old"`)
		blocked, over := make(chan bool), make(chan bool)
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = st.db.Write(context.Background(), func(*sqlite.Tx) error { close(blocked); <-over; return nil }, nil)
		})
		<-blocked
		wg.Go(func() { mustWrite(t, s, session("a"), `"new"`) })
		for range 3 {
			wg.Go(func() {
				if _, _, err := s.Read(context.Background(), session("b")); err != nil {
					t.Error(err)
				}
			})
		}
		time.AfterFunc(time.Millisecond, func() { close(over) })
		wg.Wait()
		st.Refresh()
		wantValue(t, s, session("a"), `"new"`)
	}

	// A keyed write that is refused, or not kept after all, supersedes nothing.
	mustWrite(t, s, at(""), `"waits"`)
	err := st.Hold(t.Context(), "s1", func(context.Context) error {
		return s.Write(t.Context(), at("d"), json.RawMessage(`"refused"`))
	})
	if !errors.Is(err, schema.Locked) {
		t.Fatal(err)
	}
	err = s.replace(t.Context(), s.cached(at("d")), "write", "c", []byte(`"lost"`), func(tx *sqlite.Tx) error {
		_, err := tx.Exec("ROLLBACK") // as SQLite does by itself when the disk is full
		return err
	})
	if !errors.Is(err, schema.Storage) {
		t.Fatal(err)
	}
	wantValue(t, s, at("d"), `"waits"`)
}
