package store

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const transitionsIntro = `# Transitions

What may happen to runs, to their places in the queue, and to attempts of their nodes. The tables are printed from the data that
the commands themselves go by (` + "`go test ./store -run TransitionsDocument -update`" + `), and a test tries every command in every
combination of states.

A command is legal where each of the three tables has an entry for it, and its conditions are met. Everywhere else it is refused
with ` + "`illegal_transition`" + ` and changes nothing. An entry is the state that follows; **=** stands for the same state, a blank
for a refusal. A command that is missing from a table does not depend on it and changes nothing there.

- A run that has ended stays as it ended. Nobody owns it, so that every command that needs its owner is refused with
  ` + "`stale_claim`" + ` before its state is looked at.
- *none* means that there is no such thing: no run of this id, no place in the queue, no attempt that has not ended.
- *interrupted* is an attempt that has not ended and whose owner was lost: it can only be resumed or ended.
- When a run fails, times out or is cancelled, its attempt ends with it. Its place in the queue is settled afterwards, by
  ` + "`queue.settle`" + `, which follows from the end of a run that has such a place and from nothing else.
`

// TestTransitionsDocument keeps the printed tables current.
func TestTransitionsDocument(t *testing.T) {
	var b strings.Builder
	b.WriteString(transitionsIntro)
	b.WriteString("\n## Runs\n\n")
	printMoves(&b, RunStates, func(line Transition) Moves { return line.Run })
	b.WriteString("\n## Places in the queue\n\n")
	printMoves(&b, QueueStates, func(line Transition) Moves { return line.Queue })
	b.WriteString("\n## Attempts\n\nCommands that name an attempt are about that one, all others about the one that has not ended.\n\n")
	printMoves(&b, AttemptStates, func(line Transition) Moves { return line.Attempt })
	b.WriteString("\n## Conditions\n\n| command | event | only if |\n| --- | --- | --- |\n")
	for _, line := range transitions {
		var conditions []string
		for _, c := range line.Needs {
			conditions = append(conditions, map[Condition]string{
				IfPaused: "the run is paused", IfNotPaused: "the run is not paused",
				IfNotCancelled: "nobody has requested the cancellation of the run",
				IfDue:          "the deadline has passed, of the attempt that is named or else of the run",
			}[c])
		}
		if line.When != "" {
			conditions = append(conditions, line.When)
		}
		if len(conditions) > 0 {
			fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", line.Op, line.Event, strings.Join(conditions, "; "))
		}
	}
	path := filepath.Join("..", "docs", "transitions.md")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Errorf("%s is not current: go test ./store -run TransitionsDocument -update rewrites it", path)
	}
}

func printMoves(b *strings.Builder, states []State, moves func(Transition) Moves) {
	b.WriteString("| command | event |")
	for _, s := range states {
		fmt.Fprintf(b, " %s |", s)
	}
	b.WriteString("\n| --- | --- |" + strings.Repeat(" --- |", len(states)) + "\n")
	for _, line := range transitions {
		m := moves(line)
		if m == nil {
			continue
		}
		fmt.Fprintf(b, "| `%s` | `%s` |", line.Op, line.Event)
		for _, from := range states {
			next, ok := m.move(from)
			switch {
			case !ok:
				b.WriteString("  |")
			case next == from:
				b.WriteString(" = |")
			default:
				fmt.Fprintf(b, " %s |", next)
			}
		}
		b.WriteByte('\n')
	}
}

// The table itself obeys the rules that no command may break.
func TestTransitionTableIsSound(t *testing.T) { // D2, D3, D7
	final := func(s State) bool {
		return slices.Contains([]State{"completed", "failed", "timed_out", "cancelled", "done"}, s)
	}
	seen := map[string]bool{}
	for _, line := range transitions {
		name := string(line.Op) + " " + line.Event
		if seen[name] {
			t.Errorf("%s: two lines", name)
		}
		seen[name] = true
		if _, known := operations[line.Op]; !known {
			t.Errorf("%s: the operation is not in the table of rights", name)
		}
		for _, part := range []struct {
			moves  Moves
			states []State
		}{{line.Run, RunStates}, {line.Queue, QueueStates}, {line.Attempt, AttemptStates}} {
			for from, next := range part.moves {
				if !slices.Contains(part.states, from) || !slices.Contains(part.states, next) {
					t.Errorf("%s: %s to %s: no such state", name, from, next)
				}
				if final(from) && from != next {
					t.Errorf("%s: leaves %s", name, from)
				}
			}
		}
		ends := slices.ContainsFunc(RunStates, func(s State) bool { next, ok := line.Run[s]; return ok && final(next) && next != s })
		for from, next := range line.Attempt {
			if ends && next != StateNone && !final(next) {
				t.Errorf("%s: ends the run and leaves an attempt %s, that was %s", name, next, from)
			}
		}
	}
}
