// Package clitest runs the txtar scripts that tell how a command behaves.
//
// Beside testscript's own commands a script has
//
//	exits CODE PROGRAM [ARG...]   runs a program, which must end with this exit code
//	mode FILE OCTAL               the file must have this mode
//	replace OLD NEW FILE          replaces every OLD in a file, so that a path can be compared
//
// and $TESTDATA, the folder of the repository's real inputs.
package clitest

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"pistate/internal/cli"
)

var update = flag.Bool("update", false, "rewrite the golden output in the scripts")

// Main makes the test binary play the programs, and runs the tests.
func Main(m testscript.TestingM, programs ...func() cli.Program) {
	commands := map[string]func(){}
	for _, p := range programs {
		commands[p().Name] = func() { p().Main() }
	}
	testscript.Main(m, commands)
}

// Command is a command of scripts, as testscript has them.
type Command = func(ts *testscript.TestScript, neg bool, args []string)

// Run runs every script of a folder, with more commands if there are any.
func Run(t *testing.T, dir string, more ...map[string]Command) {
	t.Helper()
	run(t, testscript.Params{Dir: dir}, more)
}

// RunFiles runs some scripts.
func RunFiles(t *testing.T, files []string, more ...map[string]Command) {
	t.Helper()
	run(t, testscript.Params{Files: files}, more)
}

func run(t *testing.T, params testscript.Params, more []map[string]Command) {
	testdata, err := filepath.Abs(repositoryTestdata(t))
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string]Command{"exits": exits, "mode": mode, "replace": replace}
	for _, m := range more {
		maps.Copy(commands, m)
	}
	params.UpdateScripts = *update
	params.RequireExplicitExec, params.RequireUniqueNames = true, true
	params.Cmds = commands
	params.Setup = func(env *testscript.Env) error {
		env.Setenv("TESTDATA", testdata)
		env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
		env.Setenv("GORACE", "atexit_sleep_ms=0") // with the race detector, every program would wait a second at its end
		return nil
	}
	testscript.Run(t, params)
}

// repositoryTestdata is the folder beside go.mod.
func repositoryTestdata(t *testing.T) string {
	t.Helper()
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "testdata")
		}
		if abs, err := filepath.Abs(dir); err != nil || abs == string(filepath.Separator) {
			t.Fatal("there is no go.mod above the test")
		}
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func mode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode FILE OCTAL")
	}
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[1] {
		ts.Fatalf("%s has mode %s, want %s", args[0], got, args[1])
	}
}

func replace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replace OLD NEW FILE")
	}
	text := strings.ReplaceAll(ts.ReadFile(args[2]), args[0], args[1])
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(text), 0o600))
}
