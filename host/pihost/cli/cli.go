// Package cli is the command line of pihost, as a package so that its tests are not those of a program: the code
// that they make wazero compile is then the same as that of all other tests, and is compiled once.
package cli

import (
	"github.com/alecthomas/kong"

	"pistate/internal/cli"
)

// grammar is the tree of commands.
type grammar struct {
	Demo      demoCmd      `cmd:"" help:"Run the counter extension on a bundled session and show what each branch sees."`
	Run       runCmd       `cmd:"" help:"Run an extension once on a session."`
	BranchKey branchKeyCmd `cmd:"" help:"Print the key under which branch-scope state is kept."`
	Read      readCmd      `cmd:"" help:"Print a value; exit 3 without a word if there is none."`
	Write     writeCmd     `cmd:"" help:"Store a value."`
	Drop      dropCmd      `cmd:"" help:"Remove a value."`
	Exec      execCmd      `cmd:"" help:"Carry out commands and queries of the workflow database, one JSON request per line."`

	Version kong.VersionFlag `help:"Print the version."`
}

const description = `Run sandboxed extensions on the state of Pi sessions.

Exit codes: 0 fine, 1 a check found something wrong, 2 wrong usage, 3 absent, 4 incompatible or corrupt, 5 refused, 6 an extension failed or hit a limit, 7 storage fault, 130 interrupted, 141 the reader of the output has gone.`

// Program returns the program.
func Program() cli.Program {
	return cli.Program{
		Name:        "pihost",
		Description: description,
		Version:     "pihost " + cli.BuildVersion(),
		Grammar:     &grammar{},
	}
}
