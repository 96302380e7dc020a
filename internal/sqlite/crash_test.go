package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// W6: a process that is killed at any instant leaves each transaction whole or not at all, and all that
// were acknowledged.
func TestKilledWriter(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	must(t, openTest(t, path).Close())
	acknowledged := map[string]bool{}
	for round := range 20 {
		cmd := helper(t, "write", path, fmt.Sprint(round))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 1 + rand.IntN(40); n > 0 && lines.Scan(); n-- {
			acknowledged[lines.Text()] = true
		}
		must(t, cmd.Process.Kill())
		for lines.Scan() {
			acknowledged[lines.Text()] = true // what was printed before the kill counts
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.Success() {
			t.Fatal("the writer ended by itself")
		}

		// Some find it as it was left, some after a recovery.
		if round%2 == 0 {
			must(t, openTest(t, path).Close())
		}
		r, err := OpenReader(t.Context(), path, verifyTest)
		must(t, err)
		found := map[string]bool{}
		must(t, r.Read(t.Context(), func(rx *Rx) error {
			return rx.Query("SELECT name, (SELECT count(*) FROM part WHERE item = item.id), length(data) FROM item", func(r Row) error {
				if parts, want := r.Int(1), r.Int(2); parts != want {
					t.Errorf("round %d: %s has %d parts, want %d", round, r.Text(0), parts, want)
				}
				found[r.Text(0)] = true
				return nil
			})
		}))
		must(t, r.Close())
		for name := range acknowledged {
			if !found[name] {
				t.Errorf("round %d: %s was acknowledged and is lost", round, name)
			}
		}
	}
	report, err := Check(t.Context(), path, CheckOptions{}, verifyTest)
	if must(t, err); !report.OK() {
		t.Error(report)
	}
	t.Logf("%d writes were acknowledged", len(acknowledged))
}

// helpWrite writes items with as many parts as their data has bytes until it is killed, and prints the
// name of each when it is durable.
func helpWrite(args []string) error {
	ctx := context.Background()
	db, err := Open(ctx, args[0], testSchema)
	if err != nil {
		return err
	}
	errs := make(chan error)
	for w := range 3 {
		go func() {
			for i := 0; ; i++ {
				name, n := fmt.Sprintf("%s/%d/%d", args[1], w, i), i%7
				err := db.Write(ctx, func(tx *Tx) error {
					if _, err := tx.Exec("INSERT INTO item (name, data) VALUES (?1, zeroblob(?2))", name, n); err != nil {
						return err
					}
					var id int64
					if _, err := tx.QueryRow("SELECT last_insert_rowid()", func(r Row) error { id = r.Int64(0); return nil }); err != nil {
						return err
					}
					for range n {
						if _, err := tx.Exec("INSERT INTO part (item, size) VALUES (?1, 1)", id); err != nil {
							return err
						}
					}
					return nil
				}, nil)
				if err != nil {
					errs <- err
					return
				}
				fmt.Println(name)
			}
		}()
	}
	return <-errs
}
