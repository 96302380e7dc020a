package cli

import (
	"strings"

	"pistate/store"
)

// What is private is taken out of rows before they are printed, unless it may be shown (V3): which Pi session
// is meant, since sessions are actors too, and what a provider calls something. Actors are taken care of
// where JSON is written, and content is not read at all.

func (o output) run(r store.Run) store.Run {
	r.Session = o.keep(r.Session)
	return r
}

func (o output) queued(q store.Queued) store.Queued {
	q.Session, q.Affinity = o.keep(q.Session), o.keep(q.Affinity)
	return q
}

func (o output) effect(e store.Effect) store.Effect {
	e.ExternalRef, e.Scope.ID = o.keep(e.ExternalRef), o.scope(e.Scope)
	return e
}

// scope returns whose owner applies an effect. Those for a Pi session name it.
func (o output) scope(s store.Scope) string {
	session, ok := strings.CutPrefix(s.ID, "pi:")
	if ok && s == store.SessionScope(session) {
		return "pi:" + o.secret(session)
	}
	return s.ID
}

func (o output) effects(all []store.Effect) []store.Effect {
	shown := make([]store.Effect, len(all))
	for i, e := range all {
		shown[i] = o.effect(e)
	}
	return shown
}

func (o output) answer(s store.DecisionSubmission) store.DecisionSubmission {
	s.ExternalEvent, s.ID = o.keep(s.ExternalEvent), o.keep(s.ID)
	return s
}

func (o output) segment(s store.Segment) store.Segment {
	s.Session = o.keep(s.Session)
	return s
}

func (o output) shown(s *store.Situation) *store.Situation {
	if s == nil || s.Queue == nil {
		return s
	}
	shown, queue := *s, o.queued(*s.Queue)
	shown.Queue = &queue
	return &shown
}

// keep returns a text that may be shown, or none.
func (o output) keep(text string) string {
	if !o.Private {
		return ""
	}
	return text
}
