package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"pistate/internal/cli"
	"pistate/schema"
	"pistate/store"
)

// wanted is what the screen shows, and so what is to be read.
type wanted struct {
	run  string // the selected one; "" while there is none
	open bool   // only runs that have not ended
}

// watched is what was read, all of one snapshot, or why nothing could be.
type watched struct {
	wanted
	runs   []runRow
	detail *runDetail // of the selected run; nil if there is none
	err    error      // the database is not there now; what was read before is still the last word
}

// runDetail is the run on the right.
type runDetail struct {
	doc       store.RunDocument
	situation *store.Situation
	decisions []store.Decision
	events    []store.Event // the last ones, from the newest
}

// How much is read, and how often at most.
const (
	watchedRuns      = 500
	watchedEvents    = 100
	watchedDecisions = 20
	restBetweenReads = 200 * time.Millisecond
)

// watcher reads the database whenever somebody has committed to it, or something else is wanted. It is the
// only one who uses the reader.
type watcher struct {
	env  *cli.Env
	r    database
	asks chan wanted
}

// database is what the watcher needs of a [store.Reader].
type database interface {
	DataVersion(context.Context) (int64, error)
	Snapshot(context.Context, time.Time, func(*store.Queries) error) error
}

func newWatcher(env *cli.Env, r database) *watcher {
	return &watcher{env: env, r: r, asks: make(chan wanted, 1)}
}

// ask says what is wanted from now on.
func (w *watcher) ask(want wanted) {
	for {
		select {
		case w.asks <- want:
			return
		case <-w.asks: // an older wish that nobody has read yet
		}
	}
}

// run reads until the context ends.
func (w *watcher) run(ctx context.Context, send func(tea.Msg)) error {
	var want wanted
	last, asked := int64(-1), true
	for {
		version, err := w.r.DataVersion(ctx)
		if err == nil && (asked || version != last) {
			var got watched
			if got, err = w.read(ctx, want); err == nil {
				last, asked = version, false
				send(got)
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !comesBack(err):
			send(tea.Quit())
			return err
		case err != nil:
			send(watched{wanted: want, err: err})
			asked = true
		}
		select {
		case <-ctx.Done():
			return nil
		case want = <-w.asks:
			asked = true
		case <-time.After(restBetweenReads):
		}
	}
}

// read reads what is wanted. Of a run that is not among the listed ones the first takes the place.
func (w *watcher) read(ctx context.Context, want wanted) (got watched, err error) {
	err = w.r.Snapshot(ctx, w.env.Now(), func(q *store.Queries) error {
		got = watched{wanted: want}
		runs, err := listWatched(ctx, q, want.open)
		if err != nil {
			return err
		}
		if got.runs, err = situations(w.env, q, runs); err != nil {
			return err
		}
		if got.run == "" && len(runs) > 0 {
			got.run = runs[0].ID
		}
		if got.run == "" {
			return nil
		}
		got.detail, err = readDetail(ctx, q, got.run)
		if errors.Is(err, schema.NotFound) { // the database was replaced
			return nil
		}
		return err
	})
	return got, err
}

func listWatched(ctx context.Context, q *store.Queries, open bool) (runs []store.Run, err error) {
	if !open {
		return q.Runs(ctx, store.RunFilter{}, store.Run{}, watchedRuns)
	}
	for _, status := range []store.RunStatus{store.RunQueued, store.RunRunning, store.RunWaiting} {
		some, err := q.Runs(ctx, store.RunFilter{Status: status}, store.Run{}, watchedRuns)
		if err != nil {
			return nil, err
		}
		runs = append(runs, some...)
	}
	slices.SortStableFunc(runs, func(a, b store.Run) int { return int(b.CreatedAt - a.CreatedAt) })
	return runs, nil
}

func readDetail(ctx context.Context, q *store.Queries, id string) (*runDetail, error) {
	doc, err := q.RunDocument(ctx, id, store.RunDocumentOptions{})
	if err != nil {
		return nil, err
	}
	d := &runDetail{doc: doc}
	if doc.Run.EndedAt == 0 {
		s, err := q.Situation(ctx, doc.Run)
		if err != nil {
			return nil, err
		}
		d.situation = &s
	}
	if d.decisions, err = q.DecisionsOfRun(ctx, id, "", 0, watchedDecisions); err != nil {
		return nil, err
	}
	query := store.EventQuery{EventFilter: store.EventFilter{Run: id}}
	d.events, err = q.LastEvents(ctx, query, watchedEvents)
	slices.Reverse(d.events)
	return d, err
}
