package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pistate/store"
)

const secondName = "pi-workflows"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == secondName {
		main()
	}
	os.Exit(m.Run())
}

func TestSecondName(t *testing.T) { // I2
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program, db := filepath.Join(dir, secondName), filepath.Join(dir, "state.sqlite")
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (output string, code int) {
		out, err := exec.Command(program, args...).CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if exit != nil {
			code = exit.ExitCode()
		}
		return string(out), code
	}
	if out, code := run("state", "status", "--db", db); code != 3 || !strings.HasPrefix(out, secondName+": ") {
		t.Errorf("without a database: %d, %s", code, out)
	}
	s, err := store.Open(t.Context(), db, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"state", "status", "--db", db}, "(workflow state)"},
		{[]string{"state", "verify", "--deep", "--db", db}, "revisions"},
		{[]string{"state", "backup", "--db", db, filepath.Join(dir, "copy.sqlite")}, "verified"},
		{[]string{"state", "verify", "--db", filepath.Join(dir, "copy.sqlite")}, "integrity"},
		{[]string{"--version"}, secondName + " "},
	} {
		if out, code := run(c.args...); code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit code %d, without %q:\n%s", c.args, code, c.want, out)
		}
	}
}
