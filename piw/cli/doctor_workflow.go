package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"pistate/internal/cli"
	"pistate/store"
	"pistate/store/hostlock"
)

// workflow looks at a workflow database, all of it in one snapshot.
func (e *examination) workflow(env *cli.Env) error {
	r, err := store.OpenReader(env, e.Path)
	if err != nil {
		return err
	}
	before := len(e.Findings)
	err = r.Snapshot(env, env.Now(), func(q *store.Queries) error {
		e.Findings = e.Findings[:before]
		w := &ward{examination: e, env: env, q: q, now: store.MillisOf(env.Now())}
		for _, look := range []func() error{
			w.content, w.runs, w.overdue, w.questions, w.effects, w.queue, w.controllers, w.channels, w.leases, w.hosts,
		} {
			if err := look(); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, r.Close())
}

// ward is an examination of a workflow database at work.
type ward struct {
	*examination
	env *cli.Env
	q   *store.Queries
	now store.Millis
}

func (w *ward) ago(at store.Millis) string { return w.show.when(w.env, at) }

// each reports some things of a sort, the first by name and the rest as a number.
func each[T any](w *ward, things []T, about, do string, say func(T) string) {
	for i, thing := range things {
		if i == maxNamed {
			w.add(wrong, about, do, "and %d more like this", len(things)-i)
			w.Findings[len(w.Findings)-1].things = len(things) - i
			return
		}
		w.add(wrong, about, do, "%s", say(thing))
	}
}

func (w *ward) content() error {
	s, err := w.q.Status(w.env)
	if err != nil {
		return err
	}
	w.add(good, "schema", "", "it has the shape that this program knows")
	w.sizes(s.File)
	largest, total, err := w.q.BlobSizes(w.env, 3)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s of it are content, in %d blobs", cli.Size(total), s.Rows["blobs"])
	for i, b := range largest {
		if i == 0 {
			text += ", the largest"
		} else {
			text += ","
		}
		text += fmt.Sprintf(" %s (%s)", cli.Size(b.Length), short(&b.Digest))
	}
	w.add(good, "content", "", "%s", text)
	w.add(good, "rows", "", "the rest are rows and indexes, most of %s", mostRows(s.Rows))
	return nil
}

// mostRows names the tables that have the most rows.
func mostRows(rows map[string]int64) string {
	tables := slices.SortedFunc(maps.Keys(rows), func(a, b string) int {
		return cmp.Or(cmp.Compare(rows[b], rows[a]), cmp.Compare(a, b))
	})
	var most []string
	for _, t := range tables[:min(len(tables), 4)] {
		most = append(most, fmt.Sprintf("%d %s", rows[t], t))
	}
	return strings.Join(most, ", ")
}

// looked says so if there was more of something than is looked at, so that silence about the rest means nothing.
func (w *ward) looked(about, things string, n int) {
	if n == maxLooked {
		w.add(note, about, "", "only the first %d %s were looked at", n, things)
	}
}

// runs finds those that only seem to be at work.
func (w *ward) runs() error {
	running, err := w.q.Runs(w.env, store.RunFilter{Status: store.RunRunning}, store.Run{}, maxLooked)
	if err != nil {
		return err
	}
	w.looked("runs", "runs at work", len(running))
	rows, err := situations(w.env, w.q, running)
	if err != nil {
		return err
	}
	var stuck []runRow
	for _, r := range rows {
		if !r.Paused && (r.Situation.Lease == nil || r.Situation.Lease.Expired) {
			stuck = append(stuck, r)
		}
	}
	each(w, stuck, "runs", "start a host for its project, which takes it over; or ask to cancel it. piw run ID shows where it is", func(r runRow) string {
		text := fmt.Sprintf("run %s is running, and nobody owns it", r.ID)
		if l := r.Situation.Lease; l != nil {
			text = fmt.Sprintf("run %s is running, and its owner, a %s, is gone: the lease expired %s", r.ID, l.Owner.Class, w.ago(l.ExpiresAt))
		}
		return text
	})
	if len(stuck) == 0 {
		w.add(good, "runs", "", "each of %s at work has an owner", count(len(running), "run"))
	}
	return w.unattended()
}

// unattended finds the runs that nobody takes care of though something of them is due.
func (w *ward) unattended() error {
	projects, err := w.q.Projects(w.env, "", maxLooked)
	if err != nil {
		return err
	}
	for _, p := range projects {
		ids, err := w.q.UnattendedRuns(w.env, p.ID, "", maxLooked)
		if err != nil {
			return err
		}
		each(w, ids, "runs", "start a host for "+p.Path, func(id string) string {
			return fmt.Sprintf("run %s has something that is due, as an answer or an effect, and nobody owns it", id)
		})
	}
	return nil
}

func (w *ward) overdue() error {
	runs, err := w.q.OverdueRuns(w.env, store.Run{}, maxLooked)
	if err != nil {
		return err
	}
	w.looked("deadlines", "runs that should have ended", len(runs))
	each(w, runs, "deadlines", "its owner should time it out: see whether it has one with piw run ID", func(r store.Run) string {
		return fmt.Sprintf("run %s should have ended %s", r.ID, w.ago(r.DeadlineAt))
	})
	attempts, err := w.q.OverdueAttempts(w.env, store.NodeAttempt{}, maxLooked)
	if err != nil {
		return err
	}
	w.looked("deadlines", "attempts that should have ended", len(attempts))
	each(w, attempts, "deadlines", "the owner of the run should time it out: see whether it has one with piw run ID", func(a store.NodeAttempt) string {
		return fmt.Sprintf("attempt %d of %s in run %s should have ended %s", a.Number, a.Node, a.Run, w.ago(a.DeadlineAt))
	})
	return nil
}

func (w *ward) questions() error {
	pending, err := w.q.PendingDecisions(w.env, "", store.Place{}, maxLooked)
	if err != nil {
		return err
	}
	w.looked("decisions", "decisions that are to be taken", len(pending))
	var late []store.Decision
	for _, d := range pending {
		if d.DeadlineAt != 0 && d.DeadlineAt <= w.now {
			late = append(late, d)
		}
	}
	each(w, late, "decisions", "the owner of its run should apply the deadline: see whether it has one with piw run ID", func(d store.Decision) string {
		return fmt.Sprintf("decision %s was to be taken %s", decisionName(d), w.ago(d.DeadlineAt))
	})
	if waiting := len(pending) - len(late); waiting > 0 {
		w.add(note, "decisions", "piw decisions --pending shows them", "people are asked for %s", count(waiting, "decision"))
	}
	return nil
}

func (w *ward) effects() error {
	ambiguous, err := w.q.Effects(w.env, store.EffectFilter{Status: store.EffectAmbiguous}, 0, maxLooked)
	if err != nil {
		return err
	}
	unsettled, err := w.q.UnsettledEffects(w.env, 0, maxLooked)
	if err != nil {
		return err
	}
	w.looked("effects", "effects that are to be done", len(unsettled))
	var late, lost []store.Effect
	for _, f := range unsettled {
		switch {
		case f.Status == store.EffectPending && f.AvailableAt+store.Millis(dueTooLong.Milliseconds()) <= w.now:
			late = append(late, f)
		case f.Status == store.EffectApplying:
			l, err := w.q.Lease(w.env, f.Resource())
			if err != nil {
				return err
			}
			if l.Expired {
				lost = append(lost, f)
			}
		}
	}
	each(w, ambiguous, "effects", "find out whether it happened, and have that recorded as an observation; until then nobody does it again", func(f store.Effect) string {
		return fmt.Sprintf("nobody knows whether effect %d (%s for %s) happened, %s", f.Sequence, f.Type, f.Scope.Type, w.ago(f.UpdatedAt))
	})
	each(w, lost, "effects", "start a worker, which looks what became of it", func(f store.Effect) string {
		return fmt.Sprintf("the worker of effect %d (%s) is gone in the middle", f.Sequence, f.Type)
	})
	each(w, late, "effects", "start who does such work: the owner of the run, controller resource or channel that it is for", func(f store.Effect) string {
		return fmt.Sprintf("effect %d (%s for %s) was due %s, and nobody does it", f.Sequence, f.Type, f.Scope.Type, w.ago(f.AvailableAt))
	})
	if len(ambiguous)+len(lost)+len(late) == 0 {
		w.add(good, "effects", "", "%s to be done, none unclear or late", count(len(unsettled), "effect"))
	}
	return nil
}

func (w *ward) queue() error {
	places, err := w.q.Queue(w.env, store.QueueFilter{}, store.Queued{}, maxLooked)
	if err != nil {
		return err
	}
	w.looked("queue", "places in the queue", len(places))
	var failing []store.Queued
	waiting, oldest := 0, store.Millis(0)
	for _, p := range places {
		if p.Errors >= manyErrors {
			failing = append(failing, p)
		}
		if p.Status == store.QueueQueued && p.AvailableAt <= w.now {
			if waiting++; oldest == 0 {
				oldest = p.AvailableAt
			}
		}
	}
	each(w, failing, "queue", "see what it fails at with piw events --run ID", func(p store.Queued) string {
		return fmt.Sprintf("run %s has failed %d times in the queue, at last with %s", p.Run, p.Errors, p.ErrorCode)
	})
	if waiting > 0 {
		w.add(note, "queue", "a host of the project takes the next one when it can", "runs that wait in the queue: %d, the first for %s", waiting, since(w.env, oldest, 0))
	}
	return nil
}

func (w *ward) controllers() error {
	queued, err := w.q.QueuedControllers(w.env, "", store.Place{}, maxLooked)
	if err != nil {
		return err
	}
	w.looked("controllers", "resources of controllers", len(queued))
	var late, failing []store.Controller
	for _, c := range queued {
		l, err := w.q.Lease(w.env, c.Resource())
		if err != nil {
			return err
		}
		owned := l.Owner != nil && !l.Expired
		switch {
		case c.Queue.Errors >= manyErrors:
			failing = append(failing, c)
		case !owned && c.Queue.AvailableAt+store.Millis(dueTooLong.Milliseconds()) <= w.now:
			late = append(late, c)
		}
	}
	each(w, failing, "controllers", "see what it fails at with piw controller NAME KEY and piw events --resource controller:UID", func(c store.Controller) string {
		return fmt.Sprintf("controller %s has failed %d times in a row at %s, at last with %s", c.Name, c.Queue.Errors, c.Key, c.Queue.ErrorCode)
	})
	each(w, late, "controllers", "start the controller", func(c store.Controller) string {
		return fmt.Sprintf("controller %s should have looked at %s %s", c.Name, c.Key, w.ago(c.Queue.AvailableAt))
	})
	return nil
}

func (w *ward) channels() error {
	channels, err := w.q.Channels(w.env, store.Channel{}, maxLooked)
	if err != nil {
		return err
	}
	for _, c := range channels {
		v, err := w.q.Channel(w.env, c.ID)
		if err != nil {
			return err
		}
		name := c.Adapter + " " + c.Profile
		if v.Ambiguous > 0 {
			w.add(wrong, "channels", "look there whether they arrived; piw channels "+c.ID+" shows them", "of %s nobody knows whether channel %s has sent them", count(v.Ambiguous, "message"), name)
		}
		if v.Owner == nil && v.Open+v.Unprocessed > 0 {
			w.add(wrong, "channels", "start its adapter", "channel %s has work and nobody owns it: open messages: %d, not looked at: %d", name, v.Open, v.Unprocessed)
		}
	}
	return nil
}

// leases counts those of owners who are gone. What follows from that for runs is said there.
func (w *ward) leases() error {
	leases, err := w.q.Leases(w.env, store.Lease{}, maxLooked)
	if err != nil {
		return err
	}
	expired := 0
	for _, l := range leases { // those that have expired come first
		if l.Expired {
			expired++
		}
	}
	if expired > 0 {
		w.add(note, "leases", "nothing: whoever comes next takes them over; piw leases shows them", "%s expired, the first %s", count(expired, "lease"), w.ago(leases[0].ExpiresAt))
		return nil
	}
	w.add(good, "leases", "", "%s, none expired", count(len(leases), "lease"))
	return nil
}

// hosts looks at the lock files of host processes, and at the processes that they have started (R12).
func (w *ward) hosts() error {
	projects, err := w.q.Projects(w.env, "", maxLooked)
	if err != nil {
		return err
	}
	dir := filepath.Dir(w.Path)
	for _, p := range projects {
		holder, found, err := hostlock.Look(dir, p.ID)
		if err != nil {
			w.add(wrong, "hosts", "remove the file if no host runs", "%v", err)
			continue
		}
		lives := hostlock.No
		if found {
			lives = holder.Lives()
			w.host(p, holder, lives)
		}
		children, err := hostlock.Children(dir, p.ID)
		if err != nil {
			w.add(wrong, "hosts", "remove the file if no host runs", "%v", err)
			continue
		}
		for _, c := range children {
			if orphan := lives == hostlock.No || c.Host != holder.Nonce; orphan && c.Lives() == hostlock.Yes {
				w.add(wrong, "hosts", fmt.Sprintf("end process %d if nothing needs it", c.PID), "process %d (%s) goes on, and the host that started it is gone", c.PID, c.Label)
			}
		}
	}
	return nil
}

func (w *ward) host(p store.Project, h hostlock.Holder, lives hostlock.Liveness) {
	who := fmt.Sprintf("process %d, since %s", h.PID, w.ago(h.Since))
	switch lives {
	case hostlock.Yes:
		w.add(good, "hosts", "", "the host of %s is %s", p.Path, who)
	case hostlock.No:
		w.add(note, "hosts", "nothing: the next host takes its place", "the host of %s is gone: it was %s", p.Path, who)
	default:
		w.add(note, "hosts", "", "the host of %s is %s; from here nobody can tell whether it lives", p.Path, who)
	}
}
