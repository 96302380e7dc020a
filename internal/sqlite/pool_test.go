//go:build !lent

// These tests are about reads at the same time, for which the lent build has no connections.

package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"pistate/schema"
)

func TestClose(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	db, err := Open(t.Context(), path, testSchema)
	must(t, err)
	must(t, insert(t.Context(), db, "one"))

	reading, closed := make(chan bool), make(chan error)
	waiting := make(chan error)
	go db.Read(context.Background(), func(rx *Rx) error {
		close(reading)
		<-waiting
		return nil
	})
	<-reading
	go func() { closed <- db.Close() }()
	eventually(t, "closing", func() bool {
		return errors.Is(db.Read(t.Context(), func(*Rx) error { return nil }), schema.Closed)
	})
	select {
	case <-closed:
		t.Error("Close did not wait for a read")
	default:
	}
	close(waiting)
	must(t, <-closed)
	must(t, db.Close())
	wantCode(t, insert(t.Context(), db, "two"), schema.Closed)
	wantCode(t, db.Read(t.Context(), func(*Rx) error { return nil }), schema.Closed)
	_, _, err = db.DataVersion(t.Context())
	wantCode(t, err, schema.Closed)
	if found := files(t, filepath.Dir(path)); len(found) != 2 {
		t.Errorf("something is left beside the database: %v", found)
	}
}

func TestReadersAreMany(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	fill(t, db, 3)
	all := make(chan bool)
	errs := make(chan error)
	for i := range maxReaders {
		go func() {
			errs <- db.Read(t.Context(), func(rx *Rx) error {
				if i == 0 {
					close(all) // in the middle of the others
				}
				<-all
				_, err := countItems(rx)
				return err
			})
		}()
	}
	for range maxReaders {
		must(t, <-errs)
	}

	// One more than there may be waits, until its context ends.
	hold, held := make(chan bool), make(chan bool)
	for range maxReaders {
		go func() { errs <- db.Read(t.Context(), func(*Rx) error { held <- true; <-hold; return nil }) }()
	}
	for range maxReaders {
		<-held
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { errs <- db.Read(ctx, func(*Rx) error { return errors.New("it was read") }) }()
	cancel()
	wantCode(t, <-errs, schema.Canceled)
	close(hold)
	for range maxReaders {
		must(t, <-errs)
	}
}

// A reading connection that has failed inside is exchanged.
func TestBrokenReader(t *testing.T) {
	db := openTest(t, filepath.Join(tempDir(t), "x.db"))
	err := db.Read(t.Context(), func(rx *Rx) error {
		return inside(rx.c).try(func() error { panic("damage") })
	})
	wantCode(t, err, schema.Storage)
	must(t, db.Read(t.Context(), func(rx *Rx) error { _, err := countItems(rx); return err }))
}
