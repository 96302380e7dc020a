//go:build unix

package sharing

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pistate/internal/wasmbuild"
	"pistate/sessionstate"
	"pistate/store"
)

// secondsEnv sets for how long the writers run; `just sharing` gives them a minute.
const secondsEnv = "PISTATE_SHARING_SECONDS"

// C22, Z2: two native programs, a host of store.wasm in Go and one in Node.js, and the sqlite3 program write the same
// databases at the same time, make checkpoints, and are killed at random moments. Nothing that was
// acknowledged is lost, nothing happens twice, and nobody meets another error than busy.
func TestEverybodySharesTheDatabases(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"sessions": 0o700, "workflows": 0o700} {
		if err := os.Mkdir(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "store.wasm"), wasmbuild.Store(t), 0o600); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]func(life string) *exec.Cmd{
		"native-1": self(t, "native", dir),
		"native-2": self(t, "native", dir),
		"wasm":     self(t, "wasm", dir),
	}
	if node := findNode(t); node != "" {
		kinds["node"] = func(life string) *exec.Cmd {
			return exec.Command(node, "--no-warnings", "testdata/writer.mjs", dir, life, padding)
		}
	}
	seconds := 6
	if text := os.Getenv(secondsEnv); text != "" {
		var err error
		if seconds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	create(t, dir) // the sqlite3 program can't
	deadline := time.Now().Add(time.Duration(seconds) * time.Second)

	var mu sync.Mutex
	var all []*life
	var wg sync.WaitGroup
	for kind, command := range kinds {
		wg.Go(func() {
			for n := 1; time.Now().Before(deadline); n++ {
				l := &life{name: fmt.Sprintf("%s.%d", kind, n), last: map[string]int{}}
				mu.Lock()
				all = append(all, l)
				mu.Unlock()
				if err := l.run(command(l.name), deadline); err != nil {
					t.Errorf("%s: %v", l.name, err)
					return
				}
			}
		})
	}
	cli := &outsider{dir: dir}
	if hasSQLite3(t) {
		wg.Go(func() {
			if err := cli.run(deadline); err != nil {
				t.Errorf("sqlite3: %v", err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for kind := range kinds {
		lives, killed, commands := 0, 0, 0
		for _, l := range all {
			if strings.HasPrefix(l.name, kind+".") {
				lives, killed, commands = lives+1, killed+l.unsaid(), commands+l.last["command"]
			}
		}
		t.Logf("%s: %d steps in %d lives, %d of them killed", kind, commands, lives, killed)
	}
	t.Logf("sqlite3: %d counts, %d checkpoints, %d times killed", cli.counted, cli.checkpoints, cli.killed)
	checkCounts(t, dir, all, cli)
	checkCommands(t, dir, all)
	checkDatabases(t, dir)
}

func self(t *testing.T, kind, dir string) func(life string) *exec.Cmd {
	cache := wasmbuild.CacheDir(t, wasmbuild.Store(t))
	return func(life string) *exec.Cmd {
		cmd := exec.Command(os.Args[0], dir, life)
		cmd.Env = append(os.Environ(), workerEnv+"="+kind, cacheEnv+"="+cache)
		return cmd
	}
}

// findNode returns a Node.js that has node:sqlite; "" if there is none, and the others then share without it.
func findNode(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("PISTATE_NODE")
	if bin == "" {
		bin = "node"
	}
	if err := exec.Command(bin, "-e", `require("node:sqlite")`).Run(); err != nil {
		t.Logf("without Node.js: %s has no node:sqlite (%v); PISTATE_NODE can name one of version 22.13 or later", bin, err)
		return ""
	}
	return bin
}

// hasSQLite3 reports whether there is an sqlite3 program; the others share without it, too.
func hasSQLite3(t *testing.T) bool {
	t.Helper()
	_, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Logf("without sqlite3: %v", err)
	}
	return err == nil
}

func create(t *testing.T, dir string) {
	t.Helper()
	w, err := openNative(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
}

// process is a program that runs, with its standard input and output.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
	stderr strings.Builder // whole once the process has been waited for
}

func start(cmd *exec.Cmd) (p *process, err error) {
	p = &process{cmd: cmd}
	cmd.Stderr = &p.stderr
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.stdout, err = cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return p, cmd.Start()
}

// kill ends the process because of an error, and adds to that what the process had to say.
func (p *process) kill(err error) error {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	return fmt.Errorf("%w\n%s", err, p.stderr.String())
}

// life is a writer's process from its start to its end.
type life struct {
	name   string
	last   map[string]int // the last step that it has acknowledged, by what it did
	killed bool
}

// run lets the process write for a while, and then kills it, or lets it end in peace.
func (l *life) run(cmd *exec.Cmd, deadline time.Time) error {
	p, err := start(cmd)
	if err != nil {
		return err
	}
	begun := make(chan struct{})
	read := make(chan error, 1)
	go func() { read <- l.follow(p.stdout, begun) }()
	select {
	case <-begun: // else a slow starter would be killed before its first step, for ever
	case err := <-read:
		return p.kill(fmt.Errorf("it ended before its first step: %v", err))
	case <-time.After(time.Minute):
		return p.kill(errors.New("no step within a minute"))
	}
	wait := min(time.Duration(100+rand.IntN(900))*time.Millisecond, max(0, time.Until(deadline)))
	time.Sleep(wait)
	l.killed = time.Now().Before(deadline) && rand.IntN(4) > 0
	if l.killed {
		_ = cmd.Process.Kill()
	} else {
		_ = p.stdin.Close()
	}
	if err := <-read; err != nil {
		return p.kill(err)
	}
	if err := cmd.Wait(); err != nil && !l.killed || p.stderr.Len() > 0 {
		return fmt.Errorf("%v\n%s", err, p.stderr.String())
	}
	return nil
}

// follow notes what the process has acknowledged. A line that was cut off by its end was not.
func (l *life) follow(out io.Reader, begun chan struct{}) error {
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil
		}
		what, step, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := strconv.Atoi(step)
		if err != nil || n != l.last[what]+1 {
			return fmt.Errorf("it said %q after step %d", line, l.last[what])
		}
		if l.last[what] = n; begun != nil {
			close(begun)
			begun = nil
		}
	}
}

// unsaid is how many steps of a kind a life may have made without having said so: the one that it was killed in.
func (l *life) unsaid() int {
	if l.killed {
		return 1
	}
	return 0
}

func checkCounts(t *testing.T, dir string, all []*life, cli *outsider) {
	t.Helper()
	sessions, err := sessionstate.Open(t.Context(), sessionsPath(dir), sessionstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sessions.Close()
	counter, err := sessionstate.New(sessions, sessionstate.Config{PluginID: counterID, Scope: sessionstate.ScopeSession})
	if err != nil {
		t.Fatal(err)
	}
	check := func(session string, said, unsaid int) {
		t.Helper()
		value, _, err := counter.Read(t.Context(), sessionstate.At(session, "", nil))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if value != nil {
			if n, err = strconv.Atoi(string(value)); err != nil {
				t.Fatal(err)
			}
		}
		if n < said || n > said+unsaid {
			t.Errorf("session %s counted to %d; %d were acknowledged, and %d more are possible", session, n, said, unsaid)
		}
	}
	said, unsaid := cli.counted, cli.killed
	for _, l := range all {
		check(l.name, l.last[l.name], l.unsaid())
		said += l.last[sharedSession]
		unsaid += l.unsaid()
	}
	check(sharedSession, said, unsaid)
}

func checkCommands(t *testing.T, dir string, all []*life) {
	t.Helper()
	r, err := store.OpenReader(t.Context(), workflowPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	done := map[string]int{}
	for after := (store.Definition{}); ; {
		page, err := r.Definitions(t.Context(), after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, d := range page {
			done[d.Name[:strings.LastIndexByte(d.Name, '-')]]++
		}
		after = page[len(page)-1]
	}
	for _, l := range all {
		if n := done[l.name]; n < l.last["command"] || n > l.last["command"]+l.unsaid() {
			t.Errorf("%s has %d definitions; %d were acknowledged", l.name, n, l.last["command"])
		}
	}
}

// M1, M4: the databases are sound, by our own checks and by those of the sqlite3 program.
func checkDatabases(t *testing.T, dir string) {
	t.Helper()
	sessions, err := sessionstate.Check(t.Context(), sessionsPath(dir), sessionstate.CheckOptions{Deep: true})
	if err == nil {
		err = sessions.Err()
	}
	if err != nil {
		t.Error(err)
	}
	workflow, err := store.Check(t.Context(), workflowPath(dir), store.CheckOptions{Deep: true})
	if err == nil {
		err = workflow.Err()
	}
	if err != nil {
		t.Error(err)
	}
	if !hasSQLite3(t) {
		return
	}
	for _, path := range []string{sessionsPath(dir), workflowPath(dir)} {
		out, err := exec.Command("sqlite3", path, "PRAGMA integrity_check; PRAGMA foreign_key_check").CombinedOutput()
		if err != nil || string(out) != "ok\n" {
			t.Errorf("sqlite3 on %s: %v: %s", path, err, out)
		}
	}
}
