package store

import (
	"context"
	"path/filepath"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// OpProjectRegister is the operation on projects.
const OpProjectRegister Op = "project.register"

var projectOperations = []Operation{{
	Op: OpProjectRegister, Does: "make a project known by the path of its directory",
	Eventless: true, // a project is immutable: its row is its record
	Rights:    rights(Right{}, SessionActor, HostActor, ControlActor, SystemActor),
}}

// Project is a directory whose runs and controllers are kept together (R10).
type Project struct {
	ID        string `json:"id"`   // derived from the path
	Path      string `json:"path"` // absolute, with symbolic links resolved
	CreatedAt Millis `json:"created_at"`
}

const (
	selProject = `
		SELECT project_id, path, created_at
		  FROM projects
		 WHERE project_id = ?1`

	selProjects = `
		SELECT project_id, path, created_at
		  FROM projects
		 WHERE path > ?1
		 ORDER BY path
		 LIMIT ?2`

	insProject = `
		INSERT INTO projects (project_id, path, created_at)
		VALUES (?1, ?2, ?3)`
)

func scanProject(r sqlite.Row) Project { return Project{r.Text(0), r.Text(1), Millis(r.Int64(2))} }

func getProject(rx *sqlite.Rx, id string) (p Project, found bool, err error) {
	found, err = rx.QueryRow(selProject, func(r sqlite.Row) error {
		p = scanProject(r)
		return nil
	}, id)
	return p, found, err
}

// projectID returns the id of the project at a canonical path.
func projectID(path string) string { return derivedID("prj", path) }

// canonicalPath returns the one path of a directory: absolute, clean, with every symbolic link followed.
func canonicalPath(path string, follow func(string) (string, error)) (string, error) {
	if !filepath.IsAbs(path) {
		return "", schema.Errorf(schema.Invalid, "project path %q is relative: give an absolute path", path)
	}
	real, err := follow(filepath.Clean(path))
	if err != nil {
		return "", schema.Errorf(schema.Invalid, "project path %s: %w", path, err)
	}
	return real, checkText("project path", real)
}

// RegisterProject makes a project known, or finds it: the same directory, however its path is spelled, is
// the same project.
//
// Errors: [schema.Invalid] for a path that is relative or does not exist.
type RegisterProject struct {
	Path string `json:"path"`
}

// Op returns "project.register".
func (RegisterProject) Op() Op { return OpProjectRegister }

func (c RegisterProject) prepare(d *draft) *plan[Project] {
	path, err := canonicalPath(c.Path, d.store.followLinks)
	d.fail(err)
	d.fail(d.secret("path", []byte(path)))
	id := projectID(path)
	return &plan[Project]{
		payload: RegisterProject{path},
		existing: func(rx *sqlite.Rx) (Project, bool, error) {
			p, found, err := getProject(rx, id)
			if found && p.Path != path {
				err = refuse(schema.Conflict, &ConflictError{Identity: "project " + id, Winner: p})
			}
			return p, found, err
		},
		decide: func(f *facts) (*change[Project], error) {
			p := Project{id, path, f.now}
			return &change[Project]{
				result: p,
				rows: func(tx *sqlite.Tx) error {
					_, err := tx.Exec(insProject, p.ID, p.Path, int64(p.CreatedAt))
					return err
				},
			}, nil
		},
	}
}

// Project returns a project by its id. Errors: [schema.NotFound].
func (q *Queries) Project(ctx context.Context, id string) (p Project, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		found := false
		p, found, err = getProject(rx, id)
		if err == nil && !found {
			err = notFound("project", id)
		}
		return err
	})
	return p, err
}

// Projects returns at most limit projects after a path, by path.
func (q *Queries) Projects(ctx context.Context, after string, limit int) (projects []Project, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	return viewList(ctx, q, scanProject, selProjects, after, limit)
}
