package cli

import (
	"errors"
	"strconv"

	"pistate/internal/cli"
	"pistate/schema"
	"pistate/store"
)

// EventsCmd lists events.
type EventsCmd struct {
	lister
	Resource string `xor:"of" placeholder:"RESOURCE" help:"Only the events of this resource, as in run:ID, decision:ID or effect:ID."`
	RunID    string `name:"run" xor:"of" placeholder:"RUN" help:"Only the events of this run and of all that belongs to it."`
	Type     string `placeholder:"TYPE" help:"Only events of this type, as in run.failed."`
	Since    string `xor:"from" placeholder:"TIME" help:"Begin with the events of this time: 90m or 3d ago, or as in 2026-03-02T09:00:00Z."`
	After    *int64 `xor:"from" placeholder:"SEQUENCE" help:"Begin after this event, as the last line of a longer list says; 0 is the beginning."`
	Follow   bool   `short:"f" help:"Go on with each event as it happens, until interrupted."`
}

// Help is shown below the flags.
func (*EventsCmd) Help() string {
	return `An event is one accepted command: what it did to which resource, which revision that is, and who asked. Without --since or --after these are the last ones. The content of an event is the blob that --json names as its payload.

  piw events --run ID --type attempt.failed
  piw events --resource run:ID --after 0      the whole story of one run
  piw events --follow --json                  one line for each, as it happens`
}

// eventList prints events.
type eventList struct {
	*EventsCmd
	env   *cli.Env
	r     *store.Reader
	t     *cli.Table
	since store.Millis // --since
	last  store.Event  // that was printed, or after which the list begins
}

// Run prints one line per event.
func (c *EventsCmd) Run(env *cli.Env) error {
	since, err := parseSince(c.Since, env.Now())
	if err == nil {
		err = checkResource("--resource", c.Resource)
	}
	if err != nil {
		return err
	}
	r, err := c.open(env)
	if err != nil {
		return err
	}
	t := env.Table("SEQ", "WHEN", "EVENT", "RESOURCE", "REV", "ACTOR").Cut("ACTOR", "EVENT", "RESOURCE").Optional("REV")
	list := &eventList{EventsCmd: c, env: env, r: r, t: t, since: since}
	err = list.run()
	if c.Follow && errors.Is(err, cli.ErrUnread) {
		err = enough(env)
	}
	return errors.Join(err, r.Close())
}

func (l *eventList) query() store.EventQuery {
	return store.EventQuery{
		EventFilter: store.EventFilter{Resource: store.ResourceID(l.Resource), Run: l.RunID},
		Type:        l.Type,
	}
}

func (l *eventList) run() error {
	if err := l.begin(); err != nil {
		return err
	}
	switch {
	case l.Follow:
		return follow(l.env, l.r, l.news)
	case l.After == nil && l.Since == "":
		return nil
	}
	return l.list().printFrom(l.env, l.r, l.lister, l.t)
}

// flush shows what was printed of the table.
func (l *eventList) flush() error {
	if l.JSON {
		return nil
	}
	return l.t.Flush()
}

// begin finds out where the list begins. The last events are a list of their own.
func (l *eventList) begin() error {
	var tail []store.Event
	err := l.r.Snapshot(l.env, l.env.Now(), func(q *store.Queries) (err error) {
		if err := l.exists(q); err != nil {
			return err
		}
		switch {
		case l.After != nil:
			l.last.Sequence = *l.After
		case l.Since != "":
			l.last.Sequence, err = q.EventsSince(l.env, l.since)
		case l.Limit > store.MaxPage:
			err = schema.Errorf(schema.Invalid, "--limit %d: the last events are at most %d; say with --after or --since where to begin", l.Limit, store.MaxPage)
		default:
			if l.last.Sequence, err = q.LastSequence(l.env); err == nil {
				tail, err = q.LastEvents(l.env, l.query(), l.Limit)
			}
		}
		if err != nil {
			return err
		}
		at, err := eventAt(l.env, q, l.last.Sequence)
		l.last.ID = at.ID
		return err
	})
	if err != nil || l.After != nil || l.Since != "" {
		return err
	}
	for _, e := range tail {
		if err := l.print(e); err != nil {
			return err
		}
	}
	return l.flush()
}

// eventAt returns the event with a sequence; the zero value if there is none.
func eventAt(env *cli.Env, q *store.Queries, sequence int64) (store.Event, error) {
	found, err := q.EventsOf(env, store.EventQuery{}, sequence-1, 1)
	if err != nil || len(found) == 0 || found[0].Sequence != sequence {
		return store.Event{}, err
	}
	return found[0], nil
}

// exists makes sure that what the events are to be of is there.
func (l *eventList) exists(q *store.Queries) (err error) {
	switch {
	case l.Resource != "":
		_, err = q.Resource(l.env, store.ResourceID(l.Resource))
	case l.RunID != "":
		_, err = q.Run(l.env, l.RunID)
	}
	return err
}

func (l *eventList) list() listing[store.Event] {
	return listing[store.Event]{
		read: func(q *store.Queries, after *store.Event, limit int) ([]store.Event, error) {
			if after == nil {
				after = &l.last
			}
			return q.EventsOf(l.env, l.query(), after.Sequence, limit)
		},
		row:  l.row,
		line: func(e store.Event) any { return e },
		next: func(e store.Event) string { return "--after " + strconv.FormatInt(e.Sequence, 10) },
	}
}

func (l *eventList) row(e store.Event) []any {
	return []any{e.Sequence, l.when(l.env, e.At), e.Type, e.Resource, e.Revision, l.actor(e.Actor)}
}

func (l *eventList) print(e store.Event) error {
	if l.JSON {
		return l.output.print(l.env, e)
	}
	l.t.Row(l.row(e)...)
	return nil
}

// news prints the events that came since.
func (l *eventList) news() error {
	if err := l.stillThere(); err != nil {
		return err
	}
	for {
		var page []store.Event
		err := l.r.Snapshot(l.env, l.env.Now(), func(q *store.Queries) (err error) {
			page, err = q.EventsOf(l.env, l.query(), l.last.Sequence, store.MaxPage)
			return err
		})
		if err != nil {
			return err
		}
		for _, e := range page {
			if err := l.print(e); err != nil {
				return err
			}
			l.last = e
		}
		if len(page) < store.MaxPage {
			break
		}
	}
	return l.flush()
}

// stillThere notices that another database has taken the place of the one that was followed: the last event
// is another one there. The list goes on with what will happen in the new one.
func (l *eventList) stillThere() error {
	if l.last.ID == "" {
		return nil
	}
	var at, end store.Event
	err := l.r.Snapshot(l.env, l.env.Now(), func(q *store.Queries) (err error) {
		if at, err = eventAt(l.env, q, l.last.Sequence); err != nil || at.ID == l.last.ID {
			return err
		}
		newest, err := q.LastEvents(l.env, store.EventQuery{}, 1)
		if end = (store.Event{}); len(newest) > 0 {
			end = newest[0]
		}
		return err
	})
	if err == nil && at.ID != l.last.ID {
		l.env.Warn("another database has taken the place of the one that was followed; this goes on after its event %d", end.Sequence)
		l.last = end
	}
	return err
}
