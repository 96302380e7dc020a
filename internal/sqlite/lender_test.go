package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pistate/schema"
	"pistate/wasm/abi"
)

func TestLenderRuns(t *testing.T) {
	b := borrowTest(t)
	if h, _ := b.do("BEGIN IMMEDIATE"); !h.inTransaction || h.columns != 0 || b.InTransaction(b.db) != 1 {
		t.Errorf("%+v", h)
	}
	if h, values := b.do("INSERT INTO item (name, data) VALUES (?1, ?2), ('b', NULL) RETURNING id, name", "a", []byte{1}); h.changes != 2 ||
		!reflect.DeepEqual(values, []any{int64(1), "a", int64(2), "b"}) {
		t.Errorf("%+v, %v", h, values)
	}
	b.ok(b.script("INSERT INTO part (item, size) VALUES (99, 1); UPDATE item SET data = x'02' WHERE id = 2"))
	if n := b.Unresolved(b.db); n != 1 {
		t.Errorf("%d unresolved", n)
	}
	b.want(int64(b.commit()), schema.Invalid)
	if b.InTransaction(b.db) != 1 {
		t.Error("the failed commit ended the transaction")
	}
	b.do("DELETE FROM part")
	if h, _ := b.do("COMMIT"); h.inTransaction {
		t.Errorf("%+v", h)
	}
	if _, values := b.do("SELECT data FROM item ORDER BY id"); !reflect.DeepEqual(values, []any{[]byte{1}, []byte{2}}) {
		t.Errorf("%v", values)
	}
	stmt := b.ok(b.prepare("INSERT INTO item (name) VALUES ('a')"))
	n := b.Run(t.Context(), stmt, nil, b.buf)
	if b.want(n, schema.Conflict); n != -int64(codeConstraintUnique) || b.why() != "sqlite3: constraint failed: UNIQUE constraint failed: item.name" {
		t.Errorf("%d: %s", n, b.why())
	}
	b.ok(b.Close(b.db))
	b.want(int64(b.InTransaction(b.db)), schema.Invalid)
	b.want(b.Run(t.Context(), stmt, nil, b.buf), schema.Invalid)
}

// Nothing is lost, whatever the sizes of the buffers.
func TestLenderPages(t *testing.T) {
	b := borrowTest(t)
	stmt := b.ok(b.prepare("SELECT value, printf('%.*c', value * 100, 'x') FROM json_each('[0,1,2,3,4,5,6,7,8,9]')"))
	rapid.Check(t, func(t *rapid.T) {
		var got []any
		need := int64(0)
		for n, first := int64(0), true; ; first = false {
			buf := make([]byte, rapid.Int64Range(max(need, headerSize), need+1500).Draw(t, "cap"))
			if first {
				n = b.Run(context.Background(), stmt, nil, buf)
			} else {
				n = b.Next(context.Background(), stmt, buf)
			}
			if need = 0; n > int64(len(buf)) {
				need = n
				continue
			}
			h, packed, err := readHeader(buf[:max(n, 0)])
			if err != nil {
				t.Fatalf("%d: %v", n, err)
			}
			if got = append(got, unpack(t, packed)...); h.done {
				break
			}
			if h.rows == 0 {
				t.Fatal("an empty page in the middle")
			}
		}
		if len(got) != 20 {
			t.Fatalf("%d values", len(got))
		}
		for i := range 10 {
			if got[2*i] != int64(i) || got[2*i+1] != strings.Repeat("x", max(1, i*100)) {
				t.Errorf("row %d: %v, %v", i, got[2*i], got[2*i+1])
			}
		}
	})
	b.want(b.Next(t.Context(), stmt, b.buf), schema.Invalid) // it has finished
	b.want(b.Run(t.Context(), stmt, nil, b.buf[:headerSize-1]), schema.Invalid)
	if n := b.Run(t.Context(), stmt, nil, b.buf[:headerSize]); n != headerSize+9+6 {
		t.Errorf("the first row needs %d bytes", n)
	}
	b.ok(b.Reset(stmt))
	b.want(b.Next(t.Context(), stmt, b.buf), schema.Invalid)
}

// Any values come back as they went.
func TestLenderValues(t *testing.T) {
	b := borrowTest(t)
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOfN(anyArg(), 1, 5).Draw(t, "args")
		sql := "SELECT " + strings.TrimSuffix(strings.Repeat("?, ", len(args)), ", ")
		if _, values := b.do(sql, args...); !reflect.DeepEqual(values, args) {
			t.Errorf("%#v, want %#v", values, args)
		}
	})
}

// G3: whatever a guest passes gets a code for an answer.
func TestLenderRefuses(t *testing.T) {
	b := borrowTest(t)
	ctx := t.Context()
	one := b.ok(b.prepare("SELECT ?1"))
	long := appendBytes(nil, tagBlob, make([]byte, maxRow+1))
	for name, test := range map[string]struct {
		result int64
		code   schema.Code
	}{
		"mode":                 {int64(b.Open(ctx, 2)), schema.Invalid},
		"close":                {int64(b.Close(one)), schema.Invalid},
		"prepare":              {int64(b.Prepare(ctx, 99, []byte("SELECT 1"))), schema.Invalid},
		"finalize":             {int64(b.Finalize(b.db)), schema.Invalid},
		"run":                  {b.Run(ctx, 0, nil, b.buf), schema.Invalid},
		"next":                 {b.Next(ctx, -1, b.buf), schema.Invalid},
		"next without run":     {b.Next(ctx, one, b.buf), schema.Invalid},
		"reset":                {int64(b.Reset(99)), schema.Invalid},
		"script":               {int64(b.Script(ctx, 99, nil)), schema.Invalid},
		"in_transaction":       {int64(b.InTransaction(99)), schema.Invalid},
		"in_place":             {int64(b.InPlace(99)), schema.Invalid},
		"unresolved":           {int64(b.Unresolved(99)), schema.Invalid},
		"no statement":         {int64(b.prepare(" -- ")), schema.Invalid},
		"two statements":       {int64(b.prepare("SELECT 1; SELECT 2")), schema.Invalid},
		"hidden statement":     {int64(b.prepare("SELECT 1\x00; DROP TABLE item")), schema.Invalid},
		"no SQL":               {int64(b.prepare("SELEC")), schema.Storage},
		"long SQL":             {int64(b.prepare(strings.Repeat(" ", maxSQL) + "SELECT 1")), schema.Limit},
		"long script":          {int64(b.script(strings.Repeat(" ", maxSQL+1))), schema.Limit},
		"no parameter":         {b.Run(ctx, one, nil, b.buf), schema.Invalid},
		"two parameters":       {b.Run(ctx, one, []byte{0, 0}, b.buf), schema.Invalid},
		"garbage":              {b.Run(ctx, one, []byte{9}, b.buf), schema.Invalid},
		"cut off":              {b.Run(ctx, one, []byte{3, 255, 255, 255, 255}, b.buf), schema.Invalid},
		"long parameter":       {b.Run(ctx, one, long, b.buf), schema.Limit},
		"no room for a header": {b.Run(ctx, one, []byte{0}, nil), schema.Invalid},
		"long value":           {b.Run(ctx, b.ok(b.prepare("SELECT zeroblob(900000000)")), nil, b.buf), schema.Limit},
		"long row":             {b.Run(ctx, b.ok(b.prepare("SELECT zeroblob(50000000), zeroblob(50000000)")), nil, b.buf), schema.Limit},
	} {
		if err := crossedError("", test.result, ""); test.result >= 0 || schema.CodeOf(err) != test.code {
			t.Errorf("%s: %d (%v), want %s", name, test.result, err, test.code)
		}
	}
	if _, values := b.do("SELECT 1"); values[0] != int64(1) {
		t.Error("the database is of no use any more")
	}
}

// G3: a guest can have no more than there is room for.
func TestLenderBounds(t *testing.T) {
	b := borrowTest(t)
	for range maxLoans - 1 {
		b.ok(b.Open(t.Context(), 0))
	}
	b.want(int64(b.Open(t.Context(), 1)), schema.Limit)
	var last int32
	for range maxStatements {
		last = b.ok(b.prepare("SELECT 1"))
	}
	b.want(int64(b.prepare("SELECT 1")), schema.Limit)
	b.ok(b.Finalize(last))
	if again := b.ok(b.prepare("SELECT 1")); again <= last {
		t.Errorf("the handle %d was used twice", again)
	}
	b.last = 1<<31 - 1
	b.ok(b.Finalize(last + 1))
	b.want(int64(b.prepare("SELECT 1")), schema.Limit)
}

// Z2: what a guest has open reaches nothing but the granted database.
func TestLenderReachesOneDatabase(t *testing.T) {
	b := borrowTest(t)
	dir := filepath.Dir(b.path)
	other := filepath.Join(tempDir(t), "other.db")
	before := files(t, filepath.Dir(other))
	for _, sql := range []string{
		"ATTACH '" + other + "' AS o", "ATTACH ':memory:' AS o", "attach database '' as o", "DETACH main",
		"VACUUM", "VACUUM INTO '" + other + "'", "vacuum main into '" + other + "'",
		"PRAGMA temp_store_directory = '" + filepath.Dir(other) + "'", "PRAGMA data_store_directory = '/tmp'",
		"PRAGMA temp_store = FILE", "PRAGMA temp_store = 1", "PRAGMA temp_store(0)",
		"PRAGMA journal_mode = DELETE", "PRAGMA journal_mode = OFF", "PRAGMA main.journal_mode = MEMORY",
		"PRAGMA locking_mode = EXCLUSIVE", "PRAGMA synchronous = OFF", "PRAGMA writable_schema = ON", "PRAGMA schema_version = 1",
		"PRAGMA mmap_size = 1000000", "PRAGMA cache_size = -4000000", "PRAGMA query_only = OFF", "PRAGMA trusted_schema = ON", "PRAGMA page_size = 512",
		"PRAGMA ignore_check_constraints = ON", "PRAGMA secure_delete = ON", "PRAGMA lock_proxy_file = '/tmp/x'", "PRAGMA hexkey = 'x'",
		"PRAGMA soft_heap_limit = 1", "PRAGMA hard_heap_limit = 1", "PRAGMA threads = 8", "PRAGMA nosuch = 1",
		"SELECT load_extension('/tmp/x')", "SELECT LOAD_EXTENSION('/tmp/x', 'y')",
		"CREATE VIRTUAL TABLE v USING fts5 (x)", "CREATE VIRTUAL TABLE temp.v USING csv (filename = '/etc/passwd')",
		"SELECT * FROM pragma_temp_store_directory", "SELECT * FROM pragma_writable_schema(1)",
	} {
		n := int64(b.prepare(sql))
		if n > 0 { // some are refused when they run
			n = b.Run(t.Context(), int32(n), nil, b.buf)
		}
		if n >= 0 {
			t.Errorf("%s: %d", sql, n)
		}
		if n := b.script("SELECT 1; " + sql); n >= 0 {
			t.Errorf("%s as a script: %d", sql, n)
		}
	}
	wantUnchanged(t, filepath.Dir(other), before)
	if found := fmt.Sprint(listNames(t, dir)); found != "[x.db x.db-shm x.db-wal]" {
		t.Errorf("beside the database: %s", found)
	}
	// A sort that doesn't fit into memory, and what is temporary, makes no file either.
	b.do("CREATE TEMP TABLE t AS SELECT value, randomblob(2000) AS b FROM json_each('[1,2,3,4,5,6,7,8,9,10]') ORDER BY b")
	b.do("INSERT INTO t SELECT a.value, a.b FROM t a, t b, t c ORDER BY random()")
	if found := fmt.Sprint(listNames(t, dir)); found != "[x.db x.db-shm x.db-wal]" {
		t.Errorf("beside the database: %s", found)
	}
}

func listNames(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// S4: a guest that only looks changes nothing, not even beside the database, and finds none where there is none.
func TestLenderReads(t *testing.T) {
	path := filepath.Join(tempDir(t), "deep", "x.db")
	l, err := NewLender(path)
	must(t, err)
	b := &borrower{t: t, Lender: l}
	b.want(int64(l.Open(t.Context(), 0)), schema.NotFound)
	if _, err := os.Stat(filepath.Dir(path)); err == nil {
		t.Error("the directory was made")
	}
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, nil, 0o600))
	b.want(int64(l.Open(t.Context(), 0)), schema.NotFound)
	must(t, os.Remove(path))
	must(t, openTest(t, path).Close())
	before := files(t, filepath.Dir(path))
	b = borrow(t, path, 0)
	b.do("BEGIN DEFERRED")
	b.do("SELECT count(*) FROM item")
	n := b.Run(t.Context(), b.ok(b.prepare("INSERT INTO item (name) VALUES ('x')")), nil, b.buf)
	b.want(n, schema.Storage)
	b.ok(b.Close(b.db))
	wantUnchanged(t, filepath.Dir(path), before)

	// What was read while somebody else wrote to the same file doesn't count.
	b.db = b.ok(b.Open(t.Context(), 0))
	b.do("SELECT count(*) FROM item")
	db, err := Open(t.Context(), path, testSchema)
	must(t, err)
	must(t, insert(t.Context(), db, "one"))
	must(t, db.Close())
	b.want(int64(b.Close(b.db)), schema.Busy)
}

// S4, S5: a database that the guest doesn't make its own is left as it was, with its permissions, and not
// checkpointed either.
func TestLenderAdoption(t *testing.T) {
	source := filepath.Join(tempDir(t), "x.db")
	db := openTest(t, source)
	fill(t, db, 3)
	path := filepath.Join(tempDir(t), "y.db")
	crash(t, source, path, "", "-wal")
	must(t, os.Chmod(path, 0o644))
	content := readFile(t, path)
	b := borrow(t, path, 1)
	b.do("SELECT count(*) FROM item")
	b.ok(b.Close(b.db))
	if string(readFile(t, path)) != string(content) {
		t.Error("the database was written to")
	}
	b.db = b.ok(b.Open(t.Context(), 1))
	b.do("PRAGMA journal_mode = WAL")
	b.ok(b.Close(b.db))
	info, err := os.Stat(path)
	must(t, err)
	if string(readFile(t, path)) == string(content) || info.Mode() != fileMode {
		t.Errorf("its own database was not checkpointed, or has mode %v", info.Mode())
	}
}

// S9: the guest is told that the file was replaced.
func TestLenderInPlace(t *testing.T) {
	b := borrowTest(t)
	b.ok(b.InPlace(b.db))
	must(t, os.Rename(b.path, b.path+".old"))
	b.want(int64(b.InPlace(b.db)), schema.Replaced)
}

// S6: the guest learns what is beside the database.
func TestLenderBeside(t *testing.T) {
	path := filepath.Join(tempDir(t), "deep", "x.db")
	l, err := NewLender(path)
	must(t, err)
	want := func(exists bool, names ...string) {
		t.Helper()
		buf := make([]byte, 1000)
		n := l.Beside(buf)
		gotExists, got, err := readBeside(buf[:n])
		if must(t, err); gotExists != exists || !reflect.DeepEqual(got, names) {
			t.Errorf("%v %q, want %v %q", gotExists, got, exists, names)
		}
		small := make([]byte, n-1)
		if m := l.Beside(small); m != n || string(small) != string(make([]byte, n-1)) {
			t.Errorf("%d, then %d bytes", n, m)
		}
	}
	want(false)
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	for _, name := range []string{"b", "a", "x.db"} {
		must(t, os.WriteFile(filepath.Join(filepath.Dir(path), name), nil, 0o600))
	}
	want(false, "a", "b", "x.db")
	must(t, os.WriteFile(path, []byte("x"), 0o600))
	want(true, "a", "b", "x.db")
}

func TestLenderErrorText(t *testing.T) {
	b := borrowTest(t)
	b.prepare("SELECT " + strings.Repeat("x", 10_000))
	if n := b.Error(nil); n != abi.MaxMessage {
		t.Errorf("%d bytes", n)
	}
	buf := make([]byte, abi.MaxMessage-1)
	if n := b.Error(buf); n != abi.MaxMessage || buf[0] != 0 {
		t.Errorf("%d bytes, % x", n, buf[:9])
	}
}

// What waits and what runs ends with the context, and the guest can go on.
func TestLenderInterrupt(t *testing.T) {
	b := borrowTest(t)
	endless := b.ok(b.prepare("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int64)
	go func() { done <- b.Run(ctx, endless, nil, b.buf) }()
	cancel()
	if n := <-done; n != -int64(codeInterrupted) {
		t.Errorf("%d", n)
	}
	b.want(-int64(codeInterrupted), schema.Canceled)
	b.do("SELECT 1")
}

// What was lent comes back whole: an open transaction is undone, locks are free, and nothing works any more.
func TestLenderRevoke(t *testing.T) {
	b := borrowTest(t)
	b.do("BEGIN IMMEDIATE")
	b.do("INSERT INTO item (name) VALUES ('x')")
	stmt := b.ok(b.prepare("SELECT 1"))
	must(t, b.Revoke())
	must(t, b.Revoke())
	wantItems(t, b.path, 0)
	must(t, insert(t.Context(), openTest(t, b.path), "y"))
	for _, n := range []int64{
		int64(b.Open(t.Context(), 1)), int64(b.prepare("SELECT 1")), b.Run(t.Context(), stmt, nil, b.buf), b.Next(t.Context(), stmt, b.buf),
		int64(b.Reset(stmt)), int64(b.Finalize(stmt)), int64(b.InTransaction(b.db)), int64(b.InPlace(b.db)), int64(b.Unresolved(b.db)),
		int64(b.script("SELECT 1")), int64(b.Close(b.db)), b.Beside(b.buf),
	} {
		b.want(n, schema.Closed)
	}
}

// After SQLite has failed inside, the guest gets an error and the rest of the process its locks.
func TestLenderBroken(t *testing.T) {
	b := borrowTest(t)
	b.do("BEGIN IMMEDIATE")
	stmt := b.ok(b.prepare("INSERT INTO item (name) VALUES ('x')"))
	_ = b.loans[b.db].try(func() error { panic("damage") })
	b.want(b.Run(t.Context(), stmt, nil, b.buf), schema.Storage)
	b.want(int64(b.InTransaction(b.db)), schema.Storage)
	b.want(int64(b.prepare("SELECT 1")), schema.Storage)
	b.ok(b.Close(b.db))
	must(t, insert(t.Context(), openTest(t, b.path), "y"))
}
