package cli

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"pistate/internal/cli"
	"pistate/store"
)

// What the screen is made of. Where both panes have no room, one of them has it all.
const (
	watchFrame   = 4  // lines for heading, keys, and a rule at each
	leastPane    = 30 // columns
	mostListPane = 56
	paneGap      = 3 // columns between the panes, with the line
)

var (
	styleOf = map[cli.Style]lipgloss.Style{
		cli.Plain: lipgloss.NewStyle(),
		cli.Bold:  lipgloss.NewStyle().Bold(true),
		cli.Dim:   lipgloss.NewStyle().Faint(true),
		cli.Bad:   lipgloss.NewStyle().Foreground(lipgloss.Red),
		cli.Good:  lipgloss.NewStyle().Foreground(lipgloss.Green),
		cli.Warn:  lipgloss.NewStyle().Foreground(lipgloss.Yellow),
		cli.Busy:  lipgloss.NewStyle().Foreground(lipgloss.Cyan),
	}
	styleSelected = lipgloss.NewStyle().Reverse(true)
)

// marks stand for statuses in lists.
var marks = map[string]string{
	"completed": "✓", "failed": "✗", "timed_out": "✗", "cancelled": "-", "running": "▶", "waiting": "?", "queued": "·", "pending": "·",
	"interrupted": "!",
}

func (m *watch) bodyHeight() int { return max(m.height-watchFrame, 1) }

// split reports whether both panes have room.
func (m *watch) split() bool { return m.width >= 2*leastPane+paneGap }

func (m *watch) listWidth() int {
	if !m.split() {
		return m.width
	}
	return min(max(m.width*2/5, leastPane), mostListPane)
}

func (m *watch) detailWidth() int {
	if !m.split() {
		return m.width
	}
	return m.width - m.listWidth() - paneGap
}

// View draws the screen.
func (m *watch) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "piw watch"
	return v
}

func (m *watch) lines() []string {
	rule := styleOf[cli.Dim].Render(strings.Repeat("─", m.width))
	lines := []string{m.heading(), rule}
	height := m.bodyHeight()
	switch {
	case m.split():
		left, right := fill(m.listLines(), height, m.listWidth()), fill(m.detailPart(), height, m.detailWidth())
		bar := styleOf[cli.Dim].Render(" │ ")
		for i := range height {
			lines = append(lines, left[i]+bar+right[i])
		}
	case m.alone:
		lines = append(lines, fill(m.detailPart(), height, m.width)...)
	default:
		lines = append(lines, fill(m.listLines(), height, m.width)...)
	}
	lines = append(lines, rule, m.keys())
	return lines[:min(len(lines), max(m.height, 1))]
}

// fill makes a pane of lines: each as wide as the pane, and as many as it is high.
func fill(lines []string, height, width int) []string {
	pane := make([]string, height)
	for i := range pane {
		if i < len(lines) {
			pane[i] = pad(lines[i], width)
		} else {
			pane[i] = strings.Repeat(" ", width)
		}
	}
	return pane
}

// pad makes a line of a width.
func pad(line string, width int) string {
	line = ansi.Truncate(line, width, "…")
	return line + strings.Repeat(" ", max(width-ansi.StringWidth(line), 0))
}

// text makes stored text fit for one line of the screen.
func text(s string) string { return strings.ReplaceAll(cli.Escape(s), "\n", `\n`) }

func (m *watch) heading() string {
	stuck, waiting := 0, 0
	for _, r := range m.data.runs {
		if now := m.now(m.env, r); now.Style == cli.Bad {
			stuck++
		} else if r.Status == store.RunWaiting {
			waiting++
		}
	}
	right := fmt.Sprintf("%s, %d waiting", count(len(m.data.runs), "run"), waiting)
	if len(m.data.runs) == watchedRuns {
		right = fmt.Sprintf("the last %d runs, %d waiting", watchedRuns, waiting)
	}
	style := styleOf[cli.Plain]
	if stuck > 0 {
		right += fmt.Sprintf(", %d stuck", stuck)
		style = styleOf[cli.Bad]
	}
	if m.open {
		right = "open: " + right
	}
	if m.data.err != nil {
		right, style = "the database is not there now; waiting", styleOf[cli.Bad]
	}
	room := m.width - ansi.StringWidth(right) - 2
	left := "piw watch  " + text(m.path)
	if room < 20 {
		return style.Render(ansi.Truncate(right, m.width, "…"))
	}
	return styleOf[cli.Bold].Render(pad(left, room)) + "  " + style.Render(right)
}

func (m *watch) keys() string {
	if m.typing {
		return pad("/"+text(m.filter)+"█  Enter keeps it, Esc drops it", m.width)
	}
	keys := "↑↓ run  PgUp PgDn scroll  / filter  o open only  q quit"
	if m.open {
		keys = strings.Replace(keys, "o open only", "o all runs", 1)
	}
	if !m.split() {
		keys = "↑↓ run  Enter look  / filter  q quit"
		if m.alone {
			keys = "Esc back  PgUp PgDn scroll  q quit"
		}
	}
	if m.filter != "" {
		keys = "[" + text(m.filter) + "] Esc all  " + keys
	}
	return styleOf[cli.Dim].Render(pad(keys, m.width))
}

// listLines are the runs, as many as there is room for.
func (m *watch) listLines() []string {
	rows := m.shownRuns()
	if len(rows) == 0 {
		switch {
		case m.filter != "":
			return []string{"no run has this in its id, title or status"}
		case m.open:
			return []string{"no run is open"}
		}
		return []string{"no runs yet"}
	}
	rows = rows[m.top:min(m.top+m.bodyHeight(), len(rows))]
	wide := 0
	for _, r := range rows {
		wide = max(wide, ansi.StringWidth(text(r.ID)))
	}
	width := m.listWidth()
	wide = min(wide, max(width/2, 8))
	var lines []string
	for _, r := range rows {
		lines = append(lines, m.listLine(r, width, wide))
	}
	return lines
}

// listLine is one run: what it is at, its id, which has some columns, its title, and how old it is.
func (m *watch) listLine(r runRow, width, wide int) string {
	now := m.now(m.env, r)
	style := status(r.Status).Style
	mark := marks[string(r.Status)]
	if now.Style == cli.Bad && r.EndedAt == 0 {
		style, mark = cli.Bad, "!"
	}
	age := cli.Span(max(m.env.Now().Sub(r.CreatedAt.Time()), 0))
	const between = 4 // columns: the pointer, and the spaces
	rest := max(width-wide-ansi.StringWidth(mark)-len(age)-between, 0)
	line := " " + pad(text(r.ID), wide) + " " + pad(text(r.Title), rest) + " " + age
	if r.ID == m.selected {
		return styleSelected.Render(pad("▸"+mark+line, width))
	}
	return " " + styleOf[style].Render(mark) + line
}

// detailPart is what is on the screen of the run on the right.
func (m *watch) detailPart() []string {
	lines := m.detailLines(m.detailWidth())
	return lines[min(m.scroll, len(lines)):]
}
