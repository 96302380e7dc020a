package store

import (
	"context"

	"pistate/internal/sqlite"
)

// ProjectAt returns the project of a directory, by its absolute path with every symbolic link followed.
// Errors: [schema.NotFound].
func (q *Queries) ProjectAt(ctx context.Context, path string) (p Project, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		found := false
		p, found, err = getProject(rx, projectID(path))
		if err == nil && !found {
			err = notFound("project at", path)
		}
		return err
	})
	return p, err
}
