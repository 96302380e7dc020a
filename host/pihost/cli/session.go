package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"pistate/internal/cli"
	"pistate/schema"
	"pistate/sessionstate"
)

// sessionFlags choose a session, and the entry at which a command looks at it.
type sessionFlags struct {
	Session string `required:"" placeholder:"FILE" help:"The Pi session file."`
	Leaf    string `placeholder:"ID" help:"The entry that is current. Default: the last one of the file."`
	Strict  bool   `help:"Fail where Pi would skip or mend something in the session file, instead of warning."`
}

// open reads the session file and warns about what is wrong in it. The caller closes it.
func (f sessionFlags) open(env *cli.Env) (*sessionstate.SessionFile, error) {
	file, err := sessionstate.OpenSessionFile(f.Session)
	if err != nil {
		return nil, err
	}
	problems := file.Problems()
	if f.Strict && len(problems) > 0 {
		err := schema.Errorf(schema.Corrupt, "%s: %v (%d such findings; without --strict they are warned about)",
			f.Session, problems[0], len(problems))
		return nil, errors.Join(err, file.Close())
	}
	for _, p := range problems {
		env.Warn("%s: %v", f.Session, p)
	}
	return file, nil
}

// at returns the session at the leaf that was asked for.
func (f sessionFlags) at(file *sessionstate.SessionFile) (sessionstate.SessionContext, error) {
	if f.Leaf == "" {
		return file, nil
	}
	if !file.Contains(f.Leaf) {
		return nil, schema.Errorf(schema.NotFound, "%s: there is no entry %q", f.Session, f.Leaf)
	}
	return sessionstate.At(file.SessionID(), f.Leaf, file), nil
}

// dbFlags choose the session-state database.
type dbFlags struct {
	DB           string `name:"db" placeholder:"PATH" help:"The session-state database. Default: where the settings put it."`
	TrustProject bool   `help:"Let ./.pi/settings.json choose the database, as Pi does in a trusted project."`
}

func (f dbFlags) path(env *cli.Env) (string, error) { return cli.SessionDB(env, f.DB, f.TrustProject) }

func (f dbFlags) open(env *cli.Env) (*sessionstate.Store, error) {
	path, err := f.path(env)
	if err != nil {
		return nil, err
	}
	return sessionstate.Open(env, path, sessionstate.Options{})
}

// argument returns the text of an argument, or standard input for "-", up to one byte more than limit.
func argument(env *cli.Env, arg string, limit int) ([]byte, error) {
	if arg != "-" {
		return []byte(arg), nil
	}
	text, err := io.ReadAll(io.LimitReader(interruptible{env, env.Stdin}, int64(limit)+1))
	switch {
	case env.Err() != nil:
		return nil, schema.Errorf(schema.Canceled, "read standard input: %w", env.Err())
	case err != nil:
		return nil, schema.Errorf(schema.Storage, "read standard input: %w", err)
	}
	return text, nil
}

// checkJSON refuses what is no JSON text of at most so many bytes, before anything is done with it.
func checkJSON(what string, text []byte, limit int) error {
	switch {
	case len(text) > limit:
		return schema.Errorf(schema.Limit, "%s has more than %d bytes, which is the most that it can have", what, limit)
	case len(text) == 0:
		return schema.Errorf(schema.Invalid, "%s is empty: JSON is expected", what)
	case !utf8.Valid(text):
		return schema.Errorf(schema.Invalid, "%s is not UTF-8 text", what)
	case json.Valid(text):
		return nil
	}
	var any json.RawMessage
	return schema.Errorf(schema.Invalid, "%s is not JSON: %w", what, json.Unmarshal(text, &any))
}

// interruptible lets a signal end the wait for standard input.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (r interruptible) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	buf := make([]byte, len(p))
	go func() {
		n, err := r.r.Read(buf)
		done <- result{n, err}
	}()
	select {
	case res := <-done:
		return copy(p, buf[:res.n]), res.err
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}
