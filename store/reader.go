//go:build !wasip1

package store

import (
	"context"
	"time"

	"pistate/internal/sqlite"
)

// Reader reads the workflow database and never writes to it: beside its writers, in a read-only directory,
// or at a backup (I1). It is for one goroutine at a time.
type Reader struct {
	Queries
	r *sqlite.Reader
}

// OpenReader opens an existing database. Errors: [schema.NotFound] where there is none, and nothing is
// created; [schema.Invalid], [schema.Incompatible], [schema.Corrupt], [schema.Busy], [schema.Storage].
func OpenReader(ctx context.Context, path string) (*Reader, error) {
	resolved, err := resolve(path)
	if err != nil {
		return nil, err
	}
	r, err := sqlite.OpenReader(ctx, resolved, verifyShape)
	if err != nil {
		return nil, err
	}
	return &Reader{Queries{r.Read, resolved, time.Now}, r}, nil
}

// DataVersion returns a number that changes when anybody has committed to the database.
func (r *Reader) DataVersion(ctx context.Context) (int64, error) { return r.r.DataVersion(ctx) }

// Close closes the database.
func (r *Reader) Close() error { return r.r.Close() }
