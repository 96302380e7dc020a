package sessionstate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// Lease is how long a lock row of another live process is honoured. It exceeds the longest time for which
// anybody can rightly hold one: acquire, operate and release may each wait for SQLite's busy timeout.
const Lease = 60 * time.Second

const (
	selectLock = `
		SELECT holder, acquired_at
		  FROM write_lock
		 WHERE session_id = ?1`

	upsertLock = `
		INSERT INTO write_lock (session_id, holder, acquired_at)
		VALUES (?1, ?2, ?3)
		    ON CONFLICT (session_id) DO UPDATE
		   SET holder      = excluded.holder,
		       acquired_at = excluded.acquired_at`

	deleteLock = `
		DELETE FROM write_lock
		 WHERE session_id = ?1`

	// The time tells this acquisition from a later one of the same process.
	releaseLock = `
		DELETE FROM write_lock
		 WHERE session_id  = ?1
		   AND holder      = ?2
		   AND acquired_at IN (?3, ?4)`
)

// LockError says why a session's lock was refused. It is the cause of an error with code [schema.Locked].
type LockError struct {
	Initiator string // who asked: this process
	Action    string // what it wanted to do
	Object    string // the session
	Reason    string // why not

	Holder string    // the lock row's holder
	Since  time.Time // when it was acquired
	Until  time.Time // when it can be taken over at the latest
}

func (e *LockError) Error() string {
	return fmt.Sprintf("%s can't %s in session %s: %s", e.Initiator, e.Action, e.Object, e.Reason)
}

// hold is a lock row that this process keeps across several writes.
// Its fields are used by the writer alone.
type hold struct {
	acquired int64 // acquired_at of the row
	renewed  int64 // acquired_at of the row once the transaction that renews it has committed

	over atomic.Bool // its Hold has returned
}

// has reports whether a row of this process with that time is this hold's.
func (h *hold) has(acquired int64) bool { return acquired == h.acquired || acquired == h.renewed }

// holdKey finds the hold of a context. The token is the hold itself: another goroutine of this process,
// though it has the same holder text, does not have it.
type holdKey struct {
	store   *shared
	session string
}

// Hold runs fn while this process holds the session's lock: other processes, and other goroutines of this
// one, are refused. Writes that fn makes with the context it is given go through, and renew the row's time.
// Reads are those of any other time: where what is written depends on what was read, and other processes write
// the session too, read with a [Config.Coherent] state, or after [Store.Refresh].
//
// A Hold that makes no write for longer than [Lease] may be taken over; its next write, or its end, then
// fails with [schema.StaleClaim].
//
// Errors: [schema.Locked] with a [*LockError] if somebody else holds the lock; what fn returns.
func (st *Store) Hold(ctx context.Context, sessionID string, fn func(context.Context) error) (err error) {
	if err := CheckSessionID(sessionID); err != nil {
		return err
	}
	if err := st.checkOpen(); err != nil {
		return err
	}
	key := holdKey{st.shared, sessionID}
	if st.heldBy(ctx, sessionID) != nil {
		return fn(ctx) // within an outer Hold of the same session
	}
	h := &hold{}
	defer st.end(sessionID, h)
	err = st.db.Write(ctx, func(tx *sqlite.Tx) error {
		if _, err := st.clearLock(tx, sessionID, "hold the lock"); err != nil {
			return err
		}
		h.acquired = st.now().UnixMilli()
		h.renewed = h.acquired
		st.begin(sessionID, h)
		_, err := tx.Exec(upsertLock, sessionID, st.holder, h.acquired)
		return err
	}, nil)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, st.release(context.WithoutCancel(ctx), sessionID, h))
	}()
	return fn(context.WithValue(ctx, key, h))
}

// heldBy returns the hold that a context carries for a session of this store.
func (s *shared) heldBy(ctx context.Context, session string) *hold {
	h, _ := ctx.Value(holdKey{s, session}).(*hold)
	if h == nil || h.over.Load() { // a context kept beyond its Hold
		return nil
	}
	return h
}

// holdOf returns the hold that this process has of a session, nil for none.
func (s *shared) holdOf(session string) *hold {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.holds[session]
}

func (s *shared) begin(session string, h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds[session] = h
}

// end ends a hold, unless another one has taken its place.
func (s *shared) end(session string, h *hold) {
	h.over.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds[session] == h {
		delete(s.holds, session)
	}
}

// release gives the lock back, and lets others of this process in with the same transaction.
func (s *shared) release(ctx context.Context, session string, h *hold) error {
	return s.db.Write(ctx, func(tx *sqlite.Tx) error {
		if s.holdOf(session) != h {
			return lost(session)
		}
		n, err := tx.Exec(releaseLock, session, s.holder, h.acquired, h.renewed)
		if err == nil && n == 0 {
			err = lost(session)
		}
		return err
	}, func() { s.end(session, h) })
}

func lost(session string) error {
	return schema.Errorf(schema.StaleClaim, "session %s: its lock was taken over (held for more than %v without a write, or cleared by hand)", session, Lease)
}

// writeLocked runs fn in a transaction that holds the session's lock. For a single write the row would be
// inserted and deleted in the same transaction, which nobody else can see, so it is only checked: SQLite's
// own write lock excludes everybody until the commit (Y5).
func (s *shared) writeLocked(ctx context.Context, session, action string, fn func(*sqlite.Tx) error, committed func()) error {
	if h := s.heldBy(ctx, session); h != nil {
		return s.writeHeld(ctx, session, h, fn, committed)
	}
	return s.db.Write(ctx, func(tx *sqlite.Tx) error {
		stale, err := s.clearLock(tx, session, action)
		if err != nil {
			return err
		}
		if stale {
			if _, err := tx.Exec(deleteLock, session); err != nil {
				return err
			}
		}
		return fn(tx)
	}, committed)
}

// writeHeld runs fn in a transaction under a lock row that this process holds.
func (s *shared) writeHeld(ctx context.Context, session string, h *hold, fn func(*sqlite.Tx) error, committed func()) error {
	return s.db.Write(ctx, func(tx *sqlite.Tx) error {
		if err := s.renew(tx, session, h); err != nil {
			return err
		}
		return fn(tx)
	}, func() {
		h.acquired = h.renewed
		committed()
	})
}

// renew checks that a Hold still has its row, and dates it anew when a good part of the lease is over.
func (s *shared) renew(tx *sqlite.Tx, session string, h *hold) error {
	holder, acquired, found, err := lockRow(tx, session)
	if err != nil {
		return err
	}
	if !found || holder != s.holder || !h.has(acquired) || s.holdOf(session) != h {
		return lost(session)
	}
	now := s.now().UnixMilli()
	if age := now - acquired; 0 <= age && age < Lease.Milliseconds()/6 { // below 0 if the clock was set back
		return nil
	}
	if _, err := tx.Exec(upsertLock, session, s.holder, now); err != nil {
		return err
	}
	h.renewed = now
	return nil
}

func lockRow(tx *sqlite.Tx, session string) (holder string, acquired int64, found bool, err error) {
	found, err = tx.QueryRow(selectLock, func(r sqlite.Row) error {
		holder, acquired = r.Text(0), r.Int64(1)
		return nil
	}, session)
	return holder, acquired, found, err
}

// clearLock decides whether the session's lock is free. stale tells that there is a row that may be taken
// over: of this process, of one that is gone, or older than the lease.
func (s *shared) clearLock(tx *sqlite.Tx, session, action string) (stale bool, err error) {
	holder, acquired, found, err := lockRow(tx, session)
	if err != nil || !found {
		return false, err
	}
	since := time.UnixMilli(acquired)
	if expired(since, s.now()) {
		return true, nil
	}
	if h := s.holdOf(session); holder == s.holder && h != nil && h.has(acquired) {
		return false, s.locked(action, session, holder, since, "another part of this process holds it")
	}
	if holder == s.holder || liveness(holder) == No {
		return true, nil
	}
	return false, s.locked(action, session, holder, since, "it is held by "+holder)
}

// expired reports whether a lock row may be taken over by its age alone. A row dated into the future is of a holder
// whose clock was ahead, or ours was set back since: that makes no lock older. [Store.ForceRefresh] is the way out
// for a person who knows better.
func expired(since, now time.Time) bool { return now.Sub(since) > Lease }

func (s *shared) locked(action, session, holder string, since time.Time, why string) error {
	e := &LockError{
		Initiator: s.holder,
		Action:    action,
		Object:    session,
		Holder:    holder,
		Since:     since,
		Until:     since.Add(Lease),
	}
	e.Reason = fmt.Sprintf("%s since %s; try again, at the latest after %s", why, stamp(e.Since), stamp(e.Until))
	return &schema.Error{Code: schema.Locked, Detail: e.Error(), Err: e}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Liveness is what is known of a lock holder's process.
type Liveness string

// The answers of [Liveness].
const (
	Yes     Liveness = "yes"
	No      Liveness = "no"
	Unknown Liveness = "unknown"
)

// pidOf returns the process id of a holder; ok is false for a holder of another form.
func pidOf(holder string) (pid int, ok bool) {
	digits, ok := strings.CutPrefix(holder, "pid:")
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseUint(digits, 10, 31) // what kill takes more of, it cuts off, and asks for another process
	return int(id), err == nil && id > 0
}

func liveness(holder string) Liveness {
	pid, ok := pidOf(holder)
	if !ok {
		return Unknown
	}
	return processLives(pid)
}

// ProcessLives tells whether there is a process with an id. A host answers its guests with it, who can't know.
func ProcessLives(pid int) Liveness {
	if pid <= 0 { // the kernel takes that for a group of processes
		return Unknown
	}
	return processLives(pid)
}
