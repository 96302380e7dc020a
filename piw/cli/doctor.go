package cli

import (
	"errors"
	"fmt"

	"pistate/internal/cli"
	"pistate/schema"
	"pistate/store"
)

// DoctorCmd looks for what is wrong with the databases and with what they hold.
type DoctorCmd struct {
	stateDB
	UTC bool `name:"utc" help:"Print times in UTC, and not as of now."`
}

// Help is shown below the flags.
func (*DoctorCmd) Help() string {
	return `Looks at both databases, or at the one that is named: permissions and sizes of the files, the schema, what is left of earlier versions, locks and leases of those who are gone, runs that are stuck, work that nobody does, and effects of which nobody knows whether they happened. Says what to do about it; changes nothing.

The exit code is 1 if something is wrong. Whether every page of a file is sound is for piw state verify to say, which takes longer.`
}

// level says how bad a finding is.
type level string

const (
	good  level = "ok"
	note  level = "note" // to be known, and not wrong
	wrong level = "wrong"
)

// finding is one thing that was found, in plain words.
type finding struct {
	Level level  `json:"level"`
	About string `json:"about"` // what was looked at, in one word
	Text  string `json:"text"`
	Do    string `json:"do,omitempty"` // what to do about it

	things int // of which it speaks
}

// examination is what was found about one database.
type examination struct {
	Kind     string    `json:"kind"`
	Path     string    `json:"path"`
	Findings []finding `json:"findings"`

	named bool   // by the user, so it should be there
	show  output // how times are said
}

func (e *examination) add(l level, about, do, format string, args ...any) {
	e.Findings = append(e.Findings, finding{l, about, fmt.Sprintf(format, args...), do, 1})
}

// doctorJSON is the document of `doctor --json`.
type doctorJSON struct {
	OK        bool           `json:"ok"`
	Databases []*examination `json:"databases"`
}

// Run prints the findings.
func (c *DoctorCmd) Run(env *cli.Env) error {
	databases, err := c.databases(env)
	if err != nil {
		return err
	}
	doc := doctorJSON{OK: true, Databases: databases}
	for _, e := range databases {
		e.show.UTC = c.UTC
		if err := e.examine(env); err != nil {
			return err
		}
		for _, f := range e.Findings {
			doc.OK = doc.OK && f.Level != wrong
		}
	}
	if c.JSON {
		err = cli.JSON(env.Stdout, doc)
	} else {
		printExaminations(env, databases)
	}
	if err == nil && !doc.OK {
		err = cli.ErrFailedCheck
	}
	return err
}

// databases are the ones to be looked at.
func (c *DoctorCmd) databases(env *cli.Env) ([]*examination, error) {
	if c.DB != "" || c.Sessions {
		kind, path, err := c.find(env)
		if path == "" {
			return nil, err
		}
		e := &examination{Kind: kind.name, Path: path, named: c.DB != ""}
		if err != nil { // it can't be opened, and so nobody knows its kind
			e.Kind = workflowKind.name
		}
		return []*examination{e}, nil
	}
	workflow, err := store.DefaultPath()
	if err != nil {
		return nil, err
	}
	sessions, err := cli.SessionDB(env, "", false)
	if err != nil {
		return nil, err
	}
	return []*examination{{Kind: workflowKind.name, Path: workflow}, {Kind: sessionKind.name, Path: sessions}}, nil
}

func (e *examination) examine(env *cli.Env) error {
	if err := e.files(); err != nil {
		return err
	}
	look := e.workflow
	if e.Kind == sessionKind.name {
		look = e.sessions
	}
	err := look(env)
	switch {
	case err == nil || errors.Is(err, schema.Canceled):
		return err
	case errors.Is(err, schema.NotFound) && !e.named:
		e.add(note, "file", "", "there is no database yet: the first program that writes to it creates it")
	case errors.Is(err, schema.NotFound):
		e.add(wrong, "file", "look for it elsewhere; piw creates nothing", "%v", err)
	case errors.Is(err, schema.Corrupt):
		e.add(wrong, "content", "stop what writes to it, keep a copy of the file with its -wal and -shm, and put a backup in its place that piw state verify finds good", "%v", err)
	case errors.Is(err, schema.Incompatible):
		e.add(wrong, "schema", "", "%v", err)
	case errors.Is(err, schema.Busy):
		e.add(wrong, "content", "try again; if that does not help, find out who keeps it locked", "%v", err)
	default:
		e.add(wrong, "file", "", "%v", err)
	}
	return nil
}

func printExaminations(env *cli.Env, databases []*examination) {
	styles := map[level]cli.Style{good: cli.Good, note: cli.Warn, wrong: cli.Bad}
	bad := 0
	for i, e := range databases {
		if i > 0 {
			fmt.Fprintln(env.Stdout)
		}
		env.Line(cli.Styled{Value: e.Kind, Style: cli.Bold}, cli.Styled{Value: e.Path})
		for i, f := range e.Findings {
			env.Item(cli.Styled{Value: f.Level, Style: styles[f.Level]}, f.Text)
			same := i+1 < len(e.Findings) && e.Findings[i+1].Do == f.Do
			if f.Do != "" && !same {
				env.Item(cli.Styled{Value: ""}, "-> "+f.Do)
			}
			if f.Level == wrong {
				bad += f.things
			}
		}
	}
	verdict := cli.Styled{Value: "\nNothing is wrong.", Style: cli.Good}
	if bad > 0 {
		verdict = cli.Styled{Value: "\nWrong: " + count(bad, "thing") + ".", Style: cli.Bad}
	}
	fmt.Fprintln(env.Stdout, env.Terminal.Paint(verdict.Style, fmt.Sprint(verdict.Value)))
}
