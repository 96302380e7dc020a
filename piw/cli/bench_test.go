package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pistate/internal/bigdb"
	"pistate/internal/cli"
	"pistate/store"
)

// sharedDir makes a directory that is there until all benchmarks have run.
func sharedDir() (string, error) {
	dir, err := os.MkdirTemp("", "piw-bench-")
	shared = append(shared, dir)
	return dir, err
}

// built is the program as people run it.
var built = sync.OnceValues(func() (string, error) {
	dir, err := sharedDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "piw")
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, "pistate/piw")
	cmd.Stderr = os.Stderr
	return path, cmd.Run()
})

// big is a database of a million events. $PISTATE_BIGDB keeps it for the next time.
var big = sync.OnceValues(func() (string, error) {
	path := os.Getenv("PISTATE_BIGDB")
	if path == "" {
		dir, err := sharedDir()
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, "state.sqlite")
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, bigdb.Build(context.Background(), path, bigdb.Million)
})

func must(b *testing.B, get func() (string, error)) string {
	b.Helper()
	path, err := get()
	if err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkStart is the time from the start of the process to its end.
func BenchmarkStart(b *testing.B) {
	program := must(b, built)
	file, err := fixture("shop")
	if err != nil {
		b.Fatal(err)
	}
	small := filepath.Join(b.TempDir(), "state.sqlite")
	if err := os.WriteFile(small, file, 0o600); err != nil {
		b.Fatal(err)
	}
	for _, args := range [][]string{{"--version"}, {"--help"}, {"state", "status", "--db", small}, {"runs", "--db", small}} {
		b.Run(strings.Join(args[:min(2, len(args))], "_"), func(b *testing.B) {
			for b.Loop() {
				if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
			}
		})
	}
}

// BenchmarkFirstPage is the first page of each list of a large database, with opening and verifying it.
func BenchmarkFirstPage(b *testing.B) {
	db := must(b, big)
	for _, args := range []string{
		"runs", "runs --status running", "runs --status failed", "runs --session pi-17", "run run-04999", "run run-00001 --graph svg",
		"events", "events --after 500000", "events --since 2024-01-01", "events --type run.failed --after 0", "events --run run-02500",
		"events --resource run:run-02500 --type update.appended", "queue", "queue --status failed", "leases", "leases --owner host:host-1",
		"effects", "effects --unsettled", "effects --status applied", "effects --run run-02500", "decisions", "decisions --pending",
		"decisions run-02500/ship", "controllers", "channels", "projects", "state status", "doctor",
	} {
		b.Run(strings.ReplaceAll(args, " ", "_"), func(b *testing.B) {
			for b.Loop() {
				var stderr bytes.Buffer
				code := Program().Run(context.Background(), append(strings.Fields(args), "--db", db), nil, io.Discard, &stderr)
				if code > 1 {
					b.Fatalf("exit code %d: %s", code, stderr.String())
				}
			}
		})
	}
}

// BenchmarkWatchRead is what piw watch reads each time that somebody has committed.
func BenchmarkWatchRead(b *testing.B) {
	env := &cli.Env{Context: context.Background(), Now: time.Now}
	r, err := store.OpenReader(env, must(b, big))
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	w := newWatcher(env, r)
	for b.Loop() {
		if _, err := w.read(env, wanted{run: "run-04999"}); err != nil {
			b.Fatal(err)
		}
	}
}
