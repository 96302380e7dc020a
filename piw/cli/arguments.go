package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pistate/internal/cli"
	"pistate/schema"
	"pistate/sessionstate"
	"pistate/store"
)

// What is wrong with a command line is said before any database is looked for: whoever mistypes a time should
// not be told of a file.

// checkLimit refuses a limit by which nothing would be listed.
func checkLimit(limit int) error {
	if limit < 1 {
		return schema.Errorf(schema.Invalid, "--limit %d: it is at least 1", limit)
	}
	return nil
}

// sessionID returns the id that an argument names: an id, or a session file with one. An argument that looks
// like a file and is none is taken for a mistake, and not for the id of a session of which nothing is known.
func sessionID(arg string) (string, error) {
	info, err := os.Stat(arg)
	switch {
	case arg == "":
		return "", nil
	case err == nil && !info.IsDir():
		return sessionOfFile(arg)
	case looksLikeFile(arg) && err == nil:
		return "", schema.Errorf(schema.Invalid, "session %s is a directory: a session's id or its file is expected", arg)
	case looksLikeFile(arg) && errors.Is(err, fs.ErrNotExist):
		return "", schema.Errorf(schema.NotFound, "session %s: there is no such file, and an id has no %q and does not end in .jsonl", arg, "/")
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENAMETOOLONG):
		return arg, nil
	}
	return sessionOfFile(arg) // which says what the matter is
}

func looksLikeFile(arg string) bool {
	return strings.ContainsRune(arg, '/') || strings.ContainsRune(arg, filepath.Separator) || strings.HasSuffix(arg, ".jsonl")
}

func sessionOfFile(path string) (string, error) {
	file, err := sessionstate.OpenSessionFile(path)
	if err != nil {
		return "", err
	}
	return file.SessionID(), file.Close()
}

// projectArg is a project as an argument names it; the zero value names none.
type projectArg struct{ id, dir string }

// parseProject reads an argument: an id, or the directory of a project.
func parseProject(arg string) (p projectArg, err error) {
	switch {
	case arg == "":
		return p, nil
	case strings.HasPrefix(arg, "prj_"):
		return projectArg{id: arg}, nil
	}
	dir, err := filepath.Abs(arg)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return p, schema.Errorf(schema.NotFound, "project %s: %w", arg, err)
	}
	return projectArg{dir: dir}, nil
}

// find returns the id of the project, or "" if none is named.
func (p projectArg) find(env *cli.Env, q *store.Queries) (string, error) {
	switch {
	case p.id != "":
		found, err := q.Project(env, p.id)
		return found.ID, err
	case p.dir != "":
		found, err := q.ProjectAt(env, p.dir)
		return found.ID, err
	}
	return "", nil
}

// resourceTypes are the words that the id of a resource can begin with (R1).
var resourceTypes = []store.ResourceType{
	store.RunResource, store.SessionResource, store.DecisionResource, store.ControllerResource, store.EffectResource,
	store.ChannelResource, store.NotificationResource, store.TurnIntentResource,
}

// checkResource refuses what can't be the id of a resource; "" names none.
func checkResource(flag, id string) error {
	if id == "" {
		return nil
	}
	var types []string
	for _, t := range resourceTypes {
		if store.ResourceID(id).Type() == t && store.ResourceID(id).Aggregate() != "" {
			return nil
		}
		types = append(types, string(t))
	}
	return schema.Errorf(schema.Invalid, "%s %q: a type and an id are expected, as in run:ID; the types are %s", flag, id, strings.Join(types, ", "))
}

// parseOwner reads who may own a lease (R2); nil is anybody.
func parseOwner(text string) (*store.Actor, error) {
	if text == "" {
		return nil, nil
	}
	class, id, _ := strings.Cut(text, ":")
	switch store.ActorClass(class) {
	case store.SessionActor, store.HostActor, store.ControllerActor, store.ChannelActor, store.SystemActor:
		if id != "" {
			return &store.Actor{Class: store.ActorClass(class), ID: id}, nil
		}
	}
	return nil, schema.Errorf(schema.Invalid,
		"--owner %q: a class and an id are expected, as in host:ID; the classes are session, host, controller, channel, system", text)
}

var digestPrefix = regexp.MustCompile(`^[0-9a-f]{6,64}$`)

// parseDigest reads the first digits of a digest, or all of them.
func parseDigest(text string) (string, error) {
	digits := strings.ToLower(text)
	if !digestPrefix.MatchString(digits) {
		return "", schema.Errorf(schema.Invalid, "digest %q: from 6 to 64 hex digits are expected", text)
	}
	return digits, nil
}

// effectArg is an effect as an argument names it, by one of two.
type effectArg struct {
	sequence int64
	id       string
}

func parseEffect(text string) (effectArg, error) {
	sequence, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err == nil:
		return effectArg{sequence: sequence}, nil
	case strings.HasPrefix(text, "eff_"):
		return effectArg{id: text}, nil
	}
	return effectArg{}, schema.Errorf(schema.Invalid, "effect %q: a sequence is expected, as in 17, or an id, as in eff_…", text)
}

func (a effectArg) find(env *cli.Env, q *store.Queries) (store.Effect, error) {
	if a.id != "" {
		return q.Effect(env, a.id)
	}
	return q.EffectAt(env, a.sequence)
}

// parseSince reads a time: how long ago, or when.
func parseSince(text string, now time.Time) (store.Millis, error) {
	if text == "" {
		return 0, nil
	}
	ago := text
	days := 0
	if number, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(number); err == nil {
			days, ago = n, "0s"
		}
	}
	if d, err := time.ParseDuration(ago); err == nil && d >= 0 && days >= 0 {
		return store.MillisOf(now.AddDate(0, 0, -days).Add(-d)), nil
	}
	for _, form := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.Parse(form, text); err == nil {
			return store.MillisOf(t), nil
		}
	}
	return 0, schema.Errorf(schema.Invalid, "--since %q: it is a length of time as in 90m or 3d, or a time as in 2026-03-02T09:00:00Z", text)
}

// parseCursor reads where a captured conversation goes on.
func parseCursor(text string) (c store.ReplayCursor, err error) {
	if text == "" {
		return c, nil
	}
	ordinal, sequence, ok := strings.Cut(text, ":")
	if c.Ordinal, err = strconv.Atoi(ordinal); err == nil && ok {
		c.Sequence, err = strconv.ParseInt(sequence, 10, 64)
	}
	if err != nil || !ok || c.Ordinal < 1 || c.Sequence < 0 {
		return c, schema.Errorf(schema.Invalid, "--after %q: it is no cursor, as in 1:17", text)
	}
	return c, nil
}
