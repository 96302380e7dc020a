package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"pistate/internal/cli"
	"pistate/sessionstate"
)

// SessionCmd groups the commands over states.sqlite.
type SessionCmd struct {
	Status SessionStatusCmd `cmd:"" help:"Who holds which session's lock, and the rows of each plugin."`
	List   SessionListCmd   `cmd:"" help:"The sessions that have state."`
	Show   SessionShowCmd   `cmd:"" help:"The keys and value sizes of sessions; values only with --values."`
}

// sessionDB is the choice of a session-state database.
type sessionDB struct {
	DB           string `name:"db" placeholder:"PATH" help:"The session-state database. Default: where the settings put it."`
	TrustProject bool   `help:"Let ./.pi/settings.json choose the database, as Pi does in a trusted project."`
	JSON         bool   `name:"json" help:"Print JSON instead of text."`
}

func (f sessionDB) open(env *cli.Env) (*sessionstate.Reader, error) {
	path, err := cli.SessionDB(env, f.DB, f.TrustProject)
	if err != nil {
		return nil, err
	}
	return sessionstate.OpenReader(env, path)
}

// view opens the database, runs fn and closes it.
func (f sessionDB) view(env *cli.Env, fn func(*sessionstate.Reader) error) error {
	r, err := f.open(env)
	if err != nil {
		return err
	}
	return errors.Join(fn(r), r.Close())
}

// SessionStatusCmd prints lock holders and row counts.
type SessionStatusCmd struct {
	sessionDB
	Session string `placeholder:"ID|FILE" help:"Only this session, by its id or its file."`
	UTC     bool   `name:"utc" help:"Print times in UTC, and not as of now."`
}

type lockJSON struct {
	Session  string                `json:"session"`
	Holder   string                `json:"holder"`
	Alive    sessionstate.Liveness `json:"alive"`
	Acquired cli.Time              `json:"acquired"`
	Expired  bool                  `json:"expired"`
}

type pluginJSON struct {
	Plugin   string `json:"plugin"`
	Sessions int64  `json:"sessions"`
	Rows     int64  `json:"rows"`
	Bytes    int64  `json:"bytes"`
}

type sessionStatusJSON struct {
	Path    string       `json:"path"`
	Locks   []lockJSON   `json:"locks"`
	Plugins []pluginJSON `json:"plugins"`
}

// Run prints the status.
func (c *SessionStatusCmd) Run(env *cli.Env) error {
	id, err := sessionID(c.Session)
	if err != nil {
		return err
	}
	return c.view(env, func(r *sessionstate.Reader) error {
		status, err := r.Status(env, id)
		if err != nil {
			return err
		}
		if c.JSON {
			return printStatusJSON(env, status)
		}
		return c.print(env, status)
	})
}

func printStatusJSON(env *cli.Env, s sessionstate.Status) error {
	doc := sessionStatusJSON{Path: s.Path, Locks: []lockJSON{}, Plugins: []pluginJSON{}}
	for _, l := range s.Locks {
		doc.Locks = append(doc.Locks, lockJSON{l.Session, l.Holder, l.Alive, cli.TimeOf(l.Acquired), l.Expired})
	}
	for _, p := range s.Plugins {
		doc.Plugins = append(doc.Plugins, pluginJSON(p))
	}
	return cli.JSON(env.Stdout, doc)
}

func (c *SessionStatusCmd) print(env *cli.Env, s sessionstate.Status) error {
	fmt.Fprintf(env.Stdout, "database  %s\n", cli.Escape(s.Path))
	if len(s.Locks) == 0 {
		fmt.Fprintln(env.Stdout, "locks     none")
	} else {
		fmt.Fprintln(env.Stdout)
		o := output{UTC: c.UTC}
		t := env.Table("LOCKED SESSION", "HOLDER", "ALIVE", "SINCE", "CAN BE TAKEN OVER").Cut("HOLDER", "LOCKED SESSION")
		for _, l := range s.Locks {
			takeover := "now"
			if !l.Expired && l.Alive != sessionstate.No {
				takeover = o.at(env, l.Acquired.Add(sessionstate.Lease))
			}
			t.Row(l.Session, l.Holder, l.Alive, o.at(env, l.Acquired), takeover)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if len(s.Plugins) == 0 {
		fmt.Fprintln(env.Stdout, "rows      none")
		return nil
	}
	fmt.Fprintln(env.Stdout)
	t := env.Table("PLUGIN", "SESSIONS", "ROWS", "VALUES").Cut("PLUGIN")
	for _, p := range s.Plugins {
		t.Row(p.Plugin, p.Sessions, p.Rows, cli.Size(p.Bytes))
	}
	return t.Flush()
}

// page is how a list is cut.
type page struct {
	Limit int `default:"100" help:"Print at most this many (default ${default})."`
}

// SessionListCmd prints the sessions.
type SessionListCmd struct {
	sessionDB
	page
	After string `placeholder:"ID" help:"Begin after this session, as the last line of a longer list says."`
}

type sessionJSON struct {
	Session string `json:"session"`
	Plugins int64  `json:"plugins"`
	Rows    int64  `json:"rows"`
	Bytes   int64  `json:"bytes"`
	Locked  bool   `json:"locked"`
}

// Run prints one line per session.
func (c *SessionListCmd) Run(env *cli.Env) error {
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	return c.view(env, func(r *sessionstate.Reader) error {
		sessions, err := r.Sessions(env, c.After, c.Limit)
		if err != nil {
			return err
		}
		if c.JSON {
			for _, s := range sessions {
				if err := cli.JSON(env.Stdout, sessionJSON(s)); err != nil {
					return err
				}
			}
			return nil
		}
		t := env.Table("SESSION", "PLUGINS", "ROWS", "VALUES", "LOCKED").Cut("SESSION")
		for _, s := range sessions {
			t.Row(s.Session, s.Plugins, s.Rows, cli.Size(s.Bytes), yesNo(s.Locked))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if n := len(sessions); n == c.Limit {
			fmt.Fprintf(env.Stdout, "(more may follow: --after %s)\n", cli.Escape(sessions[n-1].Session))
		}
		return nil
	})
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// SessionShowCmd prints keys and sizes.
type SessionShowCmd struct {
	sessionDB
	page
	Session string `placeholder:"ID|FILE" help:"Only this session, by its id or its file."`
	Plugin  string `placeholder:"ID" help:"Only this plugin."`
	Values  bool   `help:"Print the values too."`
	After   string `placeholder:"CURSOR" help:"Begin after this row, as the last line of a longer list says."`
}

type rowJSON struct {
	Plugin  string          `json:"plugin"`
	Session string          `json:"session"`
	Scope   string          `json:"scope"`
	Branch  string          `json:"branch"`
	Bytes   int64           `json:"bytes"`
	Value   json.RawMessage `json:"value,omitempty"`
	Text    string          `json:"text,omitempty"` // a value that another program wrote and that isn't JSON
	Cursor  string          `json:"cursor"`
}

// Run prints one line per row.
func (c *SessionShowCmd) Run(env *cli.Env) error {
	id, err := sessionID(c.Session)
	if err != nil {
		return err
	}
	after, err := sessionstate.ParseCursor(c.After)
	if err == nil {
		err = checkLimit(c.Limit)
	}
	if err != nil {
		return err
	}
	return c.view(env, func(r *sessionstate.Reader) error {
		filter := sessionstate.Filter{Plugin: c.Plugin, Session: id}
		rows, err := r.Rows(env, filter, after, c.Limit, c.Values)
		if err != nil {
			return err
		}
		if c.JSON {
			return printRowsJSON(env, rows, c.Values)
		}
		return c.printRows(env, rows)
	})
}

func printRowsJSON(env *cli.Env, rows []sessionstate.Row, values bool) error {
	for _, row := range rows {
		line := rowJSON{
			Plugin: row.Plugin, Session: row.Session, Scope: string(row.Scope()), Branch: row.Branch,
			Bytes: row.Bytes, Cursor: row.Cursor(),
		}
		switch {
		case !values:
		case json.Valid(row.Value) && utf8.Valid(row.Value): // json alone does not look at the text of strings
			line.Value = row.Value
		default:
			line.Text = string(row.Value)
		}
		if err := cli.JSON(env.Stdout, line); err != nil {
			return err
		}
	}
	return nil
}

func (c *SessionShowCmd) printRows(env *cli.Env, rows []sessionstate.Row) error {
	headings := []string{"PLUGIN", "SESSION", "BRANCH", "SIZE"}
	if c.Values {
		headings = append(headings, "VALUE")
	}
	t := env.Table(headings...).Cut("VALUE", "SESSION", "PLUGIN")
	for _, row := range rows {
		branch := row.Branch
		if row.Scope() == sessionstate.ScopeSession {
			branch = "(session)"
		}
		cells := []any{row.Plugin, row.Session, branch, cli.Size(row.Bytes)}
		if c.Values {
			cells = append(cells, string(row.Value))
		}
		t.Row(cells...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if n := len(rows); n == c.Limit {
		fmt.Fprintf(env.Stdout, "(more may follow: --after %s)\n", rows[n-1].Cursor())
	}
	return nil
}
