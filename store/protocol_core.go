package store

import (
	"context"
)

var projectEndpoints = []Endpoint{
	command[RegisterProject](),
	query("project.get", "a project",
		func(ctx context.Context, q *Queries, a projectArgs) (Project, error) {
			return q.Project(ctx, a.Project)
		}),
	query("project.find", "the project of a directory, by its absolute path with every symbolic link followed",
		func(ctx context.Context, q *Queries, a projectFindArgs) (Project, error) {
			return q.ProjectAt(ctx, a.Path)
		}),
	query("project.list", "projects by path",
		func(ctx context.Context, q *Queries, a projectListArgs) ([]Project, error) {
			return q.Projects(ctx, a.After, a.limit())
		}),
}

type projectArgs struct {
	Project string `json:"project"` // its id
}

type projectFindArgs struct {
	Path string `json:"path"`
}

type projectListArgs struct {
	After string `json:"after,omitempty"` // the path of the last one that was returned
	pageArgs
}

var leaseEndpoints = []Endpoint{
	grants(command[ClaimLease]()),
	command[RenewLease](),
	command[ReleaseLease](),
	query("lease.get", "who owns a resource",
		func(ctx context.Context, q *Queries, a resourceArgs) (Lease, error) {
			return q.Lease(ctx, a.Resource)
		}),
	query("lease.list", "leases that have an owner, those that expire first, or have expired, first",
		func(ctx context.Context, q *Queries, a leaseListArgs) ([]Lease, error) {
			return q.Leases(ctx, Lease{ExpiresAt: a.After.ExpiresAt, Resource: a.After.Resource}, a.limit())
		}),
	query("lease.of", "the leases of an owner, by resource",
		func(ctx context.Context, q *Queries, a leaseOfArgs) ([]Lease, error) {
			return q.LeasesOf(ctx, a.Owner, a.After, a.limit())
		}),
	query("resource.get", "the revision and times of a resource",
		func(ctx context.Context, q *Queries, a resourceArgs) (Resource, error) {
			return q.Resource(ctx, a.Resource)
		}),
}

type resourceArgs struct {
	Resource ResourceID `json:"resource"`
}

type leaseListArgs struct {
	After leasePlace `json:"after,omitzero"` // of the last one that was returned
	pageArgs
}

type leasePlace struct {
	ExpiresAt Millis     `json:"expires_at"`
	Resource  ResourceID `json:"resource"`
}

type leaseOfArgs struct {
	Owner Actor      `json:"owner"`
	After ResourceID `json:"after,omitempty"` // the resource of the last one that was returned
	pageArgs
}

var effectEndpoints = []Endpoint{
	command[EnsureEffect](),
	grants(command[BeginEffect]()),
	command[SettleEffect](),
	command[RecoverEffect](),
	command[ObserveEffect](),
	command[CancelEffect](),
	query("effect.get", "an effect",
		func(ctx context.Context, q *Queries, a effectArgs) (Effect, error) {
			return q.Effect(ctx, a.Effect)
		}),
	query("effect.list", "effects in the order in which they were recorded, without their payloads",
		func(ctx context.Context, q *Queries, a effectListArgs) ([]Effect, error) {
			filter := EffectFilter{Status: a.Status}
			if a.Scope != nil {
				filter.Scope = *a.Scope
			}
			return q.Effects(ctx, filter, a.After, a.limit())
		}),
	query("effect.at", "an effect by its sequence",
		func(ctx context.Context, q *Queries, a effectAtArgs) (Effect, error) {
			return q.EffectAt(ctx, a.Sequence)
		}),
	query("effect.unsettled", "effects that are not settled, in the order in which they were recorded",
		func(ctx context.Context, q *Queries, a effectPageArgs) ([]Effect, error) {
			return q.UnsettledEffects(ctx, a.After, a.limit())
		}),
	query("effect.of_run", "the effects that the run's owner applies, and those that follow from its commands",
		func(ctx context.Context, q *Queries, a effectsOfRunArgs) ([]Effect, error) {
			return q.EffectsOfRun(ctx, a.Run, a.After, a.limit())
		}),
	query("effect.attempts", "the attempts to apply an effect",
		func(ctx context.Context, q *Queries, a effectAttemptsArgs) ([]Attempt, error) {
			return q.EffectAttempts(ctx, a.Effect, a.After, a.limit())
		}),
}

type effectArgs struct {
	Effect string `json:"effect"` // its id
}

type effectListArgs struct {
	Scope  *Scope       `json:"scope,omitempty"`  // of this scope only
	Status EffectStatus `json:"status,omitempty"` // in this status only
	After  int64        `json:"after,omitempty"`  // the sequence of the last one that was returned
	pageArgs
}

type effectAtArgs struct {
	Sequence int64 `json:"sequence"`
}

type effectPageArgs struct {
	After int64 `json:"after,omitempty"` // the sequence of the last one that was returned
	pageArgs
}

type effectsOfRunArgs struct {
	Run   string `json:"run"`
	After int64  `json:"after,omitempty"` // the sequence of the last one that was returned
	pageArgs
}

type effectAttemptsArgs struct {
	Effect string `json:"effect"`
	After  int    `json:"after,omitempty"` // the number of the last one that was returned
	pageArgs
}

var stateEndpoints = []Endpoint{
	query("event.list", "events in order, without their payloads",
		func(ctx context.Context, q *Queries, a eventListArgs) ([]Event, error) {
			return q.EventsOf(ctx, a.query(), a.After, a.limit())
		}),
	query("event.last", "the last events, in order, without their payloads",
		func(ctx context.Context, q *Queries, a eventLastArgs) ([]Event, error) {
			return q.LastEvents(ctx, a.query(), a.limit())
		}),
	query("event.since", "the sequence after which the events of a time begin",
		func(ctx context.Context, q *Queries, a eventSinceArgs) (int64, error) {
			return q.EventsSince(ctx, a.At)
		}),
	query("event.last_sequence", "the sequence of the last event, 0 if there is none",
		func(ctx context.Context, q *Queries, _ struct{}) (int64, error) {
			return q.LastSequence(ctx)
		}),
	query("blob.get", "content by its digest",
		func(ctx context.Context, q *Queries, a blobArgs) (BlobInfo, error) {
			infos, err := q.BlobInfos(ctx, !a.InfoOnly, a.Digest)
			return infos[a.Digest], err
		}),
	query("blob.find", "the digest that begins with some hexadecimal digits, at least six",
		func(ctx context.Context, q *Queries, a blobFindArgs) (Digest, error) {
			return q.FindBlob(ctx, a.Prefix)
		}),
	query("state.status", "counts and sizes, without whose and what they are",
		func(ctx context.Context, q *Queries, _ struct{}) (Status, error) {
			return q.Status(ctx)
		}),
}

type eventFilterArgs struct {
	Resource ResourceID `json:"resource,omitempty"` // of this resource only
	Run      string     `json:"run,omitempty"`      // of this run, and all that belongs to it, only
	Type     string     `json:"type,omitempty"`     // of this type only
}

func (a eventFilterArgs) query() EventQuery {
	return EventQuery{EventFilter: EventFilter{Resource: a.Resource, Run: a.Run}, Type: a.Type}
}

type eventListArgs struct {
	eventFilterArgs
	After int64 `json:"after,omitempty"` // the sequence of the last one that was returned
	pageArgs
}

type eventLastArgs struct {
	eventFilterArgs
	pageArgs
}

type eventSinceArgs struct {
	At Millis `json:"at"` // those that were committed then or later
}

type blobArgs struct {
	Digest   Digest `json:"digest"`
	InfoOnly bool   `json:"info_only,omitempty"` // without the content
}

type blobFindArgs struct {
	Prefix string `json:"prefix"`
}
