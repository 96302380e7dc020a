package sessionstate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// testClock is a clock that only the test moves.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func openWithClock(t *testing.T) (*Store, *testClock) {
	t.Helper()
	clock := &testClock{now: time.UnixMilli(1_800_000_000_000)}
	st, err := Open(t.Context(), filepath.Join(t.TempDir(), "states.sqlite"), Options{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st, clock
}

// plant writes a lock row as another program would.
func plant(t *testing.T, st *Store, session, holder string, at time.Time) {
	t.Helper()
	err := st.db.Write(t.Context(), func(tx *sqlite.Tx) error {
		_, err := tx.Exec(upsertLock, session, holder, at.UnixMilli())
		return err
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

func lockRows(t *testing.T, st *Store) (rows []string) {
	t.Helper()
	status, err := st.Status(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range status.Locks {
		rows = append(rows, fmt.Sprintf("%s %s %s %v", l.Session, l.Holder, l.Alive, l.Expired))
	}
	return rows
}

// deadPID is the id of a process that has ended.
func deadPID(t *testing.T) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func TestLockRowsOfOthers(t *testing.T) { // Y5
	live := fmt.Sprintf("pid:%d", os.Getppid())
	dead := fmt.Sprintf("pid:%d", deadPID(t))
	for _, c := range []struct {
		name   string
		holder string
		age    time.Duration
		free   bool
	}{
		{"a live foreign holder", live, 0, false},
		{"a live foreign holder at the end of its lease", live, Lease, false},
		{"a live foreign holder beyond its lease", live, Lease + time.Millisecond, true},
		{"a dead holder", dead, 0, true},
		{"this process, as left by another library in it", holderOf(os.Getpid()), 0, true},
		{"a holder of another form", "host:alpha", time.Second, false},
		{"a holder of another form beyond the lease", "host:alpha", Lease + time.Second, true},
		{"pid 0", "pid:0", time.Second, false},
		{"a negative pid", "pid:-1", time.Second, false},
		{"a pid that is no number", "pid:1x", time.Second, false},
		{"a row from a clock ahead by less than a lease", live, -Lease + time.Second, false},
		{"a row from a clock ahead by more than a lease", live, -Lease - time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			st, clock := openWithClock(t)
			s := newState(t, st, "p", ScopeSession)
			since := clock.Now().Add(-c.age)
			for op, run := range map[string]func() error{
				"write":   func() error { return s.Write(t.Context(), at("a"), json.RawMessage(`1`)) },
				"drop":    func() error { return s.Drop(t.Context(), at("a")) },
				"compare": func() error { return s.CompareAndWrite(t.Context(), at("a"), nil, json.RawMessage(`1`)) },
				"hold":    func() error { return st.Hold(t.Context(), "s1", func(context.Context) error { return nil }) },
			} {
				plant(t, st, "s1", c.holder, since)
				err := run()
				if c.free {
					if err != nil {
						t.Errorf("%s: %v", op, err)
					}
					if rows := lockRows(t, st); len(rows) != 0 {
						t.Errorf("%s left %v", op, rows)
					}
					if err := s.Drop(t.Context(), at("a")); err != nil {
						t.Fatal(err)
					}
					continue
				}
				checkRefusal(t, err, c.holder, since)
				if rows := lockRows(t, st); len(rows) != 1 || !strings.HasPrefix(rows[0], "s1 "+c.holder) {
					t.Errorf("%s left %v", op, rows)
				}
				wantValue(t, s, at("a"), "") // a read takes no lock (Y6)
			}
			mustWrite(t, s, At("s2", "a", nil), `1`) // another session is not concerned
		})
	}
}

// checkRefusal wants the four elements, the holder and the times (Y5).
func checkRefusal(t *testing.T, err error, holder string, since time.Time) {
	t.Helper()
	var lock *LockError
	if !errors.Is(err, schema.Locked) || !errors.As(err, &lock) {
		t.Errorf("%v, want a refusal", err)
		return
	}
	if lock.Initiator != holderOf(os.Getpid()) || lock.Action == "" || lock.Object != "s1" || lock.Holder != holder ||
		!lock.Since.Equal(since) || !lock.Until.Equal(since.Add(Lease)) {
		t.Errorf("%+v", lock)
	}
	for _, part := range []string{lock.Initiator, lock.Action, lock.Object, lock.Reason, holder} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestWriteLeavesNoLockRow(t *testing.T) { // Y5
	st := openStore(t)
	s := newState(t, st, "p", ScopeSession)
	mustWrite(t, s, at("a"), `1`)
	if err := s.Drop(t.Context(), at("a")); err != nil {
		t.Fatal(err)
	}
	if rows := lockRows(t, st); len(rows) != 0 {
		t.Errorf("lock rows %v", rows)
	}
}

func TestHold(t *testing.T) { // Y5
	st, clock := openWithClock(t)
	s := newState(t, st, "p", ScopeSession)
	failure := errors.New("the caller's own")
	err := st.Hold(t.Context(), "s1", func(ctx context.Context) error {
		want := "s1 " + holderOf(os.Getpid()) + " yes false"
		if rows := lockRows(t, st); len(rows) != 1 || rows[0] != want {
			t.Errorf("lock rows %q, want %q", rows, want)
		}
		if err := s.Write(ctx, at("a"), json.RawMessage(`1`)); err != nil {
			t.Error(err)
		}
		since := clock.Now()
		checkRefusal(t, s.Write(t.Context(), at("a"), json.RawMessage(`2`)), holderOf(os.Getpid()), since)
		checkRefusal(t, st.Hold(t.Context(), "s1", func(context.Context) error { return nil }), holderOf(os.Getpid()), since)
		mustWrite(t, s, At("s2", "a", nil), `3`)
		if err := st.Hold(ctx, "s1", func(ctx context.Context) error { // its own holder may hold again
			return s.Write(ctx, at("a"), json.RawMessage(`4`))
		}); err != nil {
			t.Error(err)
		}
		return failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("Hold returned %v", err)
	}
	if rows := lockRows(t, st); len(rows) != 0 {
		t.Errorf("lock rows %v after the hold", rows)
	}
	wantValue(t, s, at("a"), `4`)
	mustWrite(t, s, at("a"), `5`)
}

func TestHoldContextIsWorthNothingAfterwards(t *testing.T) { // Y5
	st := openStore(t)
	s := newState(t, st, "p", ScopeSession)
	var kept context.Context
	if err := st.Hold(t.Context(), "s1", func(ctx context.Context) error { kept = ctx; return nil }); err != nil {
		t.Fatal(err)
	}
	plant(t, st, "s1", fmt.Sprintf("pid:%d", os.Getppid()), time.Now())
	if err := s.Write(kept, at("a"), json.RawMessage(`1`)); !errors.Is(err, schema.Locked) {
		t.Errorf("%v", err)
	}
}

func TestHoldIsRenewedByWritesAndLostWithoutThem(t *testing.T) { // Y5
	st, clock := openWithClock(t)
	s := newState(t, st, "p", ScopeSession)
	other := fmt.Sprintf("pid:%d", os.Getppid())
	err := st.Hold(t.Context(), "s1", func(ctx context.Context) error {
		for range 4 {
			clock.move(Lease / 2)
			if err := s.Write(ctx, at("a"), json.RawMessage(`1`)); err != nil {
				return err
			}
		}
		status, err := st.Status(ctx, "s1")
		if err != nil || len(status.Locks) != 1 || !status.Locks[0].Acquired.Equal(clock.Now()) {
			t.Errorf("%+v, %v", status.Locks, err)
		}
		plant(t, st, "s1", other, clock.Now()) // as a program does that judges the row by its age
		err = s.Write(ctx, at("a"), json.RawMessage(`2`))
		if !errors.Is(err, schema.StaleClaim) {
			t.Errorf("write in a lost hold: %v", err)
		}
		return nil
	})
	if !errors.Is(err, schema.StaleClaim) {
		t.Errorf("end of a lost hold: %v", err)
	}
	if rows := lockRows(t, st); len(rows) != 1 || !strings.HasPrefix(rows[0], "s1 "+other) {
		t.Errorf("lock rows %v: the other holder's must stay", rows)
	}
	wantValue(t, s, at("a"), `1`)
}

func TestHoldAfterTheClockWasSetBack(t *testing.T) { // Y5
	st, clock := openWithClock(t)
	s := newState(t, st, "p", ScopeSession)
	err := st.Hold(t.Context(), "s1", func(ctx context.Context) error {
		clock.move(-time.Hour) // the row is now dated so far ahead that nobody could ever judge it by its age
		mustWriteIn(ctx, t, s, `1`)
		status, err := st.Status(ctx, "s1")
		if err != nil || len(status.Locks) != 1 || status.Locks[0].Expired {
			t.Errorf("%+v, %v", status.Locks, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func mustWriteIn(ctx context.Context, t *testing.T, s *State, v string) {
	t.Helper()
	if err := s.Write(ctx, at("a"), json.RawMessage(v)); err != nil {
		t.Fatal(err)
	}
}

func TestHoldersThatCantBeProcesses(t *testing.T) { // Y10
	for holder, want := range map[string]Liveness{
		"pid:1": Yes, "pid:4294967297": Unknown, "pid:2147483648": Unknown, "pid:99999999999999999999": Unknown,
		"pid:+1": Unknown, "pid:": Unknown, "1": Unknown, "": Unknown,
	} {
		if got := liveness(holder); got != want {
			t.Errorf("%q lives: %s, want %s", holder, got, want)
		}
	}
}

func TestConcurrentWritesInOneHold(t *testing.T) { // Y5
	st, clock := openWithClock(t)
	s := newState(t, st, "p", ScopeSession)
	err := st.Hold(t.Context(), "s1", func(ctx context.Context) error {
		clock.move(Lease / 2) // so that the first of them renews
		var wg sync.WaitGroup
		errs := make(chan error, 20)
		for i := range 20 {
			wg.Go(func() { errs <- s.Write(ctx, at("a"), json.RawMessage(fmt.Sprint(i))) })
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestHoldEndsWithAPanic(t *testing.T) { // Y5
	st := openStore(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = st.Hold(t.Context(), "s1", func(context.Context) error { panic("in the caller") })
	}()
	if rows := lockRows(t, st); len(rows) != 0 {
		t.Errorf("lock rows %v", rows)
	}
	if err := st.Hold(t.Context(), "s1", func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestCanceledWriteLeavesNothing(t *testing.T) { // Y5
	st := openStore(t)
	s := newState(t, st, "p", ScopeSession)
	for i := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Write(ctx, at("a"), json.RawMessage(fmt.Sprint(i))) }()
		time.Sleep(time.Duration(i*7) * time.Microsecond)
		cancel()
		err := <-done
		st.Refresh()
		v, _, rerr := s.Read(t.Context(), at("a"))
		if rerr != nil {
			t.Fatal(rerr)
		}
		if written := string(v) == fmt.Sprint(i); written != (err == nil) {
			t.Fatalf("write %d returned %v, and the value is %s", i, err, v)
		}
	}
	if rows := lockRows(t, st); len(rows) != 0 {
		t.Errorf("lock rows %v", rows)
	}
}

func TestForceRefresh(t *testing.T) { // Y10
	st := openStore(t)
	s := newState(t, st, "p", ScopeSession)
	holder := fmt.Sprintf("pid:%d", os.Getppid())
	plant(t, st, "s1", holder, time.Now())
	plant(t, st, "s2", holder, time.Now())
	st.Refresh()
	if err := s.Write(t.Context(), at("a"), json.RawMessage(`1`)); !errors.Is(err, schema.Locked) {
		t.Fatal(err)
	}
	if err := st.ForceRefresh(t.Context(), "s1"); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, s, at("a"), `1`)
	if err := s.Write(t.Context(), At("s2", "a", nil), json.RawMessage(`1`)); !errors.Is(err, schema.Locked) {
		t.Fatal(err)
	}
	if err := st.ForceRefresh(t.Context(), ""); !errors.Is(err, schema.Invalid) {
		t.Fatal(err)
	}
}

// A hold that never ends seals its session for nobody: not for other processes, and no longer for this one.
func TestHoldThatIsStuck(t *testing.T) { // Y5, Y10
	for name, giveUp := range map[string]func(*Store, *testClock) error{
		"forced":  func(st *Store, _ *testClock) error { return st.ForceRefresh(context.Background(), "s1") },
		"expired": func(_ *Store, c *testClock) error { c.move(Lease + time.Second); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			st, clock := openWithClock(t)
			s := newState(t, st, "p", ScopeSession)
			err := st.Hold(t.Context(), "s1", func(stuck context.Context) error {
				mustWriteIn(stuck, t, s, `1`)
				if err := s.Write(t.Context(), at("a"), json.RawMessage(`2`)); !errors.Is(err, schema.Locked) {
					t.Fatalf("beside a hold: %v", err)
				}
				if err := giveUp(st, clock); err != nil {
					t.Fatal(err)
				}
				mustWrite(t, s, at("a"), `3`)
				err := st.Hold(t.Context(), "s1", func(ctx context.Context) error { // at the same millisecond, if forced
					mustWriteIn(ctx, t, s, `4`)
					if err := s.Write(stuck, at("a"), json.RawMessage(`5`)); !errors.Is(err, schema.StaleClaim) {
						t.Errorf("in a hold that was taken over: %v", err)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Write(stuck, at("a"), json.RawMessage(`6`)); !errors.Is(err, schema.StaleClaim) {
					t.Errorf("in a hold that was lost: %v", err)
				}
				return nil
			})
			if !errors.Is(err, schema.StaleClaim) {
				t.Errorf("end of a hold that was lost: %v", err)
			}
			wantValue(t, s, at("a"), `4`)
			if rows := lockRows(t, st); len(rows) != 0 {
				t.Errorf("lock rows %v", rows)
			}
		})
	}
}
