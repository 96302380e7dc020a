package cli

import (
	"pistate/internal/cli"
	"pistate/store"
)

// RunsCmd lists runs.
type RunsCmd struct {
	lister
	Project string `placeholder:"ID|DIR" help:"Only the runs of this project, by its id or its directory."`
	Status  string `default:"" enum:",queued,running,waiting,completed,failed,timed_out,cancelled" placeholder:"STATUS" help:"Only runs in this status: queued, running, waiting, completed, failed, timed_out or cancelled."`
	Session string `placeholder:"ID|FILE" help:"Only runs that came from this Pi session, by its id or its file."`
	Parent  string `placeholder:"RUN" help:"Only the parts and continuations of this run."`
	Before  string `placeholder:"RUN" help:"Only older ones than this run, as the last line of a longer list says."`
}

// Help is shown below the flags.
func (*RunsCmd) Help() string {
	return `From the newest to the oldest. NOW says what a run waits for, or that it is stuck and why: its owner's lease has expired, nobody owns it, nobody knows whether an effect of it happened, its deadline has passed.

  piw runs --status running        what is at work, and what only seems to be
  piw runs --status waiting        what waits for people
  piw runs --project .             the runs of the project in this directory
  piw run ID                       all about one of them`
}

// runRow is a run with what is going on with it.
type runRow struct {
	store.Run
	Situation *store.Situation `json:"situation,omitempty"` // of one that has not ended
}

// Run prints one line per run.
func (c *RunsCmd) Run(env *cli.Env) error {
	session, err := sessionID(c.Session)
	if err != nil {
		return err
	}
	project, err := parseProject(c.Project)
	if err != nil {
		return err
	}
	filter := store.RunFilter{Parent: c.Parent, Session: session, Status: store.RunStatus(c.Status)}
	list := listing[runRow]{
		read: func(q *store.Queries, after *runRow, limit int) ([]runRow, error) {
			before, err := c.start(env, q, after)
			if err == nil {
				filter.Project, err = project.find(env, q)
			}
			if err != nil {
				return nil, err
			}
			runs, err := q.Runs(env, filter, before, limit)
			if err != nil {
				return nil, err
			}
			return situations(env, q, runs)
		},
		row: func(r runRow) []any {
			return []any{r.ID, status(r.Status), c.when(env, r.CreatedAt), r.Title, c.now(env, r)}
		},
		line: func(r runRow) any { return runRow{c.run(r.Run), c.shown(r.Situation)} },
		next: func(r runRow) string { return "--before " + r.ID },
	}
	return list.print(env, c.lister, env.Table("RUN", "STATUS", "CREATED", "TITLE", "NOW").Cut("TITLE").Cut("NOW").Optional("CREATED"))
}

// start returns the run before which a page begins.
func (c *RunsCmd) start(env *cli.Env, q *store.Queries, after *runRow) (before store.Run, err error) {
	if after != nil {
		return after.Run, nil
	}
	if c.Before == "" {
		return before, nil
	}
	return q.Run(env, c.Before)
}

// situations adds to each open run what is going on with it.
func situations(env *cli.Env, q *store.Queries, runs []store.Run) ([]runRow, error) {
	rows := make([]runRow, len(runs))
	for i, run := range runs {
		rows[i].Run = run
		if run.EndedAt != 0 {
			continue
		}
		s, err := q.Situation(env, run)
		if err != nil {
			return nil, err
		}
		rows[i].Situation = &s
	}
	return rows, nil
}
