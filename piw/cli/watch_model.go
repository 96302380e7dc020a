package cli

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"pistate/internal/cli"
)

// watch is the state of the screen.
type watch struct {
	output
	env  *cli.Env
	path string
	ask  func(wanted) // asks for what is shown

	width, height int
	data          watched
	selected      string // the run
	top           int    // the first of the runs that is shown
	scroll        int    // lines of the run that are above the screen
	filter        string
	typing        bool // the filter
	open          bool // only runs that have not ended
	alone         bool // the run is shown without the list, where both have no room
	interrupted   bool // by the user
}

func newWatch(env *cli.Env, o output, path string, ask func(wanted)) *watch {
	return &watch{output: o, env: env, path: path, ask: ask, width: 80, height: 24}
}

// Init begins.
func (m *watch) Init() tea.Cmd { return every() }

// Update takes in what has happened.
func (m *watch) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case second:
		return m, every()
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.clamp()
	case watched:
		m.take(msg)
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		if m.typing {
			m.setFilter(m.filter + strings.Map(printable, msg.Content))
		}
	}
	return m, nil
}

// take shows what was read. If nothing could be, the screen stays and says so.
func (m *watch) take(got watched) {
	if got.err != nil {
		m.data.err = got.err
		return
	}
	if got.open != m.open {
		return // something else is wanted by now
	}
	m.data = got
	if m.selected == "" {
		m.selected = got.run
	}
	m.clamp()
	if m.data.run != m.selected {
		m.wish()
	}
}

func (m *watch) wish() { m.ask(wanted{m.selected, m.open}) }

// shownRuns are the runs that the filter lets through.
func (m *watch) shownRuns() []runRow {
	if m.filter == "" {
		return m.data.runs
	}
	var rows []runRow
	want := strings.ToLower(m.filter)
	for _, r := range m.data.runs {
		if strings.Contains(strings.ToLower(r.ID+"\n"+r.Title+"\n"+string(r.Status)), want) {
			rows = append(rows, r)
		}
	}
	return rows
}

// index is the place of the selected run among the shown ones, or -1.
func (m *watch) index(rows []runRow) int {
	for i, r := range rows {
		if r.ID == m.selected {
			return i
		}
	}
	return -1
}

// move selects another run, so many places further down.
func (m *watch) move(by int) {
	rows := m.shownRuns()
	if len(rows) == 0 {
		return
	}
	at := m.index(rows)
	if at >= 0 || by < 0 {
		at += by
	} else {
		at = 0
	}
	at = min(max(at, 0), len(rows)-1)
	if rows[at].ID != m.selected {
		m.selected, m.scroll = rows[at].ID, 0
		m.wish()
	}
	m.clamp()
}

// clamp keeps the selected run, and some of what is shown of it, on the screen.
func (m *watch) clamp() {
	rows := m.shownRuns()
	room := m.bodyHeight()
	at := m.index(rows)
	if at < 0 && len(rows) > 0 && m.data.err == nil { // it is not listed any more
		at = 0
		m.selected, m.scroll = rows[0].ID, 0
		m.wish()
	}
	m.top = min(m.top, max(at, 0))
	m.top = max(m.top, at-room+1, 0)
	m.top = min(m.top, max(len(rows)-room, 0))
	m.scroll = min(max(m.scroll, 0), max(len(m.detailLines(m.detailWidth()))-room, 0))
}

func (m *watch) setFilter(text string) {
	m.filter = text
	m.clamp()
}

func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return -1
	}
	return r
}

// key does what a key is for.
func (m *watch) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	if name == "ctrl+c" {
		m.interrupted = true
		return tea.Quit
	}
	if m.typing {
		m.keyWhileTyping(k)
		return nil
	}
	switch name {
	case "q":
		return tea.Quit
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "home", "g":
		m.move(-len(m.data.runs))
	case "end", "G":
		m.move(len(m.data.runs))
	case "pgup", "ctrl+u":
		m.scroll -= m.bodyHeight() / 2
		m.clamp()
	case "pgdown", "ctrl+d", "space":
		m.scroll += m.bodyHeight() / 2
		m.clamp()
	case "enter", "right", "l":
		m.alone = true
	case "left", "h":
		m.alone = false
	case "/":
		m.typing = true
	case "o":
		m.open = !m.open
		m.data.runs = nil
		m.wish()
	case "esc":
		switch {
		case m.alone:
			m.alone = false
		default:
			m.setFilter("")
		}
	}
	return nil
}

func (m *watch) keyWhileTyping(k tea.KeyPressMsg) {
	switch k.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing = false
		m.setFilter("")
	case "backspace":
		if runes := []rune(m.filter); len(runes) > 0 {
			m.setFilter(string(runes[:len(runes)-1]))
		}
	case "ctrl+u":
		m.setFilter("")
	case "up":
		m.move(-1)
	case "down":
		m.move(1)
	default:
		if k.Text != "" {
			m.setFilter(m.filter + strings.Map(printable, k.Text))
		}
	}
}
