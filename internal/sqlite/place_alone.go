//go:build lent || wasip1

package sqlite

import "context"

// readers has no connection of its own here, as there is one for everything: reads and writes take turns.
type readers struct{ db *DB }

func (r *readers) with(ctx context.Context, fn func(*Rx) error) error {
	if err := ctx.Err(); err != nil {
		return translate(r.db.path, err)
	}
	r.db.mu.Lock()
	defer r.db.mu.Unlock()
	if r.db.failure != nil {
		return r.db.failure
	}
	if err := r.db.mustBeInPlace(); err != nil {
		return err
	}
	return r.db.writer.view(ctx, fn)
}

func (r *readers) close(error) error { return nil }
