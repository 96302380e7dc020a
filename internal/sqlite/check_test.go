package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pistate/schema"
)

// damages are ways to break a database of the tests with 100 items, and the check that finds each.
var damages = map[string]struct {
	plant func(t testing.TB, path string)
	check string
	text  string
	quick bool // whether the quick check finds it
}{
	"dangling foreign key": {
		func(t testing.TB, path string) {
			rawExec(t, path, "PRAGMA foreign_keys = OFF", "INSERT INTO part (id, item, size) VALUES (777, 999, 1)")
		}, CheckForeignKeys, "table part: row 777 has no parent in table item", true,
	},
	"index with a wrong entry": {
		func(t testing.TB, path string) { hideIndex(t, path, "UPDATE part SET item = 6 WHERE id = 5") },
		CheckIntegrity, "row 5 missing from index part_by_item", false,
	},
	"index with an entry too many": {
		func(t testing.TB, path string) { hideIndex(t, path, "DELETE FROM part WHERE id = 5") },
		CheckIntegrity, "wrong # of entries in index part_by_item", true,
	},
	"unique values twice": {
		func(t testing.TB, path string) {
			rawExec(t, path,
				"PRAGMA writable_schema = ON",
				"CREATE INDEX again ON item (id % 10)",
				"UPDATE sqlite_schema SET sql = 'CREATE UNIQUE INDEX again ON item (id % 10)' WHERE name = 'again'")
		}, CheckIntegrity, "non-unique entry in index again", false,
	},
	"violated CHECK": {
		func(t testing.TB, path string) {
			rawExec(t, path, "PRAGMA ignore_check_constraints = ON", "UPDATE part SET size = 0 WHERE id = 3")
		}, CheckIntegrity, "CHECK constraint failed in part", true,
	},
	"lost page": {
		func(t testing.TB, path string) {
			rawExec(t, path, "CREATE TABLE lost (a)", "PRAGMA writable_schema = ON", "DELETE FROM sqlite_schema WHERE name = 'lost'")
		}, CheckIntegrity, "never used", true,
	},
	"page used twice": {
		func(t testing.TB, path string) {
			rawExec(t, path, "PRAGMA writable_schema = ON",
				"UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'item') WHERE name = 'part'")
		}, CheckIntegrity, "2nd reference to page", true,
	},
	"wrong free list": {
		func(t testing.TB, path string) { overwrite(t, path, 36, 0, 0, 0, 9) },
		CheckIntegrity, "Freelist", true,
	},
	"damaged page": {
		func(t testing.TB, path string) { overwrite(t, path, 4096*5, make([]byte, 4096)...) },
		CheckIntegrity, "", true,
	},
	"one index more": {
		func(t testing.TB, path string) { rawExec(t, path, "CREATE INDEX extra ON item (data)") },
		CheckSchema, "index extra", true,
	},
}

// hideIndex runs statements that an index does not notice.
func hideIndex(t testing.TB, path string, statements ...string) {
	t.Helper()
	c := raw(t, path, "CREATE TEMP TABLE hidden AS SELECT * FROM sqlite_schema WHERE name = 'part_by_item'",
		"PRAGMA writable_schema = ON", "DELETE FROM sqlite_schema WHERE name = 'part_by_item'", "PRAGMA writable_schema = RESET")
	for _, sql := range statements {
		must(t, c.Exec(sql))
	}
	must(t, c.Exec("PRAGMA writable_schema = ON"))
	must(t, c.Exec("INSERT INTO sqlite_schema SELECT * FROM hidden"))
	must(t, c.Close())
}

func overwrite(t testing.TB, path string, offset int64, content ...byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt(content, offset)
	must(t, err)
	must(t, f.Close())
}

func outcome(t testing.TB, r Report, name string) Outcome {
	t.Helper()
	i := slices.IndexFunc(r.Outcomes, func(o Outcome) bool { return o.Name == name })
	if i < 0 {
		t.Fatalf("there is no check %q in %+v", name, r)
	}
	return r.Outcomes[i]
}

// M1, C61: each kind of damage is found, and by the check that is named after it.
func TestCheckFindsDamage(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			dir := tempDir(t)
			path := filepath.Join(dir, "x.db")
			db := openTest(t, path)
			fill(t, db, 100)
			must(t, db.Close())
			damage.plant(t, path)
			before := files(t, dir)
			for _, quick := range []bool{false, true} {
				report, err := Check(t.Context(), path, CheckOptions{Quick: quick}, verifyTest)
				must(t, err)
				o := outcome(t, report, damage.check)
				if want := !quick || damage.quick; (o.Status == Failed) != want {
					t.Errorf("quick %v: %+v", quick, report)
				}
				if o.Status != Failed {
					if !strings.Contains(o.Note, "indexes") {
						t.Errorf("it does not say what it skips: %+v", o)
					}
					continue
				}
				if !strings.Contains(strings.Join(o.Findings, "\n"), damage.text) {
					t.Errorf("found %q, want %q", o.Findings, damage.text)
				}
				want := schema.Corrupt
				if damage.check == CheckSchema {
					want = schema.Incompatible
				}
				err = report.Err()
				if wantCode(t, err, want); !strings.Contains(err.Error(), path) {
					t.Errorf("%v does not name the file", err)
				}
			}
			wantUnchanged(t, dir, before)
		})
	}
}

// M1, M4, I1: a good database is ok in every state, and a check leaves no trace, also beside a writer.
func TestCheckGood(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "x.db")
	db := openTest(t, path)
	fill(t, db, 100)
	crash(t, path, filepath.Join(dir, "crashed"), "", "-wal", "-shm")
	good := func(path string) {
		t.Helper()
		before := files(t, dir)
		delete(before, "x.db-shm")
		last, whole := 0, 0
		report, err := Check(t.Context(), path, CheckOptions{
			Extra: []CheckFunc{
				{"count", func(rx *Rx, report func(string, ...any)) error {
					n, err := countItems(rx)
					if n != 100 {
						report("%d items", n)
					}
					return err
				}},
			},
			Progress: func(done, total int) {
				if done <= last || done > total {
					t.Errorf("progress %d of %d after %d", done, total, last)
				}
				last, whole = done, total
			},
		}, verifyTest)
		must(t, err)
		text, err := json.Marshal(report)
		must(t, err)
		want := `{"path":` + fmt.Sprintf("%q", path) + `,"outcomes":[{"name":"schema","status":"ok"},` +
			`{"name":"integrity","status":"ok"},{"name":"foreign_keys","status":"ok"},{"name":"count","status":"ok"}]}`
		if string(text) != want || !report.OK() {
			t.Errorf("got %s", text)
		}
		if last != whole || last == 0 {
			t.Errorf("progress ended at %d of %d", last, whole)
		}
		after := files(t, dir)
		for name, was := range before {
			if after[name] != was {
				t.Errorf("%s changed", name)
			}
		}
	}
	good(path)
	good(filepath.Join(dir, "crashed"))
	must(t, db.Close())
	good(path)
	hotJournal(t, path, filepath.Join(dir, "hot"))
	good(filepath.Join(dir, "hot"))
}

// M6: a check that could not run is unknown, and the whole is not ok; a finding weighs more.
func TestCheckUnknown(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	must(t, openTest(t, path).Close())
	broken := CheckFunc{"broken", func(*Rx, func(string, ...any)) error { return errors.New("no idea") }}
	panics := CheckFunc{"panics", func(*Rx, func(string, ...any)) error { panic("help") }}
	finds := CheckFunc{"finds", func(_ *Rx, report func(string, ...any)) error { report("a thing"); return errors.New("and stopped") }}
	corrupt := CheckFunc{"corrupt", func(*Rx, func(string, ...any)) error { return schema.Errorf(schema.Corrupt, "page 7") }}
	for _, test := range []struct {
		extra  CheckFunc
		status Status
		code   schema.Code
		text   string
	}{
		{broken, Unknown, schema.Storage, "no idea"},
		{panics, Unknown, schema.Storage, "panic: help"},
		{finds, Failed, schema.Corrupt, "a thing"},
		{corrupt, Failed, schema.Corrupt, "page 7"},
	} {
		report, err := Check(t.Context(), path, CheckOptions{Extra: []CheckFunc{test.extra}}, verifyTest)
		must(t, err)
		if o := outcome(t, report, test.extra.Name); o.Status != test.status || report.OK() {
			t.Errorf("%s: %+v", test.extra.Name, report)
		}
		wantCode(t, report.Err(), test.code)
		if !strings.Contains(report.Err().Error(), test.text) {
			t.Errorf("%s: %v", test.extra.Name, report.Err())
		}
	}
	report, err := Check(t.Context(), path, CheckOptions{Extra: []CheckFunc{broken, finds}}, verifyTest)
	must(t, err)
	wantCode(t, report.Err(), schema.Corrupt)

	report, err = Check(t.Context(), path, CheckOptions{}, func(*Rx) error { return errors.New("no idea") })
	must(t, err)
	if o := outcome(t, report, CheckSchema); o.Status != Unknown {
		t.Errorf("%+v", report)
	}
	// Where another process keeps the lock of a database without a WAL, nothing can be said.
	rawExec(t, path, "PRAGMA journal_mode = DELETE")
	lock := raw(t, path, "BEGIN EXCLUSIVE")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Check(ctx, path, CheckOptions{}, verifyTest)
	wantCode(t, err, schema.Canceled)
	must(t, lock.Exec("ROLLBACK"))
}

// A database at rest that changes during a check is checked again, and only what holds then counts.
func TestCheckRepeats(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	must(t, openTest(t, path).Close())
	runs := 0
	report, err := Check(t.Context(), path, CheckOptions{Extra: []CheckFunc{{"moving", func(rx *Rx, report func(string, ...any)) error {
		n, err := countItems(rx)
		if n == 0 {
			report("there is nothing")
		}
		if runs++; runs == 1 {
			w, err := Open(t.Context(), path, testSchema)
			if err != nil {
				return err
			}
			if err := join(insert(t.Context(), w, "one"), w.Close()); err != nil {
				return err
			}
			// Where another part of the check reads beside it, the writer leaves its work in the WAL.
			return os.Chtimes(path, time.Time{}, time.Now())
		}
		return err
	}}}}, verifyTest)
	must(t, err)
	if !report.OK() || runs != 2 {
		t.Errorf("after %d runs: %+v", runs, report)
	}
}

// The findings of a check are bounded, whatever it reports.
func TestCheckBounds(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	must(t, openTest(t, path).Close())
	report, err := Check(t.Context(), path, CheckOptions{Extra: []CheckFunc{{"many", func(_ *Rx, report func(string, ...any)) error {
		for i := range 1000 {
			report("%04d %s\xff", i, strings.Repeat("ü", 1000))
			report("%04d %s\xff", i, strings.Repeat("ü", 1000)) // the same again
		}
		return nil
	}}}}, verifyTest)
	must(t, err)
	o := outcome(t, report, "many")
	if len(o.Findings) != maxFindings || o.More < 900 || len(o.Findings[0]) > maxFinding || o.Findings[99][:4] != "0099" {
		t.Errorf("%d findings, %d more, the last %q", len(o.Findings), o.More, o.Findings[len(o.Findings)-1])
	}
}

func TestCheckCanceled(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	fill(t, openTest(t, path), 100)
	for n := 1; n < 4; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		_, err := Check(ctx, path, CheckOptions{Progress: func(done, total int) {
			if calls++; calls == n {
				cancel()
			}
		}}, verifyTest)
		wantCode(t, err, schema.Canceled)
		cancel()
	}
}
