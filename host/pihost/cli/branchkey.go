package cli

import (
	"fmt"

	"pistate/internal/cli"
	"pistate/schema"
)

// branchKeyCmd prints branch keys.
type branchKeyCmd struct {
	sessionFlags
	All  bool `help:"Print the key of every entry, in the order of the file." xor:"leaf"`
	JSON bool `name:"json" help:"Print JSON, one line per entry."`
}

type branchKeyJSON struct {
	Session string `json:"session"`
	Entry   string `json:"entry"`
	Key     string `json:"key"`
}

// Run prints one line per entry.
func (c *branchKeyCmd) Run(env *cli.Env) error {
	if c.All && c.Leaf != "" {
		return schema.Errorf(schema.Invalid, "--all and --leaf exclude each other")
	}
	file, err := c.open(env)
	if err != nil {
		return err
	}
	defer file.Close() // only read
	print := func(entry string) error {
		key, err := file.BranchKey(entry)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return cli.JSON(env.Stdout, branchKeyJSON{file.SessionID(), entry, key})
		case c.All:
			_, err = fmt.Fprintln(env.Stdout, cli.Escape(entry), cli.Escape(key))
		default:
			_, err = fmt.Fprintln(env.Stdout, cli.Escape(key))
		}
		return err
	}
	if c.All {
		for _, entry := range file.Entries() {
			if err := print(entry); err != nil {
				return err
			}
		}
		return nil
	}
	sc, err := c.at(file)
	if err != nil {
		return err
	}
	if sc.Leaf() == "" {
		return schema.Errorf(schema.NotFound, "%s has no entry yet, so there is no key", c.Session)
	}
	return print(sc.Leaf())
}
