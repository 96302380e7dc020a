package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"pistate/internal/cli"
)

// Whatever has become of a database, every command says so and ends with the code for that. None shows half of
// what it was to show as if it were all. (S4)
func TestEveryCommandOnDamagedDatabases(t *testing.T) {
	if raceDetector {
		t.Skip("the commands have one goroutine, and SQLite takes fifteen times as long")
	}
	whole, err := fixture("shop")
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string][]byte{
		"cut":           whole[:100_000],
		"only a header": whole[:100],
		"other program": append([]byte("SQLite format 3\x00"), bytes.Repeat([]byte{7}, 8000)...),
		"other shape":   changed(t, whole, "CREATE TABLE extra (x)"),
		"newer":         changed(t, whole, "PRAGMA user_version = 2"),
	} {
		onEveryCommand(t, name, file, func(command string, code int) bool {
			switch {
			case strings.HasPrefix(command, "doctor"):
				return code == cli.ExitFailedCheck
			case strings.HasPrefix(command, "watch"):
				return code == cli.ExitUsage // it needs a terminal
			}
			return code == cli.ExitIncompatible
		})
	}
	// Where a page is damaged that a command does not need, it does its work.
	const page = 4096
	for n := 1; n < len(whole)/page; n += 80 {
		file := slices.Clone(whole)
		copy(file[n*page:], bytes.Repeat([]byte{0xa5}, page))
		onEveryCommand(t, fmt.Sprint("page ", n), file, func(command string, code int) bool {
			allowed := []int{cli.ExitOK, cli.ExitIncompatible}
			switch {
			case strings.HasPrefix(command, "doctor"), strings.HasPrefix(command, "state verify"):
				allowed = []int{cli.ExitFailedCheck, cli.ExitIncompatible}
			case strings.HasPrefix(command, "watch"):
				allowed = []int{cli.ExitUsage}
			case strings.HasPrefix(command, "run nosuch"):
				allowed = []int{cli.ExitAbsent, cli.ExitIncompatible}
			case strings.Contains(command, "--follow"):
				allowed = append(allowed, cli.ExitInterrupted)
			}
			return slices.Contains(allowed, code)
		})
	}
}

// onEveryCommand runs every command that looks at a database on a file.
func onEveryCommand(t *testing.T, name string, file []byte, allowed func(command string, code int) bool) {
	t.Helper()
	dir := t.TempDir()
	db := filepath.Join(dir, "state.sqlite")
	if err := os.WriteFile(db, file, 0o600); err != nil {
		t.Fatal(err)
	}
	for args := range readings(db, filepath.Join(dir, "copy.sqlite")) {
		words := strings.Split(args, "\x00")
		if !slices.Contains(words, "--db") {
			continue
		}
		code, said := runReading(words)
		if command := strings.Join(words, " "); !allowed(command, code) || code != 0 && said == "" && code != cli.ExitInterrupted {
			t.Errorf("%s: %s: exit code %d: %s", name, command, code, said)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "copy.sqlite")); err == nil {
		if code, _ := runReading([]string{"state", "verify", "--deep", "--db", filepath.Join(dir, "copy.sqlite")}); code != 0 {
			t.Errorf("%s: a copy was made of which verify says %d", name, code)
		}
	}
}

// changed returns a database after a statement.
func changed(t *testing.T, file []byte, sql string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.sqlite")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite3.OpenContext(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Exec(sql); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
