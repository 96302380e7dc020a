//go:build !unix

package sqlite

import (
	"os/exec"
	"testing"
)

// setUmask has nothing to set: this system has no umask.
func setUmask(int) {}

func asUserNobody(t testing.TB, _ *exec.Cmd) {
	t.Helper()
	t.Skip("no other user can be had on this system")
}

func makePipe(t testing.TB, _ string) {
	t.Helper()
	t.Skip("this system has no pipes with names")
}
