package cli

import (
	"strconv"

	"pistate/internal/cli"
	"pistate/store"
)

// QueueCmd lists the queue of runs.
type QueueCmd struct {
	lister
	Project string `placeholder:"ID|DIR" help:"Only the runs of this project, by its id or its directory."`
	Status  string `default:"" enum:",queued,starting,running,parked,done,failed,cancelled" placeholder:"STATUS" help:"Only places in this status: queued, starting, running, parked, done, failed or cancelled. Without it, all of runs that have not ended."`
	After   string `placeholder:"RUN" help:"Begin after this run, as the last line of a longer list says."`
}

// Help is shown below the flags.
func (*QueueCmd) Help() string {
	return `In the order in which the runs become available. A run with errors was given back to be tried again; one that is starting or running has an owner, whom piw leases shows.`
}

// Run prints one line per place in the queue.
func (c *QueueCmd) Run(env *cli.Env) error {
	project, err := parseProject(c.Project)
	if err != nil {
		return err
	}
	filter := store.QueueFilter{Status: store.QueueStatus(c.Status)}
	list := listing[store.Queued]{
		read: func(q *store.Queries, after *store.Queued, limit int) ([]store.Queued, error) {
			var place store.Queued
			var err error
			switch {
			case after != nil:
				place = *after
			case c.After != "":
				place, err = q.QueueRow(env, c.After)
			}
			if err == nil {
				filter.Project, err = project.find(env, q)
			}
			if err != nil {
				return nil, err
			}
			return q.Queue(env, filter, place, limit)
		},
		row: func(p store.Queued) []any {
			failures := ""
			if p.Errors > 0 {
				failures = strconv.Itoa(p.Errors) + " " + p.ErrorCode
			}
			return []any{
				p.Run, status(p.Status), c.when(env, p.AvailableAt), c.when(env, p.EnqueuedAt), cli.Styled{Value: failures, Style: cli.Warn},
				c.secret(p.Session), c.secret(p.Affinity),
			}
		},
		line: func(p store.Queued) any { return c.queued(p) },
		next: func(p store.Queued) string { return "--after " + p.Run },
	}
	t := env.Table("RUN", "STATUS", "AVAILABLE", "ENQUEUED", "ERRORS", "SESSION", "ONLY FOR").Cut("ERRORS", "SESSION", "ONLY FOR").Optional("ENQUEUED")
	return list.print(env, c.lister, t)
}
