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
	State   StateCmd   `cmd:"" help:"Status, verification and backup of a state database."`
	Session SessionCmd `cmd:"" help:"The plugin state of Pi sessions (states.sqlite)."`

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

Nothing here writes to a state database: it works beside a running writer, in a read-only directory, and on a backup.

Exit codes: 0 fine, 1 a check found something wrong, 2 wrong usage, 3 absent, 4 incompatible or corrupt, 5 refused, 6 an extension failed or hit a limit, 7 storage fault, 130 interrupted.`
