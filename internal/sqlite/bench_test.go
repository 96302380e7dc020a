package sqlite

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

const upsert = `
	INSERT INTO item (id, name, data)
	VALUES (?1, ?1, ?2)
	    ON CONFLICT (id) DO UPDATE
	   SET data = excluded.data`

// content returns 1,000 bytes that are new each time: SQLite does not write, nor sync, what is there already.
func content(n int64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 992), uint64(n))
}

func write(b *testing.B, db *DB, id, n int64) {
	err := db.Write(context.Background(), func(tx *Tx) error {
		_, err := tx.Exec(upsert, id, content(n))
		return err
	}, nil)
	if err != nil {
		b.Error(err)
	}
}

// One durable write, as a transaction, and as the three transactions of insert, upsert and delete that a
// lock row takes without one.
func BenchmarkWrite(b *testing.B) {
	b.Run("transaction", func(b *testing.B) {
		db := openTest(b, filepath.Join(b.TempDir(), "x.db"))
		for n := int64(0); b.Loop(); n++ {
			write(b, db, 1, n)
		}
	})
	b.Run("autocommits", func(b *testing.B) {
		db := openTest(b, filepath.Join(b.TempDir(), "x.db"))
		write(b, db, 2, 0)
		for n := int64(0); b.Loop(); n++ {
			err := db.writer.run("INSERT INTO part (id, item, size) VALUES (1, 2, 1)", nil, nil)
			err = join(err, db.writer.run(upsert, nil, []any{1, content(n)}))
			err = join(err, db.writer.run("DELETE FROM part WHERE id = 1", nil, nil))
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Durable writes of several goroutines share a transaction and its sync.
func BenchmarkGroupCommit(b *testing.B) {
	for _, goroutines := range []int{1, 10} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			db := openTest(b, filepath.Join(b.TempDir(), "x.db"))
			transactions := counted(db)
			var writes atomic.Int64
			var wg sync.WaitGroup
			stop := make(chan bool)
			for g := range int64(goroutines - 1) {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							write(b, db, g, writes.Add(1))
						}
					}
				})
			}
			for b.Loop() {
				write(b, db, 100, writes.Add(1))
			}
			elapsed := b.Elapsed()
			close(stop)
			wg.Wait()
			b.ReportMetric(float64(writes.Load())/elapsed.Seconds(), "writes/s")
			b.ReportMetric(float64(writes.Load())/float64(*transactions), "writes/transaction")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.db")
	db := openTest(b, path)
	fill(b, db, 100)
	get := func(rx *Rx) error {
		_, err := rx.QueryRow("SELECT data FROM item WHERE id = ?1", func(r Row) error { _ = r.Bytes(0); return nil }, 50)
		return err
	}
	b.Run("pool", func(b *testing.B) {
		for b.Loop() {
			if err := db.Read(b.Context(), get); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Reader", func(b *testing.B) {
		r, err := OpenReader(b.Context(), path, verifyTest)
		must(b, err)
		defer r.Close()
		for b.Loop() {
			if err := r.Read(b.Context(), get); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("version", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := db.DataVersion(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.db")
	db := openTest(b, path)
	fill(b, db, 100)
	crash(b, path, path+".crashed", "", "-wal")
	reader := func(b *testing.B, path string) {
		for b.Loop() {
			r, err := OpenReader(b.Context(), path, verifyTest)
			if err != nil {
				b.Fatal(err)
			}
			must(b, r.Close())
		}
	}
	writer := func(b *testing.B) {
		for b.Loop() {
			db, err := Open(b.Context(), path, testSchema)
			if err != nil {
				b.Fatal(err)
			}
			must(b, db.Close())
		}
	}
	b.Run("reader beside a writer", func(b *testing.B) { reader(b, path) })
	b.Run("reader after a crash", func(b *testing.B) { reader(b, path+".crashed") })
	b.Run("writer beside a writer", writer)
	must(b, db.Close())
	b.Run("reader at rest", func(b *testing.B) { reader(b, path) })
	b.Run("writer at rest", writer)
}

func BenchmarkBackup(b *testing.B) {
	dir := b.TempDir()
	path := filepath.Join(dir, "x.db")
	db := large(b, path)
	n := 0
	for b.Loop() {
		n++
		result, err := Backup(b.Context(), db.Path(), filepath.Join(dir, fmt.Sprint(n)), verifyTest, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(result.Bytes)
	}
}

func BenchmarkCheck(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.db")
	db := openTest(b, path)
	fill(b, db, 20000)
	for _, quick := range []bool{false, true} {
		b.Run(fmt.Sprint("quick ", quick), func(b *testing.B) {
			for b.Loop() {
				report, err := Check(b.Context(), path, CheckOptions{Quick: quick}, verifyTest)
				if err = join(err, report.Err()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
