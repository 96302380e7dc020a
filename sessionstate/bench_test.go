package sessionstate

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"pistate/schema"
)

func BenchmarkRead(b *testing.B) {
	value := json.RawMessage(`{"todo":["write","read"],"done":[]}`)
	st := openStore(b)
	tree := NewIndex()
	for i := range 1000 {
		parent := ""
		if i > 0 {
			parent = fmt.Sprint("e", i-1)
		}
		tree.Add(fmt.Sprint("e", i), parent)
	}
	sc := At("s1", "e999", tree)
	for _, c := range []struct {
		name string
		cfg  Config
	}{
		{"cached/session", Config{PluginID: "p", Scope: ScopeSession}},
		{"cached/branch", Config{PluginID: "p", Scope: ScopeBranch}},
		{"coherent/session", Config{PluginID: "p", Scope: ScopeSession, Coherent: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, err := New(st, c.cfg)
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Write(b.Context(), sc, value); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, found, err := s.Read(b.Context(), sc); err != nil || !found {
					b.Fatal(found, err)
				}
			}
		})
	}
	b.Run("select", func(b *testing.B) { // what a read costs without a cache
		db := rawDB(b, st.Path())
		stmt := prepare(b, db, selectValue)
		for b.Loop() {
			bindText(b, stmt, "p", "s1", "")
			if !stmt.Step() || len(stmt.ColumnText(0)) == 0 {
				b.Fatal(stmt.Err())
			}
			if err := stmt.Reset(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	var n atomic.Int64
	next := func() json.RawMessage { return fmt.Appendf(nil, `{"n":%d}`, n.Add(1)) }
	b.Run("one-transaction", func(b *testing.B) {
		s := newState(b, openStore(b), "p", ScopeSession)
		for b.Loop() {
			if err := s.Write(b.Context(), at("a"), next()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("grouped", func(b *testing.B) { // ten writers of ten sessions
		s := newState(b, openStore(b), "p", ScopeSession)
		var writer atomic.Int64
		b.SetParallelism(10)
		b.RunParallel(func(pb *testing.PB) {
			sc := At(fmt.Sprint("s", writer.Add(1)), "", nil)
			for pb.Next() {
				if err := s.Write(b.Context(), sc, next()); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("three-autocommits", func(b *testing.B) { // how another program does it
		db := rawDB(b, filepath.Join(b.TempDir(), "states.sqlite"))
		if err := db.Exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;" + schema.SessionDDL()); err != nil {
			b.Fatal(err)
		}
		lock := prepare(b, db, `INSERT INTO write_lock VALUES (?1, 'pid:1', 1)`)
		upsert := prepare(b, db, upsertValue)
		release := prepare(b, db, deleteLock)
		for b.Loop() {
			bindText(b, lock, "s1")
			bindText(b, upsert, "p", "s1", "", string(next()))
			bindText(b, release, "s1")
			for _, stmt := range []*sqlite3.Stmt{lock, upsert, release} {
				if err := stmt.Exec(); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func BenchmarkFirstReadAfterAFork(b *testing.B) { // with its materialisation
	st := openStore(b)
	s := newState(b, st, "p", ScopeBranch)
	tree := NewIndex()
	tree.Add("root", "")
	if err := s.Write(b.Context(), At("s1", "root", tree), json.RawMessage(`1`)); err != nil {
		b.Fatal(err)
	}
	tree.Add("other", "root")
	for i := 0; b.Loop(); i++ {
		leaf := fmt.Sprint("leaf", i)
		tree.Add(leaf, "root")
		if _, found, err := s.Read(b.Context(), At("s1", leaf, tree)); err != nil || !found {
			b.Fatal(found, err)
		}
	}
}

func rawDB(b *testing.B, path string) *sqlite3.Conn {
	b.Helper()
	db, err := sqlite3.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	return db
}

func prepare(b *testing.B, db *sqlite3.Conn, sql string) *sqlite3.Stmt {
	b.Helper()
	stmt, _, err := db.Prepare(sql)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stmt.Close() })
	return stmt
}

func bindText(b *testing.B, stmt *sqlite3.Stmt, args ...string) {
	b.Helper()
	for i, a := range args {
		if err := stmt.BindText(i+1, a); err != nil {
			b.Fatal(err)
		}
	}
}
