// Package cli is the command line of piw, as a package so that other commands of the product can show what
// piw shows.
package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"pistate/internal/cli"
)

// Grammar is the tree of commands.
type Grammar struct {
	Runs  RunsCmd  `cmd:"" group:"Runs" help:"The runs, and what each waits for or is stuck at."`
	Run   RunCmd   `cmd:"" group:"Runs" help:"All about one run."`
	Queue QueueCmd `cmd:"" group:"Runs" help:"The runs that wait for somebody to run them."`

	Watch   WatchCmd   `cmd:"" group:"What happened" help:"The runs and what happens to them, live on the terminal."`
	Events  EventsCmd  `cmd:"" group:"What happened" help:"What was done, by whom, in order."`
	Capture CaptureCmd `cmd:"" group:"What happened" help:"What Pi sessions said for a run."`
	Blob    BlobCmd    `cmd:"" group:"What happened" help:"Stored content, by its digest."`

	Decisions   DecisionsCmd   `cmd:"" group:"Who and what" help:"What people are asked, and what was decided by whom."`
	Leases      LeasesCmd      `cmd:"" group:"Who and what" help:"Who owns what, and until when."`
	Effects     EffectsCmd     `cmd:"" group:"Who and what" help:"What is to follow from commands, and what became of it."`
	Controllers ControllersCmd `cmd:"" group:"Who and what" help:"The things that controllers look after."`
	Controller  ControllerCmd  `cmd:"" group:"Who and what" help:"All about one of these things."`
	Channels    ChannelsCmd    `cmd:"" group:"Who and what" help:"How people are reached outside Pi."`
	Projects    ProjectsCmd    `cmd:"" group:"Who and what" help:"The directories that workflows run in."`

	Doctor  DoctorCmd  `cmd:"" group:"Databases" help:"What is wrong, and what to do about it."`
	State   StateCmd   `cmd:"" group:"Databases" help:"Status, verification and backup of a state database."`
	Session SessionCmd `cmd:"" group:"Databases" help:"The plugin state of Pi sessions (states.sqlite)."`

	Completion cli.CompletionCmd `cmd:"" group:"This program" help:"The script by which a shell completes command lines of this program."`

	Version kong.VersionFlag `help:"Print the version and the schema digest."`
}

// Program returns the program, under the name by which it was called.
func Program() cli.Program {
	name := "piw"
	if strings.HasPrefix(filepath.Base(os.Args[0]), "pi-workflows") {
		name = "pi-workflows"
	}
	return cli.Program{
		Name:        name,
		Description: description,
		Version:     name + " " + version(),
		Grammar:     &Grammar{},
	}
}

const description = `Look at, check and back up the state of a running agent.

  piw runs                                which run is stuck, and why
  piw run ID                              where a run is, what each step made
  piw run ID --output NODE --private      what a step put out last
  piw leases --resource run:ID --private  who holds a run
  piw decisions --private                 what was decided, and by whom
  piw events --run ID                     what happened to a run last
  piw doctor                              what is wrong, why a file is large
  piw state verify --deep --db COPY       whether a backup is good

Nothing here writes to a state database: it works beside a running writer, in a read-only directory, and on a backup. Who an actor is, references of channels and content are only shown with --private.

On a terminal, lines are cut to its width (or $COLUMNS), and there are colours unless $NO_COLOR is set. In a file or pipe nothing is cut. $PI_CODING_AGENT_DIR says where the databases are; without it that is ~/.pi/agent.

Exit codes: 0 fine, 1 a check found something wrong, 2 wrong usage, 3 absent, 4 incompatible or corrupt, 5 refused, 6 an extension failed or hit a limit, 7 storage fault, 130 interrupted, 141 the reader of the output has gone.`
