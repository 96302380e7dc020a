package cli

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"pistate/host"
	"pistate/internal/cli"
	piw "pistate/piw/cli"
	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/examples"
)

// demoSession is a session that Pi wrote: a conversation that was taken up again from its fourth entry.
//
//go:embed demo/session.jsonl
var demoSession []byte

// demoSteps are the calls of the demonstration. What each branch sees follows from the rule; nothing of it is
// written down here.
var demoSteps = []struct {
	leaf  string
	count int
	about string
}{
	{"29d7a3ed", 3, "before the fork"},
	{"98131768", 2, "on the first branch, which inherits"},
	{"9ef0cf03", 10, "on the second branch, which inherits too"},
	{"29d7a3ed", 0, "before the fork again"},
	{"98131768", 0, "on the first branch again"},
}

// demoCmd shows the main job from end to end.
type demoCmd struct {
	Dir string `placeholder:"DIR" help:"Keep the session file and the database in this directory; it may not have them yet."`
}

// Run runs the counter at several leaves and prints what each sees, and then the same through piw.
func (c *demoCmd) Run(env *cli.Env) (err error) {
	dir := c.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "pistate-demo-"); err != nil {
			return schema.Errorf(schema.Storage, "demo: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return schema.Errorf(schema.Invalid, "demo: %w", err)
	}
	db, session := filepath.Join(dir, "states.sqlite"), filepath.Join(dir, "session.jsonl")
	if err := prepareDemo(dir, session, db); err != nil {
		return err
	}
	if err := runDemo(env, session, db); err != nil {
		return err
	}
	fmt.Fprintln(env.Stdout)
	if err := showPiw(env, "session", "show", "--values", "--db", db); err != nil {
		return err
	}
	fmt.Fprintln(env.Stdout)
	if err := showPiw(env, "session", "status", "--db", db); err != nil {
		return err
	}
	if c.Dir == "" {
		fmt.Fprintln(env.Stdout, "\nBoth files are removed now; --dir DIR keeps them.")
	}
	return nil
}

// prepareDemo writes the session file into the directory, where there may be neither file yet.
func prepareDemo(dir, session, db string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return schema.Errorf(schema.Storage, "demo: %w", err)
	}
	if _, err := os.Lstat(db); err == nil {
		return schema.Errorf(schema.Conflict, "%s exists: the demonstration begins with a fresh database; give another --dir", db)
	}
	file, err := os.OpenFile(session, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return schema.Errorf(schema.Conflict, "%s exists; give another --dir", session)
	}
	if err == nil {
		_, err = file.Write(demoSession)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return schema.Errorf(schema.Storage, "demo: %w", err)
	}
	return nil
}

func runDemo(env *cli.Env, session, db string) (err error) {
	file, err := sessionstate.OpenSessionFile(session)
	if err != nil {
		return err
	}
	defer file.Close() // only read
	store, err := sessionstate.Open(env, db, sessionstate.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	h, err := host.New(host.Options{Engine: host.Native(store), Isolation: host.InProcess})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	counter, err := h.Load(env, examples.CounterWasm, host.Config{PluginID: "counter"})
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "session   %s, %d entries, written by Pi\n", file.SessionID(), file.Len())
	fmt.Fprintf(env.Stdout, "database  %s, new\n", db)
	fmt.Fprintf(env.Stdout, "extension counter.wasm, %d bytes of WebAssembly: it counts what it is told, per session and per branch\n\n",
		len(examples.CounterWasm))
	t := cli.NewTable(env.Stdout, "LEAF", "BRANCH KEY", "COUNT", "SESSION", "BRANCH", "")
	for _, step := range demoSteps {
		key, err := file.BranchKey(step.leaf)
		if err != nil {
			return err
		}
		result, err := counter.Call(env, sessionstate.At(file.SessionID(), step.leaf, file), fmt.Append(nil, step.count))
		if err != nil {
			return err
		}
		var sees struct{ Session, Branch json.Number }
		if err := json.Unmarshal(result.Output, &sees); err != nil {
			return schema.Errorf(schema.Extension, "counter: output %q: %w", result.Output, err)
		}
		t.Row(step.leaf, key, fmt.Sprintf("+%d", step.count), sees.Session, sees.Branch, step.about)
	}
	return t.Flush()
}

// showPiw runs a piw command and shows its command line above its output.
func showPiw(env *cli.Env, args ...string) error {
	fmt.Fprint(env.Stdout, "$ piw")
	for _, a := range args {
		fmt.Fprint(env.Stdout, " ", a)
	}
	fmt.Fprintln(env.Stdout)
	switch code := piw.Program().Run(env, args, env.Stdin, env.Stdout, env.Stderr); code {
	case cli.ExitOK:
		return nil
	case cli.ExitUnread:
		return cli.ErrUnread
	case cli.ExitInterrupted:
		return schema.Errorf(schema.Canceled, "interrupted")
	default:
		return schema.Errorf(schema.Storage, "piw ended with exit code %d", code)
	}
}
