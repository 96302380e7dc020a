package store

import (
	"context"

	"pistate/schema"
)

var decisionEndpoints = []Endpoint{
	command[RequestDecision](),
	command[SubmitDecision](),
	command[SubmitModelAnswer](),
	command[ApplyTimeout](),
	command[ExpireDecision](),
	command[CancelDecision](),
	query("decision.get", "a decision with its outcome and what follows from it",
		func(ctx context.Context, q *Queries, a decisionArgs) (DecisionView, error) {
			return q.Decision(ctx, a.Decision)
		}),
	query("decision.show", "a decision with the content that people are shown",
		func(ctx context.Context, q *Queries, a decisionArgs) (AskedDecision, error) {
			return q.AskedDecision(ctx, a.Decision)
		}),
	query("decision.pending", "decisions that wait for an answer, of one audience or of all, the oldest first",
		func(ctx context.Context, q *Queries, a pendingArgs) ([]Decision, error) {
			return q.PendingDecisions(ctx, a.Audience, a.After, a.limit())
		}),
	query("decision.list", "the decisions of a run, by key and request revision",
		func(ctx context.Context, q *Queries, a decisionListArgs) ([]Decision, error) {
			return q.DecisionsOfRun(ctx, a.Run, a.After.Key, a.After.RequestRevision, a.limit())
		}),
	query("decision.recent", "all decisions from the newest to the oldest, whatever became of them",
		func(ctx context.Context, q *Queries, a decisionRecentArgs) ([]Decision, error) {
			return q.Decisions(ctx, a.Before, a.limit())
		}),
	query("decision.submissions", "the answers to a decision, in order",
		func(ctx context.Context, q *Queries, a submissionArgs) ([]DecisionSubmission, error) {
			return q.DecisionSubmissions(ctx, a.Decision, a.After, a.limit())
		}),
}

type decisionArgs struct {
	Decision string `json:"decision"` // its id
}

type pendingArgs struct {
	Audience string `json:"audience,omitempty"` // all if it is left out
	After    Place  `json:"after,omitzero"`     // the time and id of the last one that was returned
	pageArgs
}

type decisionListArgs struct {
	Run   string        `json:"run"`
	After askedRevision `json:"after,omitzero"` // that of the last one that was returned
	pageArgs
}

type decisionRecentArgs struct {
	Before Place `json:"before,omitzero"` // created_at and id of the last one that was returned
	pageArgs
}

type askedRevision struct {
	Key             string `json:"key"`
	RequestRevision int    `json:"request_revision"`
}

type submissionArgs struct {
	Decision string `json:"decision"`
	After    int    `json:"after,omitempty"` // the number of the last one that was returned
	pageArgs
}

var continuationEndpoints = []Endpoint{
	command[RequestContinuation](),
	command[AdmitContinuation](),
	command[CancelContinuation](),
	query("continuation.get", "a continuation",
		func(ctx context.Context, q *Queries, a continuationArgs) (Continuation, error) {
			return q.Continuation(ctx, a.Continuation)
		}),
	query("continuation.list", "the continuations of a run, or those of all runs that are pending, the oldest first",
		func(ctx context.Context, q *Queries, a continuationListArgs) ([]Continuation, error) {
			switch {
			case a.Parent != "" && a.Pending:
				return nil, schema.Errorf(schema.Invalid, "args: list those of a parent, or those that are pending")
			case a.Parent != "":
				return q.ContinuationsOfRun(ctx, a.Parent, a.After, a.limit())
			case a.Pending:
				return q.PendingContinuations(ctx, a.After, a.limit())
			}
			return nil, schema.Errorf(schema.Invalid, "args: parent or pending is missing")
		}),
	query("run.unattended", "the runs of a project that nobody owns though something of them is due",
		func(ctx context.Context, q *Queries, a unattendedArgs) ([]string, error) {
			return q.UnattendedRuns(ctx, a.Project, a.After, a.limit())
		}),
}

type continuationArgs struct {
	Continuation string `json:"continuation"` // its id
}

type continuationListArgs struct {
	Parent  string `json:"parent,omitempty"`
	Pending bool   `json:"pending,omitempty"`
	After   Place  `json:"after,omitzero"` // the time and id of the last one that was returned
	pageArgs
}

type unattendedArgs struct {
	Project string `json:"project"`
	After   string `json:"after,omitempty"` // the last one that was returned
	pageArgs
}
