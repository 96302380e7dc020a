package cli

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"pistate/internal/cli"
	"pistate/internal/sqlite"
	"pistate/schema"
	"pistate/store"
)

// StateCmd groups what can be done with any state database: the kind is recognised by what is in the file.
type StateCmd struct {
	Status StateStatusCmd `cmd:"" help:"Counts and sizes; nothing private."`
	Verify StateVerifyCmd `cmd:"" help:"Check integrity, foreign keys, identity and shape; exit 1 if something is wrong."`
	Backup StateBackupCmd `cmd:"" help:"Copy the database, live or not, into a new file."`
	Schema StateSchemaCmd `cmd:"" help:"The tables, as SQL with comments."`
}

// StateStatusCmd prints what a status may show of any database: counts and sizes (V3).
type StateStatusCmd struct {
	stateDB
	UTC bool `name:"utc" help:"Print times in UTC, and not as of now."`
}

// Run prints the status.
func (c *StateStatusCmd) Run(env *cli.Env) error {
	kind, path, err := c.find(env)
	if err != nil {
		return err
	}
	status, err := kind.status(env, path)
	if err != nil {
		return err
	}
	if c.JSON {
		return cli.JSON(env.Stdout, status)
	}
	return c.print(env, status)
}

// stateStatus is the document of `state status --json`.
type stateStatus struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
	sqlite.Stat
	Counts  map[string]int64    `json:"counts"`
	Leases  []store.LeaseCount  `json:"leases,omitempty"`  // by type of what is owned
	Effects []store.EffectCount `json:"effects,omitempty"` // not settled, by status
}

func (c *StateStatusCmd) print(env *cli.Env, s stateStatus) error {
	fmt.Fprintf(env.Stdout, "database  %s (%s)\n", cli.Escape(s.Path), s.Kind)
	fmt.Fprintf(env.Stdout, "size      %s in %d pages, %d of them free\n", cli.Size(s.Bytes), s.Pages, s.FreePages)
	fmt.Fprintf(env.Stdout, "WAL       %s\n", cli.Size(s.WALBytes))
	for _, l := range s.Leases {
		fmt.Fprintf(env.Stdout, "leases    %s: %d active, %d expired\n", l.Type, l.Active, l.Expired)
	}
	for _, e := range s.Effects {
		fmt.Fprintf(env.Stdout, "effects   %d %s, the oldest from %s\n", e.Count, e.Status, output{UTC: c.UTC}.when(env, e.Oldest))
	}
	fmt.Fprintln(env.Stdout)
	t := env.Table("ROWS", "")
	for _, name := range slices.Sorted(maps.Keys(s.Counts)) {
		if n := s.Counts[name]; n > 0 {
			t.Row(n, name)
		}
	}
	return t.Flush()
}

// StateVerifyCmd checks a database.
type StateVerifyCmd struct {
	stateDB
	Quick bool `xor:"depth" help:"Don't check whether indexes match their tables: several times as fast."`
	Deep  bool `xor:"depth" help:"Also check what SQLite knows nothing of: sequences, digests, ids, values."`
}

type verifyJSON struct {
	Path     string           `json:"path"`
	Kind     string           `json:"kind"`
	OK       bool             `json:"ok"`
	Outcomes []sqlite.Outcome `json:"outcomes"`
}

// Run prints one line per check.
func (c *StateVerifyCmd) Run(env *cli.Env) error {
	kind, path, err := c.find(env)
	if err != nil {
		return err
	}
	show, end := env.Progress("verifying")
	report, err := kind.check(env, path, checkOptions{c.Quick, c.Deep, show})
	end()
	if err != nil {
		return err
	}
	if c.JSON {
		err = cli.JSON(env.Stdout, verifyJSON{report.Path, kind.name, report.OK(), report.Outcomes})
	} else {
		printReport(env, report)
	}
	switch {
	case err != nil || report.OK():
		return err
	case errors.Is(report.Err(), schema.Incompatible): // nothing else is wrong: it is another kind of file
		return schema.Errorf(schema.Incompatible, "%s is not %s of this version", report.Path, kind.name)
	}
	return cli.ErrFailedCheck
}

func printReport(env *cli.Env, report sqlite.Report) {
	for _, o := range report.Outcomes {
		note := ""
		if o.Note != "" {
			note = "  (" + o.Note + ")"
		}
		fmt.Fprintf(env.Stdout, "%-8s %s%s\n", o.Status, o.Name, cli.Escape(note))
		for _, f := range o.Findings {
			text := strings.ReplaceAll(cli.Escape(f), "\n", "\n           ")
			fmt.Fprintf(env.Stdout, "         - %s\n", text)
		}
		if o.More > 0 {
			fmt.Fprintf(env.Stdout, "         - and %d more\n", o.More)
		}
	}
}

// StateBackupCmd copies a database.
type StateBackupCmd struct {
	stateDB
	Target string `arg:"" completion:"file" help:"Absolute path of the copy; there may be no such file yet."`
}

// Run makes the backup and says what it holds.
func (c *StateBackupCmd) Run(env *cli.Env) error {
	if !filepath.IsAbs(c.Target) {
		return schema.Errorf(schema.Invalid, "backup target %q is relative: give an absolute path", c.Target)
	}
	kind, path, err := c.find(env)
	if err != nil {
		return err
	}
	show, end := env.Progress("backing up")
	result, err := kind.backup(env, path, c.Target, show)
	end()
	if err != nil {
		return err
	}
	if c.JSON {
		return cli.JSON(env.Stdout, result)
	}
	rows := int64(0)
	for _, n := range result.Rows {
		rows += n
	}
	_, err = fmt.Fprintf(env.Stdout, "%s: %s, %d tables, %d rows, verified\n", cli.Escape(result.Path), cli.Size(result.Bytes), len(result.Rows), rows)
	return err
}
