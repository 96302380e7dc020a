package sqlite

import (
	"path/filepath"
	"testing"

	"pistate/schema"
	"pistate/wasm/abi"
)

// What a statement costs a guest on this side, its parameters and its row included.
func BenchmarkLender(b *testing.B) {
	l := borrowTest(b)
	l.do("INSERT INTO item (name, data) VALUES ('a', zeroblob(100))")
	l.do("BEGIN")
	params, err := appendParams(nil, []any{"a", content(1)[:100]})
	must(b, err)
	for name, sql := range map[string]string{
		"select": "SELECT data FROM item WHERE name = ?1 AND data <> ?2",
		"update": "UPDATE item SET data = ?2 WHERE name = ?1",
	} {
		b.Run(name, func(b *testing.B) {
			stmt := l.ok(l.prepare(sql))
			b.ReportAllocs()
			for b.Loop() {
				if n := l.Run(b.Context(), stmt, params, l.buf); n < headerSize {
					b.Fatal(n, l.why())
				}
			}
		})
	}
}

// Z3, G3: any calls in any order with any bytes get answers, and leave a sound database.
func FuzzLender(f *testing.F) {
	f.Add([]byte{0, 1, 2, 1, 4, 2, 40, 4, 2, 1, 1})
	f.Add([]byte{0, 1, 2, 3, 4, 2, 20, 5, 2, 16, 6, 2, 3, 2, 1, 1})
	statements := []string{
		"SELECT ?1, ?2", "INSERT INTO item (name) VALUES (?1)", "SELECT * FROM item", "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK",
		"INSERT INTO item (name, data) VALUES (hex(randomblob(9)), zeroblob(5000)) RETURNING *", "DELETE FROM item", "PRAGMA journal_mode = WAL",
		"SAVEPOINT a", "RELEASE a", "DROP TABLE part", "CREATE TABLE x (y)", "PRAGMA wal_checkpoint(TRUNCATE)", "garbage",
	}
	path := filepath.Join(f.TempDir(), "x.db")
	f.Fuzz(func(t *testing.T, calls []byte) {
		l, err := NewLender(path)
		must(t, err)
		next := func() byte {
			if len(calls) == 0 {
				return 0
			}
			c := calls[0]
			calls = calls[1:]
			return c
		}
		some := func() []byte {
			n := int(next())
			return calls[:min(len(calls), n)]
		}
		text := func() []byte {
			if n := int(next()); n < len(statements) {
				return []byte(statements[n])
			}
			return some()
		}
		buf := make([]byte, 1<<16)
		for steps := 0; len(calls) > 0 && steps < 60; steps++ {
			var n, most int64
			switch ctx := t.Context(); next() % 13 {
			case 0:
				n, most = int64(l.Open(ctx, int32(next()%3))), 1<<31
			case 1:
				n = int64(l.Close(int32(next() % 8)))
			case 2:
				n, most = int64(l.Prepare(ctx, int32(next()%8), text())), 1<<31
			case 3:
				n = int64(l.Finalize(int32(next() % 32)))
			case 4:
				stmt, c := int32(next()%32), int(next())
				n, most = l.Run(ctx, stmt, some(), buf[:c*c]), maxRow+headerSize
			case 5:
				stmt, c := int32(next()%32), int(next())
				n, most = l.Next(ctx, stmt, buf[:c*c]), maxRow+headerSize
			case 6:
				n = int64(l.Reset(int32(next() % 32)))
			case 7:
				n = int64(l.Script(ctx, int32(next()%8), text()))
			case 8:
				n, most = int64(l.InTransaction(int32(next()%8))), 1
			case 9:
				n = int64(l.InPlace(int32(next() % 8)))
			case 10:
				n, most = int64(l.Unresolved(int32(next()%8))), 1<<31
			case 11:
				n, most = l.Beside(buf[:next()]), 1<<16
			case 12:
				n, most = l.Error(buf[:next()]), abi.MaxMessage
			}
			if n > most || n <= codeOffset && schema.CodeOf(crossedError("", n, "")) == "" {
				t.Fatalf("result %d", n)
			}
			if code, ok := abi.CodeOf(int32(n - codeOffset)); n <= codeOffset && (!ok || code == schema.Extension) {
				t.Fatalf("result %d", n)
			}
		}
		must(t, l.Revoke())
		c, err := openRaw(path)
		must(t, err)
		if got := number(t, c, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"); got != 0 {
			t.Errorf("the database is damaged")
		}
		must(t, c.Close())
	})
}
