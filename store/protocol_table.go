package store

import (
	"slices"

	"pistate/schema"
)

// endpoints are the command protocol: each domain's commands, followed by its queries.
var endpoints = slices.Concat(
	projectEndpoints,
	definitionEndpoints,
	runEndpoints,
	queueEndpoints,
	attemptEndpoints,
	captureEndpoints,
	decisionEndpoints,
	continuationEndpoints,
	controllerEndpoints,
	deliveryEndpoints,
	channelEndpoints,
	leaseEndpoints,
	effectEndpoints,
	stateEndpoints,
)

// causes are the errors whose facts an answer shows.
var causes = []RefusalFacts{
	carries[*RevisionError](schema.StaleRevision),
	carries[*ClaimError](schema.StaleClaim),
	carries[*HeldError](schema.Locked),
	carries[*ReservedError](schema.Locked),
	carries[*NothingDueError](schema.NotFound),
	carries[*NoKeyDueError](schema.NotFound),
	carries[*TransitionError](schema.IllegalTransition),
	carries[*ConflictError](schema.Conflict, schema.AlreadyResolved),
	carries[*DeniedError](schema.Denied),
}

// defaultPage is how much of a list is returned unless the request says.
const defaultPage = 100

// pageArgs is the part of a list that is asked for.
type pageArgs struct {
	Limit *int `json:"limit,omitempty"` // from 1 to 1000; 100 if it is left out
}

func (p pageArgs) limit() int {
	if p.Limit == nil {
		return defaultPage
	}
	return *p.Limit
}
