package sessionstate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pistate/schema"
)

// place is a home with an agent directory and a project in it.
type place struct {
	home, agent, project string
	reports              []string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	home := t.TempDir()
	p := &place{home: home, agent: filepath.Join(home, ".pi", "agent"), project: filepath.Join(home, "project")}
	for _, dir := range []string{p.agent, filepath.Join(p.project, ".pi")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *place) settings(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "settings.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p *place) env() Environment {
	return Environment{
		Cwd:    p.project,
		Home:   p.home,
		Getenv: func(string) string { return "" },
		Report: func(err error) { p.reports = append(p.reports, err.Error()) },
	}
}

func TestExplicitPathMeansItself(t *testing.T) { // Y9, S10
	for _, path := range []string{"/link/../e.sqlite", "/dir/", "//e.sqlite", "/a?b#c%20d"} {
		if at, err := Locate(Environment{DatabasePath: path}); err != nil || at.Path != path {
			t.Errorf("%q became %q, %v", path, at.Path, err)
		}
	}
}

func TestLocate(t *testing.T) { // Y9, S1
	for _, c := range []struct {
		name    string
		user    string // settings of the agent directory
		project string // settings of the project
		change  func(p *place, env *Environment)
		want    string // below the home; "" for an error
		source  string
		report  string // part of what is reported
	}{
		{name: "default", want: ".pi/agent/sessions/states.sqlite", source: "default"},
		{
			name: "explicit wins", user: `{"sessionState":{"databasePath":"/u"}}`,
			change: func(p *place, env *Environment) { env.DatabasePath = p.home + "/e.sqlite" },
			want:   "e.sqlite", source: "explicit",
		},
		{name: "explicit and relative", change: func(p *place, env *Environment) { env.DatabasePath = "e.sqlite" }},
		{
			name: "agent directory from the environment", want: "other/sessions/states.sqlite", source: "default",
			change: func(p *place, env *Environment) {
				env.Getenv = func(name string) string {
					if name != schema.AgentDirEnv {
						return ""
					}
					return "~/other"
				}
			},
		},
		{
			name: "agent directory given", want: "given/sessions/states.sqlite", source: "default",
			change: func(p *place, env *Environment) { env.AgentDir = p.home + "/given" },
		},
		{name: "user, relative", user: `{"sessionState":{"databasePath":"s/u.sqlite"}}`, want: ".pi/agent/s/u.sqlite", source: ".pi/agent/settings.json"},
		{name: "user, ~/", user: `{"sessionState":{"databasePath":"~/u.sqlite"}}`, want: "u.sqlite", source: ".pi/agent/settings.json"},
		{name: "user, absolute", user: `{"sessionState":{"databasePath":"HOME/abs.sqlite"}}`, want: "abs.sqlite", source: ".pi/agent/settings.json"},
		{name: "user, upwards", user: `{"sessionState":{"databasePath":"../u.sqlite"}}`, want: ".pi/u.sqlite", source: ".pi/agent/settings.json"},
		{name: "user, other settings only", user: `{"theme":"dark","sessionState":{}}`, want: ".pi/agent/sessions/states.sqlite", source: "default"},
		{name: "user, null group", user: `{"sessionState":null}`, want: ".pi/agent/sessions/states.sqlite", source: "default"},
		{
			name: "an untrusted project does not count", user: `{"sessionState":{"databasePath":"u.sqlite"}}`,
			project: `{"sessionState":{"databasePath":"p.sqlite"}}`, want: ".pi/agent/u.sqlite", source: ".pi/agent/settings.json",
		},
		{
			name: "a trusted project wins", user: `{"sessionState":{"databasePath":"u.sqlite"}}`,
			project: `{"sessionState":{"databasePath":"p.sqlite"}}`, want: "project/.pi/p.sqlite", source: "project/.pi/settings.json",
			change: func(p *place, env *Environment) { env.ProjectTrusted = true },
		},
		{
			name: "a trusted project without the setting", user: `{"sessionState":{"databasePath":"u.sqlite"}}`,
			project: `{}`, want: ".pi/agent/u.sqlite", source: ".pi/agent/settings.json",
			change: func(p *place, env *Environment) { env.ProjectTrusted = true },
		},
		{
			name: "a trusted project's bad value means the default", user: `{"sessionState":{"databasePath":"u.sqlite"}}`,
			project: `{"sessionState":{"databasePath":7}}`, want: ".pi/agent/sessions/states.sqlite", source: "default",
			change: func(p *place, env *Environment) { env.ProjectTrusted = true },
			report: "a string is expected, not 7",
		},
		{name: "names in other letters", user: `{"SessionState":{"databasePath":"u"},"sessionState":{"databasepath":"v"}}`, want: ".pi/agent/sessions/states.sqlite", source: "default"},
		{name: "the last of two", user: `{"sessionState":{"databasePath":"u","databasePath":"v"}}`, want: ".pi/agent/v", source: ".pi/agent/settings.json"},
		{name: "empty", user: `{"sessionState":{"databasePath":""}}`, want: ".pi/agent/sessions/states.sqlite", source: "default", report: `"" is no path`},
		{name: "null", user: `{"sessionState":{"databasePath":null}}`, want: ".pi/agent/sessions/states.sqlite", source: "default", report: "not null"},
		{name: "object", user: `{"sessionState":{"databasePath":{}}}`, want: ".pi/agent/sessions/states.sqlite", source: "default", report: "not {}"},
		{name: "group of another kind", user: `{"sessionState":[]}`, want: ".pi/agent/sessions/states.sqlite", source: "default", report: "sessionState"},
		{name: "another user's home", user: `{"sessionState":{"databasePath":"~root/x"}}`, want: ".pi/agent/sessions/states.sqlite", source: "default", report: "only ~ and ~/"},
		{name: "~ is a directory", user: `{"sessionState":{"databasePath":"~"}}`, want: ".pi/agent/sessions/states.sqlite", source: "default", report: "not a regular file"},
		{name: "a directory that isn't there", user: `{"sessionState":{"databasePath":"new/"}}`, want: ".pi/agent/sessions/states.sqlite", source: "default", report: "names a directory"},
		{name: "below a file", user: `{"sessionState":{"databasePath":"settings.json/x"}}`, want: ".pi/agent/sessions/states.sqlite", source: "default", report: "not a directory"},
		{name: "NUL", user: `{"sessionState":{"databasePath":"a\u0000b"}}`, want: ".pi/agent/sessions/states.sqlite", source: "default", report: "no path"},
		{name: "not JSON", user: `{"sessionState":`, want: ".pi/agent/sessions/states.sqlite", source: "default", report: "unexpected end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			if c.user != "" {
				p.settings(t, p.agent, strings.ReplaceAll(c.user, "HOME", p.home))
			}
			if c.project != "" {
				p.settings(t, filepath.Join(p.project, ".pi"), c.project)
			}
			env := p.env()
			if c.change != nil {
				c.change(p, &env)
			}
			for range 2 { // what is wrong is reported once
				at, err := Locate(env)
				if c.want == "" {
					if !errors.Is(err, schema.Invalid) {
						t.Fatalf("%v, %v", at, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				source := c.source
				if strings.HasSuffix(source, ".json") {
					source = filepath.Join(p.home, source)
				}
				if at.Path != filepath.Join(p.home, c.want) || at.Source != source {
					t.Errorf("%+v, want ~/%s from %s", at, c.want, source)
				}
			}
			if c.report == "" && len(p.reports) > 0 || c.report != "" && (len(p.reports) != 1 || !strings.Contains(p.reports[0], c.report)) {
				t.Errorf("reports %q, want one about %q", p.reports, c.report)
			}
			if entries, _ := os.ReadDir(filepath.Join(p.agent, "sessions")); entries != nil {
				t.Errorf("created %v", entries)
			}
		})
	}
}
