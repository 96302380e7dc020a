package cli

import (
	"errors"
	"time"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"pistate/internal/cli"
	"pistate/schema"
	"pistate/store"
)

// workflowDB is the choice of a workflow database.
type workflowDB struct {
	DB string `name:"db" placeholder:"PATH" help:"The workflow database. Default: that of this user."`
}

func (f workflowDB) open(env *cli.Env) (*store.Reader, error) {
	path, err := store.DefaultPath()
	if f.DB != "" {
		path, err = cli.Path(f.DB)
		if err != nil {
			err = schema.Errorf(schema.Invalid, "--db: %w", err)
		}
	}
	if err != nil {
		return nil, err
	}
	return store.OpenReader(env, path)
}

// view opens the database, runs fn on one snapshot of it, maybe several times, and closes it.
func (f workflowDB) view(env *cli.Env, fn func(*store.Queries) error) error {
	r, err := f.open(env)
	if err != nil {
		return err
	}
	return errors.Join(r.Snapshot(env, env.Now(), fn), r.Close())
}

// output is how what is stored is printed.
type output struct {
	JSON    bool `name:"json" help:"Print JSON instead of text: one document, or one line per row."`
	UTC     bool `name:"utc" help:"Print times in UTC, and not as of now."`
	Private bool `help:"Show what is hidden otherwise: who an actor is, references of channels, content."`
}

// hidden stands for what --private would show.
const hidden = "(hidden)"

// print prints a document, or a line of a list. Who an actor is is left out, unless it may be shown (V3).
func (o output) print(env *cli.Env, v any) error {
	return cli.JSON(env.Stdout, v, json2.MarshalToFunc(o.marshalActor))
}

func (o output) marshalActor(e *jsontext.Encoder, a store.Actor) error {
	type plain store.Actor
	if !o.Private {
		a.ID = ""
	}
	return json2.MarshalEncode(e, plain(a))
}

// actor prints an actor.
func (o output) actor(a store.Actor) string {
	switch {
	case a.ID == "":
		return string(a.Class)
	case !o.Private:
		return string(a.Class) + " " + hidden
	}
	return string(a.Class) + " " + a.ID
}

// secret returns a text that only --private shows.
func (o output) secret(text string) string {
	if text != "" && !o.Private {
		return hidden
	}
	return text
}

// when prints a moment, as of now or as it is. There is none at 0.
func (o output) when(env *cli.Env, at store.Millis) string {
	if at == 0 {
		return ""
	}
	return o.at(env, at.Time())
}

func (o output) at(env *cli.Env, at time.Time) string {
	if o.UTC {
		return at.UTC().Format("2006-01-02 15:04:05Z")
	}
	return cli.Ago(at, env.Now())
}

// since prints how long something has taken, or took until its end.
func since(env *cli.Env, from, to store.Millis) string {
	if from == 0 {
		return ""
	}
	if to == 0 {
		to = store.MillisOf(env.Now())
	}
	return cli.Span(time.Duration(max(to-from, 0)) * time.Millisecond)
}
