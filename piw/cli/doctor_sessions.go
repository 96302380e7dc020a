package cli

import (
	"errors"
	"fmt"

	"pistate/internal/cli"
	"pistate/sessionstate"
)

// sessions looks at a session-state database.
func (e *examination) sessions(env *cli.Env) error {
	r, err := sessionstate.OpenReader(env, e.Path)
	if err != nil {
		return err
	}
	s, err := r.Status(env, "")
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	e.add(good, "schema", "", "it has the two tables that it should have")
	e.sizes(s.File)
	e.rows(s.Plugins)
	e.locks(env, s.Locks)
	return nil
}

// rows says what takes the room.
func (e *examination) rows(plugins []sessionstate.PluginRows) {
	rows, bytes := int64(0), int64(0)
	var largest sessionstate.PluginRows
	for _, p := range plugins {
		rows, bytes = rows+p.Rows, bytes+p.Bytes
		if p.Bytes > largest.Bytes {
			largest = p
		}
	}
	text := fmt.Sprintf("%d values of %s have %s", rows, count(len(plugins), "plugin"), cli.Size(bytes))
	if len(plugins) > 1 && bytes > 0 {
		text += fmt.Sprintf(", the most of them %s: %s in %d", largest.Plugin, cli.Size(largest.Bytes), largest.Rows)
	}
	e.add(good, "rows", "", "%s", text)
}

// locks judges the rows of write_lock (Y5).
func (e *examination) locks(env *cli.Env, locks []sessionstate.Lock) {
	for i, l := range locks {
		if i == maxNamed {
			e.add(note, "locks", "piw session status shows them", "there are %d more locks", len(locks)-i)
			return
		}
		since := cli.Span(max(env.Now().Sub(l.Acquired), 0))
		switch {
		case l.Alive == sessionstate.No:
			e.add(note, "locks", "nothing: the next write takes it over", "the lock of session %s was left %s ago by %s, which is gone", l.Session, since, l.Holder)
		case l.Expired && l.Alive == sessionstate.Yes:
			e.add(wrong, "locks", "find out what that process does; others may take the lock over", "%s has held the lock of session %s for %s, longer than any write takes", l.Holder, l.Session, since)
		case l.Expired:
			e.add(note, "locks", "nothing: the next write takes it over", "the lock of session %s was left %s ago by %s", l.Session, since, l.Holder)
		default:
			e.add(good, "locks", "", "%s holds the lock of session %s, for %s now", l.Holder, l.Session, since)
		}
	}
	if len(locks) == 0 {
		e.add(good, "locks", "", "nobody holds a lock")
	}
}
