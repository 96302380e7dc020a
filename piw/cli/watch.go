package cli

import (
	"context"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"

	"pistate/internal/cli"
	"pistate/schema"
)

// WatchCmd shows the runs and what happens to them, live.
type WatchCmd struct {
	workflowDB
	UTC     bool `name:"utc" help:"Print times in UTC, and not as of now."`
	Private bool `help:"Show what is hidden otherwise: who an actor is."`
}

// Help is shown below the flags.
func (*WatchCmd) Help() string {
	return `The runs are on the left, the selected one on the right: its steps and attempts, what people are asked, and what happened last. The screen follows the database; nothing is written to it.

  arrows, j, k      another run         /      only what has this text
  PgUp, PgDn        further up or down  o      only runs that have not ended, or all
  Enter             the run alone, on a narrow terminal
  Esc               back                q      quit`
}

// Run shows the screen until the user quits.
func (c *WatchCmd) Run(env *cli.Env) error {
	screen, ok := env.Screen()
	if !ok {
		return schema.Errorf(schema.Invalid, "watch needs a terminal: piw runs prints the runs, piw events --follow what happens")
	}
	r, err := c.open(env)
	if err != nil {
		return err
	}
	w := newWatcher(env, r)
	m := newWatch(env, output{UTC: c.UTC, Private: c.Private}, r.Path(), w.ask)
	p := tea.NewProgram(m, tea.WithInput(env.Stdin), tea.WithOutput(screen), tea.WithoutSignalHandler())
	ctx, stop := context.WithCancel(env)
	done := make(chan error, 1)
	go func() { done <- w.run(ctx, p.Send) }()
	// Quitting is the one way to end: killed, the program would not wait for whoever reads the keys.
	end := context.AfterFunc(env, p.Quit)
	_, err = p.Run()
	end()
	stop()
	err = errors.Join(err, <-done, r.Close())
	if err == nil && (m.interrupted || env.Err() != nil) {
		return &cli.Silent{Code: schema.Canceled}
	}
	return err
}

// every wakes the screen up, so that what is said as of now goes on being true.
func every() tea.Cmd {
	return tea.Tick(time.Second, func(time.Time) tea.Msg { return second{} })
}

type second struct{}
