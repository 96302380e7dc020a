//go:build !lent

// A write in the middle of a snapshot takes a second connection, which the lent build doesn't have.

package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"pistate/schema"
)

// A snapshot sees nothing of what comes after its beginning, and the clock stands still in it.
func TestSnapshot(t *testing.T) { // V2
	f := history(t)
	ctx := context.Background()
	then := f.clock.Now().Add(-time.Hour) // when no lease had expired
	err := f.Snapshot(ctx, then, func(q *Queries) error {
		before, err := q.LastSequence(ctx)
		if err != nil {
			return err
		}
		f.create(f.spec("r9"))
		after, err := q.LastSequence(ctx)
		if err != nil || after != before {
			t.Errorf("%d events, then %d (%v)", before, after, err)
		}
		l, err := q.Lease(ctx, "run:r1")
		if err != nil || l.Expired {
			t.Errorf("%+v, %v", l, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	project, err := f.Project(ctx, f.project)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := f.ProjectAt(ctx, project.Path); err != nil || at != project {
		t.Errorf("%+v, %v", at, err)
	}
	if _, err := f.ProjectAt(ctx, "/nosuch"); !errors.Is(err, schema.NotFound) {
		t.Error(err)
	}
}
