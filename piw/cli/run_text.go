package cli

import (
	"fmt"
	"strings"

	"pistate/internal/cli"
	"pistate/store"
)

// text prints a run for people.
func (c *RunCmd) text(env *cli.Env, doc *runDocument) error {
	c.facts(env, doc)
	for _, section := range []func(*cli.Env, *runDocument) error{
		c.steps, c.updates, c.childRuns, c.decisions, c.effectsOfRun, c.captures, c.deliveries,
	} {
		if err := section(env, doc); err != nil {
			return err
		}
	}
	if doc.More {
		last := c.After
		for _, s := range doc.Steps {
			for _, a := range s.Attempts {
				last = max(last, a.Ordinal)
			}
		}
		_, err := fmt.Fprintf(env.Stdout, "(more: --after %d)\n", last)
		return err
	}
	return nil
}

func (c *RunCmd) facts(env *cli.Env, doc *runDocument) {
	r := doc.RunDocument.Run
	env.Fact("run", r.ID)
	env.Say("title", r.Title)
	env.Fact("status", cli.Styled{Value: c.statusLine(env, r), Style: status(r.Status).Style})
	if doc.Situation != nil {
		env.Say("now", c.situation(env, r, *doc.Situation))
		if l := doc.Situation.Lease; l != nil {
			env.Say("owner", fmt.Sprintf("%s, generation %d", ownerText(env, c.output, *l), l.Generation))
		} else {
			env.Fact("owner", "nobody")
		}
	} else {
		env.Say("detail", r.Detail)
	}
	if q := doc.Queue; q != nil {
		text := fmt.Sprintf("%s, available %s", q.Status, c.when(env, q.AvailableAt))
		if q.SettledAt != 0 || q.Unsettled {
			text = string(q.Status)
		}
		if q.Affinity != "" {
			text += ", only for " + c.secret(q.Affinity)
		}
		if q.Errors > 0 {
			text += fmt.Sprintf(", %s, the last %s", count(q.Errors, "error"), q.ErrorCode)
		}
		env.Say("queue", text)
	}
	env.Fact("project", doc.Project.Path+" "+doc.Project.ID)
	env.Fact("workflow", strings.TrimSpace(fmt.Sprintf("%s %s, %s %s", doc.Definition.Name, short(&doc.Definition.Digest), r.Source.Type, r.Source.Ref)))
	mode := string(r.Mode)
	if r.Session != "" {
		mode += ", from session " + c.secret(r.Session)
	}
	env.Fact("mode", mode)
	env.Fact("parent", r.Parent)
	for _, n := range doc.Continuations {
		env.Fact("goes on", fmt.Sprintf("in run %s: %s, after %s", n.Run, n.Status, n.Trigger))
	}
	if r.DeadlineAt != 0 {
		env.Fact("deadline", c.when(env, r.DeadlineAt))
	}
	env.Fact("input", c.content(doc.Contents, r.Input))
	if r.Output != nil {
		env.Fact("output", c.content(doc.Contents, *r.Output))
	}
	if r.Error != nil {
		env.Fact("error", c.content(doc.Contents, *r.Error))
	}
}

func (c *RunCmd) statusLine(env *cli.Env, r store.Run) string {
	text := string(r.Status)
	if r.Paused {
		text += ", paused"
	}
	switch {
	case r.EndedAt != 0 && r.StartedAt != 0:
		text += fmt.Sprintf(" %s, after %s", c.when(env, r.EndedAt), since(env, r.StartedAt, r.EndedAt))
	case r.EndedAt != 0:
		text += " " + c.when(env, r.EndedAt)
	case r.StartedAt != 0:
		text += ", started " + c.when(env, r.StartedAt)
	default:
		text += ", created " + c.when(env, r.CreatedAt)
	}
	if r.DeletionRequestedAt != 0 {
		text += ", to be deleted"
	}
	return text
}

func (c *RunCmd) steps(env *cli.Env, doc *runDocument) error {
	env.Section("steps")
	t := env.Table("NODE", "TYPE", "TRY", "STATUS", "BEGAN", "TOOK", "MADE", "DIGEST").Cut("NODE", "TYPE")
	for _, s := range doc.Steps {
		if len(s.Attempts) == 0 {
			t.Row(s.ID, s.Type, "", cli.Styled{Value: "not begun", Style: cli.Dim}, "", "", "", "")
		}
		for _, a := range s.Attempts {
			made, digest := "", ""
			switch {
			case a.Output != nil:
				made, digest = cli.Size(doc.Contents[*a.Output].Length), short(a.Output)
			case a.Error != nil:
				made, digest = "error", short(a.Error)
			}
			st := status(a.Status)
			if a.InterruptedAt != 0 && a.EndedAt == 0 {
				st = status("interrupted")
			}
			t.Row(s.ID, s.Type, a.Number, st, c.when(env, a.StartedAt), since(env, a.StartedAt, a.EndedAt), made, digest)
		}
	}
	return t.Flush()
}

func (c *RunCmd) updates(env *cli.Env, doc *runDocument) error {
	if len(doc.Updates) == 0 {
		return nil
	}
	node := map[string]string{}
	for _, s := range doc.Steps {
		for _, a := range s.Attempts {
			node[a.ID] = fmt.Sprintf("%s %d", s.ID, a.Number)
		}
	}
	env.Section("progress")
	t := env.Table("ATTEMPT", "TYPE", "KEY", "UPDATES", "LAST", "SIZE", "DIGEST").Cut("ATTEMPT", "TYPE", "KEY")
	for _, u := range doc.Updates {
		t.Row(node[u.Attempt], u.Type, u.Key, u.Sequence, c.when(env, u.At), cli.Size(doc.Contents[u.Data].Length), short(&u.Data))
	}
	return t.Flush()
}

func (c *RunCmd) childRuns(env *cli.Env, doc *runDocument) error {
	if len(doc.children) == 0 {
		return nil
	}
	env.Section("children")
	t := env.Table("RUN", "STATUS", "CREATED", "TITLE", "NOW").Cut("TITLE").Cut("NOW").Optional("CREATED")
	for _, r := range doc.children {
		t.Row(r.ID, status(r.Status), c.when(env, r.CreatedAt), r.Title, c.now(env, r))
	}
	n := len(doc.children)
	return c.section(env, t, n, func() string { return fmt.Sprintf("piw runs --parent %s --before %s", c.ID, doc.children[n-1].ID) })
}

func (c *RunCmd) decisions(env *cli.Env, doc *runDocument) error {
	if len(doc.Decisions) == 0 {
		return nil
	}
	env.Section("decisions")
	t := decisionTable(env)
	for _, d := range doc.Decisions {
		t.Row(decisionRow(env, c.output, d)...)
	}
	n := len(doc.Decisions)
	return c.section(env, t, n, func() string {
		return fmt.Sprintf("piw decisions --run %s --after %s", c.ID, decisionName(doc.Decisions[n-1]))
	})
}

func (c *RunCmd) effectsOfRun(env *cli.Env, doc *runDocument) error {
	if len(doc.Effects) == 0 {
		return nil
	}
	env.Section("effects")
	t := effectTable(env)
	for _, e := range doc.Effects {
		t.Row(effectRow(env, c.output, e)...)
	}
	n := len(doc.Effects)
	return c.section(env, t, n, func() string { return fmt.Sprintf("piw effects --run %s --after %d", c.ID, doc.Effects[n-1].Sequence) })
}

// larger continues a list that has no command of its own.
func (c *RunCmd) larger() string { return "piw run " + c.ID + " with a larger --limit" }

// section ends a list of rows, and says how it goes on if it was as long as it may be.
func (c *RunCmd) section(env *cli.Env, t *cli.Table, rows int, next func() string) error {
	if err := t.Flush(); err != nil || rows < c.Limit {
		return err
	}
	_, err := fmt.Fprintf(env.Stdout, "(more may follow: %s)\n", cli.Escape(next()))
	return err
}

func (c *RunCmd) captures(env *cli.Env, doc *runDocument) error {
	if len(doc.Captures) == 0 {
		return nil
	}
	env.Section("captures")
	t := env.Table("CAPTURE", "SESSION", "STATUS", "BEGAN", "ENTRIES", "EVENTS").Cut("CAPTURE", "SESSION")
	for _, s := range doc.Captures {
		t.Row(s.Key, c.secret(s.Session), status(s.Status), c.when(env, s.StartedAt), s.Entries, s.Events)
	}
	return c.section(env, t, len(doc.Captures), c.larger)
}

// deliveries prints what Pi sessions are to show, and the turns that they are to take.
func (c *RunCmd) deliveries(env *cli.Env, doc *runDocument) error {
	if len(doc.Notifications)+len(doc.Turns) == 0 {
		return nil
	}
	env.Section("for sessions")
	t := env.Table("WHAT", "SESSION", "STATUS", "SINCE", "DIGEST").Cut("WHAT", "SESSION")
	row := func(what string, d store.Delivery, effect store.EffectStatus) {
		st := status(effect)
		if d.Resolution != "" {
			st = status(d.Resolution)
		}
		t.Row(what, c.secret(d.Session), st, c.when(env, d.CreatedAt), short(&d.Payload))
	}
	for _, n := range doc.Notifications {
		row(fmt.Sprintf("%s notification %d", n.Kind, n.Index), n.Delivery, n.EffectStatus)
	}
	for _, u := range doc.Turns {
		row("turn "+u.Key, u.Delivery, u.EffectStatus)
	}
	return c.section(env, t, max(len(doc.Notifications), len(doc.Turns)), c.larger)
}
