package cli

import (
	"errors"
	"fmt"
	"math"

	"pistate/internal/cli"
	"pistate/store"
)

// CaptureCmd prints what was captured of the Pi sessions that worked for a run.
type CaptureCmd struct {
	lister
	RunID  string `arg:"" name:"run" help:"The run."`
	All    bool   `help:"Print long results of tools in full."`
	Follow bool   `short:"f" help:"Go on with each entry as it is captured, until interrupted."`
	After  string `placeholder:"CURSOR" help:"Begin after this entry, as the last line of a longer list says."`
}

// Help is shown below the flags.
func (*CaptureCmd) Help() string {
	return `The conversation, entry by entry. Without --private it is only said who spoke when, and how much.

  piw capture RUN --private
  piw capture RUN --private --follow      watch an agent at work`
}

// captureJSON is a line of the list.
type captureJSON struct {
	store.CapturedEntry
	Cursor string `json:"cursor"`
}

// capture prints entries.
type capture struct {
	*CaptureCmd
	env  *cli.Env
	r    *store.Reader
	last store.ReplayCursor
}

// Run prints the entries.
func (c *CaptureCmd) Run(env *cli.Env) error {
	from, err := parseCursor(c.After)
	if err != nil {
		return err
	}
	r, err := c.open(env)
	if err != nil {
		return err
	}
	p := &capture{CaptureCmd: c, env: env, r: r, last: from}
	return errors.Join(p.run(), r.Close())
}

// run prints the entries of a run that is there. To follow is to wait, and a run that was never there would be
// waited for.
func (p *capture) run() error {
	if !p.Follow {
		return p.list()
	}
	err := p.r.Snapshot(p.env, p.env.Now(), func(q *store.Queries) error {
		_, err := q.Run(p.env, p.RunID)
		return err
	})
	if err != nil {
		return err
	}
	return p.follow()
}

func cursorText(c store.ReplayCursor) string { return fmt.Sprintf("%d:%d", c.Ordinal, c.Sequence) }

// list prints at most so many entries as are wanted.
func (p *capture) list() error {
	left, err := p.entries(p.Limit)
	if err != nil || left > 0 || p.JSON {
		return err
	}
	var next []store.CapturedEntry
	err = p.r.Snapshot(p.env, p.env.Now(), func(q *store.Queries) (err error) {
		next, err = q.Replay(p.env, p.RunID, p.last, 1, false)
		return err
	})
	if err == nil && len(next) > 0 {
		_, err = fmt.Fprintf(p.env.Stdout, "(more: --after %s)\n", cursorText(p.last))
	}
	return err
}

// follow prints all entries, and what comes after them.
func (p *capture) follow() error {
	return follow(p.env, p.r, func() error {
		_, err := p.entries(math.MaxInt)
		return err
	})
}

// entries prints at most limit entries and returns how many fewer there were. A page that is not full is not
// the end: it holds so many lines as there is room for.
func (p *capture) entries(limit int) (left int, err error) {
	for limit > 0 {
		var page []store.CapturedEntry
		segments := map[string]store.Segment{}
		err := p.r.Snapshot(p.env, p.env.Now(), func(q *store.Queries) (err error) {
			page, err = q.Replay(p.env, p.RunID, p.last, min(limit, store.MaxPage), true)
			for i := 0; err == nil && i < len(page); i++ {
				if _, known := segments[page[i].Segment]; !known {
					segments[page[i].Segment], err = q.Segment(p.env, page[i].Segment)
				}
			}
			return err
		})
		if err != nil || len(page) == 0 {
			return limit, err
		}
		for _, e := range page {
			if err := p.entry(e, segments[e.Segment]); err != nil {
				return limit, err
			}
			p.last = e.Cursor()
		}
		limit -= len(page)
	}
	return limit, nil
}

func (p *capture) entry(e store.CapturedEntry, s store.Segment) error {
	if p.JSON {
		e.Line = p.keep(e.Line)
		return p.print(p.env, captureJSON{e, cursorText(e.Cursor())})
	}
	if e.Sequence == 1 || p.last.Ordinal != e.Ordinal {
		head := fmt.Sprintf("== capture %d: %s, session %s, %s, entries: %d", s.Ordinal, s.Key, p.secret(s.Session), s.Status, s.Entries)
		p.env.Line(cli.Styled{Value: head, Style: cli.Bold})
	}
	return printEntry(p.env, p.output, e, p.All)
}
