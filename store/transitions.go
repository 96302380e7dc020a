package store

import "slices"

// State is what a run, a queue row or an attempt is in. Most are the words of a status column.
type State string

// The two states that are in no status column.
const (
	StateNone        State = "none"        // there is none
	StateInterrupted State = "interrupted" // an attempt that goes on, whose owner was lost
)

// The states of runs, queue rows and attempts, in the order in which they are printed.
var (
	RunStates     = []State{StateNone, "queued", "running", "waiting", "completed", "failed", "timed_out", "cancelled"}
	QueueStates   = []State{StateNone, "queued", "starting", "running", "parked", "done", "failed", "cancelled"}
	AttemptStates = []State{StateNone, "pending", "running", "waiting", StateInterrupted, "completed", "failed", "timed_out", "cancelled"}
)

// Moves says which states a transition accepts, and what becomes of each. nil accepts all and changes none.
type Moves map[State]State

// to moves every one of some states to the same.
func to(next State, from ...State) Moves {
	m := Moves{}
	for _, s := range from {
		m[s] = next
	}
	return m
}

// keep accepts some states and changes none.
func keep(states ...State) Moves {
	m := Moves{}
	for _, s := range states {
		m[s] = s
	}
	return m
}

func (m Moves) and(other Moves) Moves {
	for from, next := range other {
		m[from] = next
	}
	return m
}

// move returns what becomes of a state. ok is false for one that is not accepted.
func (m Moves) move(s State) (next State, ok bool) {
	if m == nil {
		return s, true
	}
	next, ok = m[s]
	return next, ok
}

// Transition is one line of the table of transitions: under which states an operation is legal, what becomes
// of them, and how it is recorded. An operation with several lines has one for each of its outcomes.
type Transition struct {
	Op    Op     `json:"op"`
	Event string `json:"event"`

	Run   Moves `json:"run,omitempty"`
	Queue Moves `json:"queue,omitempty"`
	// Attempt is about the attempt that the command names, else about the active one of the run.
	Attempt Moves `json:"attempt,omitempty"`

	Needs []Condition `json:"needs,omitempty"`
	When  string      `json:"when,omitempty"` // what else decides which line it is, for people
}

// Condition is what must be true besides the states.
type Condition string

// The conditions.
const (
	IfPaused       Condition = "paused"              // the run is
	IfNotPaused    Condition = "not paused"          // the run is
	IfNotCancelled Condition = "not to be cancelled" // nobody has requested the cancellation of the run
	IfDue          Condition = "deadline has passed" // of the attempt that the command names, else of the run
)

var (
	unpaused = []Condition{IfNotPaused}

	open  = keep("queued", "running", "waiting") // runs that have not ended
	begun = keep("running", "waiting")           // of these, the ones that have begun
	held  = keep(StateNone, "running")           // queue rows of runs that somebody is at work on

	unsettled = []State{"queued", "starting", "running", "parked"}         // queue rows
	unended   = []State{"pending", "running", "waiting", StateInterrupted} // attempts
	idle      = []State{StateNone, "pending", "waiting", StateInterrupted} // attempts that nobody is at work on
)

// transitions is the one table of what may happen to runs, queue rows and attempts. Commands look their
// line up by operation and event, and carry out what it says.
var transitions = []Transition{
	{Op: OpRunCreate, Event: "run.created", Run: to("queued", StateNone), When: "it was not asked to wait in the queue"},
	{Op: OpRunCreate, Event: "run.queued", Run: to("queued", StateNone), Queue: to("queued", StateNone), When: "it was asked to wait in the queue"},
	{Op: OpRunCreate, Event: "queue.continued", Run: keep("waiting"), Queue: to("done", "parked"), When: "of the parent that the new run continues"},

	{Op: OpQueueEnqueue, Event: "queue.enqueued", Run: to("queued", "queued", "running", "waiting"), Queue: to("queued", StateNone, "parked"), Attempt: keep(idle...)},
	{Op: OpQueueClaim, Event: "queue.claimed", Run: keep("queued"), Queue: to("starting", "queued"), Needs: unpaused, When: "due, for this claimer, the first of all"},
	{Op: OpQueueClaim, Event: "queue.taken_over", Run: open, Queue: keep("starting", "running"), Needs: unpaused, When: "nobody owns the run any more; counts as an error"},
	{Op: OpQueueRetry, Event: "queue.retried", Run: to("queued", "queued", "running", "waiting"), Queue: to("queued", "starting", "running"), Attempt: keep(idle...).and(to(StateInterrupted, "running"))},
	{Op: OpQueueSettle, Event: "queue.done", Run: keep("completed"), Queue: to("done", unsettled...)},
	{Op: OpQueueSettle, Event: "queue.failed", Run: keep("failed", "timed_out"), Queue: to("failed", unsettled...)},
	{Op: OpQueueSettle, Event: "queue.cancelled", Run: keep("cancelled"), Queue: to("cancelled", unsettled...)},

	{Op: OpRunStart, Event: "run.started", Run: to("running", "queued"), Queue: to("running", "starting").and(keep(StateNone)), Needs: []Condition{IfNotPaused, IfNotCancelled}},
	{Op: OpRunPark, Event: "run.parked", Run: to("waiting", "running", "waiting"), Queue: to("parked", "running").and(keep(StateNone)), Attempt: keep(idle...)},
	{Op: OpRunPause, Event: "run.paused", Run: open, Needs: unpaused},
	{Op: OpRunResume, Event: "run.resumed", Run: open, Needs: []Condition{IfPaused}},
	{Op: OpRunRequestCancel, Event: "run.cancel_requested", Run: open, When: "it has begun, or somebody owns it"},
	{Op: OpRunRequestCancel, Event: "run.cancelled", Run: to("cancelled", "queued"), Attempt: keep(StateNone), When: "it has never begun, and nobody owns it"},
	{Op: OpRunRequestDeletion, Event: "run.deletion_requested"},
	{Op: OpRunComplete, Event: "run.completed", Run: to("completed", "running", "waiting"), Attempt: keep(StateNone)},
	{Op: OpRunFail, Event: "run.failed", Run: to("failed", "queued", "running", "waiting"), Attempt: to("failed", unended...).and(keep(StateNone))},
	{Op: OpRunTimeOut, Event: "run.timed_out", Run: to("timed_out", "queued", "running", "waiting"), Attempt: to("timed_out", unended...).and(keep(StateNone)), Needs: []Condition{IfDue}},
	{Op: OpRunCancel, Event: "run.cancelled", Run: to("cancelled", "queued", "running", "waiting"), Attempt: to("cancelled", unended...).and(keep(StateNone))},

	{Op: OpAttemptBegin, Event: "attempt.began", Run: to("running", "running", "waiting"), Queue: held, Attempt: to("running", StateNone), Needs: unpaused},
	{Op: OpAttemptBegin, Event: "attempt.prepared", Run: begun, Queue: held, Attempt: to("pending", StateNone), Needs: unpaused, When: "it is to start later"},
	{Op: OpAttemptStart, Event: "attempt.started", Run: to("running", "running", "waiting"), Queue: held, Attempt: to("running", "pending"), Needs: unpaused},
	{Op: OpAttemptWait, Event: "attempt.waited", Run: to("waiting", "running", "waiting"), Attempt: to("waiting", "running")},
	{Op: OpAttemptInterrupt, Event: "attempt.interrupted", Run: begun, Attempt: to(StateInterrupted, "running", "waiting")},
	{Op: OpAttemptResume, Event: "attempt.resumed", Run: to("running", "running", "waiting"), Queue: held, Attempt: to("running", "waiting", StateInterrupted), Needs: unpaused, When: "it only waited, or is an assistant message that its origin session resumes"},
	{Op: OpAttemptResume, Event: "attempt.restarted", Run: to("running", "running", "waiting"), Queue: held, Attempt: to("cancelled", StateInterrupted), Needs: unpaused, When: "it is any other; a fresh attempt begins in its place"},
	{Op: OpAttemptFinish, Event: "attempt.finished", Run: begun, Attempt: to("completed", "running", "waiting")},
	{Op: OpAttemptAdopt, Event: "attempt.adopted", Run: begun, Attempt: to("completed", StateInterrupted), When: "an assistant message, by its origin session"},
	{Op: OpAttemptFail, Event: "attempt.failed", Run: begun, Attempt: to("failed", unended...)},
	{Op: OpAttemptTimeOut, Event: "attempt.timed_out", Run: begun, Attempt: to("timed_out", unended...), Needs: []Condition{IfDue}},
	{Op: OpAttemptCancel, Event: "attempt.cancelled", Run: begun, Attempt: to("cancelled", unended...)},
	{Op: OpUpdateAppend, Event: "update.appended", Run: begun, Attempt: keep("running", "waiting")},
}

// Transitions returns the table of what may happen to runs, queue rows and attempts.
func Transitions() []Transition { return slices.Clone(transitions) }

// transitionOf returns the line of an operation and an event, which every command knows to exist.
func transitionOf(op Op, event string) *Transition {
	i := slices.IndexFunc(transitions, func(t Transition) bool { return t.Op == op && t.Event == event })
	return &transitions[i]
}
