//go:build unix

package sqlite

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// setUmask is for helpers: the umask belongs to the whole process.
func setUmask(mask int) { syscall.Umask(mask) }

const nobody = 65534

// asUserNobody makes a command run as another user.
func asUserNobody(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

func makePipe(t testing.TB, path string) {
	t.Helper()
	must(t, syscall.Mkfifo(path, 0o600))
}
