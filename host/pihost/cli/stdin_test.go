package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"pistate/internal/cli"
)

// A signal that ends the wait for standard input is told as such, and not as a fault of the disk.
func TestInterruptedInput(t *testing.T) {
	session := filepath.Join(t.TempDir(), "s.jsonl")
	if err := os.WriteFile(session, []byte(`{"type":"session","version":3,"id":"s"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	nothing, w := io.Pipe()
	defer w.Close()
	interrupt()
	args := []string{"write", "--plugin", "p", "--session", session, "--db", session + ".sqlite", "-"}
	if code := Program().Run(ctx, args, nothing, io.Discard, io.Discard); code != cli.ExitInterrupted {
		t.Errorf("exit code %d, want %d", code, cli.ExitInterrupted)
	}
}
