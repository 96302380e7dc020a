package cli

import (
	"fmt"
	"strconv"
	"strings"

	"pistate/internal/cli"
	"pistate/schema"
	"pistate/store"
)

// DecisionsCmd lists decisions, or shows one.
type DecisionsCmd struct {
	lister
	Decision string `arg:"" optional:"" help:"Show this decision with every answer to it: its id, or RUN/KEY."`
	Pending  bool   `xor:"which" help:"Only those that wait for an answer, the oldest first."`
	RunID    string `name:"run" xor:"which" placeholder:"RUN" help:"Only the decisions of this run."`
	Audience string `placeholder:"NAME" help:"With --pending: only those for this audience."`
	After    string `placeholder:"DECISION" help:"Begin after this decision, as the last line of a longer list says."`
}

// Help is shown below the flags.
func (*DecisionsCmd) Help() string {
	return `From the newest to the oldest. BY says who decided: a person, or the policy that was agreed on for the deadline.

  piw decisions --pending          what people are asked now
  piw decisions RUN/KEY --private  what was asked, and every answer to it`
}

// Run prints one line per decision, or all about one.
func (c *DecisionsCmd) Run(env *cli.Env) error {
	if c.Decision != "" {
		return c.show(env)
	}
	if c.Audience != "" && !c.Pending {
		return schema.Errorf(schema.Invalid, "--audience goes with --pending")
	}
	list := listing[store.Decision]{
		read: func(q *store.Queries, after *store.Decision, limit int) ([]store.Decision, error) {
			if after == nil && c.After != "" {
				v, err := findDecision(env, q, c.After)
				if err != nil {
					return nil, err
				}
				after = &v.Decision
			}
			return c.read(env, q, after, limit)
		},
		row:  func(d store.Decision) []any { return decisionRow(env, c.output, d) },
		line: func(d store.Decision) any { return d },
		next: func(d store.Decision) string { return "--after " + decisionName(d) },
	}
	return list.print(env, c.lister, decisionTable(env))
}

func (c *DecisionsCmd) read(env *cli.Env, q *store.Queries, after *store.Decision, limit int) ([]store.Decision, error) {
	var place store.Place
	key, revision := "", 0
	if after != nil {
		place, key, revision = after.Place(), after.Key, after.RequestRevision
	}
	switch {
	case c.RunID != "":
		if _, err := q.Run(env, c.RunID); err != nil {
			return nil, err
		}
		return q.DecisionsOfRun(env, c.RunID, key, revision, limit)
	case c.Pending:
		return q.PendingDecisions(env, c.Audience, place, limit)
	}
	return q.Decisions(env, place, limit)
}

// decisionName is a name by which people can speak of a decision.
func decisionName(d store.Decision) string {
	name := d.Run + "/" + d.Key
	if d.RequestRevision > 1 {
		name += "#" + strconv.Itoa(d.RequestRevision)
	}
	return name
}

// findDecision finds a decision by its id or by a name as decisionName makes them.
func findDecision(env *cli.Env, q *store.Queries, name string) (store.DecisionView, error) {
	run, key, ok := strings.Cut(name, "/")
	if !ok {
		return q.Decision(env, name)
	}
	revision := 1
	if i := strings.LastIndexByte(key, '#'); i >= 0 {
		if n, err := strconv.Atoi(key[i+1:]); err == nil {
			key, revision = key[:i], n
		}
	}
	found, err := q.DecisionsOfRun(env, run, key, revision-1, 1)
	if err != nil {
		return store.DecisionView{}, err
	}
	if len(found) == 0 || found[0].Key != key || found[0].RequestRevision != revision {
		return store.DecisionView{}, schema.Errorf(schema.NotFound, "there is no decision %s", name)
	}
	return q.Decision(env, found[0].ID)
}

func decisionTable(env *cli.Env) *cli.Table {
	return env.Table("DECISION", "STATUS", "CHOICE", "BY", "WHEN", "TITLE").Cut("TITLE", "BY", "CHOICE")
}

func decisionRow(env *cli.Env, o output, d store.Decision) []any {
	if r := d.Resolution; r != nil {
		choice := r.Choice
		if choice == "" {
			choice = "(" + string(r.Reason) + ")"
		}
		return []any{decisionName(d), status(d.Status), choice, o.actor(r.Actor), o.when(env, r.At), d.Title}
	}
	due := ""
	if d.DeadlineAt != 0 {
		due = "due " + o.when(env, d.DeadlineAt)
	}
	return []any{decisionName(d), cli.Styled{Value: d.Status, Style: cli.Warn}, "", "", due, d.Title}
}

// decisionJSON is a decision with what was asked and answered.
type decisionJSON struct {
	store.DecisionView
	Asked       *store.AskedDecision       `json:"asked,omitempty"` // only with --private
	Submissions []store.DecisionSubmission `json:"submissions"`
}

// show prints all about one decision.
func (c *DecisionsCmd) show(env *cli.Env) error {
	var doc decisionJSON
	err := c.view(env, func(q *store.Queries) (err error) {
		doc = decisionJSON{}
		if doc.DecisionView, err = findDecision(env, q, c.Decision); err != nil {
			return err
		}
		if c.Private {
			asked, err := q.AskedDecision(env, doc.ID)
			if err != nil {
				return err
			}
			doc.Asked = &asked
		}
		doc.Submissions, err = q.DecisionSubmissions(env, doc.ID, 0, store.MaxPage)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		doc.Effects = c.effects(doc.Effects)
		for i, s := range doc.Submissions {
			doc.Submissions[i] = c.answer(s)
		}
		return c.print(env, doc)
	}
	return c.printOne(env, doc)
}

func (c *DecisionsCmd) printOne(env *cli.Env, doc decisionJSON) error {
	d := doc.Decision
	env.Fact("decision", d.ID)
	env.Say("title", d.Title)
	env.Fact("run", d.Run)
	env.Fact("key", fmt.Sprintf("%s, asked %s", d.Key, times(d.RequestRevision)))
	env.Fact("status", status(d.Status))
	env.Fact("asked", c.when(env, d.CreatedAt)+" of "+d.Audience)
	if d.DeadlineAt != 0 {
		then := "it expires"
		if d.DefaultChoice != "" {
			then = d.DefaultChoice + " is taken"
		}
		env.Fact("deadline", c.when(env, d.DeadlineAt)+", then "+then)
	}
	env.Fact("protected", yesNo(d.Protected))
	if r := d.Resolution; r != nil {
		env.Say("decided", fmt.Sprintf("%s by %s: %s", c.when(env, r.At), c.actor(r.Actor), reasons[r.Reason]))
		env.Fact("choice", r.Choice)
		env.Fact("response", short(r.Response))
	}
	if n := doc.Continuation; n != nil {
		env.Fact("goes on", fmt.Sprintf("in run %s: %s", n.Run, n.Status))
	}
	if doc.Asked != nil {
		env.Fact("subject", string(doc.Asked.Subject))
		for _, choice := range doc.Asked.Choices {
			env.Fact("offers", choice.ID+": "+choice.Label)
		}
	} else {
		env.Fact("subject", hidden)
	}
	if len(doc.Submissions) > 0 {
		env.Section("answers")
		t := env.Table("ANSWER", "CHOICE", "OUTCOME", "BY", "WHEN", "DETAIL").Cut("DETAIL", "BY")
		for _, s := range doc.Submissions {
			t.Row(s.Sequence, s.Choice, s.Outcome, c.actor(s.Actor), c.when(env, s.At), s.Detail)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if len(doc.Effects) == 0 {
		return nil
	}
	env.Section("effects")
	t := effectTable(env)
	for _, e := range doc.Effects {
		t.Row(effectRow(env, c.output, e)...)
	}
	return t.Flush()
}

// reasons say how a decision came to its end.
var reasons = map[store.DecisionReason]string{
	store.ReasonHuman:            "a person's answer",
	store.ReasonTimeoutPolicy:    "the default, at the deadline",
	store.ReasonExplicitCancel:   "cancelled on request",
	store.ReasonExpiredNoDefault: "expired at the deadline",
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
