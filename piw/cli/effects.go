package cli

import (
	"fmt"
	"strconv"

	"pistate/internal/cli"
	"pistate/schema"
	"pistate/store"
)

// EffectsCmd lists effects, or shows one.
type EffectsCmd struct {
	lister
	Effect    string `arg:"" optional:"" help:"Show this effect with its attempts: its sequence or its id."`
	Unsettled bool   `xor:"which" help:"Only those that have not come to their end: pending, applying, ambiguous."`
	Status    string `default:"" enum:",pending,applying,ambiguous,applied,rejected,cancelled" placeholder:"STATUS" help:"Only effects in this status: pending, applying, ambiguous, applied, rejected or cancelled."`
	RunID     string `name:"run" xor:"which" placeholder:"RUN" help:"Only the effects of this run."`
	After     int64  `placeholder:"SEQUENCE" help:"Begin after this effect, as the last line of a longer list says."`
}

// Help is shown below the flags.
func (*EffectsCmd) Help() string {
	return `An effect is work that follows from a command: it is recorded with the command, and done later. Of an ambiguous one nobody knows whether it happened, so nobody does it again; somebody has to look and say.

  piw effects --unsettled      what is still to be done, or unclear
  piw effects 17               all about one of them`
}

// Run prints one line per effect, or all about one.
func (c *EffectsCmd) Run(env *cli.Env) error {
	if c.Effect != "" {
		return c.show(env)
	}
	if c.Status != "" && (c.Unsettled || c.RunID != "") {
		return schema.Errorf(schema.Invalid, "--status stands alone: leave out --unsettled and --run")
	}
	list := listing[store.Effect]{
		read: func(q *store.Queries, after *store.Effect, limit int) ([]store.Effect, error) {
			from := c.After
			if after != nil {
				from = after.Sequence
			}
			switch {
			case c.RunID != "":
				if _, err := q.Run(env, c.RunID); err != nil {
					return nil, err
				}
				return q.EffectsOfRun(env, c.RunID, from, limit)
			case c.Unsettled:
				return q.UnsettledEffects(env, from, limit)
			}
			return q.Effects(env, store.EffectFilter{Status: store.EffectStatus(c.Status)}, from, limit)
		},
		row:  func(e store.Effect) []any { return effectRow(env, c.output, e) },
		line: func(e store.Effect) any { return c.effect(e) },
		next: func(e store.Effect) string { return "--after " + strconv.FormatInt(e.Sequence, 10) },
	}
	return list.print(env, c.lister, effectTable(env))
}

func effectTable(env *cli.Env) *cli.Table {
	return env.Table("SEQ", "STATUS", "TYPE", "FOR", "TRIES", "RECORDED", "NEXT").Cut("FOR", "TYPE").Optional("RECORDED", "TRIES")
}

func effectRow(env *cli.Env, o output, e store.Effect) []any {
	return []any{e.Sequence, status(e.Status), e.Type, string(e.Scope.Type) + " " + o.scope(e.Scope), e.Attempts, o.when(env, e.CreatedAt), o.when(env, e.AvailableAt)}
}

// effectJSON is an effect with its attempts.
type effectJSON struct {
	store.Effect
	Attempts []store.Attempt `json:"tries"`
}

// show prints all about one effect.
func (c *EffectsCmd) show(env *cli.Env) error {
	named, err := parseEffect(c.Effect)
	if err != nil {
		return err
	}
	var e store.Effect
	var tries []store.Attempt
	err = c.view(env, func(q *store.Queries) (err error) {
		if e, err = named.find(env, q); err == nil {
			tries, err = q.EffectAttempts(env, e.ID, 0, store.MaxPage)
		}
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return c.print(env, effectJSON{c.effect(e), tries})
	}
	env.Fact("effect", e.ID)
	env.Fact("sequence", e.Sequence)
	env.Fact("status", status(e.Status))
	env.Fact("type", e.Type)
	env.Fact("key", e.Key)
	env.Fact("source", fmt.Sprintf("%s, revision %d", e.Source, e.SourceRevision))
	env.Fact("for", string(e.Scope.Type)+" "+c.scope(e.Scope))
	env.Fact("external", yesNo(e.External))
	env.Fact("recorded", c.when(env, e.CreatedAt))
	env.Fact("next try", c.when(env, e.AvailableAt))
	env.Fact("settled", c.when(env, e.SettledAt))
	env.Fact("reference", c.secret(e.ExternalRef))
	env.Fact("payload", short(&e.Payload))
	env.Fact("result", short(e.Result))
	env.Fact("error", short(e.Error))
	if len(tries) == 0 {
		return nil
	}
	env.Section("tries")
	t := env.Table("TRY", "OWNER", "OUTCOME", "BEGAN", "TOOK", "ERROR").Cut("OWNER")
	for _, a := range tries {
		outcome := status(a.Outcome)
		if a.Outcome == "" {
			outcome = status("running")
		}
		t.Row(a.Number, c.actor(a.Owner), outcome, c.when(env, a.StartedAt), since(env, a.StartedAt, a.EndedAt), short(a.Error))
	}
	return t.Flush()
}

// short prints enough of a digest for piw blob.
func short(d *store.Digest) string {
	if d == nil {
		return ""
	}
	return d.String()[:12]
}
