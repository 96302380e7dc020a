package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"pistate/schema"
)

func TestKeepRenews(t *testing.T) { // R3
	s := openAt(t, newPath(t), Options{})
	mustCreate(t, s, "c1")
	const ttl = 600 * time.Millisecond
	claim := mustClaim(t, s, host1, channel("c1"), ttl)
	kept, stop := Keep(t.Context(), s, host1, claim, ttl)
	for l := (Lease{}); l.HeartbeatAt == l.AcquiredAt; { // until it was renewed
		var err error
		if l, err = s.Lease(t.Context(), channel("c1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if kept.Err() != nil {
		t.Error(context.Cause(kept))
	}
	stop()
	stop()
	if kept.Err() == nil || errors.Is(context.Cause(kept), schema.StaleClaim) {
		t.Errorf("after stop: %v", context.Cause(kept))
	}
}

func TestKeepNoticesTheLoss(t *testing.T) { // R3
	s, c := openStore(t)
	mustCreate(t, s, "c1")
	claim := mustClaim(t, s, host1, channel("c1"), 30*time.Millisecond)
	kept, stop := Keep(t.Context(), s, host1, claim, 30*time.Millisecond)
	defer stop()
	for claimed := false; !claimed; { // the clock runs away from the keeper
		c.move(time.Hour)
		_, err := Do(t.Context(), s, as(host2, nil), ClaimLease{channel("c1"), MaxLeaseMS})
		if claimed = err == nil; !claimed && !errors.Is(err, schema.Locked) {
			t.Fatal(err)
		}
	}
	<-kept.Done()
	if err := context.Cause(kept); !errors.Is(err, schema.StaleClaim) {
		t.Error(err)
	}
}

// Another process holds the database while the claim would have to be renewed: it is lost only when its time
// is really over.
func TestKeepRidesOutABusyDatabase(t *testing.T) { // R3
	s := openAt(t, newPath(t), Options{})
	mustCreate(t, s, "c1")
	const ttl = 1500 * time.Millisecond
	claim := mustClaim(t, s, host1, channel("c1"), ttl)
	other, err := sqlite3.Open(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	kept, stop := Keep(t.Context(), s, host1, claim, ttl)
	defer stop()
	time.Sleep(ttl * 2 / 3) // two renewals come due
	if err := other.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	for l := (Lease{}); l.HeartbeatAt == l.AcquiredAt; {
		if l, err = s.Lease(t.Context(), channel("c1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if kept.Err() != nil {
		t.Error(context.Cause(kept))
	}
}

// A renewal that fails for good, or until the lease is over, ends the work.
func TestKeepOfAClosedStore(t *testing.T) { // R3
	s, _ := newStore(t)
	mustCreate(t, s, "c1")
	claim := mustClaim(t, s, host1, channel("c1"), 20*time.Millisecond)
	kept, stop := Keep(t.Context(), s, host1, claim, 20*time.Millisecond)
	defer stop()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	<-kept.Done()
	if err := context.Cause(kept); !errors.Is(err, schema.Closed) {
		t.Error(err)
	}
}
