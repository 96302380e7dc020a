//go:build unix

package sessionstate

import (
	"bufio"
	"context"
	"encoding/json"
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
	"syscall"
	"testing"
	"time"

	"pistate/schema"
)

// roleEnv makes the test binary play another process.
const roleEnv = "PISTATE_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		if err := play(role, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// play is the life of another process of the product.
func play(role string, args []string) error {
	ctx := context.Background()
	if role == "locate" { // HOME: print where the database is, and whether something was reported
		reported := false
		at, err := Locate(Environment{
			Home: args[0], Getenv: func(string) string { return "" }, Report: func(error) { reported = true },
		})
		fmt.Println(at.Path, at.Source, reported)
		return err
	}
	st, err := Open(ctx, args[0], Options{})
	if err != nil {
		return err
	}
	switch role {
	case "write": // PATH PLUGIN SESSION COUNT: write 1..COUNT and print each when it is durable
		s, err := New(st, Config{PluginID: args[1], Scope: ScopeSession})
		if err != nil {
			return err
		}
		count, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		for i := 1; i <= count; i++ {
			for {
				err := s.Write(ctx, At(args[2], "", nil), json.RawMessage(strconv.Itoa(i)))
				if err == nil {
					break
				}
				if !errors.Is(err, schema.Locked) {
					return err
				}
				time.Sleep(time.Millisecond)
			}
			fmt.Println(i)
		}
	case "hold": // PATH SESSION: hold the lock for ever
		return st.Hold(ctx, args[1], func(context.Context) error {
			fmt.Println("held")
			time.Sleep(10 * time.Minute)
			return nil
		})
	}
	return st.Close()
}

// process is another process and the last line that it has printed.
type process struct {
	cmd  *exec.Cmd
	last chan string // gets the last line when the process has ended
	some chan string // gets the first line
}

func start(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, last: make(chan string, 1), some: make(chan string, 1)}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	go p.follow(out)
	return p
}

func (p *process) follow(out io.Reader) {
	last := ""
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err != nil { // a line that was cut off by the end was not acknowledged
			break
		}
		if last == "" {
			p.some <- strings.TrimSpace(line)
		}
		last = strings.TrimSpace(line)
	}
	_ = p.cmd.Wait() // a killed process is expected to have failed
	close(p.some)
	p.last <- last
}

func self(role string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	return cmd
}

// rounds is how often a test with random kills repeats; the soak recipe raises it.
func rounds(t *testing.T, usual int) int {
	t.Helper()
	if s := os.Getenv("PISTATE_ROUNDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("PISTATE_ROUNDS: %v", err)
		}
		return n
	}
	return usual
}

func TestAcknowledgedWritesSurviveSIGKILL(t *testing.T) { // Y5
	path := filepath.Join(t.TempDir(), "states.sqlite")
	for round := range rounds(t, 40) {
		var procs []*process
		for i := range 8 {
			procs = append(procs, start(t, self("write", path, "p", fmt.Sprintf("r%d-s%d", round, i), "1000000")))
		}
		<-procs[rand.IntN(len(procs))].some
		time.Sleep(time.Duration(rand.IntN(30_000)) * time.Microsecond)
		for _, p := range procs {
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		st, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := newState(t, st, "p", ScopeSession)
		for i, p := range procs {
			acked, found := <-p.last, ""
			v, _, err := s.Read(t.Context(), At(fmt.Sprintf("r%d-s%d", round, i), "", nil))
			if err != nil {
				t.Fatal(err)
			}
			if found = string(v); found != acked && found != following(acked) {
				t.Errorf("round %d, process %d: %q was acknowledged, %q is stored", round, i, acked, found)
			}
		}
		if rows := lockRows(t, st); len(rows) != 0 {
			t.Errorf("round %d left lock rows %v", round, rows)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		if got := sqlite3CLI(t, path, "PRAGMA integrity_check"); got != "ok\n" {
			t.Fatalf("round %d: %s", round, got)
		}
	}
}

// following is the value that a killed writer may have stored without a chance to say so.
func following(acked string) string {
	n, _ := strconv.Atoi(acked) // "" counts as 0
	return strconv.Itoa(n + 1)
}

func TestKilledHolderIsTakenOverAtOnce(t *testing.T) { // Y5
	st := openStore(t)
	s := newState(t, st, "p", ScopeSession)
	p := start(t, self("hold", st.Path(), "s1"))
	if line := <-p.some; line != "held" {
		t.Fatalf("%q", line)
	}
	err := s.Write(t.Context(), at("a"), json.RawMessage(`1`))
	var lock *LockError
	if !errors.As(err, &lock) || lock.Holder != holderOf(p.cmd.Process.Pid) {
		t.Fatalf("write under a live holder: %v", err)
	}
	if rows := lockRows(t, st); len(rows) != 1 || !strings.HasSuffix(rows[0], " yes false") {
		t.Errorf("lock rows %v", rows)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.last
	if rows := lockRows(t, st); len(rows) != 1 || !strings.HasSuffix(rows[0], " no false") {
		t.Errorf("lock rows %v", rows)
	}
	mustWrite(t, s, at("a"), `1`)
	if rows := lockRows(t, st); len(rows) != 0 {
		t.Errorf("lock rows %v", rows)
	}
}

// node returns a Node.js with node:sqlite.
func node(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("PISTATE_NODE")
	if bin == "" {
		bin = "node"
	}
	if err := exec.Command(bin, "-e", `require("node:sqlite")`).Run(); err != nil {
		t.Skipf("%s has no node:sqlite (%v); PISTATE_NODE can name one of version 22.13 or later", bin, err)
	}
	return bin
}

func TestAnotherProgramWritesTheSameFile(t *testing.T) { // Y4, Y5
	bin := node(t)
	path := filepath.Join(t.TempDir(), "states.sqlite")
	const count = 60
	n := strconv.Itoa(count)
	peer := func(plugin, session string) *exec.Cmd {
		return exec.Command(bin, "--no-warnings", "testdata/peer.mjs", "write", path, plugin, session, n)
	}
	procs := map[string]*process{
		"go-own shared": start(t, self("write", path, "go-own", "shared", n)),
		"go-two shared": start(t, self("write", path, "go-two", "shared", n)),
		"go-own s1":     start(t, self("write", path, "go-own", "s1", n)),
		"node shared":   start(t, peer("node", "shared")),
		"node s2":       start(t, peer("node", "s2")),
	}
	var wg sync.WaitGroup
	wg.Go(func() { cliPeer(t, path, count) })
	for name, p := range procs {
		if last := <-p.last; last != n {
			t.Errorf("%s ended after %q of %s", name, last, n)
		}
	}
	wg.Wait()
	st, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	r, err := OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rows, err := r.Rows(t.Context(), Filter{}, Row{}, 100, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(procs)+1 {
		t.Errorf("%d rows, want %d", len(rows), len(procs)+1)
	}
	for _, row := range rows {
		if string(row.Value) != n {
			t.Errorf("%s %s: %s of %s", row.Plugin, row.Session, row.Value, n)
		}
	}
	if locks := lockRows(t, st); len(locks) != 0 {
		t.Errorf("lock rows %v", locks)
	}
}

// cliPeer writes with the sqlite3 program, three statements that commit by themselves for each value.
func cliPeer(t *testing.T, path string, count int) {
	bin, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Error(err)
		return
	}
	var script strings.Builder
	script.WriteString(".timeout 5000\nCREATE TABLE IF NOT EXISTS state (plugin_id TEXT NOT NULL, session_id TEXT NOT NULL, branch_id TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (plugin_id, session_id, branch_id));\n" +
		"CREATE TABLE IF NOT EXISTS write_lock (session_id TEXT PRIMARY KEY, holder TEXT NOT NULL, acquired_at INTEGER NOT NULL);\n")
	for i := 1; i <= count; i++ {
		fmt.Fprintf(&script, `INSERT INTO write_lock VALUES ('s3', 'pid:%d', unixepoch() * 1000);
INSERT INTO state VALUES ('cli', 's3', '', '%d') ON CONFLICT DO UPDATE SET value = excluded.value;
DELETE FROM write_lock WHERE session_id = 's3' AND holder = 'pid:%d';
`, os.Getpid(), i, os.Getpid())
	}
	cmd := exec.Command(bin, "-bail", path)
	cmd.Stdin = strings.NewReader(script.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("sqlite3: %v\n%s", err, out)
	}
}

func TestAnotherProgramsLockIsHonoured(t *testing.T) { // Y5
	bin := node(t)
	st := openStore(t)
	s := newState(t, st, "p", ScopeSession)
	peer := start(t, exec.Command(bin, "--no-warnings", "testdata/peer.mjs", "hold", st.Path(), "s1"))
	if line := <-peer.some; line != "held" {
		t.Fatalf("%q", line)
	}
	if err := s.Write(t.Context(), at("a"), json.RawMessage(`1`)); !errors.Is(err, schema.Locked) {
		t.Fatalf("write under another program's lock: %v", err)
	}
	if err := peer.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-peer.last
	mustWrite(t, s, at("a"), `1`)

	ours := start(t, self("hold", st.Path(), "s1")) // and the other way round
	<-ours.some
	if out, err := exec.Command(bin, "--no-warnings", "testdata/peer.mjs", "hold", st.Path(), "s1").Output(); err == nil {
		t.Fatalf("the other program took our lock: %s", out)
	}
	if err := ours.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ours.last
	peer = start(t, exec.Command(bin, "--no-warnings", "testdata/peer.mjs", "write", st.Path(), "node", "s1", "1"))
	if last := <-peer.last; last != "1" {
		t.Errorf("the other program was not let in after our holder died: %q", last)
	}
}

func TestUnwritableSettingFallsBack(t *testing.T) { // Y9
	if os.Getuid() != 0 {
		t.Skip("only root can make a directory that another user may not write")
	}
	p := newPlace(t)
	closed := filepath.Join(p.home, "closed")
	if err := os.Mkdir(closed, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := p.agent; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.settings(t, p.agent, fmt.Sprintf(`{"sessionState":{"databasePath":%q}}`, filepath.Join(closed, "new", "states.sqlite")))
	if err := os.Chmod(filepath.Join(p.agent, "settings.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(os.Args[0]) // which the other user can't reach where it is
	if err != nil {
		t.Fatal(err)
	}
	reachable := filepath.Join(p.home, "test")
	if err := os.WriteFile(reachable, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(reachable, p.home)
	cmd.Env = append(os.Environ(), roleEnv+"=locate")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := filepath.Join(p.agent, "sessions", "states.sqlite") + " default true\n"; string(out) != want {
		t.Errorf("%q, want %q", out, want)
	}
}
