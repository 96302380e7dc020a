package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"pistate/internal/sqlite"
	"pistate/sessionstate"
)

// readings are all commands, each with the exit code that it must have.
func readings(db, target string) map[string]int {
	of := func(args string) string { return args + "\x00--db\x00" + db }
	all := map[string]int{
		of("runs"): 0, of("runs\x00--json"): 0, of("run\x00run-done"): 0, of("run\x00run-done\x00--json\x00--private"): 0,
		of("run\x00run-done\x00--output\x00plan\x00--private"): 0, of("run\x00run-done\x00--graph\x00svg"): 0, of("queue"): 0,
		of("events\x00--after\x000"): 0, of("events\x00--follow"): 130, of("capture\x00run-done\x00--private"): 0,
		of("capture\x00run-done\x00--follow"): 130, of("blob\x00e1a987f8\x00--private"): 0, of("decisions"): 0,
		of("decisions\x00run-parked/ship"): 0, of("leases"): 0, of("effects"): 0, of("effects\x002"): 0, of("controllers"): 0,
		of("controller\x00deploy\x00shop/web"): 0, of("channels"): 0, of("channels\x00chn_bbb0bb02c9defb76bae89be502cb4f7c"): 0,
		of("projects"): 0, of("doctor"): 1, of("state\x00status"): 0, of("state\x00verify\x00--deep"): 0,
		of("state\x00verify\x00--quick"): 0, of("session\x00status"): 4, of("session\x00list"): 4, of("session\x00show"): 4,
		"state\x00schema": 0, "completion\x00bash": 0,
		of("watch"):         2, // without a terminal; see TestWatchOnTerminal
		of("run\x00nosuch"): 3,
	}
	if target != "" {
		all[of("state\x00backup\x00"+target)] = 0
	}
	return all
}

// A command that is added has to be added here, too.
func TestEveryCommandIsProvedToOnlyRead(t *testing.T) { // I1
	p := Program()
	parser, err := kong.New(p.Grammar, kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(true) {
		path := strings.TrimPrefix(leaf.FullPath(), parser.Model.Name+" ")
		found := false
		for args := range readings("x", "/x") {
			found = found || strings.HasPrefix(strings.ReplaceAll(args, "\x00", " ")+" ", path+" ")
		}
		if !found {
			t.Errorf("%s is not among the commands", path)
		}
	}
}

// picture is all that there is to see of a directory: names, modes, times, and bytes.
func picture(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s", e.Name(), info.Mode())
		if info.Mode().IsRegular() {
			// A file that this process has open for SQLite must not be opened in another way.
			fmt.Fprintf(&b, " %d %s", info.Size(), contentOf(t, filepath.Join(dir, e.Name())))
			if !strings.HasSuffix(e.Name(), "-shm") {
				fmt.Fprintf(&b, " %d", info.ModTime().UnixNano())
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// contentOf returns the digest of a file, read by another process: closing it here would drop the locks that
// SQLite holds.
func contentOf(t *testing.T, path string) string {
	t.Helper()
	cmd := playing(t, "digest", path)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// playEnv makes the test binary play another program.
const playEnv = "PIW_TEST_PLAY"

// playing is the test binary as another process: the program itself, or a helper.
func playing(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = playEnvironment()
	return cmd
}

// playEnvironment is the environment of such a process. With the race detector it would wait a second at its end.
func playEnvironment() []string {
	return append(os.Environ(), playEnv+"=1", "GORACE=atexit_sleep_ms=0")
}

// play is the life of such a process.
func play(args []string) {
	if len(args) == 2 && args[0] == "digest" {
		if err := printDigest(args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	if slices.Contains(args, "--follow") {
		ctx, stop = context.WithTimeout(context.Background(), 3*tick)
	}
	code := atFixtureTime().Run(ctx, args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// printDigest is what the test binary does as another process.
func printDigest(path string) error {
	b, err := os.ReadFile(path)
	if err == nil {
		fmt.Printf("%x", sha256.Sum256(b))
	}
	return err
}

// run runs a command as an ordinary user of this process; one that follows is stopped.
func runReading(args []string) (code int, said string) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	if slices.Contains(args, "--follow") {
		ctx, stop = context.WithTimeout(context.Background(), 3*tick)
	}
	defer stop()
	var stderr bytes.Buffer
	return atFixtureTime().Run(ctx, args, strings.NewReader(""), io.Discard, &stderr), stderr.String()
}

// Nothing is written beside or into a database: at rest, with a WAL that was left, or with a writer in the middle
// of a transaction, whom nobody waits for.
func TestNothingIsWritten(t *testing.T) { // I1, C85
	states := map[string]func(t *testing.T, dir, db string){
		"at rest": func(t *testing.T, _, db string) {
			w := openWriter(t, db)
			w.cancel("run-part-1")
			w.close()
		},
		"WAL left behind": func(t *testing.T, dir, db string) {
			live := filepath.Join(t.TempDir(), "state.sqlite")
			copyFile(t, db, live)
			w := openWriter(t, live)
			w.cancel("run-part-1")
			for _, suffix := range []string{"", "-wal"} {
				copyFile(t, live+suffix, db+suffix)
			}
			w.close()
		},
		"writing": func(t *testing.T, _, db string) {
			w := openWriter(t, db)
			t.Cleanup(w.close)
			w.cancel("run-part-1")
			// The mark in -shm that says up to where the WAL is read is set by whoever reads first.
			if code, said := runReading([]string{"runs", "--db", db}); code != 0 {
				t.Fatal(said)
			}
			holdWriteLock(t, db)
		},
	}
	for name, prepare := range states {
		if raceDetector && name != "writing" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			db := filepath.Join(dir, "state.sqlite")
			file, err := fixture("shop")
			if err == nil {
				err = os.WriteFile(db, file, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			prepare(t, dir, db)
			before := picture(t, dir)
			for args, want := range readings(db, filepath.Join(t.TempDir(), "copy.sqlite")) {
				code, said := runReading(strings.Split(args, "\x00"))
				if code != want {
					t.Errorf("%q: exit code %d, want %d: %s", args, code, want, said)
				}
				if strings.Contains(args, "\x00verify\x00--quick") || strings.Contains(args, "\x00run-done\x00--json") {
					if now := picture(t, dir); now != before {
						t.Fatalf("%q:\n%s, before\n%s", args, now, before)
					}
				}
			}
			if now := picture(t, dir); now != before {
				t.Errorf("%s, before\n%s", now, before)
			}
		})
	}
}

func TestNothingIsWrittenToSessions(t *testing.T) { // I1
	dir := t.TempDir()
	db := filepath.Join(dir, "states.sqlite")
	s, err := sessionstate.Open(context.Background(), db, sessionstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	todo, err := sessionstate.New(s, sessionstate.Config{PluginID: "todo", Scope: sessionstate.ScopeSession})
	if err != nil {
		t.Fatal(err)
	}
	if err := todo.Write(context.Background(), sessionstate.At("s1", "", nil), []byte(`{"open":1}`)); err != nil {
		t.Fatal(err)
	}
	look := func(t *testing.T) {
		target := filepath.Join(t.TempDir(), "copy.sqlite")
		commands := []string{"session status", "session list", "session show --values", "state status", "state verify --deep", "state backup " + target, "doctor"}
		if code, said := runReading([]string{"session", "list", "--db", db}); code != 0 { // sets the mark in -shm
			t.Fatal(said)
		}
		before := picture(t, dir)
		for _, c := range commands {
			if code, said := runReading(append(strings.Fields(c), "--db", db)); code != 0 {
				t.Errorf("%s: exit code %d: %s", c, code, said)
			}
		}
		if now := picture(t, dir); now != before {
			t.Errorf("%s, before\n%s", now, before)
		}
	}
	t.Run("live", look)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("at rest", look)
}

// holdWriteLock keeps the write lock of SQLite until the end of the test.
func holdWriteLock(t *testing.T, db string) {
	t.Helper()
	d, err := sqlite.Open(context.Background(), db, sqlite.Schema{
		Create: func(*sqlite.Tx) error { return nil },
		Verify: func(*sqlite.Rx) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	held, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- d.Write(context.Background(), func(*sqlite.Tx) error {
			close(held)
			<-release
			return errors.New("nothing was to be written")
		}, nil)
	}()
	<-held
	t.Cleanup(func() {
		close(release)
		<-done
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}
