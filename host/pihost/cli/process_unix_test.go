//go:build unix

package cli

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"pistate/internal/cli"
)

// nobody is the uid of a user who may read and nothing else.
const nobody = 65534

// In a directory in which nothing can be written, as on read-only media, a value can still be read. Root is kept
// out by no permission, so there another user reads.
func TestReadWithoutPermissionToWrite(t *testing.T) { // Y3
	dir, err := os.MkdirTemp("", "pihost-readable-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	db, session, readable := filepath.Join(dir, "states.sqlite"), filepath.Join(dir, "session.jsonl"), filepath.Join(dir, "pihost")
	pihost := Program()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copyFile(t, self, readable, 0o755)
	copyFile(t, "../../../testdata/pi-sessions/fork.jsonl", session, 0o644)
	for _, args := range [][]string{{"1"}, {`"trunk"`, "--scope", "branch", "--leaf", "29d7a3ed"}} {
		var stderr bytes.Buffer
		args = append([]string{"write", "--plugin", "p", "--session", session, "--db", db}, args...)
		if code := pihost.Run(t.Context(), args, nil, io.Discard, &stderr); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr.String())
		}
	}
	for path, mode := range map[string]os.FileMode{db: 0o444, dir: 0o555} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	before, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		out  string
		args []string
	}{
		{0, "1\n", []string{"read", "--plugin", "p"}},
		{0, "\"trunk\"\n", []string{"read", "--plugin", "p", "--scope", "branch", "--leaf", "29d7a3ed"}},
		{0, "\"trunk\"\n", []string{"read", "--plugin", "p", "--scope", "branch", "--leaf", "9ef0cf03"}}, // inherited
		{3, "", []string{"read", "--plugin", "other"}},
		{7, "", []string{"drop", "--plugin", "p"}},
	} {
		args := append(c.args, "--session", session, "--db", db)
		cmd := exec.Command(readable, args...)
		cmd.Env = append(os.Environ(), playEnv+"=1", "HOME=/nonexistent", "GORACE=atexit_sleep_ms=0")
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != c.code || stdout.String() != c.out {
			t.Errorf("%v: exit code %d, want %d: %q, want %q; %s", args, got, c.code, stdout.String(), c.out, stderr.String())
		}
	}
	after, err := os.ReadFile(db)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the database has changed: %v", err)
	}
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, mode)
	}
	if err == nil {
		err = os.Chmod(to, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The demonstration takes its directory away when nobody reads what it shows.
func TestDemoUnread(t *testing.T) {
	temp := t.TempDir()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	cmd := exec.Command("pihost", "demo")
	var stderr bytes.Buffer
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, "HOME="+t.TempDir())
	cmd.Stdout, cmd.Stderr = write, &stderr
	_ = cmd.Run()
	write.Close()
	if got := cmd.ProcessState.ExitCode(); got != cli.ExitUnread || stderr.Len() > 0 {
		t.Errorf("exit code %d: %s", got, stderr.String())
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
