//go:build unix

package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nobody is the uid of a user who may read and nothing else.
const nobody = 65534

// A directory in which nothing can be written, as on read-only media, is no obstacle. Root is kept out by no
// permission, so there another user has a look.
func TestWithoutPermissionToWrite(t *testing.T) { // I1
	if raceDetector {
		t.Skip("the commands have one goroutine, and SQLite takes fifteen times as long")
	}
	program := readableProgram(t)
	for name, prepare := range map[string]func(t *testing.T, db string){
		"at rest": func(*testing.T, string) {},
		"WAL left behind": func(t *testing.T, db string) {
			live := filepath.Join(t.TempDir(), "state.sqlite")
			copyFile(t, db, live)
			w := openWriter(t, live)
			w.cancel("run-part-1")
			for _, suffix := range []string{"", "-wal"} {
				copyFile(t, live+suffix, db+suffix)
			}
			w.close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := readableDir(t)
			db := filepath.Join(dir, "state.sqlite")
			file, err := fixture("shop")
			if err == nil {
				err = os.WriteFile(db, file, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			prepare(t, db)
			for _, suffix := range []string{"", "-wal"} {
				if err := os.Chmod(db+suffix, 0o444); err != nil && suffix == "" {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(dir, 0o555); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
			before := picture(t, dir)
			for args, want := range readings(db, "") {
				cmd := exec.Command(program, strings.Split(args, "\x00")...)
				cmd.Env = append(playEnvironment(), "HOME=/nonexistent")
				if os.Getuid() == 0 {
					cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
				}
				out, _ := cmd.CombinedOutput()
				if got := cmd.ProcessState.ExitCode(); got != want {
					t.Errorf("%q: exit code %d, want %d: %s", args, got, want, out)
				}
			}
			if now := picture(t, dir); now != before {
				t.Errorf("%s, before\n%s", now, before)
			}
		})
	}
}

// readableDir is a directory that others can get at.
func readableDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "piw-readable-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// readableProgram is a copy of the test binary that others can run.
func readableProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(readableDir(t), "piw")
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Chmod(0o755); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
