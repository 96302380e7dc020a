package store

import (
	"context"
)

var definitionEndpoints = []Endpoint{
	command[RegisterDefinition](),
	query("definition.get", "a definition, whose content is the blob with the same digest",
		func(ctx context.Context, q *Queries, a definitionArgs) (Definition, error) {
			return q.Definition(ctx, a.Definition)
		}),
	query("definition.nodes", "the nodes of a definition, in the author's order",
		func(ctx context.Context, q *Queries, a definitionArgs) ([]Node, error) {
			return q.DefinitionNodes(ctx, a.Definition)
		}),
	query("definition.list", "definitions by name and age",
		func(ctx context.Context, q *Queries, a definitionListArgs) ([]Definition, error) {
			return q.Definitions(ctx, a.After, a.limit())
		}),
}

type definitionArgs struct {
	Definition Digest `json:"definition"`
}

type definitionListArgs struct {
	After Definition `json:"after,omitzero"` // the last one that was returned
	pageArgs
}

var runEndpoints = []Endpoint{
	command[CreateRun](),
	command[StartRun](),
	command[ParkRun](),
	command[PauseRun](),
	command[ResumeRun](),
	command[RequestCancel](),
	command[RequestDeletion](),
	command[CompleteRun](),
	command[FailRun](),
	command[TimeOutRun](),
	command[CancelRun](),
	query("run.get", "a run",
		func(ctx context.Context, q *Queries, a runArgs) (Run, error) {
			return q.Run(ctx, a.Run)
		}),
	query("run.document", "the state of a run as one document",
		func(ctx context.Context, q *Queries, a runDocumentArgs) (RunDocument, error) {
			return q.RunDocument(ctx, a.Run, RunDocumentOptions{Payloads: a.Payloads, After: a.After, Limit: a.limit()})
		}),
	query("run.situation", "what is going on with a run",
		func(ctx context.Context, q *Queries, a runArgs) (s Situation, err error) {
			err = q.Snapshot(ctx, q.now(), func(q *Queries) error {
				run, err := q.Run(ctx, a.Run)
				if err == nil {
					s, err = q.Situation(ctx, run)
				}
				return err
			})
			return s, err
		}),
	query("run.list", "runs from the newest to the oldest, without their content",
		func(ctx context.Context, q *Queries, a runListArgs) ([]Run, error) {
			filter := RunFilter{Project: a.Project, Parent: a.Parent, Session: a.Session, Status: a.Status}
			return q.Runs(ctx, filter, Run{CreatedAt: a.Before.At, ID: a.Before.ID}, a.limit())
		}),
	query("run.overdue", "runs whose deadline has passed, the oldest deadline first",
		func(ctx context.Context, q *Queries, a overdueArgs) ([]Run, error) {
			return q.OverdueRuns(ctx, Run{DeadlineAt: a.After.At, ID: a.After.ID}, a.limit())
		}),
}

type runArgs struct {
	Run string `json:"run"` // its id
}

type runDocumentArgs struct {
	Run      string `json:"run"`
	Payloads bool   `json:"payloads,omitempty"` // with the content
	After    int    `json:"after,omitempty"`    // attempts after this ordinal
	pageArgs
}

type runListArgs struct {
	Project string    `json:"project,omitempty"` // at most one of project, parent and session
	Parent  string    `json:"parent,omitempty"`
	Session string    `json:"session,omitempty"` // the Pi session that they came from
	Status  RunStatus `json:"status,omitempty"`
	Before  Place     `json:"before,omitzero"` // created_at and id of the last one that was returned
	pageArgs
}

type overdueArgs struct {
	After Place `json:"after,omitzero"` // deadline_at and id of the last one that was returned
	pageArgs
}

var queueEndpoints = []Endpoint{
	command[EnqueueRun](),
	grants(command[ClaimNext]()),
	command[RetryRun](),
	command[SettleQueue](),
	query("queue.get", "the place of a run in the queue",
		func(ctx context.Context, q *Queries, a runArgs) (Queued, error) {
			return q.QueueRow(ctx, a.Run)
		}),
	query("queue.list", "places in the queue, in the order in which they become available",
		func(ctx context.Context, q *Queries, a queueListArgs) ([]Queued, error) {
			after := Queued{QueueRow: QueueRow{AvailableAt: a.After.At, Run: a.After.ID}}
			return q.Queue(ctx, QueueFilter{a.Project, a.Status}, after, a.limit())
		}),
}

type queueListArgs struct {
	Project string      `json:"project,omitempty"`
	Status  QueueStatus `json:"status,omitempty"` // left out: of all runs that have not ended
	After   Place       `json:"after,omitzero"`   // available_at and run of the last one that was returned
	pageArgs
}

var attemptEndpoints = []Endpoint{
	command[BeginAttempt](),
	command[StartAttempt](),
	command[WaitAttempt](),
	command[InterruptAttempt](),
	command[ResumeAttempt](),
	command[FinishAttempt](),
	command[AdoptMessage](),
	command[FailAttempt](),
	command[TimeOutAttempt](),
	command[CancelAttempt](),
	query("attempt.get", "an attempt of a node",
		func(ctx context.Context, q *Queries, a attemptArgs) (NodeAttempt, error) {
			return q.NodeAttempt(ctx, a.Attempt)
		}),
	query("attempt.list", "the attempts of a run, in order",
		func(ctx context.Context, q *Queries, a attemptListArgs) ([]NodeAttempt, error) {
			return q.NodeAttempts(ctx, a.Run, a.Node, a.After, a.limit())
		}),
	query("attempt.overdue", "attempts whose deadline has passed, the oldest deadline first",
		func(ctx context.Context, q *Queries, a overdueArgs) ([]NodeAttempt, error) {
			return q.OverdueAttempts(ctx, NodeAttempt{DeadlineAt: a.After.At, ID: a.After.ID}, a.limit())
		}),
	command[AppendUpdates](),
	query("update.list", "the progress updates of an attempt, in order",
		func(ctx context.Context, q *Queries, a updateListArgs) ([]Update, error) {
			return q.Updates(ctx, a.Attempt, a.After, a.limit())
		}),
	query("update.current", "the current values of an attempt's progress, by type and key",
		func(ctx context.Context, q *Queries, a updateCurrentArgs) ([]Update, error) {
			return q.CurrentUpdates(ctx, a.Attempt, Update{Type: a.After.Type, Key: a.After.Key}, a.limit())
		}),
}

type attemptArgs struct {
	Attempt string `json:"attempt"` // its id
}

type attemptListArgs struct {
	Run   string `json:"run"`
	Node  string `json:"node,omitempty"`  // those of this node only
	After int    `json:"after,omitempty"` // the ordinal of the last one that was returned
	pageArgs
}

type updateListArgs struct {
	Attempt string `json:"attempt"`
	After   int    `json:"after,omitempty"` // the sequence of the last one that was returned
	pageArgs
}

type updateCurrentArgs struct {
	Attempt string    `json:"attempt"`
	After   updateKey `json:"after,omitzero"` // type and key of the last one that was returned
	pageArgs
}

type updateKey struct {
	Type string `json:"type"`
	Key  string `json:"key,omitempty"`
}
