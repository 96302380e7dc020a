package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"pistate/internal/cli"
	"pistate/store"
)

// detailLines are all lines about the selected run.
func (m *watch) detailLines(width int) []string {
	d := m.data.detail
	if d == nil || d.doc.Run.ID != m.selected {
		if m.selected == "" {
			return nil
		}
		return []string{text(m.selected)} // the rest is being read
	}
	p := &detailPage{width: max(width, 10)}
	m.about(p, d)
	m.stepLines(p, d)
	m.decisionLines(p, d)
	m.eventLines(p, d)
	return p.lines
}

// detailPage is a column of lines.
type detailPage struct {
	width int
	lines []string
}

func (p *detailPage) add(style cli.Style, format string, args ...any) {
	line := ansi.Truncate(text(fmt.Sprintf(format, args...)), p.width, "…")
	p.lines = append(p.lines, styleOf[style].Render(line))
}

// wrap adds a text on as many lines as it needs.
func (p *detailPage) wrap(style cli.Style, what string) {
	for _, line := range cli.Wrap(text(what), p.width) {
		p.lines = append(p.lines, styleOf[style].Render(line))
	}
}

func (p *detailPage) section(name string) {
	p.lines = append(p.lines, "")
	p.add(cli.Bold, "%s", name)
}

func (m *watch) about(p *detailPage, d *runDetail) {
	r := d.doc.Run
	p.add(cli.Bold, "%s", r.ID)
	p.wrap(cli.Plain, r.Title)
	state := string(r.Status)
	switch {
	case r.EndedAt != 0:
		state += " " + m.when(m.env, r.EndedAt)
		if r.StartedAt != 0 {
			state += ", after " + since(m.env, r.StartedAt, r.EndedAt)
		}
	case r.StartedAt != 0:
		state += ", started " + m.when(m.env, r.StartedAt)
	default:
		state += ", created " + m.when(m.env, r.CreatedAt)
	}
	p.add(status(r.Status).Style, "%s", state)
	now := m.now(m.env, runRow{r, d.situation})
	if said := fmt.Sprint(now.Value); said != "" {
		p.wrap(now.Style, said)
	}
	if d.situation != nil && d.situation.Lease != nil {
		p.wrap(cli.Plain, "owner: "+ownerText(m.env, m.output, *d.situation.Lease))
	}
}

// stepLines are the nodes in the order of the definition, with their attempts.
func (m *watch) stepLines(p *detailPage, d *runDetail) {
	p.section("STEPS")
	wide := 0
	for _, s := range d.doc.Steps {
		wide = max(wide, ansi.StringWidth(text(s.ID)))
	}
	wide = min(wide, p.width/2)
	for _, s := range d.doc.Steps {
		name := pad(text(s.ID), wide)
		if len(s.Attempts) == 0 {
			p.add(cli.Dim, "· %s  not begun", name)
			continue
		}
		last := s.Attempts[len(s.Attempts)-1]
		style, said := m.attemptText(last)
		p.add(style, "%s %s  %s", said.mark, name, said.text)
		if n := len(s.Attempts); n > 1 {
			m.attemptLines(p, s.Attempts, n)
		}
	}
	if d.doc.More {
		p.add(cli.Dim, "(there are more attempts)")
	}
	if taken := way(d.doc); taken != "" {
		p.wrap(cli.Dim, taken)
	}
}

// way is the way that a run took through its nodes, as far as it has come: the last of many steps.
func way(doc store.RunDocument) string {
	var attempts []store.NodeAttempt
	for _, s := range doc.Steps {
		attempts = append(attempts, s.Attempts...)
	}
	slices.SortFunc(attempts, func(a, b store.NodeAttempt) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	var stops []string
	for i := 0; i < len(attempts); {
		from := i
		for i < len(attempts) && attempts[i].Node == attempts[from].Node {
			i++
		}
		stop := attempts[from].Node
		if n := i - from; n > 1 {
			stop += fmt.Sprintf(" ×%d", n)
		}
		stops = append(stops, stop)
	}
	if len(stops) < 2 {
		return "" // nothing that the list of steps does not say
	}
	if doc.Run.EndedAt != 0 && !doc.More {
		stops = append(stops, string(doc.Run.Status))
	}
	const shown = 12
	if n := len(stops) - shown; n > 0 {
		stops = append([]string{"…"}, stops[n:]...)
	}
	return strings.Join(stops, " → ")
}

// attemptLines are the attempts of a node that was tried again, the last ones.
func (m *watch) attemptLines(p *detailPage, attempts []store.NodeAttempt, n int) {
	const shown = 4
	if n > shown {
		p.add(cli.Dim, "  ├ %d earlier attempts", n-shown)
		attempts = attempts[n-shown:]
	}
	for i, a := range attempts {
		branch := "├"
		if i == len(attempts)-1 {
			branch = "└"
		}
		style, said := m.attemptText(a)
		p.add(style, "  %s %s %d %s", branch, said.mark, a.Number, said.text)
	}
}

type attemptSaid struct{ mark, text string }

func (m *watch) attemptText(a store.NodeAttempt) (cli.Style, attemptSaid) {
	state := string(a.Status)
	if a.InterruptedAt != 0 && a.EndedAt == 0 {
		state = "interrupted"
	}
	said := attemptSaid{marks[state], state}
	if a.StartedAt != 0 {
		said.text += " " + since(m.env, a.StartedAt, a.EndedAt)
	}
	if a.EndedAt == 0 && a.DeadlineAt != 0 {
		said.text += ", due " + m.when(m.env, a.DeadlineAt)
	}
	return status(state).Style, said
}

func (m *watch) decisionLines(p *detailPage, d *runDetail) {
	if len(d.decisions) == 0 {
		return
	}
	p.section("DECISIONS")
	for _, q := range d.decisions {
		if r := q.Resolution; r != nil {
			p.wrap(cli.Plain, "✓ "+q.Title)
			choice := r.Choice
			if choice == "" {
				choice = reasons[r.Reason]
			}
			p.add(cli.Plain, "  %s by %s, %s", choice, m.actor(r.Actor), m.when(m.env, r.At))
			continue
		}
		p.wrap(cli.Warn, "? "+q.Title)
		asked := "asked " + m.when(m.env, q.CreatedAt)
		if q.DeadlineAt != 0 {
			asked += ", due " + m.when(m.env, q.DeadlineAt)
		}
		p.add(cli.Plain, "  %s", asked)
	}
}

func (m *watch) eventLines(p *detailPage, d *runDetail) {
	p.section("EVENTS")
	wide := 0
	times := make([]string, len(d.events))
	for i, e := range d.events {
		times[i] = cli.Span(max(m.env.Now().Sub(e.At.Time()), time.Duration(0)))
		if m.UTC {
			times[i] = m.when(m.env, e.At)
		}
		wide = max(wide, len(times[i]))
	}
	for i, e := range d.events {
		line := fmt.Sprintf("%*s  %s", wide, times[i], e.Type)
		if e.Resource.Type() != store.RunResource {
			line += "  " + string(e.Resource)
		}
		p.add(cli.Plain, "%s", line)
	}
}
