package store

import (
	"context"

	"pistate/internal/sqlite"
)

// list returns what scan makes of each row of a query; nil if there are none.
func list[T any](rx *sqlite.Rx, scan func(sqlite.Row) T, sql string, args ...any) (all []T, err error) {
	err = rx.Query(sql, func(r sqlite.Row) error {
		all = append(all, scan(r))
		return nil
	}, args...)
	return all, err
}

// viewList is list on a snapshot of its own.
func viewList[T any](ctx context.Context, q *Queries, scan func(sqlite.Row) T, sql string, args ...any) (all []T, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		all, err = list(rx, scan, sql, args...)
		return err
	})
	return all, err
}
