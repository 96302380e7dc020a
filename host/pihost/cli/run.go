package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pistate/host"
	"pistate/internal/cli"
	"pistate/schema"
	"pistate/sessionstate"
)

// runCmd runs an extension once.
type runCmd struct {
	sessionFlags
	dbFlags
	engineFlags
	Extension string        `arg:"" name:"ext.wasm" help:"The extension's module."`
	Plugin    string        `required:"" placeholder:"ID" help:"The plugin as which it runs: it sees and writes only this one's state."`
	Input     string        `placeholder:"JSON|-" help:"What the extension is given; - reads it from standard input."`
	Timeout   time.Duration `placeholder:"DURATION" help:"How long the call may take (default 5s)."`
	NoCache   bool          `help:"Don't keep compiled code for the next run."`
}

// Run prints what the extension puts out.
func (c *runCmd) Run(env *cli.Env) (err error) {
	wasm, err := readModule("extension", c.Extension)
	if err != nil {
		return err
	}
	input, err := argument(env, c.Input, maxInput)
	if err != nil {
		return err
	}
	if err := c.check(input); err != nil {
		return err
	}
	file, err := c.sessionFlags.open(env)
	if err != nil {
		return err
	}
	defer file.Close() // only read
	sc, err := c.at(file)
	if err != nil {
		return err
	}
	engine, store, err := c.openEngine(env, c.dbFlags, cacheDir(c.NoCache))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	options := host.Options{Engine: engine, Isolation: host.InProcess, CacheDir: cacheDir(c.NoCache)}
	h, err := host.New(options)
	if err != nil && options.CacheDir != "" { // which costs time and nothing else
		env.Warn("compiled code is not kept: %v", err)
		options.CacheDir = ""
		h, err = host.New(options)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	limits := host.Limits{ModuleBytes: maxModule, CallTime: c.Timeout, InputBytes: maxInput}
	x, err := h.Load(env, wasm, host.Config{PluginID: c.Plugin, Limits: limits})
	if err != nil {
		return err
	}
	result, err := x.Call(env, sc, input)
	showPrinted(env, "stdout", result.Stdout)
	showPrinted(env, "stderr", result.Stderr)
	if err != nil || result.Output == nil {
		return err
	}
	_, err = env.Stdout.Write(append(result.Output, '\n'))
	return err
}

// check refuses what can't be run before there is a database for it.
func (c *runCmd) check(input []byte) error {
	if err := sessionstate.CheckPluginID(c.Plugin); err != nil {
		return err
	}
	if c.Timeout < 0 {
		return schema.Errorf(schema.Invalid, "--timeout %v: it is a length of time, as in 5s", c.Timeout)
	}
	if len(input) == 0 {
		return nil
	}
	return checkJSON("input", input, maxInput)
}

// showPrinted passes on what the extension printed, which is for its author and not its output.
func showPrinted(env *cli.Env, stream string, p host.Printed) {
	for line := range strings.Lines(string(p.Text)) {
		fmt.Fprintf(env.Stderr, "%s: %s\n", stream, cli.Escape(strings.TrimSuffix(line, "\n")))
	}
	if p.Dropped > 0 {
		env.Warn("%d more bytes of the extension's %s were dropped", p.Dropped, stream)
	}
}

// The largest module and input of a run, in bytes.
const (
	maxModule = 32 << 20
	maxInput  = 4 << 20
)

// readModule reads the file of a module, and of one that is too large a byte more than is allowed. It looks
// before it opens: a pipe would have it wait, and a device has no end.
func readModule(what, path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, schema.Errorf(schema.NotFound, "%s: %w", what, err)
	case err != nil:
		return nil, schema.Errorf(schema.Storage, "%s: %w", what, err)
	case !info.Mode().IsRegular():
		return nil, schema.Errorf(schema.Invalid, "%s: %s is no file with a module", what, path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, schema.Errorf(schema.Storage, "%s: %w", what, err)
	}
	defer file.Close() // only read
	wasm, err := io.ReadAll(io.LimitReader(file, maxModule+1))
	if err != nil {
		return nil, schema.Errorf(schema.Storage, "%s: %w", what, err)
	}
	return wasm, nil
}

// cacheDir is where compiled code is kept, if there is a place for it.
func cacheDir(off bool) string {
	dir, err := os.UserCacheDir()
	if off || err != nil {
		return ""
	}
	return filepath.Join(dir, "pistate", "wazero")
}
