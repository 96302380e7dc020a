package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pistate/schema"
)

// together runs writes so that they share one transaction: they gather while another one is made.
func together(t *testing.T, db *DB, ops ...*op) []error {
	t.Helper()
	gate, blocked := make(chan bool), make(chan error)
	go func() {
		blocked <- db.Write(context.Background(), func(*Tx) error { <-gate; return nil }, nil)
	}()
	eventually(t, "the first transaction", func() bool { return waiting(db) == 0 && running(db) })
	errs := make([]error, len(ops))
	done := make(chan int)
	for i, o := range ops {
		go func() {
			defer func() { done <- i }()
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("recovered %v", p)
				}
			}()
			errs[i] = db.Write(context.Background(), o.fn, o.committed)
		}()
		eventually(t, "queueing", func() bool { return waiting(db) == i+1 }) // in this order
	}
	close(gate)
	must(t, <-blocked)
	for range ops {
		<-done
	}
	return errs
}

func waiting(db *DB) int {
	db.queue.mu.Lock()
	defer db.queue.mu.Unlock()
	return len(db.queue.waiting)
}

func running(db *DB) bool {
	db.queue.mu.Lock()
	defer db.queue.mu.Unlock()
	return db.queue.running
}

// counted makes db count its transactions.
func counted(db *DB) *int {
	n := new(int)
	run := db.queue.run
	db.queue.run = func(q *queue, most int) { *n++; run(q, most) }
	return n
}

func put(name string) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO item (name) VALUES (?1)", name)
		return err
	}
}

func names(t *testing.T, db *DB) string {
	t.Helper()
	var all []string
	must(t, db.Read(t.Context(), func(rx *Rx) error {
		all = nil
		return rx.Query("SELECT name FROM item ORDER BY id", func(r Row) error { all = append(all, r.Text(0)); return nil })
	}))
	return strings.Join(all, " ")
}

// W2: operations that share a transaction fail alone, whatever way they fail.
func TestGroupFailsAlone(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	transactions := counted(db)
	broken := errors.New("broken")
	var order []string
	after := func(name string) func() { return func() { order = append(order, name) } }
	errs := together(t, db,
		&op{fn: put("a"), committed: after("a")},
		&op{fn: func(tx *Tx) error { return join(put("b")(tx), broken) }, committed: after("b")},
		&op{fn: put("a"), committed: after("a again")},
		&op{fn: func(tx *Tx) error { _ = put("c")(tx); panic("c panicked") }, committed: after("c")},
		&op{fn: func(tx *Tx) error { // found by SQLite at the commit of all
			_, err := tx.Exec("INSERT INTO part (item, size) VALUES (99, 1)")
			return err
		}, committed: after("d")},
		&op{fn: func(tx *Tx) error { _ = tx.Script("BEGIN"); return put("e")(tx) }, committed: after("e")},
		&op{fn: func(tx *Tx) error { return put("f")(tx) }, committed: func() { order = append(order, "f"); panic("after f") }},
		&op{fn: put("g"), committed: after("g")},
		&op{fn: put("h")},
	)
	if *transactions != 2 {
		t.Errorf("%d transactions, want 2", *transactions)
	}
	if got := names(t, db); got != "a e f g h" {
		t.Errorf("kept %q", got)
	}
	if got := strings.Join(order, ", "); got != "a, e, f, g" {
		t.Errorf("called after the commit: %q", got)
	}
	for i, want := range []string{"", "broken", "UNIQUE", "recovered c panicked", "FOREIGN KEY", "", "recovered after f", "", ""} {
		if got := fmt.Sprint(errs[i]); want == "" && errs[i] != nil || !strings.Contains(got, want) {
			t.Errorf("operation %d: %v, want %q", i, got, want)
		}
	}
	wantCode(t, errs[2], schema.Conflict)
	wantCode(t, errs[4], schema.Invalid)
	if errs[1] != broken {
		t.Errorf("the error came back as %v", errs[1])
	}
}

// A panic of a write alone reaches its caller, with its value, and undoes the write: whether the caller makes the
// transaction itself, as it does if its context never ends, or not.
func TestPanicReachesCaller(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	value := errors.New("the value")
	for _, ctx := range []context.Context{t.Context(), context.Background()} {
		func() {
			defer func() {
				if p := recover(); p != value {
					t.Errorf("recovered %v", p)
				}
			}()
			_ = db.Write(ctx, func(tx *Tx) error { _ = put("a")(tx); panic(value) }, nil)
			t.Error("it came back")
		}()
	}
	must(t, insert(t.Context(), db, "b"))
	if got := names(t, db); got != "b" {
		t.Errorf("kept %q", got)
	}
}

// A function that ends its goroutine, as a failing test does, ends nothing else.
func TestGoexit(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	errs := together(t, db,
		&op{fn: put("a")},
		&op{fn: func(tx *Tx) error { _ = put("b")(tx); runtime.Goexit(); return nil }},
		&op{fn: put("c")},
	)
	if errs[0] != errGone || errs[1] != errGone || errs[2] != nil {
		t.Errorf("got %v", errs)
	}
	if err := db.Write(t.Context(), func(*Tx) error { runtime.Goexit(); return nil }, nil); err != errGone {
		t.Errorf("got %v", err)
	}
	must(t, insert(t.Context(), db, "d"))
	if got := names(t, db); got != "c d" {
		t.Errorf("kept %q", got)
	}
}

// A caller that makes its transaction itself may end its goroutine in there. That undoes its write, and those that
// have come meanwhile go on.
func TestGoexitOfLeader(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	begun, gate, gone, followed := make(chan bool), make(chan bool), make(chan bool), make(chan error)
	go func() {
		defer close(gone)
		err := db.Write(context.Background(), func(tx *Tx) error {
			must(t, put("a")(tx))
			close(begun)
			<-gate
			runtime.Goexit()
			return nil
		}, func() { t.Error("it was committed") })
		t.Errorf("it came back with %v", err)
	}()
	<-begun
	go func() { followed <- insert(context.Background(), db, "b") }()
	eventually(t, "queueing", func() bool { return waiting(db) == 1 })
	close(gate)
	<-gone
	must(t, <-followed)
	must(t, insert(context.Background(), db, "c"))
	if got := names(t, db); got != "b c" {
		t.Errorf("kept %q", got)
	}
	eventually(t, "an end", func() bool { return !running(db) })
}

// A caller that makes its transaction itself makes that of nobody else: what waits goes on without it.
func TestLeaderIsAlone(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	transactions := counted(db)
	release, begun, led := make(chan bool), make(chan bool), make(chan error)
	errs := make(chan error)
	go func() {
		led <- db.Write(context.Background(), func(*Tx) error {
			close(begun)
			eventually(t, "queueing", func() bool { return waiting(db) == 2 })
			return nil
		}, nil)
	}()
	<-begun
	for _, name := range []string{"a", "b"} {
		go func() {
			errs <- db.Write(context.Background(), func(tx *Tx) error { <-release; return put(name)(tx) }, nil)
		}()
	}
	must(t, <-led) // though the others can't end yet
	close(release)
	must(t, <-errs)
	must(t, <-errs)
	if *transactions != 2 {
		t.Errorf("%d transactions, want 2", *transactions)
	}
}

// When SQLite gives up a transaction, all who were in it are told so, and those who were not yet go on.
func TestTransactionLost(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	limit := func(pages int64) { must(t, db.writer.exec(fmt.Sprint("PRAGMA max_page_count = ", pages))) }
	pages, err := db.writer.pragma("page_count")
	must(t, err)
	limit(pages + 10)
	called := false
	errs := together(t, db,
		&op{fn: put("a"), committed: func() { called = true }},
		&op{fn: func(tx *Tx) error { return full(tx) }},
		&op{fn: put("c")},
		&op{fn: func(tx *Tx) error { _ = full(tx); return nil }}, // does not want to know
		&op{fn: put("e")},
	)
	for i, code := range []schema.Code{schema.Storage, schema.Storage, schema.Storage, schema.Storage, ""} {
		if got := schema.CodeOf(errs[i]); got != code {
			t.Errorf("operation %d: %v (code %q), want %q", i, errs[i], got, code)
		}
	}
	if called {
		t.Error("a lost operation was reported as committed")
	}
	if got := names(t, db); got != "e" {
		t.Errorf("kept %q", got)
	}
	limit(1 << 20)
	must(t, db.Write(t.Context(), full, nil))
}

// full needs more pages than the limit leaves.
func full(tx *Tx) error {
	_, err := tx.Exec("INSERT INTO item (name, data) VALUES ('full', zeroblob(100000))")
	return err
}

// Writes begin in the order in which they came, and what is called after a commit comes before any later
// transaction.
func TestOrder(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	var order []int
	ops := make([]*op, maxBatch+3) // more than one transaction takes
	for i := range ops {
		ops[i] = &op{
			fn: func(tx *Tx) error {
				if slices.Contains(order, -i-1) {
					return errors.New("begun twice")
				}
				return put(fmt.Sprint(i))(tx)
			},
			committed: func() { order = append(order, i) },
		}
	}
	transactions := counted(db)
	for _, err := range together(t, db, ops...) {
		must(t, err)
	}
	if !slices.IsSorted(order) || len(order) != len(ops) {
		t.Errorf("order %v", order)
	}
	if *transactions != 3 {
		t.Errorf("%d transactions, want 3", *transactions)
	}
}

// A write that has not begun when its context ends is not begun any more.
func TestCanceledWrite(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	ctx, cancel := context.WithCancel(t.Context())
	gate, errs := make(chan bool), make(chan error)
	go func() { errs <- db.Write(t.Context(), func(*Tx) error { <-gate; return nil }, nil) }()
	eventually(t, "the first transaction", func() bool { return waiting(db) == 0 && running(db) })
	go func() {
		errs <- db.Write(ctx, func(*Tx) error { return errors.New("it was begun") }, func() { t.Error("it was committed") })
	}()
	eventually(t, "queueing", func() bool { return waiting(db) == 1 })
	cancel()
	wantCode(t, <-errs, schema.Canceled)
	close(gate)
	must(t, <-errs)
	wantCode(t, db.Write(ctx, func(*Tx) error { return errors.New("it was begun") }, nil), schema.Canceled)
	if waiting(db) != 0 {
		t.Error("something is left")
	}
}

// A write that finds nothing running, but the database busy, can still be given up.
func TestCanceledWhileBusy(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	db, other := openTest(t, path), raw(t, path, "BEGIN IMMEDIATE")
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error)
	go func() {
		errs <- db.Write(ctx, func(*Tx) error { return errors.New("it was begun") }, nil)
	}()
	eventually(t, "waiting", func() bool { return waiting(db) == 1 && running(db) })
	cancel()
	wantCode(t, <-errs, schema.Canceled)
	must(t, other.Exec("ROLLBACK"))
	must(t, insert(t.Context(), db, "a"))
}

// Many writers of one process and their readers: nothing is lost, nothing is seen twice.
func TestManyWriters(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	transactions := counted(db)
	const writers, each = 8, 25
	errs := make(chan error)
	for w := range writers {
		go func() {
			var err error
			for i := range each {
				name := fmt.Sprintf("%d-%d", w, i)
				err = join(err, db.Write(t.Context(), put(name), nil))
				err = join(err, db.Read(t.Context(), func(rx *Rx) error {
					found, err := rx.QueryRow("SELECT 1 FROM item WHERE name = ?1", func(Row) error { return nil }, name)
					if err == nil && !found {
						err = fmt.Errorf("%s is not there after its commit", name)
					}
					return err
				}))
			}
			errs <- err
		}()
	}
	for range writers {
		must(t, <-errs)
	}
	wantItems(t, db.Path(), writers*each)
	t.Logf("%d writes in %d transactions", writers*each, *transactions)
}

// A write waits for another process's transaction, and those that come meanwhile go with it.
func TestBusy(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	db := openTest(t, path)
	other := raw(t, path, "BEGIN IMMEDIATE", "INSERT INTO item (name) VALUES ('other')")
	errs := make(chan error)
	go func() { errs <- insert(t.Context(), db, "a") }()
	eventually(t, "waiting", func() bool { return running(db) })
	if readersOpen { // none of which waits
		must(t, db.Read(t.Context(), func(rx *Rx) error { _, err := countItems(rx); return err }))
	}
	must(t, other.Exec("COMMIT"))
	must(t, <-errs)
	wantItems(t, path, 2)

	must(t, db.writer.exec("PRAGMA busy_timeout = 1"))
	must(t, other.Exec("BEGIN IMMEDIATE"))
	wantCode(t, insert(t.Context(), db, "b"), schema.Busy)
	must(t, other.Exec("ROLLBACK"))
	must(t, insert(t.Context(), db, "b"))
}

// S2: a write that comes while another one waits for a busy database waits for its own time.
func TestLateWritesWaitToo(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	db, other := openTest(t, path), openTest(t, path)
	must(t, inside(db.writer).db.BusyTimeout(time.Second))
	writing, over, held := make(chan bool), make(chan bool), make(chan error)
	go func() {
		held <- other.Write(context.Background(), func(*Tx) error { close(writing); <-over; return nil }, nil)
	}()
	<-writing
	early, late := make(chan error, 1), make(chan error, 1)
	go func() { early <- insert(context.Background(), db, "early") }()
	eventually(t, "waiting", func() bool {
		_, known, err := db.DataVersion(t.Context())
		must(t, err)
		return !known
	})
	go func() { late <- insert(context.Background(), db, "late") }()
	wantCode(t, <-early, schema.Busy)
	close(over)
	must(t, <-held)
	must(t, <-late)
}
