package cli

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"pistate/internal/cli"
	"pistate/internal/storefixture"
	"pistate/schema"
	"pistate/store"
)

// golden compares a text with a file that -update rewrites.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not as it was (rewrite it with -update):\n%s", path, got)
	}
}

// watching is a screen whose wishes are fulfilled at once.
type watching struct {
	*watch
	t     *testing.T
	w     *watcher
	wants []wanted
}

func watchAt(t *testing.T, name string, o output, width, height int) *watching {
	t.Helper()
	path := seeded(t, name)
	env := &cli.Env{Context: context.Background(), Now: func() time.Time { return storefixture.Now }}
	r, err := store.OpenReader(env, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	s := &watching{t: t, w: newWatcher(env, r)}
	s.watch = newWatch(env, o, "/home/ann/.pi/agent/workflows/state.sqlite", func(want wanted) { s.wants = append(s.wants, want) })
	s.Update(tea.WindowSizeMsg{Width: width, Height: height})
	s.wants = []wanted{{}}
	s.fulfil()
	return s
}

func (s *watching) fulfil() {
	s.t.Helper()
	for len(s.wants) > 0 {
		want := s.wants[len(s.wants)-1]
		s.wants = nil
		got, err := s.w.read(context.Background(), want)
		if err != nil {
			s.t.Fatal(err)
		}
		s.Update(got)
	}
}

// press presses keys, by their names or one by one.
func (s *watching) press(keys ...string) {
	s.t.Helper()
	for _, k := range keys {
		s.Update(keyPress(k))
		s.fulfil()
	}
}

func keyPress(name string) tea.KeyPressMsg {
	for code, special := range map[rune]string{
		tea.KeyUp: "up", tea.KeyDown: "down", tea.KeyPgDown: "pgdown", tea.KeyPgUp: "pgup", tea.KeyEnter: "enter", tea.KeyEscape: "esc",
		tea.KeyBackspace: "backspace", tea.KeyHome: "home", tea.KeyEnd: "end",
	} {
		if special == name {
			return tea.KeyPressMsg{Code: code}
		}
	}
	if name == "ctrl+c" {
		return tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

// screen is what there is to see: exactly as many lines of the width as the terminal has.
func (s *watching) screen() string {
	s.t.Helper()
	content := s.View().Content
	lines := strings.Split(ansi.Strip(content), "\n")
	if len(lines) > s.height {
		s.t.Errorf("%d lines on a screen of %d", len(lines), s.height)
	}
	for i, l := range lines {
		if n := ansi.StringWidth(l); n > s.width {
			s.t.Errorf("line %d has %d columns on a screen of %d: %q", i+1, n, s.width, l)
		}
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestWatchScreens(t *testing.T) { // I3, V1, V3
	s := watchAt(t, "shop", output{}, 80, 24)
	golden(t, "watch/first", s.screen())
	s.press("down", "down")
	golden(t, "watch/working", s.screen())
	s.press("pgdown")
	golden(t, "watch/scrolled", s.screen())
	s.press("end")
	golden(t, "watch/last", s.screen())
	s.press("home", "/", "a", "s", "k")
	golden(t, "watch/filter", s.screen())
	s.press("enter")
	golden(t, "watch/filtered", s.screen())
	s.press("/", "x")
	golden(t, "watch/nothing", s.screen())
	s.press("esc", "o")
	golden(t, "watch/open", s.screen())
	s.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	golden(t, "watch/wide", s.screen())
	s.Update(tea.WindowSizeMsg{Width: 40, Height: 12})
	golden(t, "watch/narrow", s.screen())
	s.press("enter")
	golden(t, "watch/narrow_run", s.screen())
	s.press("esc")
	golden(t, "watch/narrow", s.screen())
	if text := s.View().Content; strings.ContainsAny(ansi.Strip(text), "\x1b\u202e\u009b") {
		t.Error("what was stored can tell the terminal what to do")
	}
}

func TestWatchShowsWhatIsPrivateOnRequest(t *testing.T) { // V3
	s := watchAt(t, "shop", output{}, 100, 30)
	s.press("/", "p", "a", "r", "k")
	if text := s.screen(); strings.Contains(text, "ACTOR-") || !strings.Contains(text, "human (hidden)") {
		t.Error(text)
	}
	s = watchAt(t, "shop", output{Private: true}, 100, 30)
	s.press("/", "p", "a", "r", "k")
	if text := s.screen(); !strings.Contains(text, "ship by human ACTOR-ann") {
		t.Error(text)
	}
}

func TestWatchAnEmptyDatabase(t *testing.T) {
	s := watchAt(t, "empty", output{}, 80, 24)
	golden(t, "watch/empty", s.screen())
	s.press("down", "up", "pgdown", "end", "enter", "esc", "o", "/", "x", "esc")
	if text := s.screen(); !strings.Contains(text, "no run is open") {
		t.Error(text)
	}
}

// No size is too small, and no key does harm at any of them.
func TestWatchAtEverySize(t *testing.T) {
	s := watchAt(t, "shop", output{}, 80, 24)
	for _, width := range []int{1, 30, 62, 63, 200} {
		for _, height := range []int{1, 4, 5, 50} {
			s.Update(tea.WindowSizeMsg{Width: width, Height: height})
			for _, k := range []string{"down", "pgdown", "pgdown", "enter", "up", "end", "pgup", "esc", "home", "/", "r", "backspace", "esc"} {
				s.press(k)
				s.screen()
			}
		}
	}
}

func TestWatchGoesOnWithoutTheDatabase(t *testing.T) {
	s := watchAt(t, "shop", output{}, 80, 24)
	s.Update(watched{err: schema.Errorf(schema.NotFound, "no such database")})
	text := s.screen()
	if !strings.Contains(text, "the database is not there now") || !strings.Contains(text, "run-working") {
		t.Error(text)
	}
	s.wants = []wanted{{}}
	s.fulfil()
	if text := s.screen(); strings.Contains(text, "not there") {
		t.Error(text)
	}
}

func TestWatchKeys(t *testing.T) {
	s := watchAt(t, "shop", output{}, 80, 24)
	quits := func(k string) tea.Msg {
		_, cmd := s.Update(keyPress(k))
		if cmd == nil {
			return nil
		}
		return cmd()
	}
	if _, ok := quits("q").(tea.QuitMsg); !ok {
		t.Error("q does not quit")
	}
	if _, ok := quits("ctrl+c").(tea.QuitMsg); !ok || !s.interrupted {
		t.Error("ctrl+c does not interrupt")
	}
	s.press("/")
	if quits("q") != nil || s.filter != "q" {
		t.Error("q is no part of the filter")
	}
	s.Update(tea.PasteMsg{Content: "x\x1b[2J\ny"})
	if s.filter != "qx[2Jy" {
		t.Errorf("%q", s.filter)
	}
}

// scripted is a database that fails as it is told.
type scripted struct {
	*store.Reader
	errs []error
}

func (s *scripted) DataVersion(ctx context.Context) (int64, error) {
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		if err != nil {
			return 0, err
		}
	}
	return s.Reader.DataVersion(ctx)
}

func TestWatcherReadsOnlyWhatIsNew(t *testing.T) {
	path := seeded(t, "shop")
	env := &cli.Env{Context: context.Background(), Now: func() time.Time { return storefixture.Now }}
	r, err := store.OpenReader(env, path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	db := &scripted{r, []error{nil, schema.Errorf(schema.NotFound, "gone"), nil, nil}}
	w := newWatcher(env, db)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sent := make(chan tea.Msg, 100)
	done := make(chan error, 1)
	go func() { done <- w.run(ctx, func(m tea.Msg) { sent <- m }) }()
	next := func() watched {
		t.Helper()
		select {
		case m := <-sent:
			return m.(watched)
		case <-time.After(30 * time.Second):
			t.Fatal("nothing came")
		}
		return watched{}
	}
	if first := next(); first.run != "run-part-2" || len(first.runs) != 11 || first.detail == nil {
		t.Errorf("%+v", first)
	}
	if lost := next(); !errors.Is(lost.err, schema.NotFound) {
		t.Errorf("%+v", lost)
	}
	if again := next(); again.err != nil || len(again.runs) != 11 {
		t.Errorf("%+v", again)
	}
	w.ask(wanted{run: "run-done"})
	w.ask(wanted{run: "run-lost", open: true})
	for got := next(); got.run != "run-lost"; got = next() {
		if got.run != "run-done" {
			t.Errorf("%+v", got)
		}
	}
	select {
	case m := <-sent:
		t.Errorf("read again for nothing: %+v", m)
	case <-time.After(3 * restBetweenReads):
	}
	other := openWriter(t, path)
	other.cancel("run-lost")
	for got := next(); got.detail.doc.Run.CancelRequestedAt == 0; got = next() { // a writer that comes shows before it writes
	}
	other.close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWatcherEndsWithWhatDoesNotComeBack(t *testing.T) {
	env := &cli.Env{Context: context.Background(), Now: time.Now}
	db := &scripted{nil, []error{schema.Errorf(schema.Storage, "the disk is gone")}}
	var got []tea.Msg
	err := newWatcher(env, db).run(context.Background(), func(m tea.Msg) { got = append(got, m) })
	if !errors.Is(err, schema.Storage) || len(got) != 1 {
		t.Errorf("%v, %v", err, got)
	}
	if _, ok := got[0].(tea.QuitMsg); !ok {
		t.Errorf("%T", got[0])
	}
}

func TestWay(t *testing.T) {
	doc := func(status store.RunStatus, ended store.Millis, nodes ...string) (doc store.RunDocument) {
		doc.Run.Status, doc.Run.EndedAt = status, ended
		steps := map[string]*store.Step{}
		for i, node := range nodes {
			if steps[node] == nil {
				steps[node] = &store.Step{}
			}
			steps[node].Attempts = append(steps[node].Attempts, store.NodeAttempt{Node: node, Ordinal: i + 1})
		}
		for _, s := range steps { // in any order
			doc.Steps = append(doc.Steps, *s)
		}
		return doc
	}
	long := strings.Split(strings.Repeat("a b ", 10), " ")[:20]
	for _, c := range []struct {
		doc  store.RunDocument
		want string
	}{
		{doc(store.RunQueued, 0), ""},
		{doc(store.RunRunning, 0, "plan", "plan"), ""},
		{doc(store.RunRunning, 0, "plan", "work"), "plan → work"},
		{doc(store.RunCompleted, 9, "plan", "work", "work", "test", "work", "test"), "plan → work ×2 → test → work → test → completed"},
		{doc(store.RunRunning, 0, long...), "…" + strings.Repeat(" → a → b", 6)},
	} {
		if got := way(c.doc); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
