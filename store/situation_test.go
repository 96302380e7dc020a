package store

import (
	"fmt"
	"slices"
	"time"

	"pistate/internal/sqlite"
)

// situation is a combination of states, whether it can come about or not.
type situation struct {
	run, queue, attempt State
	paused, cancel      bool
}

var endings = []State{"completed", "failed", "timed_out", "cancelled"}

func (s situation) ended() bool { return slices.Contains(endings, s.run) }

// active returns the state of the active attempt.
func (s situation) active() State {
	if slices.Contains(endings, s.attempt) {
		return StateNone
	}
	return s.attempt
}

func (s situation) String() string {
	text := fmt.Sprintf("run %s, queue %s, attempt %s", s.run, s.queue, s.attempt)
	if s.paused {
		text += ", paused"
	}
	if s.cancel {
		text += ", to be cancelled"
	}
	return text
}

// situations are all combinations of the states of a run, its place in the queue and an attempt of it, and
// those in which it can be paused or about to be cancelled.
func situations() (all []situation) {
	for _, run := range RunStates[1:] {
		for _, queue := range QueueStates {
			for _, attempt := range AttemptStates {
				s := situation{run: run, queue: queue, attempt: attempt}
				if s.ended() && s.active() != StateNone {
					continue // the schema refuses it
				}
				if s.active() != s.attempt && queue != StateNone {
					continue // an attempt that has ended doesn't care for the queue
				}
				all = append(all, s)
				if !s.ended() && slices.Contains([]State{StateNone, "queued", "starting", "running"}, queue) {
					p, c := s, s
					p.paused, c.cancel = true, true
					all = append(all, p, c)
				}
			}
		}
	}
	return all
}

// plantRuns brings runs into being in any situation, past the rules of the commands but not of the schema.
// pi1 owns those that can be owned. All deadlines have passed.
type plantRuns struct {
	situation
	runs       []string
	project    string
	definition Digest
}

func (plantRuns) Op() Op { return "test.plant_runs" }

func init() {
	testOperations = append(testOperations, Operation{Op: "test.plant_runs", Rights: rights(Right{}, SessionActor)})
}

func (c plantRuns) prepare(d *draft) *plan[[]*Claim] {
	g := d.grant(time.Hour.Milliseconds())
	empty := d.settlement()
	return &plan[[]*Claim]{
		payload: c.runs,
		decide: func(f *facts) (*change[[]*Claim], error) {
			ch := &change[[]*Claim]{}
			var leases []lease
			for _, run := range c.runs {
				ch.steps = append(ch.steps, step{resource: runID(run), creates: true, event: "test.planted", ends: c.ended()})
				if c.queue != StateNone {
					ch.effects = append(ch.effects, settleLater(Run{ID: run, Project: c.project}, empty))
				}
				l, claim, _, err := g.take(f, runID(run))
				if err != nil {
					return nil, err
				}
				if ch.result = append(ch.result, claim); !c.ended() {
					leases = append(leases, l)
				}
			}
			ch.rows = func(tx *sqlite.Tx) error {
				for _, l := range leases {
					if err := putLease(tx, l); err != nil {
						return err
					}
				}
				for _, run := range c.runs {
					if err := c.plant(tx, run, &empty.digest, f.now); err != nil {
						return fmt.Errorf("%s: %w", c.situation, err)
					}
				}
				return nil
			}
			return ch, nil
		},
	}
}

func (c plantRuns) plant(tx *sqlite.Tx, id string, blob *Digest, now Millis) error {
	run := Run{
		ID: id, Project: c.project, Definition: c.definition, Source: RunSource{Type: BuiltinSource, Ref: "planted"}, Title: id,
		Mode: HeadlessMode, Session: pi1.ID, Status: RunQueued, Input: *blob, CreatedAt: now, UpdatedAt: now, DeadlineAt: 1,
	}
	if err := insertRun(tx, run); err != nil {
		return err
	}
	if err := c.plantAttempt(tx, id, blob, now); err != nil {
		return err
	}
	if err := c.plantQueue(tx, id, now); err != nil {
		return err
	}
	run.Status, run.Paused = RunStatus(c.run), c.paused
	if c.run != "queued" {
		run.StartedAt = now
	}
	if c.cancel {
		run.CancelRequestedAt = now
	}
	if c.ended() {
		run.EndedAt = now
	}
	if run.Status == RunFailed {
		run.Error = blob
	}
	return saveRun(tx, run, RunQueued)
}

func (c plantRuns) plantAttempt(tx *sqlite.Tx, run string, blob *Digest, now Millis) error {
	if c.attempt == StateNone {
		return nil
	}
	a := NodeAttempt{
		ID: attemptID(run, "plan", 1), Run: run, Ordinal: 1, Node: "plan", Number: 1, Type: AgentNode, Expected: AssistantMessage,
		Status: AttemptPending, Prompt: blob, CreatedAt: now, UpdatedAt: now, DeadlineAt: 1,
	}
	if err := insertAttempt(tx, a); err != nil {
		return err
	}
	a.Status = AttemptStatus(c.attempt)
	if a.Status != AttemptPending {
		a.StartedAt = now
	}
	switch {
	case c.attempt == StateInterrupted:
		a.Status, a.InterruptedAt = AttemptRunning, now
	case c.attempt == "completed":
		a.Output, a.Result = blob, blob
	case c.attempt == "failed":
		a.Error = blob
	}
	if c.active() == StateNone {
		a.EndedAt = now
	}
	return saveAttempt(tx, a, AttemptPending)
}

func (c plantRuns) plantQueue(tx *sqlite.Tx, run string, now Millis) error {
	if c.queue == StateNone {
		return nil
	}
	q := QueueRow{Run: run, Project: c.project, Affinity: run, AvailableAt: now, EnqueuedAt: now, UpdatedAt: now}
	if err := insertQueueRow(tx, q); err != nil {
		return err
	}
	q.Status = QueueStatus(c.queue)
	if q.Status.settled() {
		q.SettledAt = now
	}
	if q.Status == QueueFailed {
		q.failed("planted")
	}
	return saveQueueRow(tx, q, QueueQueued)
}
