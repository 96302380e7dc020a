package cli

import (
	"fmt"
	"strings"
	"time"

	"pistate/internal/cli"
	"pistate/store"
)

// now says in a few words what is going on with a run, what matters most first.
func (o output) now(env *cli.Env, r runRow) cli.Styled {
	if r.Situation == nil {
		return cli.Styled{Value: r.Detail}
	}
	return o.situation(env, r.Run, *r.Situation)
}

func (o output) situation(env *cli.Env, run store.Run, s store.Situation) cli.Styled {
	when := func(at store.Millis) string { return o.when(env, at) }
	now := store.MillisOf(env.Now())
	var parts []string
	style := cli.Plain
	say := func(s cli.Style, format string, args ...any) {
		if len(parts) == 0 {
			style = s
		}
		parts = append(parts, fmt.Sprintf(format, args...))
	}
	works := run.Status == store.RunRunning && !run.Paused
	switch {
	case works && s.Lease != nil && s.Lease.Expired:
		say(cli.Bad, "stuck: owner's lease expired %s", when(s.Lease.ExpiresAt))
	case works && s.Lease == nil:
		say(cli.Bad, "stuck: nobody owns it")
	}
	if s.Ambiguous > 0 {
		say(cli.Bad, "%s ambiguous", count(s.Ambiguous, "effect"))
	}
	if s.Due > 0 && (s.Lease == nil || s.Lease.Expired) && !works {
		say(cli.Bad, "%s due, and nobody owns it", count(s.Due, "effect"))
	}
	if run.DeadlineAt != 0 && run.DeadlineAt <= now {
		say(cli.Bad, "overdue, since %s", when(run.DeadlineAt))
	}
	if run.CancelRequestedAt != 0 {
		say(cli.Warn, "asked to cancel %s", when(run.CancelRequestedAt))
	}
	if run.Paused {
		say(cli.Warn, "paused")
	}
	if s.Question != nil {
		say(cli.Warn, "waits for an answer: %s", s.Question.Title)
		if s.Questions > 1 {
			say(cli.Warn, "and %s more", count(s.Questions-1, "question"))
		}
	}
	if a := s.Current; a != nil {
		say(cli.Plain, "%s", attemptNow(a, now))
	}
	if q := s.Queue; q != nil {
		switch {
		case q.Status == store.QueueQueued && q.AvailableAt > now:
			say(cli.Plain, "in the queue, due %s", when(q.AvailableAt))
		case q.Status == store.QueueQueued:
			say(cli.Plain, "in the queue for %s", since(env, q.AvailableAt, 0))
		case q.Status == store.QueueParked && s.Question == nil:
			say(cli.Plain, "parked")
		}
		if q.Errors > 0 && q.SettledAt == 0 {
			say(cli.Warn, "%s, the last %s", count(q.Errors, "error"), q.ErrorCode)
		}
	}
	if run.Detail != "" {
		say(cli.Plain, "%s", run.Detail)
	}
	return cli.Styled{Value: strings.Join(parts, "; "), Style: style}
}

// attemptNow says what the current attempt is about.
func attemptNow(a *store.NodeAttempt, now store.Millis) string {
	text := a.Node
	if a.Number > 1 {
		text += fmt.Sprintf(" (attempt %d)", a.Number)
	}
	switch {
	case a.InterruptedAt != 0:
		text += " was interrupted"
	case a.Status == store.AttemptRunning:
		text += " for " + cli.Span(time.Duration(max(now-a.StartedAt, 0))*time.Millisecond)
	default:
		text += " is " + string(a.Status)
	}
	return text
}

// count prints a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
