package cli

import (
	"pistate/internal/cli"
	"pistate/store"
)

// ProjectsCmd lists projects.
type ProjectsCmd struct {
	lister
	After string `placeholder:"PATH" help:"Begin after this path, as the last line of a longer list says."`
}

// Run prints one line per project.
func (c *ProjectsCmd) Run(env *cli.Env) error {
	list := listing[store.Project]{
		read: func(q *store.Queries, after *store.Project, limit int) ([]store.Project, error) {
			path := c.After
			if after != nil {
				path = after.Path
			}
			return q.Projects(env, path, limit)
		},
		row:  func(p store.Project) []any { return []any{p.ID, c.when(env, p.CreatedAt), p.Path} },
		line: func(p store.Project) any { return p },
		next: func(p store.Project) string { return "--after " + p.Path },
	}
	return list.print(env, c.lister, env.Table("PROJECT", "SINCE", "DIRECTORY").Cut("DIRECTORY"))
}
