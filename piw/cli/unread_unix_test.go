//go:build unix

package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"testing"

	"pistate/internal/cli"
)

// Whoever reads the output may go away at any time. A command then ends as one that SIGPIPE had ended, in order
// and without a word; one that follows has done what it was to do.
func TestUnreadOutput(t *testing.T) {
	db := seeded(t, "shop")
	for _, c := range []struct {
		want int
		args []string
	}{
		{cli.ExitUnread, []string{"events", "--after", "0", "--db", db}},
		{cli.ExitUnread, []string{"run", "run-done", "--json", "--db", db}},
		{cli.ExitUnread, []string{"state", "schema"}},
		{cli.ExitFailedCheck, []string{"doctor", "--db", db}}, // what it found counts all the same
		{cli.ExitOK, []string{"events", "--follow", "--db", db}},
		{cli.ExitOK, []string{"capture", "run-done", "--follow", "--db", db}},
	} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		read.Close()
		cmd := exec.Command("piw-then", c.args...)
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = write, &stderr
		err = cmd.Run()
		write.Close()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != c.want || c.want != cli.ExitFailedCheck && stderr.Len() > 0 {
			t.Errorf("%v: exit code %d, want %d: %s", c.args, got, c.want, stderr.String())
		}
	}
}
