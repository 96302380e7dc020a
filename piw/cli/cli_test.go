package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"pistate/internal/cli"
	"pistate/internal/cli/clitest"
	"pistate/internal/storefixture"
	"pistate/store"
	"pistate/store/hostlock"
)

func TestMain(m *testing.M) {
	if os.Getenv(playEnv) != "" {
		play(os.Args[1:])
		return
	}
	clitest.Main(tidy{m}, Program, atFixtureTime, otherName)
}

// tidy takes away at the end what all tests and benchmarks share.
type tidy struct{ *testing.M }

func (m tidy) Run() int {
	code := m.M.Run()
	for _, dir := range shared {
		_ = os.RemoveAll(dir) // which is of no consequence for what was tested
	}
	return code
}

// shared are the directories that one benchmark makes for the others.
var shared []string

// atFixtureTime is the program with a clock that stands at the time of the fixtures.
func atFixtureTime() cli.Program {
	p := Program()
	p.Name = "piw-then"
	p.Now = func() time.Time { return storefixture.Now }
	return p
}

// otherName is the program under its other name.
func otherName() cli.Program {
	p := Program()
	p.Name, p.Version = "pi-workflows", "pi-workflows "+version()
	return p
}

func TestScripts(t *testing.T) {
	commands := map[string]clitest.Command{"seed": seed, "gonehost": goneHost, "truncate": truncate}
	if raceDetector { // the commands have one goroutine, and SQLite takes fifteen times as long
		clitest.RunFiles(t, []string{"testdata/script/queue.txtar", "testdata/script/doctor_sick.txtar", "testdata/script/session_status.txtar"}, commands)
		return
	}
	clitest.Run(t, "testdata/script", commands)
}

var (
	fixtures   = map[string][]byte{}
	fixturesMu sync.Mutex
)

// fixture returns the file of a database of this name.
func fixture(name string) ([]byte, error) {
	fixturesMu.Lock()
	defer fixturesMu.Unlock()
	if bytes, ok := fixtures[name]; ok {
		return bytes, nil
	}
	bytes, err := storefixture.Bytes(name)
	fixtures[name] = bytes
	return bytes, err
}

// seeded makes the database of a name, and returns its path.
func seeded(t *testing.T, name string) string {
	t.Helper()
	file, err := fixture(name)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "state.sqlite")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// seed NAME FILE makes the database of a name.
func seed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: seed NAME FILE")
	}
	bytes, err := fixture(args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), bytes, 0o600))
}

// goneHost DIR leaves in a directory of workflow state what a host of the shop leaves that was killed: its
// lock, and a process that it had started, which goes on.
func goneHost(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: gonehost DIR")
	}
	dir, ctx := ts.MkAbs(args[0]), context.Background()
	project := store.Project{ID: "prj_d2f66e5e7e7a3483056baa9da3d585ee", Path: "/home/ann/shop"}
	lock, err := hostlock.Acquire(ctx, dir, project, storefixture.Now.Add(-2*time.Hour))
	ts.Check(err)
	_, err = lock.AddChild(ctx, os.Getpid(), "run r1", storefixture.Now)
	ts.Check(err)
	gone := lock.Holder()
	gone.PID = 1<<31 - 1 // larger than any
	text, err := json.Marshal(gone)
	ts.Check(err)
	ts.Check(os.WriteFile(filepath.Join(dir, "hosts", project.ID+".json"), text, 0o600))
}

// truncate FILE BYTES COPY copies the beginning of a file.
func truncate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: truncate FILE BYTES COPY")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(ts.ReadFile(args[0]))[:n], 0o600))
}
