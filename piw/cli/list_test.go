package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pistate/internal/bigdb"
)

func printed(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := Program().Run(context.Background(), args, nil, &stdout, &stderr); code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, code, stderr.String())
	}
	return stdout.String()
}

// Whatever the limit is, a list has that many rows, each once and in order, and says how it goes on exactly
// if it does.
func TestListsOfManyPages(t *testing.T) { // I3, V2
	db := filepath.Join(t.TempDir(), "state.sqlite")
	const runs, events = 350, 3
	if err := bigdb.Build(context.Background(), db, bigdb.Size{Runs: runs, Attempts: 1, Events: events}); err != nil {
		t.Fatal(err)
	}
	all := 0
	for line := range strings.Lines(printed(t, "events", "--db", db, "--json", "--after", "0", "--limit", "1000000")) {
		var e struct {
			Sequence int `json:"sequence"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if all++; e.Sequence != all {
			t.Fatalf("event %d comes as number %d", e.Sequence, all)
		}
	}
	if all < 2*1000 {
		t.Fatalf("%d events are not enough for this", all)
	}
	limits := []int{1, 999, 1000, 1001, 2000, 2001, all - 1, all, all + 1}
	if raceDetector {
		limits = []int{1000, all}
	}
	for _, limit := range limits {
		lines := strings.Split(printed(t, "events", "--db", db, "--after", "0", "--limit", strconv.Itoa(limit)), "\n")
		rows, last := len(lines)-2, lines[len(lines)-2] // without the heading, and what follows the last line break
		more := strings.HasPrefix(last, "(more: ")
		if more {
			rows--
		}
		if want := min(limit, all); rows != want || more != (limit < all) {
			t.Errorf("--limit %d: %d rows, want %d; more: %v", limit, rows, want, more)
		}
		if want := fmt.Sprintf("(more: --after %d)", limit); more && last != want {
			t.Errorf("--limit %d: %q, want %q", limit, last, want)
		}
	}
	// From page to page, as the last line says, through all runs.
	seen, args := map[string]bool{}, []string{"runs", "--db", db, "--limit", "120"}
	for {
		lines := strings.Split(strings.TrimSuffix(printed(t, args...), "\n"), "\n")
		last := lines[len(lines)-1]
		for _, line := range lines[1:] {
			if id := strings.Fields(line)[0]; strings.HasPrefix(id, "run-") {
				if seen[id] {
					t.Fatalf("%s comes twice", id)
				}
				seen[id] = true
			}
		}
		next, more := strings.CutPrefix(last, "(more: ")
		if !more {
			break
		}
		args = append(args[:5], strings.Fields(strings.TrimSuffix(next, ")"))...)
	}
	if len(seen) != runs {
		t.Errorf("%d runs, want %d", len(seen), runs)
	}
}
